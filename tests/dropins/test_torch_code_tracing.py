"""The drop-in for torch-code-tracing: seed 002 to the letter, every operator, every use of the mode."""

from __future__ import annotations

import dis
import gc
import inspect
import io
import re
import sys
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.dropins.gemma import write_gemma
from tests.dropins.running import expected, names_of, own_files_in, printed_by, snippets
from torch import nn

from torch_code_tracing import TracingMode

ONES, PLUS = "ones([2], device=cpu, pin_memory=False) -> f32[2]", "add.Tensor(f32[2], 1) -> f32[2]"


def ops(mode: TracingMode) -> list[str]:
    return [trace.op_str for trace in mode.traces]


def names(mode: TracingMode) -> list[str]:
    return [op.partition("(")[0] for op in ops(mode)]


def test_the_seed_to_the_letter(tmp_path: Path) -> None:
    assert printed_by(write_gemma(tmp_path)) == expected("seed_002.txt")


def test_the_snippet_runs_as_written(capsys: pytest.CaptureFixture[str]) -> None:
    (snippet,) = snippets("002.txt")
    names: dict[str, Any] = {"model": nn.ReLU(), "args": (torch.ones(2),), "kwargs": {}}
    exec(compile(snippet, "snippet.py", "exec"), names)
    assert torch.equal(names["out"], torch.ones(2))
    place, op = capsys.readouterr().out.splitlines()[-2:]
    assert place.endswith("# snippet.py:4 in <module>:") and op.endswith("│ # relu(f32[2]) -> f32[2];")


def test_it_prints_while_it_runs(capsys: pytest.CaptureFixture[str]) -> None:
    with TracingMode():
        x = torch.ones(2)
        first = capsys.readouterr().out
        x + 1
        second = capsys.readouterr().out
    assert first.endswith(f"│ # {ONES};\n")
    assert second.endswith(f"│ # {PLUS};\n")
    assert len(second.splitlines()) == 2 < len(first.splitlines())
    assert capsys.readouterr().out == ""


def test_quiet_records_without_printing(capsys: pytest.CaptureFixture[str]) -> None:
    with TracingMode(quiet=True) as mode:
        torch.ones(2) + 1
        assert ops(mode) == [ONES, PLUS]
    assert capsys.readouterr().out == ""
    mode.print()
    assert capsys.readouterr().out == mode.format() + "\n"


def test_printed_and_formatted_text_are_equal(capsys: pytest.CaptureFixture[str]) -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    with TracingMode() as mode:
        model(torch.ones(2)).sum().backward()
    assert capsys.readouterr().out == mode.format() + "\n"


def test_an_empty_trace_formats_to_an_empty_text(capsys: pytest.CaptureFixture[str]) -> None:
    with TracingMode() as mode:
        pass
    mode.print()
    assert mode.traces == [] and mode.format() == "" and capsys.readouterr().out == ""


def twice(x: torch.Tensor) -> torch.Tensor:
    return x.neg() + x.abs()


def test_succinct_shows_a_line_once_for_all_its_calls() -> None:
    with TracingMode(quiet=True) as mode:
        twice(torch.ones(2)) + twice(torch.ones(2))  # one line, two calls
    caller = "+ twice(torch.ones(2))  # one line, two calls  #"
    assert [mode.format(succinct=succinct).count(caller) for succinct in (True, False)] == [3, 5]


def test_stacks_are_those_that_inspect_gives() -> None:
    with TracingMode(quiet=True) as mode:
        here = (torch.ones(2), inspect.stack()[::-1])[1]  # on one line
    (trace,) = mode.traces
    assert [described(info) for info in trace.stack] == [described(info) for info in here if not is_frozen(info)]
    last = trace.stack[-1]
    assert isinstance(last, inspect.FrameInfo) and last.code_context is not None
    start = last.code_context[0].index("torch")
    end = start + len("torch.ones(2)")
    assert last.positions == dis.Positions(last.lineno, last.lineno, start, end)


def is_frozen(info: inspect.FrameInfo) -> bool:
    """Whether this is Python's own way to start a program."""
    return info.filename.startswith("<frozen ")


def described(info: inspect.FrameInfo) -> tuple[Any, ...]:
    return (info.filename, info.lineno, info.function, info.code_context, info.index)


def test_positions_count_bytes_as_inspect_does() -> None:
    with TracingMode(quiet=True) as mode:
        "ééé", torch.ones(2)
    positions = mode.traces[0].stack[-1].positions
    assert positions is not None and (positions.col_offset, positions.end_col_offset) == (18, 31)


def test_an_expression_of_several_lines() -> None:
    with TracingMode(quiet=True) as mode:
        torch.ones(
            2,
        )
    info = mode.traces[0].stack[-1]
    assert info.code_context is not None and info.code_context[0].strip() == "torch.ones("
    assert info.positions == dis.Positions(info.lineno, None, None, None)


