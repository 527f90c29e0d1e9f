"""The verbs `record` and `watch`: what they accept and refuse, and that whatever happens nothing is left behind."""

from __future__ import annotations

import contextlib
import gc
import io
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.capture.oracle import bits, nothing_left, tree, troubles
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import insitu
from insitu import InsituWarning
from insitu.capture.torch_versions import release

LEVELS = ["modules", "functions", "aten"]
x = torch.ones(2, 3)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
        self.head = nn.Linear(3, 2)
        self.spare = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.encoder(x))


def names(trace: insitu.Trace) -> list[str]:
    return [call.name.rpartition(".")[2] for call in trace.calls]


# --- sessions in sessions -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", LEVELS)
def test_nested(level: str) -> None:
    model = Model()
    with nothing_left(), insitu.record(level=level) as outer:
        x.sin()
        with insitu.record(model, level=level) as inner:
            model(x)
        x.cos()
    with insitu.record(model, level=level) as alone:
        model(x)
    assert tree(inner) == tree(alone)
    whole = tree(outer)
    assert tree(alone)[0] in whole
    if level == "functions":
        assert [whole[0], whole[-1]] == ["torch.Tensor.sin", "torch.Tensor.cos"]
    assert troubles(outer) == troubles(inner) == []


@pytest.mark.parametrize("first", LEVELS)
@pytest.mark.parametrize("second", LEVELS)
def test_overlapping(first: str, second: str) -> None:
    a, b, model = insitu.record(level=first), insitu.record(level=second), Model()
    with nothing_left():
        left = a.__enter__()
        x.sin()
        right = b.__enter__()
        model(x)
        a.__exit__(None, None, None)
        x.cos()
        b.__exit__(None, None, None)
        x.tan()
    if first != "modules":
        assert "sin" in names(left) and "cos" not in names(left)
    if second != "modules":
        assert "cos" in names(right) and "sin" not in names(right)
    assert list(left.modules)[:2] == list(right.modules)[:2] == ["", "encoder"]
    assert not {"tan"} & {*names(left), *names(right)}


def test_the_same_session_again() -> None:
    session = insitu.record()
    with nothing_left():
        with session as first:
            x.sin()
        with session as second:
            x.cos()
    assert (names(first), names(second)) == (["sin"], ["cos"])


def test_the_same_session_inside_itself() -> None:
    session = insitu.record()
    with nothing_left(), session as outer:
        x.sin()
        with session as inner:
            x.cos()
        x.tan()
    assert (names(outer), names(inner)) == (["sin", "cos", "tan"], ["cos"])


def test_in_a_generator() -> None:
    def steps() -> Iterator[insitu.Trace]:
        with insitu.record() as trace:
            x.sin()
            yield trace
            x.cos()

    with nothing_left():
        running = steps()
        trace = next(running)
        x.exp()
        list(running)
        x.tan()
    assert names(trace) == ["sin", "exp", "cos"]


def test_in_a_generator_that_is_closed_or_forgotten() -> None:
    def steps() -> Iterator[insitu.Trace]:
        with insitu.record(level="aten") as trace:
            yield trace

    with nothing_left():
        running = steps()
        next(running)
        running.close()
        other = steps()
        next(other)
        with insitu.record():
            del other
            gc.collect()
            x.sin()


def test_two_generators_in_turn() -> None:
    def steps(name: str) -> Iterator[insitu.Trace]:
        with insitu.record() as trace:
            for _ in range(2):
                getattr(x, name)()
                yield trace

    with nothing_left():
        first, second = steps("sin"), steps("cos")
        one, two = next(first), next(second)
        next(first), next(second)
        list(first)
        list(second)
    assert names(one) == ["sin", "cos", "sin", "cos"]
    assert names(two) == ["cos", "sin", "cos"]


def test_in_an_exit_stack() -> None:
    with nothing_left():
        with contextlib.ExitStack() as stack:
            traces = [stack.enter_context(insitu.record(level=level)) for level in LEVELS]
            Model()(x)
        assert [len(trace.modules) for trace in traces] == [5, 5, 5]


class Functions(TorchFunctionMode):
    """A mode of the user, as a counter or a device context is one."""

    def __init__(self, seen: list[str]) -> None:
        super().__init__()
        self.seen = seen

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(getattr(func, "__name__", "?"))
        return func(*args, **(kwargs or {}))


