"""Ctrl-C at any moment while a session begins or ends: nothing is left patched, and the interrupt arrives."""

from __future__ import annotations

import dis
import signal
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.capture.oracle import nothing_left
from tests.faults.amount import amount
from torch import nn

import insitu
from insitu.capture.modules import patch
from insitu.capture.recorder import patience
from insitu.interrupts import Undisturbed

# Where Python looks whether a signal has come: after calls into C, at the begin of functions, and in loops.
LOOKS = {dis.opmap[name] for name in ("CALL", "CALL_FUNCTION_EX", "RESUME", "JUMP_BACKWARD") if name in dis.opmap}


class Interrupt:
    """Lets a signal come at the n-th moment at which Python would notice it, inside the tool."""

    def __init__(self, moment: int) -> None:
        self.moment, self.came = moment, False
        self._last: dict[int, int] = {}

    def __call__(self, frame: Any, event: str, argument: Any) -> Any:
        if not frame.f_code.co_filename.endswith("/contextlib.py") and "/src/insitu/" not in frame.f_code.co_filename:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode":
            before, self._last[id(frame)] = self._last.get(id(frame)), frame.f_code.co_code[frame.f_lasti]
            self.moment -= before in LOOKS
            if self.moment == 0:
                self.came = True
                sys.settrace(None)
                signal.getsignal(signal.SIGINT)(signal.SIGINT, frame)  # type: ignore[operator, misc, arg-type]
        elif event == "return":
            self._last.pop(id(frame), None)
            self._last.pop(id(frame.f_back), None)  # coming back from a function in Python is no such moment
        return self


def interrupted(work: Callable[[], Any], moment: int) -> bool:
    """Do something, with an interrupt at a moment; whether there was such a moment."""
    interrupt = Interrupt(moment)
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
    "values": lambda: insitu.record(model, only=["forward"], to=lambda *of: None),
}


@pytest.mark.filterwarnings("ignore::insitu.errors.InsituWarning")
@pytest.mark.parametrize("name", SESSIONS)
@pytest.mark.parametrize("phase", ["enter", "exit"])
def test_an_interrupt_at_any_moment_leaves_nothing(name: str, phase: str, capsys: Any) -> None:
    moment, came = 0, True
    while came:
        moment += amount(9, 1)
        session = SESSIONS[name]()
        with nothing_left():
            if phase == "enter":
                came = interrupted(session.__enter__, moment)
            else:
                session.__enter__()
                model(torch.ones(2, 3))
                came = interrupted(lambda session=session: session.__exit__(None, None, None), moment)
            if phase == "enter" and not came:
                session.__exit__(None, None, None)
        assert (patch.probes, patch.sessions, patch.takers, patience.sessions) == ({}, (), (), 0)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert moment > 40


def test_signals_wait_and_then_come_once_each() -> None:
    told: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda number, frame: told.append(number))
    try:
        with pytest.raises(KeyboardInterrupt), Undisturbed():
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
        with Undisturbed():
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
        with Undisturbed():
            signal.raise_signal(signal.SIGALRM)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert frames == [sys._getframe()]


def test_an_interrupt_ends_a_function_of_the_user_that_takes_the_last_step() -> None:
    went_on: list[bool] = []

    def sink(*of: Any) -> None:
        signal.raise_signal(signal.SIGINT)
        went_on.append(True)

    with nothing_left(), pytest.raises(KeyboardInterrupt), insitu.record(model, only=["forward"], to=sink):
        model(torch.ones(2, 3))
    assert went_on == []
