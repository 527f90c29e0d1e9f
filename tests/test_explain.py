"""Exceptions that explain themselves: whole programs, and the notes that their exceptions carry."""

from __future__ import annotations

import copy
import gc
import linecache
import logging
import os
import pickle
import subprocess
import sys
import threading
import time
import traceback
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import torch

import insitu
from insitu.capture.explain import evidence
from insitu.capture.explain.note import UNREAD, LazyNote
from insitu.capture.live import CLEAR_AT
from insitu.errors import SubjectError
from insitu.verbs.explain import explain

Program = Callable[[str], dict[str, Any]]


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    """Runs a text as the file model.py and gives its names."""
    path = tmp_path / "model.py"

    def run(text: str) -> dict[str, Any]:
        path.write_text(dedent(text), "utf-8")
        linecache.checkcache(str(path))
        scope: dict[str, Any] = {"__name__": "model"}
        exec(compile(path.read_text("utf-8"), str(path), "exec", dont_inherit=True), scope)
        return scope

    yield run
    linecache.clearcache()


def failure(run: Callable[[], Any]) -> Exception:
    """The exception that something raises."""
    try:
        run()
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def recorded(run: Callable[[], Any], **options: Any) -> Exception:
    """The exception that something raises while it is recorded."""

    def inside() -> None:
        with insitu.record(**options):
            run()

    return failure(inside)


def note_of(error: BaseException) -> str:
    """The one note of an exception."""
    (note,) = error.__notes__
    return str(note)


ATTENTION = """
    import torch
    from torch import nn

    def make_bias(T):
        return torch.zeros(6, T, T + 1)

    class Attention(nn.Module):
        def forward(self, q, k, bias):
            att = (q @ k.transpose(-2, -1)) / 4.0 + bias
            return att

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.attn = Attention()
        def forward(self, q, k, bias):
            return self.attn(q, k, bias)

    class GPT(nn.Module):
        def __init__(self):
            super().__init__()
            self.h = nn.ModuleList([Block() for _ in range(4)])
        def forward(self, q, k):
            return self.h[3](q, k, make_bias(24))

    model = GPT()
    def run():
        return model(torch.randn(2, 6, 24, 16), torch.randn(2, 6, 24, 16))
"""
EXPLAINED = """\
  model.py:10 in forward    GPT ▸ h.3 ▸ h.3.attn
    10 │ att = (q @ k.transpose(-2, -1)) / 4.0 + bias
                ┬   ┬                            ┬───
                │   ╰ f32[2, 6, 24, 16]          ╰ f32[6, 24, 25]
                ╰ f32[2, 6, 24, 16]
    left   2, 6, 24, 24    (q @ k.transpose(-2, -1)) / 4.0
    right     6, 24, 25    bias
                     ✗ dimension -1: 24 and 25 differ and neither is 1
    bias  made at model.py:6   torch.zeros(6, T, T + 1)"""


@pytest.mark.parametrize("level", ["functions", "aten"])
def test_a_broadcast_that_fails_is_explained_as_designed(program: Program, level: str) -> None:
    assert note_of(recorded(program(ATTENTION)["run"], level=level)) == EXPLAINED


def test_the_layer_is_named_where_it_is_called(program: Program) -> None:
    run = program("""
        import torch
        from torch import nn
        net = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(9, 2))
        x = torch.ones(3, 5)
        def run():
            return net(x)
    """)["run"]
    expected = """\
  model.py:7 in run    Sequential ▸ 2
     7 │ return net(x)
                    ┬
                    ╰ f32[3, 5]
    input   3, 8
    weight  2, 9    2.weight
               ✗ the last dimension of input is 8, the layer takes 9"""
    assert note_of(recorded(run)) == expected