class Operators(TorchDispatchMode):
    """The same for operators."""

    def __init__(self, seen: list[str]) -> None:
        super().__init__()
        self.seen = seen

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("keep", ["meta", "stats"])
@pytest.mark.parametrize("where", ["inside", "around", "across"])
def test_modes_of_others_see_what_they_saw(level: str, keep: str, where: str) -> None:
    model, seen = Model(), []
    session, modes = insitu.record(level=level, keep=keep), (Functions(seen), Operators(seen))
    with modes[0], modes[1]:
        model(x).sum().backward()
    model.zero_grad()
    expected = seen.copy()
    seen.clear()
    with nothing_left():
        if where == "inside":
            with session, modes[0], modes[1]:
                model(x).sum().backward()
        elif where == "around":
            with modes[0], modes[1], session:
                model(x).sum().backward()
        else:
            with modes[0]:
                session.__enter__()
                with modes[1]:
                    session.__exit__(None, None, None)
                    model(x).sum().backward()
    if where == "around" and release(torch.__version__) < (2, 9):
        # There a mode sees the shallow copies of autograd as operators, if another mode is inside it.
        seen, expected = (list(filter("aten.detach.default".__ne__, names)) for names in (seen, expected))
    assert seen == expected


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", [RuntimeError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_an_exception_in_the_middle(level: str, kind: type[BaseException]) -> None:
    error = kind("mine")
    session = insitu.record(level=level)
    with nothing_left(), pytest.raises(kind) as caught, session as trace:
        Model()(x)
        raise error
    assert caught.value is error and error.__context__ is None
    assert len(trace.find("**", kind="module")) == 5


