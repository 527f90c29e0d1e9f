"""Ctrl-C at any moment while a session begins or ends: nothing is left patched, and the interrupt arrives."""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.capture.oracle import nothing_left
from tests.faults.amount import amount
from tests.faults.interrupt import Interrupt
from torch import nn

import insitu
from insitu.capture.modules import patch
from insitu.capture.recorder import patience
from insitu.capture.variables.function_watch import own_probes
from insitu.session.signals import SignalShield


def ctrl_c(frame: Any) -> None:
    """What Python does when SIGINT has come."""
    signal.getsignal(signal.SIGINT)(signal.SIGINT, frame)  # type: ignore[operator, misc, arg-type]


def interrupted(work: Callable[[], Any], moment: int) -> bool:
    """Do something, with an interrupt at a moment; whether there was such a moment."""
    interrupt = Interrupt(moment, ctrl_c)
    before = sys.gettrace()
    try:
        sys.settrace(interrupt)
        work()
    except KeyboardInterrupt:
        assert interrupt.came
    else:
        sys.settrace(None)
        assert not interrupt.came, "the interrupt was lost"
    finally:
        sys.settrace(before)
    return interrupt.came


model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
SESSIONS: dict[str, Callable[[], Any]] = {
    "record": lambda: insitu.record(level="aten", keep="stats"),
    "watch": lambda: insitu.watch(model, file=sys.stderr),
    "guard": lambda: insitu.guard(model, action="record"),
    "values": lambda: insitu.record_run(model, only=["forward"], to=lambda *of: None),
    "journal": lambda: insitu.record_run(model, only=["forward", "0.weight"], keep="values"),
    "watch all": lambda: insitu.watch(file=sys.stderr, level="functions"),
}


def guarded_call(guard: Any) -> Any:
    """What is done by a decorated function."""
    guard(lambda: model(torch.ones(2, 3)))()


def watched_call(watch: Any) -> Any:
    """The same of a watched one."""
    watch(lambda: model(torch.ones(2, 3)))()


def block(session: Any) -> None:
    """What is done in a `with` block."""
    with session:
        model(torch.ones(2, 3))


PARTS = amount(1, 8)  # of a test that would take minutes
WAYS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    **{name: (name, block) for name in SESSIONS},
    "guarded function": ("guard", guarded_call),
    "watched function": ("watch all", watched_call),
}


@pytest.mark.filterwarnings("ignore::insitu.errors.InsituWarning")
@pytest.mark.parametrize("name", WAYS)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.timeout(600)
def test_an_interrupt_at_any_moment_leaves_nothing(name: str, part: int, capsys: Any) -> None:
    kind, work = WAYS[name]
    gc.collect()  # Python swallows an interrupt in a finalizer: those of earlier tests run now
    first = moment_of_leaving(kind, work)
    # The first instruction of `__enter__` and of `__exit__`, and those after them, are always tried.
    always = {*range(1, 12), *range(first - 1, first + 12)}
    for moment in sorted(always.union(range(part + 1, 2 * first + 2000, amount(397, PARTS)))):
        session = SESSIONS[kind]()
        with nothing_left():
            came = interrupted(lambda session=session: work(session), moment)
        if not came:
            break
        assert (patch.probes, patch.sessions, patch.value_probes, patience.sessions) == ({}, (), (), 0)
        assert own_probes == {}
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert not came and first > 20


def moment_of_leaving(kind: str, work: Callable[[Any], Any]) -> int:
    """The moment at which a session begins to be left."""
    moments: list[int] = []

    def note(frame: Any) -> None:
        raise AssertionError

    class Counting(Interrupt):
        def __call__(self, frame: Any, event: str, argument: Any) -> Any:
            is_exit = frame.f_code.co_name in ("_leave", "leave", "__exit__")
            if event == "call" and is_exit and "SignalShield" not in frame.f_code.co_qualname:
                moments.append(-self.moment)
            return super().__call__(frame, event, argument)

    counting = Counting(0, note)
    sys.settrace(counting)
    try:
        work(SESSIONS[kind]())
    finally:
        sys.settrace(None)
    return moments[-1]


def test_signals_wait_and_then_come_once_each() -> None:
    told: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda number, frame: told.append(number))
    try:
        with pytest.raises(KeyboardInterrupt), SignalShield():
            signal.raise_signal(signal.SIGALRM)
            signal.raise_signal(signal.SIGINT)
            told.append(0)
        signal.raise_signal(signal.SIGALRM)
        assert told == [0, signal.SIGALRM, signal.SIGALRM]
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_signal_that_comes_again_goes_straight_to_its_handler() -> None:
    told: list[str] = []
    before = signal.signal(signal.SIGALRM, lambda number, frame: told.append(frame.f_code.co_name if frame else ""))
    try:
        with SignalShield():
            for _ in range(3):
                signal.raise_signal(signal.SIGALRM)
                told.append("sent")
    finally:
        signal.signal(signal.SIGALRM, before)
    here = "test_a_signal_that_comes_again_goes_straight_to_its_handler"
    assert told == ["sent", here, here, "sent", here, "sent"]


def test_a_handler_is_given_the_frame_in_which_its_signal_came() -> None:
    frames: list[Any] = []
    before = signal.signal(signal.SIGALRM, lambda number, frame: frames.append(frame))
    try:
        with SignalShield():
            signal.raise_signal(signal.SIGALRM)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert frames == [sys._getframe()]


def test_an_interrupt_ends_a_function_of_the_user_that_takes_the_last_step() -> None:
    went_on: list[bool] = []

    def sink(*of: Any) -> None:
        signal.raise_signal(signal.SIGINT)
        went_on.append(True)

    with nothing_left(), pytest.raises(KeyboardInterrupt), insitu.record_run(model, only=["forward"], to=sink):
        model(torch.ones(2, 3))
    assert went_on == []
