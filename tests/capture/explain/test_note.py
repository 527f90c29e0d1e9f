"""Notes of exceptions: when they are attached, what they keep, how they are read."""

from __future__ import annotations

import copy
import gc
import io
import logging
import os
import pickle
import subprocess
import sys
import threading
import time
import traceback
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.failing import ATTENTION, EXPLAINED, Program, caught, failure, note_of, recorded

import insitu
from insitu.capture.explain import build_failure
from insitu.capture.explain.note import UNREAD, LazyNote
from insitu.capture.live import CLEAR_AT
from insitu.capture.nestings import Nestings


def test_explanation_is_made_when_the_note_is_read(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    original = build_failure.explanation
    monkeypatch.setattr(build_failure, "explanation", lambda moment: made.append(1) or original(moment))
    error = caught(program(ATTENTION)["run"])
    (note,) = error.__notes__
    assert made == []
    assert str.__str__(note + "") == UNREAD
    assert str(note) == f"{note}" == str(note)
    assert len(made) == 1


def test_explanation_is_made_at_once_for_an_exception_that_ends_the_block(program: Program) -> None:
    with pytest.raises(RuntimeError) as ended, insitu.record() as trace:
        program(ATTENTION)["run"]()
    assert trace.explanation is not None and trace.explanation.note == note_of(ended.value) == EXPLAINED


def test_exception_keeps_its_identity_and_arguments(program: Program) -> None:
    class Own(Exception):
        pass

    own = Own("a", 1)

    def run() -> None:
        raise own

    error = recorded(run)
    assert error is own
    assert error.args == ("a", 1)
    assert len(error.__notes__) == 1


def test_nested_sessions_add_one_note(program: Program) -> None:
    scope = program(ATTENTION)

    def nested() -> None:
        with insitu.record(scope["model"]), insitu.record(level="aten"), insitu.watch(file=nowhere):
            scope["run"]()

    with open(os.devnull, "w") as nowhere:
        assert note_of(failure(nested)) == EXPLAINED


def test_exception_caught_inside_the_block_has_a_note(program: Program) -> None:
    run = program(ATTENTION)["run"]
    with insitu.record() as trace:
        error = failure(run)
        assert note_of(error) == EXPLAINED
        after = torch.ones(2) + 1
    assert after.tolist() == [2.0, 2.0]
    assert trace.calls[-1].name == "torch.Tensor.add"
    assert [call.raised for call in trace.calls if call.kind == "function" and call.raised] == ["RuntimeError"]


def test_reading_a_note_does_not_change_the_trace(program: Program) -> None:
    run = program(ATTENTION)["run"]
    with insitu.record() as trace:
        error = failure(run)
        before = [(call.id, call.name, call.inputs[0].producer if call.inputs else None) for call in trace.calls]
        str(error.__notes__[0])
        after = [(call.id, call.name, call.inputs[0].producer if call.inputs else None) for call in trace.calls]
    assert before == after


def test_note_is_pickled_as_text(program: Program) -> None:
    error = recorded(program(ATTENTION)["run"])
    sent = pickle.loads(pickle.dumps(error))
    assert type(sent.__notes__[0]) is str
    assert sent.__notes__ == [EXPLAINED]
    assert sent.args == error.args
    assert copy.copy(error.__notes__[0]) == EXPLAINED
    assert copy.deepcopy(error.__notes__[0]) == EXPLAINED


def test_tracebacks_logs_and_reports_show_the_note(program: Program, caplog: pytest.LogCaptureFixture) -> None:
    error = recorded(program(ATTENTION)["run"])
    assert EXPLAINED in "".join(traceback.format_exception(error))
    with caplog.at_level(logging.ERROR):
        logging.getLogger("model").error("failed", exc_info=error)
    assert EXPLAINED in caplog.text
    report = [line[1:].strip() for line in str(pytest.ExceptionInfo.from_exception(error).getrepr()).splitlines()]
    assert [line for line in EXPLAINED.splitlines() if line.strip() not in report] == []


def test_exceptions_for_control_flow_get_no_note() -> None:
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
def test_exceptions_that_reject_notes_pass_unchanged(kind: type[Exception]) -> None:
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
def test_exceptions_that_redefine_args_pass_unchanged(session: Callable[[], Any]) -> None:
    with pytest.raises(OwnArguments) as raised, session():
        Raising()(torch.ones(1))
    assert "in forward    Raising" in note_of(raised.value)


def test_exceptions_that_redefine_args_pass_through_watched_functions(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(OwnArguments):
        raising()
    assert "raised OwnArguments" in capsys.readouterr().out


def test_error_while_explaining_becomes_a_short_note(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(moment: Any) -> Any:
        raise RuntimeError("broken")

    monkeypatch.setattr(build_failure, "explanation", broken)
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


def test_locals_that_the_user_holds_stay_unchanged(program: Program) -> None:
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


def test_f_locals_that_another_frame_holds_are_not_emptied(program: Program) -> None:
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


def test_deleted_tensor_is_not_kept_alive_by_a_read_note() -> None:
    with insitu.record():
        tensor = torch.ones(5)
        gone = weakref.ref(tensor)
        try:
            tensor @ torch.ones(3)
        except RuntimeError as error:
            note_of(error)
        del tensor
        assert gone() is None


def test_large_containers_are_kept_as_a_word(program: Program) -> None:
    scope = program("""
        import torch
        def run():
            deep = [[[[0] * 64] * 64] * 32] * 16
            many = [[torch.ones(1)] * 30] * 30
            batch = {"ids": [torch.ones(3), torch.ones(4)]}
            raise KeyError("x", deep, many, batch)
    """)

    def watched() -> None:
        with insitu.watch(file=io.StringIO()):
            scope["run"]()

    began = time.perf_counter()
    error = failure(watched)
    assert time.perf_counter() - began < 0.5
    noted = error.__notes__[0]._moment.scene.own.names
    assert (noted["deep"], noted["many"]) == ("list, len 16", "list, len 30")
    assert [value() is not None for value in noted["batch"]["ids"]] == [True, True]


def test_exception_raised_again_elsewhere_gets_a_new_explanation(program: Program) -> None:
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


def test_exception_of_a_worker_thread_keeps_its_explanation(program: Program) -> None:
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


def test_unread_notes_share_one_copy_of_the_tape() -> None:
    with open(os.devnull, "w") as nowhere, insitu.watch(file=nowhere):
        errors = [failure(lambda: torch.ones(2) + torch.ones(3)) for _ in range(5)]
        for _ in range(CLEAR_AT):
            torch.ones(1)
        tapes = {id(error.__notes__[0]._moment.tape) for error in errors}
    assert len(tapes) == 1


def test_exception_is_freed_with_its_last_reference() -> None:
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


def test_live_session_that_clears_its_tape_keeps_what_a_note_needs(program: Program) -> None:
    scope = program(ATTENTION)
    with open(os.devnull, "w") as nowhere, insitu.watch(file=nowhere):
        first = failure(scope["run"])
        for _ in range(CLEAR_AT):  # each call takes several slots: the tape is cleared meanwhile
            torch.ones(1)
        second = failure(scope["run"])
    assert note_of(first) == note_of(second) == EXPLAINED


def test_exceptions_of_watched_functions_have_a_note(program: Program, capsys: pytest.CaptureFixture[str]) -> None:
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


def test_exceptions_of_other_threads_have_a_note(program: Program) -> None:
    scope = program(ATTENTION)
    found: list[Exception] = []
    with insitu.record(scope["model"]):
        thread = threading.Thread(target=lambda: found.append(failure(scope["run"])))
        thread.start()
        thread.join()
    shown = note_of(found[0])
    assert "model.py:10 in forward    GPT ▸ h.3 ▸ h.3.attn" in shown


def test_record_run_explains_from_the_frames(program: Program) -> None:
    scope = program(ATTENTION)

    def inside() -> None:
        with insitu.record_run(scope["model"], only="h.3.attn"):
            scope["run"]()

    shown = note_of(failure(inside))
    assert "model.py:10 in forward    GPT ▸ h.3 ▸ h.3.attn" in shown
    assert "╰ f32[6, 24, 25]" in shown


def test_no_note_with_insitu_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INSITU", "0")
    assert not hasattr(recorded(lambda: torch.ones(2) + torch.ones(3)), "__notes__")


PLAINLY = "import torch\na, b = torch.ones(2, 3), torch.ones(4, 5)\na @ b\n"


INSIDE = "import insitu, torch\nwith insitu.record():\n    a, b = torch.ones(2, 3), torch.ones(4, 5)\n    a @ b\n"


@pytest.mark.parametrize(("words", "text", "line"), [([], INSIDE, 4), (["-m", "insitu", "run"], PLAINLY, 3)])
def test_script_shows_the_note_on_stderr(tmp_path: Path, words: list[str], text: str, line: int) -> None:
    script = tmp_path / "script.py"
    script.write_text(text)
    done = subprocess.run([sys.executable, *words, str(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"\n  script.py:{line} in <module>\n" in done.stderr
    assert "✗ the last dimension of left is 3, right has 4 rows" in done.stderr


def test_note_behaves_as_its_text() -> None:
    (note,) = recorded(lambda: torch.ones(2) + torch.ones(3)).__notes__
    assert type(note) is LazyNote
    assert "dimension -1" in note
    assert note.split("\n") == note.splitlines() == str(note).splitlines()
    assert repr(note) == repr(str(note))
    assert f"{note:>10}" == str(note)


def test_explanation_does_not_look_for_the_loops_of_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """To find the loops around a site, the whole file is parsed: that takes longer than the explanation."""
    monkeypatch.setattr(Nestings, "_files", {})
    with pytest.raises(RuntimeError) as raised, insitu.record():
        torch.ones(2) @ torch.ones(3)
    assert insitu.explain(raised.value).misfits
    assert not Nestings._files
