"""The drop-in for Tensor Tracker: seed 004 to the letter, files, threads, and all that can be decorated."""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import functools
import inspect
import logging
import os
import re
import subprocess
import sys
import textwrap
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from tests.dropins import t2v
from tests.dropins.running import HERE, own_files_in, printed_by
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

import insitu
import ttracker
from ttracker import _log_change, auto_diff, debug_trace, fstack, h4logger, log2file, logger, var_tracker

Check = Callable[[str, str], None]
Printed = Callable[[], list[str]]
SEED = (HERE / "seeds" / "004.txt").read_text("utf-8")
AUTO_DIFF, VAR_TRACKER, LOG2FILE, HOOK = re.findall(r"```py(?:thon)? *\n(.*?)```", SEED, re.DOTALL)
SAMPLES = re.findall(r"```bash *\n(.*?)```", SEED, re.DOTALL)
THIS = Path(__file__).name


@pytest.fixture(autouse=True)
def somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of its own for each test, and a logger that nobody has given anything."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LTAG", raising=False)
    monkeypatch.setattr(logger, "handlers", [])


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Printed:
    """The lines that were printed since one last asked."""
    return lambda: capsys.readouterr().out.splitlines()


def files(folder: Path | None = None) -> dict[str, list[str]]:
    """All files of a folder by their paths, with their lines without the time."""
    root = folder or Path.cwd()
    found = {path.relative_to(root).as_posix(): path.read_text("utf-8") for path in root.rglob("*.log")}
    return {name: [STAMP.sub("", line) for line in text.splitlines()] for name, text in found.items()}


STAMP = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} - INFO - ")
LOG = re.compile(r"logs/\w+/process_(\d+)_thread_(\d+)\.log")


