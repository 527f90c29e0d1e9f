"""The lifecycle that all sessions share, tested on a session that only writes down what is called."""

from __future__ import annotations

import signal
from types import FrameType

import pytest

import insitu
from insitu.session.session import Entry, Session


class ListingEntry(Entry):
    """Lists the calls of its methods; `failing` names a method that raises."""

    def __init__(self, calls: list[str], failing: str) -> None:
        super().__init__()
        self.calls, self.failing = calls, failing

    def _list(self, name: str) -> None:
        self.calls.append(name)
        if name == self.failing:
            raise RuntimeError(name)

    def hand_over(self) -> None:
        self._list("hand_over")

    def stop(self, error: BaseException | None) -> None:
        self._list("stop")

    def report(self, error: BaseException | None) -> None:
        self._list(f"report {type(error).__name__}")

    def report_failure(self) -> None:
        self._list("report_failure")

    def release(self) -> None:
        self._list("release")

    def roll_back(self) -> None:
        self._list("roll_back")


class ListingSession(Session[ListingEntry]):
    """A session of such entries; `interrupts` sends Ctrl-C while an entry opens."""

    def __init__(self, failing: str = "", *, interrupts: bool = False) -> None:
        super().__init__()
        self.calls: list[str] = []
        self.failing, self.interrupts = failing, interrupts

    def __enter__(self) -> None:
        self.enter(None)

    def open(self, frame: FrameType | None) -> ListingEntry:
        if self.interrupts:
            signal.raise_signal(signal.SIGINT)
        return ListingEntry(self.calls, self.failing)


def test_an_entry_ends_in_order() -> None:
    session = ListingSession()
    with session:
        assert session.calls == []
    assert session.calls == ["hand_over", "stop", "report NoneType", "release"]


def test_the_exception_of_the_block_reaches_the_report() -> None:
    session = ListingSession()
    with pytest.raises(ValueError, match="mine"), session:
        raise ValueError("mine")
    assert session.calls == ["hand_over", "stop", "report ValueError", "release"]


@pytest.mark.parametrize(
    ("failing", "calls"),
    [
        ("hand_over", ["hand_over", "stop", "report_failure", "release"]),
        ("report NoneType", ["hand_over", "stop", "report NoneType", "report_failure", "release"]),
    ],
)
def test_an_entry_is_stopped_and_released_although_a_part_of_its_end_fails(failing: str, calls: list[str]) -> None:
    session = ListingSession(failing)
    with pytest.raises(RuntimeError, match=failing), session:
        pass
    assert session.calls == calls


def test_ctrl_c_during_enter_rolls_back() -> None:
    session = ListingSession(interrupts=True)
    with pytest.raises(KeyboardInterrupt), session:
        raise AssertionError("the block runs although Ctrl-C arrived before it")
    assert session.calls == ["roll_back"]
    with pytest.raises(insitu.InsituError, match="has not begun, or has ended already"):
        session.leave(None, None, None)


def test_a_session_can_be_entered_inside_itself() -> None:
    session = ListingSession()
    with session:
        with session:
            pass
        assert session.calls.count("stop") == 1
    assert session.calls.count("stop") == 2