def test_the_traceback_is_the_users() -> None:
    import traceback

    class Bad(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x @ x

    model = nn.Sequential(Bad())

    def where(traced: bool) -> list[tuple[str, int | None]]:
        session: Any = insitu.record(model, level="aten") if traced else contextlib.nullcontext()
        try:
            with session:
                model(x)
        except RuntimeError as error:
            return [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
        return []

    assert where(True) == where(False) != []


def test_a_session_that_is_left_inside_a_torch_call() -> None:
    """Torch puts the modes back when the call returns: they do nothing any more, and the next session sweeps them."""
    session, model = insitu.record(level="aten"), Model()
    model.head.register_full_backward_hook(lambda *_: session.__exit__(None, None, None))
    y = torch.ones(1, 3, requires_grad=True)
    with nothing_left():
        trace = session.__enter__()
        model(y).sum().backward()
        y.sin()
        with insitu.record() as other:
            y.cos()
    assert "sin" not in names(trace) and names(other) == ["cos"]
    assert y.grad is not None


# --- others who look on ---------------------------------------------------------------------------------------------


def test_a_debuggers_trace_function_goes_on() -> None:
    lines: list[str] = []

    def tracer(frame: Any, event: str, argument: Any) -> Any:
        if event == "line" and frame.f_code.co_name == "body":
            lines.append(event)
        return tracer

    def body() -> None:
        y = x.sin()
        model(y)
        y.cos()

    model, before = nn.Linear(3, 3), sys.gettrace()
    sys.settrace(tracer)
    try:
        with insitu.record(level="aten") as trace:
            body()
        assert sys.gettrace() is tracer
    finally:
        sys.settrace(before)
    assert len(lines) == 3
    assert "sin" in names(trace) and "Linear" in names(trace)


def test_the_collectors_threshold_that_somebody_changed_stays() -> None:
    before = gc.get_threshold()
    try:
        with insitu.record():
            gc.set_threshold(123, 4, 5)
        assert gc.get_threshold() == (123, 4, 5)
    finally:
        gc.set_threshold(*before)


@pytest.mark.parametrize("verb", ["record", "watch"])
def test_switched_off(verb: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("INSITU", "0")
    model, call = Model(), nn.Module._call_impl
    with nothing_left(), getattr(insitu, verb)(model) as trace:
        assert nn.Module._call_impl is call
        assert torch._C._len_torch_function_stack() == 0
        for _ in range(2):
            trace.step()
            model(x)
    assert len(trace) == 0
    assert capsys.readouterr().out == ""


# --- only -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("only", "expected"),
    [
        ("encoder", [["encoder", ["encoder.0", "linear"], ["encoder.1", "relu"]]]),
        ("encoder.*", [["encoder.0", "linear"], ["encoder.1", "relu"]]),
        ("**.0", [["encoder.0", "linear"]]),
        (["head", "encoder.1"], [["encoder.1", "relu"], ["head", "linear"]]),
        ("**", [["Model", ["encoder", ["encoder.0", "linear"], ["encoder.1", "relu"]], ["head", "linear"]]]),
        ("h?ad", [["head", "linear"]]),
    ],
)
@pytest.mark.parametrize("subject", [False, True])
def test_only(only: Any, expected: list[Any], subject: bool) -> None:
    def short(node: Any) -> Any:
        return node.rpartition("functional.")[2] if isinstance(node, str) else [short(part) for part in node]

    model = Model()
    with insitu.record(model if subject else None, only=only) as trace:
        x.sin()
        model(x)
        x.cos()
    assert short(tree(trace)) == expected


def test_only_names_the_nearest() -> None:
    with pytest.raises(insitu.PatternError) as caught:
        insitu.record(Model(), only="encodr.*")
    assert "no module matches 'encodr.*'" in str(caught.value) and "did you mean 'encoder.*'?" in str(caught.value)
    with pytest.raises(insitu.PatternError, match="did you mean 'head'"):
        insitu.record(Model(), only=["encoder", "haed"])


@pytest.mark.parametrize("path", ["forward.x", "head.weight.grad", "encoder.*.weight"])
def test_only_that_names_values_says_how_to_record_them(path: str) -> None:
    with pytest.raises(insitu.PatternError, match=r"names values, not a module: insitu\.record_run"):
        insitu.record(Model(), only=path, keep=torch.Tensor.mean)


@pytest.mark.parametrize("only", ["a..b", ".a", "a."])
def test_only_that_is_no_pattern(only: str) -> None:
    with pytest.raises(insitu.PatternError, match="is not a path pattern"):
        insitu.record(only=only)


@pytest.mark.parametrize("only", [[3], [None], 3, [b"a"]])
def test_only_of_another_type(only: Any) -> None:
    with pytest.raises(insitu.InsituError):
        insitu.record(Model(), only=only)


def test_only_that_matched_nothing_warns() -> None:
    with pytest.warns(InsituWarning, match="'decoder'"), insitu.record(only="decoder"):
        Model()(x)


def test_only_that_was_never_called_warns() -> None:
    model = Model()
    with pytest.warns(InsituWarning, match="'spare'"), insitu.record(model, only=["spare", "head"]) as trace:
        model(x)
    assert list(trace.modules) == ["head"]


def test_what_did_not_match_does_not_hide_an_exception() -> None:
    error = RuntimeError("mine")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with nothing_left(), pytest.raises(RuntimeError, match="mine"), insitu.record(only="decoder"):
            raise error


# --- bad input ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["record", "watch"])
@pytest.mark.parametrize(
    ("option", "value", "nearest"), [("level", "function", "functions"), ("level", "ATEN", None), ("level", 3, None)]
)
def test_unknown_levels(verb: str, option: str, value: Any, nearest: str | None) -> None:
    with pytest.raises(insitu.ChoiceError) as caught:
        getattr(insitu, verb)(**{option: value})
    text = str(caught.value)
    assert repr(value) in text and all(repr(choice) in text for choice in LEVELS)
    assert nearest is None or f"did you mean '{nearest}'?" in text
    assert isinstance(caught.value, (ValueError, insitu.InsituError))


def test_unknown_view() -> None:
    with pytest.raises(insitu.ChoiceError) as caught:
        insitu.watch(view="tabel")
    text = str(caught.value)
    assert "'tabel'" in text and "'tree'" in text and "'code'" in text and "did you mean 'table'?" in text


@pytest.mark.parametrize("verb", ["record", "watch"])
@pytest.mark.parametrize("subject", [3, nn.Linear, [Model()], x, object()])
def test_subjects_that_are_none(verb: str, subject: Any) -> None:
    with pytest.raises(insitu.SubjectError) as caught:
        getattr(insitu, verb)(subject)
    assert f"insitu.{verb}" in str(caught.value) and "torch.nn.Module" in str(caught.value)
    assert isinstance(caught.value, TypeError)
    if subject is nn.Linear:
        assert "pass an instance, Linear(...)" in str(caught.value)


def test_a_subject_that_cannot_be_printed() -> None:
    class Mute:
        def __repr__(self) -> str:
            raise RuntimeError("do not print")

    with pytest.raises(insitu.SubjectError, match="Mute"):
        insitu.record(Mute())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("record", "example", "name"),
    [
        (insitu.record, r"insitu\.record\(\.\.\.\) as trace:`, then `trace\.calls`", "calls"),
        (insitu.record_run, r"insitu\.record_run\(\.\.\.\) as live:`, then `live\.paths`", "paths"),
    ],
)
def test_error_names_the_with_statement_that_was_forgotten(record: Any, example: str, name: str) -> None:
    session = record(torch.nn.Linear(3, 2))
    with pytest.raises(AttributeError, match=f"`with {example}"):
        getattr(session, name)
    with pytest.raises(AttributeError, match="object has no attribute 'nosuch'"):
        session.nosuch  # noqa: B018
    assert not hasattr(session, "_private")


def test_no_subject_is_fine() -> None:
    with insitu.record(None) as trace:
        x.sin()
    assert names(trace) == ["sin"]


# --- failures of the tool itself ------------------------------------------------------------------------------------

BROKEN = {
    "names": "insitu.capture.names.ModuleNames.learn",
    "settings": "insitu.capture.names.settings",
    "codes": "insitu.capture.sites.Codes.learn",
    "function callees": "insitu.capture.ops.function_callee",
    "operator callees": "insitu.capture.ops.operator_callee",
    "layouts": "insitu.capture.tensors.layout_unrecorded",
    "statistics": "insitu.capture.statistics.flat_floats",
}


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("subject", [False, True])
def test_a_failure_inside_is_reported_once_and_the_run_goes_on(
    name: str, strict: bool, subject: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*args: Any, **kwargs: Any) -> Any:
        calls.append(1)
        raise ArithmeticError("the tool is broken")

    class Taking(Model):
        def forward(self, x: Tensor, *rest: Any) -> Any:  # type: ignore[override]
            return [super().forward(x), *[part.sin() for part in (x, x)]]

    torch.manual_seed(0)
    model, calls = Taking(), []
    expected = bits(model(x, object(), [1, object()]))
    for callees in ("FUNCTION_CALLEES", "OPERATOR_CALLEES"):  # as if nothing had been met before
        monkeypatch.setattr(f"insitu.capture.ops.{callees}", {})
    monkeypatch.setattr(BROKEN[name], broken)
    with nothing_left(), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("error" if strict else "always")
        with insitu.record(model if subject else None, level="aten", keep="stats") as trace:
            for _ in range(3):
                assert bits(model(x, object(), [1, object()])) == expected
    if not calls:
        assert subject and name in ("names",)  # with a subject, all names are known beforehand
        return
    told = capsys.readouterr().err.splitlines() if strict else [str(item.message) for item in warned]
    assert 1 <= len(told) <= 3 and len(set(told)) == len(told)
    assert all("insitu" in text and "the tool is broken" in text for text in told)
    assert all(item.category is InsituWarning for item in warned)
    assert troubles(trace) == told


def test_a_view_that_raises_is_reported_once() -> None:
    class Bad:
        def begin(self) -> list[Any]:
            return []

        def __call__(self, event: Any) -> list[Any]:
            raise ArithmeticError("the view is broken")

        def finish(self) -> list[Any]:
            return []

    model = Model()
    expected = model(x)
    session = insitu.watch(model, view=Bad(), file=io.StringIO())  # type: ignore[arg-type]
    with nothing_left(), pytest.warns(InsituWarning, match="the view is broken") as warned, session:
        assert torch.equal(model(x), expected)
        model(x)
    assert len(warned) == 1


@pytest.mark.parametrize("when", ["begin", "finish"])
def test_a_view_that_raises_at_the_ends(when: str) -> None:
    class Bad:
        def begin(self) -> list[Any]:
            if when == "begin":
                raise ArithmeticError("the view is broken")
            return []

        def __call__(self, event: Any) -> list[Any]:
            return []

        def finish(self) -> list[Any]:
            if when == "finish":
                raise ArithmeticError("the view is broken")
            return []

    model = Model()
    session = insitu.watch(model, view=Bad(), file=io.StringIO())  # type: ignore[arg-type]
    with nothing_left(), pytest.warns(InsituWarning, match="the view is broken"), session:
        model(x)


def test_a_subject_that_is_not_called_is_told() -> None:
    with pytest.warns(InsituWarning, match="was not called"), insitu.record(Model()):
        x.sin()


@pytest.mark.filterwarnings("always")
@pytest.mark.parametrize("only", [None, "inner"])
def test_a_block_that_raises_is_not_told_that_its_subject_was_not_called(
    only: str | None, recwarn: pytest.WarningsRecorder
) -> None:
    model = nn.Sequential()
    model.inner = nn.Linear(3, 3)
    with contextlib.suppress(LookupError), insitu.record(model, only=only):
        raise LookupError
    assert recwarn.list == []


@pytest.mark.parametrize("session", [insitu.record(), insitu.guard(), insitu.watch()], ids=["record", "guard", "watch"])
def test_a_session_that_ends_before_it_begins_says_so(session: Any) -> None:
    with pytest.raises(insitu.InsituError, match="has not begun, or has ended already"):
        session.__exit__(None, None, None)


def test_a_container_that_is_never_called_is_told_with_what_is_in_it() -> None:
    model = nn.Sequential()
    model.inner = nn.ModuleList([nn.Linear(3, 3)])
    model.forward = lambda x: model.inner[0](x)  # type: ignore[method-assign, index, operator]
    told = pytest.warns(InsituWarning, match=r"matches 'inner' \(inner\.\* is what is in it\)")
    with told as warned, insitu.record(only="inner"):
        model(x)
    assert warned[0].filename == __file__


def test_a_file_that_is_closed() -> None:
    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError("nobody reads")

    model = Model()
    expected = model(x)
    with nothing_left(), warnings.catch_warnings():
        warnings.simplefilter("ignore", InsituWarning)
        with insitu.watch(model, file=Closed()):
            assert torch.equal(model(x), expected)


def test_an_error_of_the_user_is_not_hidden_by_a_broken_file() -> None:
    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            if "\n" in text or text:
                raise BrokenPipeError("nobody reads")
            return 0

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InsituWarning)
        with pytest.raises(LookupError, match="mine"), insitu.watch(file=Closed()):
            x.sin()
            raise LookupError("mine")