def run(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a process of its own, in the current folder."""
    path = Path("program.py")
    path.write_text(textwrap.dedent(program), "utf-8")
    hidden = ("LTAG", "INSITU", "FORCE_COLOR", "NO_COLOR")
    inherited = {name: value for name, value in os.environ.items() if name not in hidden}
    settings = {"PYTHONIOENCODING": "utf-8", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, path], env={**inherited, **settings, **environment}, capture_output=True, encoding="utf-8"
    )
    path.unlink()
    return done


def printed_and_said_nothing(done: subprocess.CompletedProcess[str]) -> list[str]:
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


# --- the seed


def defined_by(snippet: str, name: str, **names: Any) -> Any:
    """What a snippet of the seed defines when it runs as it is written, from a file."""
    path = Path("snippet.py")
    path.write_text(snippet, "utf-8")
    exec(compile(snippet, str(path.absolute()), "exec"), names)
    return names[name]


def test_the_snippet_of_auto_diff_runs_as_written(printed: Printed) -> None:
    process_data = defined_by(AUTO_DIFF, "process_data", outputs=torch.zeros(3, 73))
    assert process_data(np.zeros((2, 3), np.uint8)).shape == (3, 73)
    head, *rest = printed()
    caller = test_the_snippet_of_auto_diff_runs_as_written.__name__
    places = rf"{caller}:(\d+) \({THIS}:\1 <- \w+\.py:\d+ <- \w+\.py:\d+\)"
    assert re.fullmatch(rf"┌── \[snippet\.py:4\] 函数 \[process_data\] 被调用于 {places}", head)
    assert rest == ["├─ 输入 [Tensor] inputs@0 → shape=(2, 3) | dtype=uint8", "└─ 输出 shape=torch.Size([3, 73])"]


def test_the_snippet_of_var_tracker_runs_as_written(printed: Printed) -> None:
    transform_video = defined_by(VAR_TRACKER, "transform_video", transformed_video=torch.zeros(3))
    with pytest.warns(insitu.InsituWarning, match="'video'"):  # the snippet has no such variable
        transform_video(torch.zeros(2, dtype=torch.bfloat16))
    head, *rest = printed()
    assert head.startswith("┌── [snippet.py:4] 函数 [transform_video] 被调用于 ")
    assert rest == [
        "├─ 输入 [Tensor] video_tensor@0 → shape=torch.Size([2]) | dtype=torch.bfloat16",
        "└─ 输出 shape=torch.Size([3])",
    ]


def test_the_snippet_of_log2file_runs_as_written() -> None:
    done = run("from ttracker import h4logger, log2file, logger\nxxx = 'é世'\n" + LOG2FILE)
    assert printed_and_said_nothing(done) == ["xx is é世"]
    ((path, lines),) = files().items()
    assert LOG.fullmatch(path) and path.startswith("logs/NOTAG/")
    assert lines == ["xx is é世"]


def test_the_hook_that_monitors_accuracy_runs_as_written(printed: Printed) -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    nn.init.constant_(model[0].weight, -1.5)
    nn.init.constant_(model[0].bias, 1.0)
    exec(HOOK, {"model_executable": model})
    assert printed() == str(model).splitlines()
    model(torch.ones(4, 2))
    small = "shape=torch.Size([4, 2]) | dtype=torch.float32 | mean=1 min=1 max=1 sum=8"
    wide = "shape=torch.Size([4, 3]) | dtype=torch.float32 |"
    made, cut = f"{wide} mean=-2 min=-2 max=-2 sum=-24", f"{wide} mean=0 min=0 max=0 sum=0"
    assert printed() == [
        *(f"Linear [Tensor] input.0@0 → {small}", f"Linear [Tensor] output@0 → {made}"),
        *(f"ReLU [Tensor] input.0@0 → {made}", f"ReLU [Tensor] output@0 → {cut}"),
        *(f"Sequential [Tensor] input.0@0 → {small}", f"Sequential [Tensor] output@0 → {cut}"),
    ]


NAN, INF = float("nan"), float("inf")
NUMBERS: list[tuple[Any, str]] = [
    (torch.tensor([1.0, 2.0, 4.5]), " | mean=2.5 min=1 max=4.5 sum=7.5"),
    (torch.tensor([1.0, NAN]), " | mean=nan min=nan max=nan sum=nan"),
    (torch.tensor([1.0, INF]), " | mean=inf min=1 max=inf sum=inf"),
    (torch.full((300,), 300.0, dtype=torch.float16), " | mean=300 min=300 max=300 sum=90000"),
    (torch.ones(3, dtype=torch.bfloat16), " | mean=1 min=1 max=1 sum=3"),
    (torch.ones(2).to(torch.float8_e4m3fn), " | mean=1 min=1 max=1 sum=2"),
    (nn.Parameter(torch.ones(2)), " | mean=1 min=1 max=1 sum=2"),
    (np.array([0.25, 0.5], np.float32), " | mean=0.375 min=0.25 max=0.5 sum=0.75"),
    (torch.tensor([1, 2]), ""),
    (torch.tensor([True]), ""),
    (torch.ones(2, dtype=torch.complex64), ""),
    (torch.empty(0), ""),
    (torch.empty(2, device="meta"), ""),
    (torch.eye(2).to_sparse(), ""),
    (np.array([1, 2]), ""),
]


@pytest.mark.parametrize(("value", "expected"), NUMBERS, ids=lambda item: str(getattr(item, "dtype", "")))
def test_floating_tensors_are_logged_with_their_numbers(value: Any, expected: str, printed: Printed) -> None:
    _log_change("", "x", value, "")
    (line,) = printed()
    assert line.partition("dtype=")[2] == f"{value.dtype}{expected}"


def test_computing_the_logged_numbers_has_no_side_effects(printed: Printed) -> None:
    x = torch.ones(3, requires_grad=True)
    with insitu.record(level="aten") as trace, FlopCounterMode(display=False) as counter:
        y = x * 2
        calls = len(trace.calls)
        _log_change("", "y", y, "")
        assert len(trace.calls) == calls and counter.get_total_flops() == 0
    assert y.grad_fn is not None and y.grad_fn.next_functions[0][0] is not None
    assert printed()[-1].endswith("mean=2 min=2 max=2 sum=6")
    torch.vmap(lambda row: _log_change("", "row", row, "") or row)(torch.ones(2, 3))
    assert "mean" not in printed()[-1]


def masked(text: str) -> str:
    """Without the lines of the standard library, which other versions of Python have elsewhere."""
    return re.sub(r"thread\.py:\d+", "thread.py:…", text)


def test_the_program_of_the_seed_prints_what_is_expected(check: Check, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, t2v.write(tmp_path).name], capture_output=True, encoding="utf-8", cwd=tmp_path, check=True
    )
    check("t2v.txt", masked(done.stdout))


@pytest.mark.parametrize("sample", SAMPLES)
def test_the_expected_text_is_that_of_the_original(sample: str) -> None:
    rest = iter((HERE / "expected" / "t2v.txt").read_text("utf-8").splitlines())
    # It showed its own file for where the function is defined.
    shown = masked(sample).replace("[ttracker.py:176]", "[t2v_dataset.py:331]").splitlines()
    assert [line for line in shown if line not in rest] == []
    assert len(shown) > 8


# --- the lines


class Pair(NamedTuple):
    """Two things with names."""

    image: Any
    label: Any


@dataclasses.dataclass
class Batch:
    """The same as a dataclass."""

    image: Any
    label: Any


class Stranger:
    """Something that nobody knows, and that does not let itself be looked at."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("do not look")

    def __repr__(self) -> str:
        raise RuntimeError("do not look")


T = torch.zeros(2, 3)
TENSOR = "shape=torch.Size([2, 3]) | dtype=torch.float32"
VALUES: list[tuple[Any, list[str]]] = [
    (113, ["[Var] x@0 value: 113"]),
    (True, ["[Var] x@0 value: True"]),
    (-0.5, ["[Var] x@0 value: -0.5"]),
    (None, ["[Var] x@0 value: None"]),
    ("a\nb", ["[Var] x@0 value: 'a\\nb'"]),
    ([1, 2, 3], ["[Var] x@0 len(value): 3"]),
    ([1] * 1000, ["[Var] x@0 len(value): 1000"]),
    ([T] * 4, ["[Var] x@0 len(value): 4"]),
    ({"a": T}, ["[Var] x@0 len(value): 1"]),
    (dict.fromkeys(range(300)), ["[Var] x@0 len(value): 300"]),
    (collections.OrderedDict(a=T), ["[Var] x@0 len(value): 1"]),
    ((384, 544), ["[Var] x@0 value: (384, 544)"]),
    (tuple(range(500)), ["[Var] x@0 len(value): 500"]),
    (Stranger(), ["[Var] x@0 type(value): Stranger"]),
    (T, [f"[Tensor] x@0 → {TENSOR}"]),
    (nn.Parameter(T), [f"[Tensor] x@0 → {TENSOR}"]),
    (torch.tensor(1), ["[Tensor] x@0 → shape=torch.Size([]) | dtype=torch.int64"]),
    (np.zeros((73,), bool), ["[Tensor] x@0 → shape=(73,) | dtype=bool"]),
    (np.array("text"), ["[Tensor] x@0 → shape=() | dtype=<U4"]),
    ((T, 3), [f"[Tensor] x.0@0 → {TENSOR}", "[Var] x.1@0 value: 3"]),
    ((T, (T, [T])), [f"[Tensor] x.0@0 → {TENSOR}", f"[Tensor] x.1.0@0 → {TENSOR}", "[Var] x.1.1@0 len(value): 1"]),
    (Pair(T, 3), [f"[Tensor] x.image@0 → {TENSOR}", "[Var] x.label@0 value: 3"]),
    (Batch(T, 3), [f"[Tensor] x.image@0 → {TENSOR}", "[Var] x.label@0 value: 3"]),
    ((T,) * 100, ["[Var] x@0 len(value): 100"]),
]


@pytest.mark.parametrize(("value", "texts"), VALUES, ids=lambda item: type(item).__name__)
def test_values_are_described_by_type_and_shape(value: Any, texts: list[str], printed: Printed) -> None:
    @auto_diff
    def look(x: Any) -> None: ...

    look(value)
    assert printed()[1:] == [*(f"├─ 输入 {text}" for text in texts), "└─ 输出 value: None"]
    _log_change("├─", "x", value, "│   ", 0)
    assert [line.partition(" | mean=")[0] for line in printed()] == [f"│   ├─ {text}" for text in texts]


# These need another way to make a tensor, or none has them.
ODD = ("torch.q", "torch.bits", "torch.complex32")
DTYPES = [dtype for dtype in vars(torch).values() if isinstance(dtype, torch.dtype)]


def test_every_dtype_of_torch_has_its_name(printed: Printed) -> None:
    @auto_diff
    def look(x: torch.Tensor) -> None: ...

    for dtype in dict.fromkeys(dtype for dtype in DTYPES if not str(dtype).startswith(ODD)):
        look(torch.empty(2, dtype=dtype, device="meta"))
        assert printed()[1] == f"├─ 输入 [Tensor] x@0 → shape=torch.Size([2]) | dtype={dtype}"


def test_every_dtype_of_numpy_has_its_name(printed: Printed) -> None:
    @auto_diff
    def look(x: Any) -> None: ...

    for code in "?bBhHiIlLqQefdgFDGSUVOMm":
        array = np.zeros(2, code)
        look(array)
        assert printed()[1] == f"├─ 输入 [Tensor] x@0 → shape=(2,) | dtype={array.dtype}"


RESULTS: list[tuple[Any, list[str]]] = [
    (T, ["shape=torch.Size([2, 3])"]),
    (np.zeros((7, 2)), ["shape=(7, 2)"]),
    (3, ["value: 3"]),
    ([1, 2], ["len(value): 2"]),
    ({"a": T}, ["len(value): 1"]),
    ((T, 3), [f"[Tensor] 0@0 → {TENSOR}", "[Var] 1@0 value: 3"]),
    ([T, T], [f"[Tensor] 0@0 → {TENSOR}", f"[Tensor] 1@0 → {TENSOR}"]),
    ([T] * 100, ["len(value): 100"]),
    ((T, (T,)), [f"[Tensor] 0@0 → {TENSOR}", f"[Tensor] 1.0@0 → {TENSOR}"]),
]


@pytest.mark.parametrize(("value", "texts"), RESULTS, ids=lambda item: type(item).__name__)
def test_return_values_are_logged(value: Any, texts: list[str], printed: Printed) -> None:
    @auto_diff
    def give() -> Any:
        return value

    assert give() is value
    assert printed()[1:] == [f"└─ 输出 {text}" for text in texts]


def line_of(function: Any, text: str) -> int:
    """The number of the line of a function that ends so."""
    code = inspect.unwrap(function).__code__
    source = Path(code.co_filename).read_text("utf-8").splitlines()
    return next(i for i, line in enumerate(source, 1) if i >= code.co_firstlineno and line.endswith(text))


def test_a_change_has_the_number_of_the_line_that_made_it(printed: Printed) -> None:
    @var_tracker("a", "b")
    def work(x: torch.Tensor) -> torch.Tensor:
        a = x * 2  # one
        b = [0]  # two
        if len(b) == 1:
            a += 1  # three
        b.append(1)  # four
        del b  # five
        return a

    work(T)
    one, two, three, four, five = (line_of(work, f"# {word}") for word in ["one", "two", "three", "four", "five"])
    assert printed()[2:] == [
        f"│   ├─ [Tensor] a@{one} → {TENSOR}",
        f"│   ├─ [Var] b@{two} len(value): 1",
        f"│   ├─ [Tensor] a@{three} → {TENSOR}",
        f"│   ├─ [Var] b@{four} len(value): 2",
        f"│   ├─ [Var] b@{five} 已删除",
        "└─ 输出 shape=torch.Size([2, 3])",
    ]


def plain_decorator(function: Any) -> Any:
    @functools.wraps(function)
    def call(*args: Any) -> Any:
        return function(*args)

    return call


def test_the_place_of_definition_is_that_of_the_users_function(printed: Printed) -> None:
    @fstack
    @auto_diff
    @plain_decorator
    @plain_decorator
    def work(x: int) -> int:  # here
        return x

    work(1)
    line = line_of(work, "# here")
    (head,) = [text for text in printed() if text.startswith("┌──")]
    assert re.match(rf"┌── \[{THIS}:{line}\] 函数 \[(\w+\.)?work\] 被调用于 test_the_place_\w+:{line + 3} ", head)
    assert "debug.py" not in head  # nor is the tool among the callers


def test_the_chain_of_callers_is_logged() -> None:
    lines = printed_and_said_nothing(
        run(
            """
            from ttracker import auto_diff
            class Net:
                @auto_diff
                def forward(self): return 1
                def __call__(self): return self.forward()
            def main(): return Net()()
            def outer(): return main()
            @auto_diff
            def whole(): return outer()
            whole()
            """
        )
    )
    assert lines == [
        "┌── [program.py:10] 函数 [whole] 被调用于 <module>:11 (program.py:11)",
        "│   ┌── [program.py:5] 函数 [Net.forward] 被调用于 __call__:6 (program.py:6 <- program.py:7 <- program.py:8)",
        "│   └─ 输出 value: 1",
        "└─ 输出 value: 1",
    ]


# --- what can be decorated


class Everything:
    """A class with methods of each kind."""

    @auto_diff
    def method(self, x: int) -> int:
        return x

    @auto_diff
    @classmethod
    def of_class(cls, x: int) -> int:
        return x

    @staticmethod
    @auto_diff
    def static(x: int) -> int:
        return x

    @auto_diff
    @property
    def value(self) -> int:
        return 7


def test_methods_class_methods_and_static_methods_are_logged(printed: Printed) -> None:
    it = Everything()
    assert [it.method(7), it.of_class(7), it.static(x=7), it.value] == [7] * 4
    names = [re.sub(r"┌──.*\[Everything\.(\w+)\].*", r"\1", line) for line in printed()]
    inside = ["├─ 输入 [Var] x@0 value: 7", "└─ 输出 value: 7"]
    assert names == ["method", *inside, "of_class", *inside, "static", *inside, "value", inside[1]]


def test_generators_and_coroutines_stay_what_they_are(printed: Printed) -> None:
    @var_tracker("y")
    def count(n: int) -> Iterator[int]:
        for i in range(n):
            y = i  # y
            yield y  # yield

    @auto_diff
    async def wait(x: int) -> int:
        await asyncio.sleep(0)
        return x

    @auto_diff
    async def stream() -> AsyncIterator[int]:
        yield 5

    assert list(count(1)) == [0]
    line = line_of(count, "# y")
    assert printed()[1:] == [
        "├─ 输入 [Var] n@0 value: 1",
        f"│   ├─ [Var] y@{line} value: 0",
        f"├─ 产出 [Var] yield@{line + 1} value: 0",
        "└─ 输出 value: None",
    ]

    async def both() -> list[int]:
        return [await wait(3), *[item async for item in stream()]]

    assert asyncio.run(both()) == [3, 5]
    ends = [line for line in printed() if not line.startswith("┌──")]
    assert ends[:2] == ["├─ 输入 [Var] x@0 value: 3", "└─ 输出 value: 3"]
    assert re.fullmatch(r"├─ 产出 \[Var\] yield@\d+ value: 5", ends[2])
    assert ends[3:] == ["└─ 输出 value: None"]


def test_two_generators_that_take_turns_keep_their_depth(printed: Printed) -> None:
    @auto_diff
    def count(n: int) -> Iterator[int]:
        yield from range(n)

    assert list(zip(count(2), count(2), strict=True)) == [(0, 0), (1, 1)]
    assert {line[0] for line in printed()} == {"┌", "├", "└"}


def test_decorating_twice_logs_once(printed: Printed) -> None:
    @var_tracker("y")
    @auto_diff
    def work(x: int) -> int:
        y = x
        return y

    work(1)
    assert [line[:3].strip() for line in printed()] == ["┌──", "├─", "│", "└─"]


@pytest.mark.parametrize("closer", [fstack, debug_trace], ids=["fstack", "debug_trace"])
def test_all_decorators_together_log_the_tree_once(closer: Any, printed: Printed) -> None:
    @var_tracker("y")
    @closer
    @auto_diff
    def work(x: int) -> int:
        y = x
        return y

    assert work(1) == 1
    lines = printed()
    assert lines[0].startswith("【")
    assert sum("函数 [" in line for line in lines) == 1
    assert sum("[Var] y@" in line for line in lines) == 1
    assert lines[-1] == "└─ 输出 value: 1"


def test_a_decorator_in_between_is_not_lost(printed: Printed) -> None:
    @auto_diff
    @plain_decorator
    @fstack
    def work() -> int:
        return 1

    work()
    lines = printed()
    assert sum(line.startswith("【Call Stack") for line in lines) == 1
    assert re.search(r"被调用于 test_a_decorator_in_between_is_not_lost:\d+", lines[0])


def broken(x: int) -> None:
    raise ERROR


ERROR = KeyError("x")


@pytest.mark.parametrize("decorate", [auto_diff, var_tracker("x"), fstack, debug_trace])
def test_an_exception_passes_unchanged(decorate: Any, printed: Printed) -> None:
    ERROR.__traceback__ = None
    with pytest.raises(KeyError) as caught:
        decorate(broken)(1)
    assert caught.value is ERROR
    assert own_files_in(ERROR) == []
    own = str(Path(ttracker.__file__).parent)
    assert [entry for entry in caught.traceback if str(entry.path).startswith(own)] == []
    lines = printed()
    assert lines[-1] in ("└─ 抛出 KeyError", "└── 退出函数: broken()") or lines[-1].startswith("-> ")


def test_the_environment_variable_switches_it_off(monkeypatch: pytest.MonkeyPatch, printed: Printed) -> None:
    monkeypatch.setenv("INSITU", "0")
    for decorate in (auto_diff, var_tracker("x"), fstack, debug_trace):
        assert decorate(broken) is broken
    _log_change("", "x", 1, "")
    assert printed() == []


# --- the stack, and every line


def test_fstack_logs_who_calls(printed: Printed) -> None:
    @fstack
    def work(x: int) -> int:
        return x

    def caller() -> int:
        return work(3)

    assert caller() == 3
    head, *places = printed()
    assert head == "【Call Stack for work】"
    assert all(re.fullmatch(r"-> \S+\(\) at .+:\d+", place) for place in places)
    line = caller.__code__.co_firstlineno + 1
    assert places[-1] == f"-> caller() at {__file__}:{line}"
    assert places[-2].startswith("-> test_fstack_logs_who_calls() at ")


def helper(x: int) -> int:
    return x + 1


def test_debug_trace_logs_each_line_that_runs(printed: Printed) -> None:
    @debug_trace
    def work(x: int) -> int:
        y = helper(x)
        return int(torch.tensor(y))

    assert work(3) == 4
    line, inner = work.__wrapped__.__code__.co_firstlineno, helper.__code__.co_firstlineno  # type: ignore[attr-defined]
    assert printed() == [
        "【debug_trace for work】",
        "┌── 进入函数: work()",
        f"│   ├── [行 {line + 2}] y = helper(x)",
        "│   ┌── 进入函数: helper()",
        f"│   │   ├── [行 {inner + 1}] return x + 1",
        "│   └── 退出函数: helper()",
        f"│   ├── [行 {line + 3}] return int(torch.tensor(y))",
        "└── 退出函数: work()",
    ]


def test_debug_trace_in_itself_logs_no_line_twice(printed: Printed) -> None:
    @debug_trace
    def factorial(n: int) -> int:
        return n * factorial(n - 1) if n else 1

    assert factorial(2) == 2
    lines = printed()
    assert lines.count("【debug_trace for factorial】") == 3
    assert sum("进入函数" in line for line in lines) == 3
    assert lines[-1] == "└── 退出函数: factorial()"


def test_debug_trace_lets_a_debugger_go_on(printed: Printed) -> None:
    seen: list[str] = []

    def debugger(frame: Any, event: str, arg: Any) -> Any:
        if frame.f_code.co_name == "helper":
            seen.append(event)
        return debugger

    before = sys.gettrace()
    sys.settrace(debugger)
    try:
        debug_trace(helper)(1)
        after = sys.gettrace()
    finally:
        sys.settrace(before)
    assert after is debugger
    assert seen == ["call", "line", "return"]
    assert len(printed()) == 4


def test_debug_trace_logs_generators_and_coroutines(printed: Printed) -> None:
    @debug_trace
    def count(n: int) -> Iterator[int]:
        yield from range(n)

    @fstack
    @debug_trace
    async def wait() -> int:
        await asyncio.sleep(0)
        return 3

    steps = count(2)
    assert next(steps) == 0
    assert sys.gettrace() is None or "ttracker" not in repr(sys.gettrace())
    assert list(steps) == [1]
    assert asyncio.run(wait()) == 3
    lines = printed()
    assert lines[0] == "【debug_trace for count】"
    assert sum("进入函数: count()" in line for line in lines) == 3
    assert sum("进入函数: wait()" in line for line in lines) == 2
    assert sum("【Call Stack for wait】" in line for line in lines) == 1


def test_the_closer_decorators_keep_methods_methods(printed: Printed) -> None:
    class Net:
        @fstack
        @classmethod
        def make(cls) -> type:
            return cls

        @debug_trace
        @staticmethod
        def static() -> int:
            return 1

    assert Net.make() is Net and Net().static() == 1
    assert printed()[0] == "【Call Stack for make】"


# --- the terminal and the files


def test_importing_creates_no_files_and_needs_no_torch() -> None:
    program = "import sys, ttracker; print([name for name in ('torch', 'numpy') if name in sys.modules])"
    assert printed_and_said_nothing(run(program, LTAG="now")) == ["[]"]
    assert list(Path.cwd().iterdir()) == []


WORK = """
import threading, ttracker
from ttracker import auto_diff

@auto_diff
def work(x):
    return x
"""
LINES = [
    "┌── [program.py:6] 函数 [work] 被调用于 <module>:{line} (program.py:{line})",
    "├─ 输入 [Var] x@0 value: 1",
    "└─ 输出 value: 1",
]


def work_lines(line: int) -> list[str]:
    return [text.format(line=line) for text in LINES]


def test_no_files_are_written_by_default() -> None:
    assert printed_and_said_nothing(run(WORK + "work(1)")) == work_lines(8)
    assert list(Path.cwd().iterdir()) == []


def test_a_tag_writes_everything_to_files() -> None:
    assert printed_and_said_nothing(run(WORK + "work(1)", LTAG="run7", FORCE_COLOR="1")) == work_lines(8)
    ((path, lines),) = files().items()
    assert LOG.fullmatch(path) and path.startswith("logs/run7/")
    assert lines == work_lines(8)
    assert "\033" not in Path(path).read_text("utf-8")
    assert all(STAMP.match(line) for line in Path(path).read_text("utf-8").splitlines())


def test_one_file_for_each_thread_and_process() -> None:
    program = """
import os
work(1)
for _ in range(2):
    thread = threading.Thread(target=lambda: work(1))
    thread.start()
    thread.join()
child = os.fork()
if not child:
    ttracker.log2file("child")
    os._exit(0)
os.waitpid(child, 0)
"""
    done = run(WORK + program, LTAG="t")
    assert done.returncode == 0, done.stderr
    found = files()
    assert sorted(map(len, found.values())) == [1, 3, 3, 3]
    places = [LOG.fullmatch(path) for path in found]
    assert len({place[1] for place in places if place}) == 2
    assert len({place[2] for place in places if place}) == 4
    assert sum(lines == ["child"] for lines in found.values()) == 1


def test_threads_at_the_same_time_do_not_mix_in_files(monkeypatch: pytest.MonkeyPatch, printed: Printed) -> None:
    monkeypatch.setenv("LTAG", "t")
    together = threading.Barrier(4, timeout=30)

    @auto_diff
    def inner(x: int) -> int:
        together.wait()
        return x

    @auto_diff
    def outer(x: int) -> int:
        return inner(x)

    threads = [threading.Thread(target=outer, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = files()
    assert len(found) == 4
    for lines in found.values():
        number = lines[1].rpartition(" ")[2]
        assert lines[1] == f"├─ 输入 [Var] x@0 value: {number}"
        assert lines[3:] == [
            f"│   ├─ 输入 [Var] x@0 value: {number}",
            f"│   └─ 输出 value: {number}",
            f"└─ 输出 value: {number}",
        ]
    assert len(printed()) == 24


TWICE = {
    "handlers": "ttracker.logger.addHandler(ttracker.h4logger())\nttracker.logger.addHandler(ttracker.h4logger())",
    "reload": "import importlib, ttracker.output\nttracker.logger.addHandler(ttracker.h4logger())\n"
    "importlib.reload(ttracker.output)\nttracker.logger.addHandler(ttracker.output.h4logger())",
    "root": "import logging\nlogging.basicConfig(level=logging.DEBUG)\nttracker.logger.addHandler(ttracker.h4logger())",
}


@pytest.mark.parametrize("setup", TWICE.values(), ids=TWICE)
def test_no_line_is_doubled(setup: str) -> None:
    lines = printed_and_said_nothing(run(f"{WORK}\n{setup}\nwork(1)\nttracker.log2file('once')", LTAG="t"))
    assert lines == [*work_lines(lines and 10 + setup.count("\n")), "once"]
    assert list(files().values()) == [lines]


def test_log2file_accepts_any_value(printed: Printed) -> None:
    log2file({"loss": 0.5})
    log2file("100 %s\nof it")
    assert printed() == ["{'loss': 0.5}", "100 %s", "of it"]
    assert list(files().values()) == [["{'loss': 0.5}", "100 %s", "of it"]]


def test_a_handler_of_the_user_receives_the_records(printed: Printed) -> None:
    records: list[logging.LogRecord] = []
    own = logging.Handler()
    own.emit = records.append  # type: ignore[method-assign]
    logger.addHandler(own)

    @auto_diff
    def work() -> None: ...

    work()
    log2file("text")
    assert [record.getMessage() for record in records] == printed()
    assert list(files().values()) == [["text"]]


def test_logs_go_to_the_folder_of_the_start(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    logger.addHandler(h4logger())
    os.chdir("elsewhere")
    log2file("text")
    assert [Path(path).parent for path in files(tmp_path)] == [Path("logs/NOTAG")]


def test_a_folder_that_cannot_be_written_to_is_reported_once() -> None:
    Path("logs").write_text("a file")
    done = run(WORK + "work(1)\nwork(1)", LTAG="t")
    assert done.returncode == 0
    assert done.stdout.splitlines() == [*work_lines(8), *work_lines(9)]
    assert done.stderr.count("--- Logging error ---") == 1


def test_a_terminal_that_cannot_encode_chinese_does_not_raise() -> None:
    program = WORK + "work(1)\nttracker.log2file('世')\nttracker._log_change('├─', 'x', 1, '')\n"
    lines = printed_and_said_nothing(run(program, PYTHONIOENCODING="ascii", LTAG="t"))
    assert len(lines) == 5 and "".join(lines).isascii()
    assert lines[2] == "`- \\u8f93\\u51fa value: 1"
    assert list(files().values()) == [[*work_lines(8), "世", "├─ [Var] x@0 value: 1"]]


@pytest.mark.parametrize("closed", ["sys.stdout.close()", "sys.stdout = None"])
def test_without_a_terminal_the_program_goes_on(closed: str) -> None:
    done = run(f"{WORK}import sys\n{closed}\nwork(1)\nttracker.log2file('x')\nsys.stdout = sys.__stdout__", LTAG="t")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert list(files().values()) == [[*work_lines(10), "x"]]


def test_a_compiled_model_stays_compiled(printed: Printed) -> None:
    model = nn.Linear(2, 3)
    exec(HOOK, {"model_executable": model, "print": lambda text: None})
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    assert compiled(torch.ones(1, 2)).shape == (1, 3)
    assert printed() == []
    model(torch.ones(1, 2))
    assert len(printed()) == 2


def test_the_program_is_the_same_with_and_without(printed: Printed) -> None:
    def step(x: torch.Tensor) -> torch.Tensor:
        y = torch.nn.functional.dropout(x, 0.5)
        y = y @ y.T
        return y.sum()

    results = []
    for function in (step, var_tracker("y")(step)):
        torch.manual_seed(0)
        x = torch.rand(4, 4, requires_grad=True)
        function(x).backward()
        results.append((x.grad, torch.get_rng_state()))
    assert all(torch.equal(one, other) for one, other in zip(*results, strict=True))
    assert len(printed()) == 5


def test_the_text_of_the_program_of_the_seed_in_a_pipe(tmp_path: Path) -> None:
    (tmp_path / "small.py").write_text(WORK + "work(1)\n", "utf-8")
    assert printed_by(tmp_path / "small.py").splitlines() == [
        line.replace("program", "small") for line in work_lines(8)
    ]