def test_parameters_have_their_path_and_operands_the_line_that_made_them(program: Program) -> None:
    run = program("""
        import torch
        from torch import nn
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(12, 4)
            def forward(self, x):
                x = x.flatten(1)
                return self.fc(x)
        def run():
            return Net()(torch.ones(8, 2, 5))
    """)["run"]
    expected = """\
  model.py:10 in forward    Net ▸ fc
    10 │ return self.fc(x)
                        ┬
                        ╰ f32[8, 10]
    input   8, 10    x
    weight  4, 12    fc.weight
               ✗ the last dimension of input is 10, the layer takes 12
    x          made at model.py:9   x.flatten(1)
    fc.weight  made at model.py:7   nn.Linear(12, 4)"""
    assert note_of(recorded(run)) == expected


def test_an_expression_over_several_lines_is_shown_whole(program: Program) -> None:
    run = program("""
        import torch
        a, b = torch.ones(2, 3), torch.ones(2, 4)
        def run():
            return torch.cat(
                [a,
                 b],
                dim=0,
            )
    """)["run"]
    shown = note_of(recorded(run))
    assert "     5 │ return torch.cat(" in shown
    assert "     9 │ )" in shown
    assert "✗ dimension 1: 3 and 4 differ; only dimension 0 may" in shown


def test_of_a_loop_this_round_is_shown_and_not_the_last(program: Program) -> None:
    run = program("""
        import torch
        def run():
            for n in (3, 3, 5):
                a = torch.ones(2, n)
                a = a * 2 + torch.ones(3) * 1
    """)["run"]
    shown = note_of(recorded(run))
    assert "╰ f32[2, 5]" in shown
    assert "f32[2, 3]" not in shown


def test_what_was_given_from_outside_says_so(program: Program) -> None:
    scope = program("""
        import torch
        from torch import nn
        class Net(nn.Module):
            def forward(self, x):
                return x.view(7, -1)
        net, data = Net(), torch.ones(3, 5)
        def run():
            return net(data)
    """)
    shown = note_of(recorded(scope["run"]))
    assert "3 × 5 = 15 elements do not fit into 7 × -1: 15 is not a multiple of 7" in shown
    assert "    x  passed to Net at model.py:9   net(data)" in shown


def test_indices_out_of_range_are_told_with_where_they_come_from(program: Program) -> None:
    run = program("""
        import torch
        from torch import nn
        def tokens():
            return torch.arange(1, 11)
        def run():
            ids = tokens().reshape(2, 5)
            return nn.Embedding(10, 4)(ids)
    """)["run"]
    shown = note_of(recorded(run))
    assert "✗ ids holds 1 … 10; weight has 10 rows (0 … 9)" in shown
    assert "its values made at model.py:5   torch.arange(1, 11)" in shown


def test_the_operand_at_fault_is_marked_also_where_the_line_has_made_it(program: Program) -> None:
    run = program("""
        import torch
        from torch import nn
        word, place = nn.Embedding(90, 2), nn.Embedding(64, 2)
        def run(ids):
            return word(ids) + place(torch.arange(ids.shape[1]))
    """)["run"]
    lines = note_of(recorded(lambda: run(torch.zeros(2, 70, dtype=torch.long)))).splitlines()
    assert lines[1:5] == [
        "     6 │ return word(ids) + place(torch.arange(ids.shape[1]))",
        "                     ┬──          ┬─────────────────────────",
        "                     │            ╰ i64[70]",
        "                     ╰ i64[2, 70]",
    ]


def test_of_a_crowded_line_the_operands_are_marked(program: Program) -> None:
    run = program("""
        import torch
        def run(a, b, c, d, e):
            return a * b + c * d + (a - b) @ e
    """)["run"]
    shown = note_of(recorded(lambda: run(*[torch.ones(2, 2)] * 4, torch.ones(3, 3)))).splitlines()
    assert shown[1:5] == [
        "     4 │ return a * b + c * d + (a - b) @ e",
        "                                 ┬────    ┬",
        "                                 │        ╰ f32[3, 3]",
        "                                 ╰ f32[2, 2]",
    ]