def test_no_frame_and_no_tensor_is_kept_alive() -> None:
    def work() -> weakref.ref[torch.Tensor]:
        local = torch.ones(2)
        return weakref.ref(local + 1)

    with TracingMode(quiet=True) as mode:
        kept = work()
    gc.collect()
    assert kept() is None
    assert all(info.frame is None for trace in mode.traces for info in trace.stack)


def test_the_same_mode_again_adds_to_its_traces() -> None:
    mode = TracingMode(quiet=True)
    for _ in range(2):
        with mode:
            torch.ones(2) + 1
        torch.zeros(2)
    assert ops(mode) == [ONES, PLUS] * 2
    assert mode.format().count("# ones(") == 2


def test_events_of_several_uses_are_not_confused() -> None:
    x, mode = torch.ones(2), TracingMode(quiet=True)
    with mode:
        x.float()  # no operator, so that the next call has the id that an operator has below
        x + 1
    with mode:
        x.neg()
    assert [op for op, _ in Shown(mode.format())] == ops(mode) == [PLUS, "neg(f32[2]) -> f32[2]"]


def test_a_mode_inside_itself_sees_each_operator_once() -> None:
    mode = TracingMode(quiet=True)
    with mode:
        with mode:
            torch.ones(2)
        torch.ones(2) + 1
    torch.zeros(2)
    assert ops(mode) == [ONES, ONES, PLUS]


def test_modes_inside_each_other() -> None:
    with TracingMode(quiet=True) as outer:
        with TracingMode(quiet=True) as inner:
            torch.ones(2)
        torch.ones(2) + 1
    assert ops(inner) == [ONES]
    assert ops(outer) == [ONES, ONES, PLUS]


def test_traces_may_be_cleared() -> None:
    with TracingMode(quiet=True) as mode:
        torch.ones(2)
        mode.traces.clear()
        torch.ones(2) + 1
    assert ops(mode) == [ONES, PLUS]
    assert "# ones(" in mode.format()


def test_operators_of_the_backward_pass_are_shown() -> None:
    x = torch.ones(2, requires_grad=True)
    with TracingMode(quiet=True) as mode:
        (x * 3).sum().backward()
    assert names(mode) == ["mul.Tensor", "sum", "ones_like", "expand", "mul.Tensor", "detach"]
    context = mode.traces[-1].stack[-1].code_context
    assert context is not None and context[0].strip() == "(x * 3).sum().backward()"


def test_autocast_and_meta() -> None:
    model = nn.Linear(2, 3, device="meta")
    with TracingMode(quiet=True) as mode, torch.autocast("cpu", dtype=torch.bfloat16):
        nn.functional.linear(torch.ones(4, 2), torch.ones(3, 2))
        model(torch.ones(4, 2, device="meta"))
    assert "_to_copy(f32[4, 2], dtype=torch.bfloat16) -> bf16[4, 2]" in ops(mode)
    assert ops(mode)[-1] == "addmm(f32[3], f32[4, 2], f32[2, 3]) -> f32[4, 3]"


def test_outputs_of_several_tensors_and_lists_of_tensors() -> None:
    with TracingMode(quiet=True) as mode:
        torch.cat([torch.ones(2), torch.ones(2)]).topk(1)
    assert ops(mode)[2:] == ["cat(['f32[2]', 'f32[2]']) -> f32[4]", "topk(f32[4], 1) -> (f32[1], i64[1])"]


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
def test_tensors_of_every_kind(check: Callable[[str, str], None]) -> None:
    everything = names_of("everything.py")
    model, x = everything["model"], everything["x"]
    with torch.no_grad():
        plain = model(x)
        with TracingMode(quiet=True) as mode:
            traced = model(x)
    assert torch.equal(plain, traced)
    check("everything_ops.txt", "\n".join(ops(mode)) + "\n")


def failing(x: torch.Tensor) -> torch.Tensor:
    return x @ x


def not_an_operator(x: torch.Tensor) -> torch.Tensor:
    return torch.einsum("no equation", x)


@pytest.mark.parametrize(
    ("function", "line"),
    [
        (failing, "mm(f32[4, 3], f32[4, 3]) -> raised RuntimeError"),
        (not_an_operator, "torch.einsum(no equation, f32[4, 3]) -> raised RuntimeError"),
    ],
)
def test_an_exception_passes_and_the_failing_operator_is_there(function: Any, line: str) -> None:
    x, mode = torch.ones(4, 3), TracingMode(quiet=True)
    with pytest.raises(RuntimeError) as plain:
        function(x)
    with pytest.raises(RuntimeError) as traced, mode:
        function(x)
    assert type(traced.value) is type(plain.value) and traced.value.args == plain.value.args
    assert own_files_in(traced.value) == []
    assert ops(mode) == [line]
    assert mode.format().endswith(f"# {line};")