# --- watch ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("view", ["tree", "code", "table"])
def test_watch_prints_and_changes_nothing(view: str) -> None:
    torch.manual_seed(0)
    model, file = Model(), io.StringIO()
    expected = bits(model(x))
    with nothing_left(), insitu.watch(model, view=view, file=file, color=False, width=100):
        assert bits(model(x)) == expected
    text = file.getvalue()
    assert "Linear" in text or "addmm" in text
    assert "\x1b" not in text


def test_watch_keeps_what_raised() -> None:
    file, model = io.StringIO(), Model()
    with pytest.raises(RuntimeError), insitu.watch(model, file=file, color=False):
        model(torch.ones(2, 4))
    assert "encoder" in file.getvalue()


def test_about() -> None:
    with insitu.record(Model(), level="aten") as trace:
        pass
    assert (
        trace.about["subject"] == "Model"
        and trace.about["level"] == "aten"
        and trace.about["torch"] == torch.__version__
    )
    assert len(trace) == 0 and trace.calls == []


def test_in_a_fork() -> None:
    program = """if True:
        import os, torch, insitu
        from torch import nn
        torch.set_num_threads(1)
        model, x = nn.Linear(3, 3), torch.ones(1, 3)
        with insitu.record(model) as trace:
            model(x)
            child = os.fork()
            if child == 0:
                model(x)
                os._exit(0 if len(trace) >= 2 else 1)
            assert os.waitpid(child, 0)[1] == 0
        assert len(trace.find("**", kind="module")) == 1, len(trace)
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stderr) == (0, "")


# --- what is known of modules ---------------------------------------------------------------------------------------


def test_a_model_that_is_gone_before_the_end_is_known_all_the_same() -> None:
    def work() -> None:
        nn.Sequential(nn.Linear(3, 4))(x)

    with insitu.record() as trace:
        work()
    assert trace.modules["0"].settings["out_features"] == 4
    assert trace.modules[""].parameters == 16


def test_a_trace_can_be_printed_while_it_is_recorded() -> None:
    model = nn.Linear(3, 4)
    with insitu.record(model) as trace:
        model(x)
        assert "Linear(3 → 4)" in str(trace)


def test_a_file_of_watched_lines_is_for_its_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with insitu.watch(file=tmp_path / "lines.txt"):
            torch.ones(2) + 1
    finally:
        os.umask(before)
    assert (tmp_path / "lines.txt").stat().st_mode & 0o777 == 0o600


def test_keep_values_keeps_the_values_of_every_tensor() -> None:
    with insitu.record(keep="values") as trace:
        torch.ones(2).add(1)
    assert trace.calls[-1].outputs[0].kept.tolist() == [2.0, 2.0]


def test_watch_takes_the_options_of_its_view() -> None:
    model, file = nn.Linear(3, 4), io.StringIO()
    with insitu.watch(model, inputs=True, file=file):
        model(torch.ones(2, 3))
    assert "f32[2, 4]  ← f32[2, 3]" in file.getvalue()
    with pytest.raises(insitu.ChoiceError, match="the view 'code' has no option 'inputs': it has succinct, native"):
        insitu.watch(model, view="code", inputs=True)
    with pytest.raises(insitu.ChoiceError, match="the view 'tree' has no option 'inptus'"):
        insitu.watch(model, inptus=True)


def test_watch_ends_with_a_footer_and_the_first_nan() -> None:
    model, file = nn.Sequential(nn.Linear(3, 4), nn.ReLU()), io.StringIO()
    with insitu.watch(model, keep="stats", file=file):
        for step in range(6):
            model(torch.full((2, 3), float("nan") if step == 4 else 1.0))
    lines = file.getvalue().splitlines()
    first = [number for number, line in enumerate(lines) if line.startswith("first NaN: ")]
    assert len(first) == 2 and lines[first[0]] == lines[first[1]] and first[1] == len(lines) - 2
    assert "step 4" in lines[first[0]] and lines[first[0]].endswith("an input already contained it")
    assert lines[-1].startswith("30 calls · ") and lines[-1].endswith("NaN in 5 calls")
    assert sum("calls ·" in line for line in lines) == 1


# --- the exception that ends a block --------------------------------------------------------------------------------


def test_a_trace_explains_the_exception_that_ended_it_even_in_a_file(tmp_path: Path) -> None:
    model = nn.Embedding(4, 2)
    with pytest.raises(IndexError) as caught, nothing_left(), insitu.record() as trace:
        model(torch.arange(6))
    explained = str(insitu.explain(caught.value))
    assert "holds 0 … 5" in explained
    assert str(trace.explanation) == explained
    insitu.save(trace, tmp_path / "failed.h5")
    again = insitu.load(tmp_path / "failed.h5")
    assert isinstance(again, insitu.Trace)
    assert str(again.explanation) == explained


def test_the_explanation_is_made_while_the_tensors_are_alive() -> None:
    with contextlib.suppress(IndexError), insitu.record() as trace:
        nn.Embedding(4, 2)(torch.arange(6))
    gc.collect()
    assert "holds 0 … 5" in str(trace.explanation)


def test_a_trace_that_ended_well_has_no_explanation() -> None:
    with insitu.record() as trace, contextlib.suppress(RuntimeError):
        x @ x
    assert trace.explanation is None
    with contextlib.suppress(KeyboardInterrupt), insitu.record() as trace:
        raise KeyboardInterrupt
    assert trace.explanation is None


def test_an_error_of_a_guard_inside_explains_itself() -> None:
    with contextlib.suppress(insitu.NonFiniteError), insitu.record() as trace, insitu.guard():
        torch.zeros(2) / 0
    assert trace.explanation is not None and "division by zero" in trace.explanation.message


def test_an_explanation_that_fails_leaves_the_exception_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(error: BaseException) -> Any:
        raise OSError("broken")

    monkeypatch.setattr("insitu.session.record.explanation_for", fail)
    told = pytest.warns(InsituWarning, match="explaining the exception")
    with told, pytest.raises(ValueError, match="own"), insitu.record() as trace:
        raise ValueError("own")
    assert trace.explanation is None