BACKWARD = """
    import torch
    def changed():
        x = torch.ones(3, requires_grad=True)
        y = x.exp()
        y += 1
        y.sum().backward()
    def twice():
        x = torch.ones(3, requires_grad=True)
        loss = x.exp().sum()
        loss.backward()
        loss.backward()
    def lost():
        x = torch.ones(3, requires_grad=True)
        y = x.detach() * 2
        loss = y.sum()
        loss.backward()
    def vector():
        x = torch.ones(3, requires_grad=True)
        y = x * 2
        y.backward()
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2
        @staticmethod
        def backward(ctx, grad):
            part = grad[:2]
            return part
    def wrong():
        x = torch.ones(3, requires_grad=True)
        loss = Double.apply(x).sum()
        loss.backward()
    def resized():
        x, w = torch.ones(2, 3), torch.ones(3, 4, requires_grad=True)
        y = (x * w.sum()) @ w
        w.data = torch.ones(7, 7)
        y.sum().backward()
"""


@pytest.mark.parametrize("level", ["functions", "aten"])
@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("changed", ["in place at model.py:6           y += 1", "for the gradient of model.py:5   x.exp()"]),
        ("twice", ["freed by the backward at model.py:11   loss.backward()"]),
        ("lost", ["lost at model.py:15   x.detach()"]),
        ("vector", ["✗ backward() needs a single number", "made at model.py:20   x * 2"]),
        ("wrong", ["model.py:28   grad[:2]"]),
    ],
)
def test_errors_in_backward_name_the_forward_line(program: Program, level: str, name: str, told: list[str]) -> None:
    shown = note_of(recorded(program(BACKWARD)[name], level=level))
    assert [text for text in told if text not in shown] == []


def test_an_operator_that_fails_in_backward_names_the_forward_call(program: Program) -> None:
    shown = note_of(recorded(program(BACKWARD)["resized"], level="aten"))
    assert "✗ the last dimension of left is 4, right has 7 rows" in shown
    assert "    backward  of the call at model.py:36   (x * w.sum()) @ w" in shown


PLAIN = """
    import numpy as np, torch
    from torch import nn
    def unpack():
        batch = (torch.ones(2), torch.ones(3), torch.ones(4))
        x, y = batch
    def missing():
        state = {"weight": torch.ones(2)}
        return state["bias"]
    class Net(nn.Module):
        def forward(self, x):
            h = self.feed(x)
            return x + h
        def feed(self, x):
            x * 2
    def none():
        return Net()(torch.ones(2))
    def arrays():
        a, b = np.ones((2, 3)), np.ones((4, 3))
        return a @ b
    def checked():
        x = torch.ones(2, 3)
        assert x.shape[1] == 4, "four are needed"
    def unpack_part():
        batch = torch.ones(2), torch.ones(1, 4)
        x, (y, z) = batch
    class Empty(nn.Module):
        def forward(self, x):
            x * 2
    def empty():
        x, feed = torch.ones(2), Empty()
        h = feed(x)
        return x + h
"""


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("unpack", ["model.py:6 in unpack", "╰ f32[2], f32[3], f32[4]", "✗ three values for two names"]),
        ("unpack_part", ["value  1, 4", "✗ one value for two names: a tensor gives as many as its first dimension"]),
        ("empty", ["✗ h is None: Empty.forward returned nothing"]),
        ("missing", ["model.py:9 in missing", "╰ weight: f32[2]"]),
        ("none", ["model.py:13 in forward    Net", "╰ None", "h  assigned at model.py:12   self.feed(x)"]),
        ("arrays", ["╰ np f64[2, 3]", "✗ the last dimension of left is 3, right has 4 rows"]),
        ("checked", ["╰ f32[2, 3]", "x  made at model.py:22   torch.ones(2, 3)"]),
    ],
)
def test_errors_of_plain_python_show_the_tensors_of_the_line(program: Program, name: str, told: list[str]) -> None:
    shown = note_of(recorded(program(PLAIN)[name]))
    assert [text for text in told if text not in shown] == []