def test_colour_goes_to_terminals_and_where_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert [colour_of(Screen(), color) for color in (True, False)] == [True, False]
    assert [colour_of(io.StringIO(), color) for color in (True, False)] == [False, False]
    with TracingMode(quiet=True, color=False) as mode:
        torch.ones(2)
    assert f"\033[36mtorch.ones(2)\033[0m\033[2m  # {shown(__file__)}:" in mode.format(color=True)
    assert f"\033[2m# {ONES};\033[0m" in mode.format(color=True)
    assert "\033" not in mode.format()


class Screen(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def colour_of(stream: io.StringIO, color: bool) -> bool:
    """Whether colour codes come to a stream, live and by `print`, which must agree."""
    before, sys.stdout = sys.stdout, stream
    try:
        with TracingMode(color=color) as mode:
            torch.ones(2)
        live = stream.getvalue()
        mode.print()
    finally:
        sys.stdout = before
    assert stream.getvalue() == 2 * live
    return "\033" in live


def shown(file: str) -> str:
    return str(Path(file).relative_to(Path.cwd())) if Path(file).is_relative_to(Path.cwd()) else file


def test_a_package_whose_name_begins_with_torch_stays_visible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "site-packages" / "torchfoo"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("import torch\n\n\ndef double(x):\n    return torch.mul(x, 2)\n")
    monkeypatch.syspath_prepend(str(package.parent))
    import torchfoo  # type: ignore[import-not-found]

    with TracingMode(quiet=True) as mode:
        nn.Sequential(nn.ReLU())(torchfoo.double(torch.ones(2)))
    files = [info.filename for trace in mode.traces for info in trace.stack]
    assert str(package / "__init__.py") in files
    assert not [file for file in files if file.startswith(str(Path(torch.__file__).parent))]
    assert "return torch.mul(x, 2)  # site-packages/torchfoo/__init__.py:5 in double:\n" in mode.format()


class Shown:
    """Reads a printed trace back: the stack that stands above each operator."""

    PLACE = re.compile(r"((?:│ )*)(?!│ |# )(?P<source>.*)  # (?P<file>\S+):(?P<line>\d+) in (?P<function>\S+):")
    OP = re.compile(r"((?:│ )*)# (?P<op>.*?);?")

    def __init__(self, text: str) -> None:
        self.stack: list[tuple[str, int, str]] = []
        self.lines = text.split("\n")

    def __iter__(self) -> Iterator[tuple[str, list[tuple[str, int, str]]]]:
        for number, line in enumerate(self.lines):
            if found := self.PLACE.fullmatch(line):
                depth = len(found[1]) // 2
                assert depth <= len(self.stack)
                self.stack[depth:] = [(found["file"], int(found["line"]), found["function"])]
                self.below(number, depth + 1)
            elif found := self.OP.fullmatch(line):
                del self.stack[len(found[1]) // 2 :]
                assert len(self.stack) == len(found[1]) // 2
                yield found["op"], list(self.stack)
            else:
                assert line == "│ " * len(self.stack) + "⬇️"

    def below(self, number: int, depth: int) -> None:
        """Under a line of source is its operator, or the arrow to a line that is one deeper."""
        following = self.lines[number + 1].removeprefix("│ " * depth)
        assert following.startswith("# ") or following == "⬇️"


def test_a_real_gemma() -> None:
    from transformers import Gemma3ForCausalLM, Gemma3TextConfig

    sizes = {"hidden_size": 16, "intermediate_size": 32, "head_dim": 8, "vocab_size": 64}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "num_hidden_layers": 2}
    with torch.device("meta"):
        model = Gemma3ForCausalLM(Gemma3TextConfig(**sizes, **heads, sliding_window=4)).eval()
    with TracingMode(quiet=True) as mode:
        model(input_ids=torch.ones(2, 3, dtype=torch.long, device="meta"))
    assert "embedding(f32[64, 16], i64[2, 3], 0) -> f32[2, 3, 16]" in ops(mode)
    read = list(Shown(mode.format()))
    assert [op for op, _ in read] == ops(mode)
    for (_, stack), trace in zip(read, mode.traces, strict=True):
        assert [(line, function) for _, line, function in stack] == [
            (info.lineno, info.function) for info in trace.stack
        ]
        assert all(info.filename.endswith(file) for (file, *_), info in zip(stack, trace.stack, strict=True))
    files = {file for _, stack in read for file, *_ in stack}
    assert "site-packages/transformers/models/gemma3/modeling_gemma3.py" in files
    assert not [file for file in files if "/site-packages/" in file or file.startswith("site-packages/torch/")]
    places = [line for line in mode.format().split("\n") if " in " in line]
    assert len(places) < sum(len(trace.stack) for trace in mode.traces) / 3  # what is shared is shown once