def test_nothing_is_made_until_somebody_reads(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    original = evidence.explanation
    monkeypatch.setattr(evidence, "explanation", lambda moment: made.append(1) or original(moment))
    error = recorded(program(ATTENTION)["run"])
    (note,) = error.__notes__
    assert made == []
    assert str.__str__(note + "") == UNREAD
    assert str(note) == f"{note}" == str(note)
    assert len(made) == 1


def test_the_exception_itself_is_as_it_was(program: Program) -> None:
    class Own(Exception):
        pass

    own = Own("a", 1)

    def run() -> None:
        raise own

    error = recorded(run)
    assert error is own
    assert error.args == ("a", 1)
    assert len(error.__notes__) == 1


def test_there_is_one_note_however_many_have_seen_it(program: Program) -> None:
    scope = program(ATTENTION)

    def nested() -> None:
        with insitu.record(scope["model"]), insitu.record(level="aten"), insitu.watch(file=nowhere):
            scope["run"]()

    with open(os.devnull, "w") as nowhere:
        assert note_of(failure(nested)) == EXPLAINED


def test_what_is_caught_inside_the_block_has_it_too(program: Program) -> None:
    run = program(ATTENTION)["run"]
    with insitu.record() as trace:
        error = failure(run)
        assert note_of(error) == EXPLAINED
        after = torch.ones(2) + 1
    assert after.tolist() == [2.0, 2.0]
    assert trace.calls[-1].name == "torch.Tensor.add"
    assert [call.raised for call in trace.calls if call.kind == "function" and call.raised] == ["RuntimeError"]


def test_reading_does_not_disturb_the_trace(program: Program) -> None:
    run = program(ATTENTION)["run"]
    with insitu.record() as trace:
        error = failure(run)
        before = [(call.id, call.name, call.inputs[0].producer if call.inputs else None) for call in trace.calls]
        str(error.__notes__[0])
        after = [(call.id, call.name, call.inputs[0].producer if call.inputs else None) for call in trace.calls]
    assert before == after


def test_it_goes_to_other_processes_as_text(program: Program) -> None:
    error = recorded(program(ATTENTION)["run"])
    sent = pickle.loads(pickle.dumps(error))
    assert type(sent.__notes__[0]) is str
    assert sent.__notes__ == [EXPLAINED]
    assert sent.args == error.args
    assert copy.copy(error.__notes__[0]) == EXPLAINED
    assert copy.deepcopy(error.__notes__[0]) == EXPLAINED


def test_tracebacks_logs_and_reports_show_it(program: Program, caplog: pytest.LogCaptureFixture) -> None:
    error = recorded(program(ATTENTION)["run"])
    assert EXPLAINED in "".join(traceback.format_exception(error))
    with caplog.at_level(logging.ERROR):
        logging.getLogger("model").error("failed", exc_info=error)
    assert EXPLAINED in caplog.text
    report = [line[1:].strip() for line in str(pytest.ExceptionInfo.from_exception(error).getrepr()).splitlines()]
    assert [line for line in EXPLAINED.splitlines() if line.strip() not in report] == []


def test_control_flow_is_left_alone() -> None:
    for kind in (KeyboardInterrupt, SystemExit, GeneratorExit, StopIteration, StopAsyncIteration):
        error = kind()
        with pytest.raises(kind), insitu.record():
            raise error
        assert not hasattr(error, "__notes__")


class Frozen(Exception):
    """An exception that cannot be changed."""

    def __setattr__(self, name: str, value: Any) -> None:
        raise TypeError("frozen")


class Odd(Exception):
    """An exception whose notes are not what they should be."""

    __notes__ = 3  # type: ignore[assignment]


@pytest.mark.parametrize("kind", [Frozen, Odd])
def test_exceptions_that_take_no_note_pass_as_they_are(kind: type[Exception]) -> None:
    with pytest.raises(kind), insitu.record():
        raise kind("x")


class OwnArguments(Exception):
    """An exception that calls something else its `args`."""

    args = None  # type: ignore[assignment]

    def __init__(self, args: Any) -> None:
        self.args = args


class Raising(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> None:
        raise OwnArguments({"key": x})


@insitu.watch
def raising() -> None:
    raise OwnArguments({"key": 1})


@pytest.mark.parametrize("session", [insitu.record, insitu.guard])
def test_exceptions_with_arguments_of_their_own_pass_as_they_are(session: Callable[[], Any]) -> None:
    with pytest.raises(OwnArguments) as raised, session():
        Raising()(torch.ones(1))
    assert "in forward    Raising" in note_of(raised.value)


def test_exceptions_with_arguments_of_their_own_pass_through_watched_functions(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(OwnArguments):
        raising()
    assert "raised OwnArguments" in capsys.readouterr().out


def test_an_error_of_ours_in_explaining_is_a_short_text(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(moment: Any) -> Any:
        raise RuntimeError("broken")

    monkeypatch.setattr(evidence, "explanation", broken)
    error = recorded(lambda: torch.ones(2) + torch.ones(3))
    assert note_of(error) == "(insitu cannot explain this: RuntimeError: broken)"


def test_no_tensor_is_kept_alive(program: Program) -> None:
    scope = program("""
        import torch
        kept = []
        def run(refs, ref):
            big = torch.ones(100)
            refs.append(ref(big))
            raise ValueError("no")
    """)
    refs: list[weakref.ref[Any]] = []
    errors: list[Exception] = []

    def block() -> None:
        with insitu.record():
            local = torch.ones(7)
            refs.append(weakref.ref(local))
            scope["run"](refs, weakref.ref)

    gc.disable()
    try:
        errors.append(failure(block))
        errors[0].__traceback__ = None
        assert [ref() for ref in refs] == [None, None]
        assert "model.py:7 in run" in note_of(errors[0])
    finally:
        gc.enable()


def test_what_locals_gave_the_user_stays_as_it_was(program: Program) -> None:
    scope = program("""
        import torch
        from torch import nn
        def function(session):
            kept = {"z": 1}
            seen = locals()
            later = torch.ones(2)
            try:
                with session():
                    raise RuntimeError(later.sum())
            except RuntimeError:
                pass
            return seen
        class Net(nn.Module):
            def forward(self, x):
                self.seen = vars()
                y = x + 1
                raise ValueError("x")
    """)
    assert list(scope["function"](insitu.record)) == ["session", "kept"]
    net, x = scope["Net"](), torch.ones(1)
    assert "Net" in note_of(recorded(lambda: net(x)))
    assert net.seen == {"self": net, "x": x}


def test_what_another_has_of_a_frame_is_not_emptied(program: Program) -> None:
    scope = program("""
        import sys
        def look():
            return sys._getframe(1).f_locals
        def run(found):
            number = 3
            found.append(look())
            raise ValueError("x")
    """)
    found: list[Any] = []
    recorded(lambda: scope["run"](found))
    assert found[0]["number"] == 3


def test_what_a_frame_goes_on_without_is_let_go() -> None:
    with insitu.record():
        tensor = torch.ones(5)
        gone = weakref.ref(tensor)
        try:
            tensor @ torch.ones(3)
        except RuntimeError as error:
            note_of(error)
        del tensor
        assert gone() is None


def test_of_large_containers_there_is_only_a_word(program: Program) -> None:
    scope = program("""
        import torch
        def run():
            deep = [[[[0] * 64] * 64] * 32] * 16
            many = [[torch.ones(1)] * 30] * 30
            batch = {"ids": [torch.ones(3), torch.ones(4)]}
            raise KeyError("x", deep, many, batch)
    """)
    began = time.perf_counter()
    error = recorded(scope["run"])
    assert time.perf_counter() - began < 0.5
    noted = error.__notes__[0]._moment.scene.own.names
    assert (noted["deep"], noted["many"]) == ("list, len 16", "list, len 30")
    assert [value() is not None for value in noted["batch"]["ids"]] == [True, True]


def test_values_that_have_changed_since_are_not_told(program: Program) -> None:
    run = program("""
        import torch
        def run(ids):
            return torch.nn.functional.embedding(ids, torch.ones(3, 2))
    """)["run"]
    same, other = torch.tensor([9]), torch.tensor([9])
    first, second = recorded(lambda: run(same)), recorded(lambda: run(other))
    other.fill_(1)
    assert "ids holds 9 … 9;" in note_of(first)
    assert "✗ torch.ones(3, 2) has 3 rows (0 … 2)" in note_of(second)


def test_an_exception_that_is_raised_again_elsewhere_is_explained_anew(program: Program) -> None:
    scope = program("""
        import insitu
        ERROR = ValueError("again")
        def one():
            with insitu.record():
                raise ERROR
        def two():
            with insitu.record():
                raise ERROR
        def passed():
            with insitu.record():
                try:
                    one()
                except ValueError as error:
                    raise error
    """)
    places = [note_of(failure(scope[name])).splitlines()[0] for name in ("one", "two", "passed")]
    assert places == ["  model.py:6 in one", "  model.py:9 in two", "  model.py:6 in one"]


def test_what_comes_from_a_worker_keeps_its_explanation(program: Program) -> None:
    scope = program("""
        import insitu, torch
        from concurrent.futures import ThreadPoolExecutor
        def work():
            with insitu.record():
                torch.ones(2) + torch.ones(3)
        def run():
            with ThreadPoolExecutor(1) as pool:
                pool.submit(work).result()
    """)
    assert note_of(recorded(scope["run"])).startswith("  model.py:6 in work")


def test_notes_that_wait_share_what_they_take_along() -> None:
    with open(os.devnull, "w") as nowhere, insitu.watch(file=nowhere):
        errors = [failure(lambda: torch.ones(2) + torch.ones(3)) for _ in range(5)]
        for _ in range(CLEAR_AT):
            torch.ones(1)
        tapes = {id(error.__notes__[0]._moment.tape) for error in errors}
    assert len(tapes) == 1


def test_the_exception_goes_when_the_last_name_of_it_goes() -> None:
    class Own(Exception):
        pass

    def run() -> None:
        raise Own("x")

    gc.disable()
    try:
        gone = weakref.ref(recorded(run))
        assert gone() is None
    finally:
        gc.enable()


def test_live_sessions_keep_what_a_note_needs_when_they_clear_their_tape(program: Program) -> None:
    scope = program(ATTENTION)
    with open(os.devnull, "w") as nowhere, insitu.watch(file=nowhere):
        first = failure(scope["run"])
        for _ in range(CLEAR_AT):  # each call takes several slots: the tape is cleared meanwhile
            torch.ones(1)
        second = failure(scope["run"])
    assert note_of(first) == note_of(second) == EXPLAINED


def test_watched_functions_explain_themselves(program: Program, capsys: pytest.CaptureFixture[str]) -> None:
    run = program("""
        import torch, insitu
        @insitu.watch
        def double(x):
            if x.dim() != 2:
                raise ValueError("two dimensions")
            return x * 2
        @insitu.watch("y")
        def followed(x):
            y = x.view(5)
            return y
    """)
    shown = note_of(failure(lambda: run["double"](torch.ones(3))))
    assert "model.py:6 in double" in shown
    shown = note_of(failure(lambda: run["followed"](torch.ones(3))))
    assert "model.py:10 in followed" in shown
    assert "╰ f32[3]" in shown
    capsys.readouterr()


def test_other_threads_explain_themselves(program: Program) -> None:
    scope = program(ATTENTION)
    found: list[Exception] = []
    with insitu.record(scope["model"]):
        thread = threading.Thread(target=lambda: found.append(failure(scope["run"])))
        thread.start()
        thread.join()
    shown = note_of(found[0])
    assert "model.py:10 in forward    GPT ▸ h.3 ▸ h.3.attn" in shown


def test_values_over_a_run_explain_from_the_frames(program: Program) -> None:
    scope = program(ATTENTION)

    def inside() -> None:
        with insitu.record_run(scope["model"], only="h.3.attn"):
            scope["run"]()

    shown = note_of(failure(inside))
    assert "model.py:10 in forward    GPT ▸ h.3 ▸ h.3.attn" in shown
    assert "╰ f32[6, 24, 25]" in shown


def test_switched_off_there_is_no_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INSITU", "0")
    assert not hasattr(recorded(lambda: torch.ones(2) + torch.ones(3)), "__notes__")


def test_explain_tells_what_the_note_tells(program: Program) -> None:
    error = recorded(program(ATTENTION)["run"])
    found = explain(error)
    assert found.note == EXPLAINED
    assert str(found).startswith("RuntimeError: The size of tensor a (24)")
    assert found.site is not None
    assert found.site.line == 10


def test_explain_works_without_any_session(program: Program) -> None:
    scope = program(ATTENTION)
    try:
        scope["run"]()
    except RuntimeError:
        found = explain()
    assert "model.py:10 in forward    GPT ▸ h.3 ▸ h.3.attn" in str(found)
    assert "╰ f32[6, 24, 25]" in str(found)


def test_explain_takes_the_last_exception_of_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    error = failure(lambda: torch.ones(2) + torch.ones(3))
    monkeypatch.setattr(sys, "last_value", error, raising=False)
    assert explain().error == "RuntimeError"


def test_explain_says_when_there_is_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(sys, "last_value", raising=False)
    monkeypatch.delattr(sys, "last_exc", raising=False)
    with pytest.raises(SubjectError, match="there is no exception to explain"):
        explain()
    with pytest.raises(SubjectError, match="str is not an exception"):
        explain("RuntimeError")  # type: ignore[arg-type]


PLAINLY = "import torch\na, b = torch.ones(2, 3), torch.ones(4, 5)\na @ b\n"
INSIDE = "import insitu, torch\nwith insitu.record():\n    a, b = torch.ones(2, 3), torch.ones(4, 5)\n    a @ b\n"


@pytest.mark.parametrize(("words", "text", "line"), [([], INSIDE, 4), (["-m", "insitu", "run"], PLAINLY, 3)])
def test_a_script_shows_it_on_stderr(tmp_path: Path, words: list[str], text: str, line: int) -> None:
    script = tmp_path / "script.py"
    script.write_text(text)
    done = subprocess.run([sys.executable, *words, str(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"\n  script.py:{line} in <module>\n" in done.stderr
    assert "✗ the last dimension of left is 3, right has 4 rows" in done.stderr


def test_notes_are_text_in_every_way_that_is_asked() -> None:
    (note,) = recorded(lambda: torch.ones(2) + torch.ones(3)).__notes__
    assert type(note) is LazyNote
    assert "dimension -1" in note
    assert note.split("\n") == note.splitlines() == str(note).splitlines()
    assert repr(note) == repr(str(note))
    assert f"{note:>10}" == str(note)


def test_what_no_call_has_made_is_told_by_where_its_name_was_assigned(program: Program) -> None:
    run = program("""
        import numpy as np, torch
        def load():
            return torch.from_numpy(np.ones((2, 3)))
        def run():
            left, right = load(), torch.ones(3, 2)
            return [part for part in (1,)] and left @ right
        def inner():
            part = load()
            return (lambda part: part.view(7))(torch.ones(3))
    """)
    shown = note_of(recorded(run["run"]))
    assert "✗ the dtypes differ: left is f64, right is f32" in shown
    assert "left   assigned at model.py:6   load()" in shown
    assert "left   assigned at model.py:4   torch.from_numpy(np.ones((2, 3)))" in shown
    shown = note_of(recorded(run["inner"]))
    assert "✗ 3 elements do not fit into 7" in shown
    assert "assigned" not in shown
