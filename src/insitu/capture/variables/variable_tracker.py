"""Watched variables: their reports become records on the tape, one for each change.

Plain numbers in the body of a watched function go straight to the tape (reporters.py); the decoder compares them.
Everything else goes through a `VariableTracker`, which knows the last state of each variable of each running frame.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any

from insitu.capture.changes import Print, differences, print_of
from insitu.capture.tape import VariableEntry
from insitu.capture.torch_internals import tracing_state
from insitu.capture.variables.follow.rewrite import COMPREHENSIONS, ReportPoint
from insitu.capture.variables.frame_states import FrameStates
from insitu.capture.variables.patterns import VariablePatterns
from insitu.trace.event import Change

if TYPE_CHECKING:
    from insitu.capture.probe import Probe


def is_number(value: Any) -> bool:
    """Whether a value is a plain number, or None: such values go straight to the tape.

    By identity of the type: a lookup in a set could run code of its class.
    """
    kind = type(value)
    return kind is float or kind is int or kind is bool or value is None or kind is complex


# What is known of one variable: a print for each path that is followed.
Known = dict[str, Print]


class TapeNumbers:
    """Finds out whether a variable was a plain number since it was last asked for: only the tape knows."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._searched: dict[str, int] = {}  # the end of the part of the tape that was searched, by name
        self._begin = 0  # where the calls that are watched now begin on the tape
        self._cut: set[str] = set()  # the names of numbers in the part that was taken off the tape

    def reset(self) -> None:
        """No watched call runs: the search begins at the end of the tape."""
        self._searched.clear()
        self._cut.clear()
        self._begin = len(self._probe.tape)

    def before_cut(self, begin: int) -> None:
        """The tape is about to be cut at an offset: remember the names of the numbers behind it."""
        if self._probe.follows or self._probe.suspended:
            self._cut |= {name for at, name in self._numbers(begin) if at >= self._searched.get(name, self._begin)}
        self._searched = {name: min(at, begin) for name, at in self._searched.items()}
        self._begin = min(self._begin, begin)

    def was_number(self, name: str) -> bool:
        """Whether the variable was a plain number since the last question."""
        if self._probe.live is not None:
            return False
        start, self._searched[name] = self._searched.get(name, self._begin), len(self._probe.tape)
        if name in self._cut:
            self._cut.remove(name)
            return True
        return any(found == name for _, found in self._numbers(start))

    def _numbers(self, start: int) -> Iterator[tuple[int, str]]:
        """The plain numbers on the tape behind an offset: where each is, and the name of its variable."""
        for at, slot in enumerate(self._probe.tape[start:], start):
            if type(slot) is VariableEntry and slot.changes is None:
                yield at, slot.name


class VariableTracker:
    """The last state of each followed variable of one probe, by frame and name.

    `MethodValues` of a recording also hears reports of variables, with a `FrameStates` of its own: it copies values
    for all threads, where a tracker says for one probe and thread what has changed.
    """

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._frames: FrameStates[dict[str, Known]] = FrameStates()
        # The object and the print that were recorded last under each path, in any frame: a change is recorded once.
        self._recorded: dict[str, tuple[int, Print]] = {}
        self.numbers = TapeNumbers(probe)

    def forget(self) -> None:
        """No watched call runs any more."""
        self._frames.clear()
        self._recorded.clear()
        self.numbers.reset()

    def report(
        self, point: ReportPoint, value: Any, frame: FrameType, patterns: VariablePatterns, *, own: bool = False
    ) -> None:
        """Record a variable if it has changed; `own` says that its function is watched: the call has the arguments."""
        if self._probe.over or tracing_state() is not None:  # torch.jit.trace records each look at a tensor
            return
        try:
            if frame.f_code.co_name in COMPREHENSIONS and frame.f_back is not None:
                frame = frame.f_back  # a name that `:=` binds in a comprehension belongs to the function around it
            if point.moment == "entered":
                self._enter(frame, patterns)
            elif point.moment == "deleted":
                before = self._frames.get(id(frame), {}).pop(point.name, {})
                self._delete(point, list(before) or [point.name])
            else:
                self._compare(point, value, frame, patterns, own)
        except Exception as error:
            self._probe.trouble("following a variable", error)

    def _enter(self, frame: FrameType, patterns: VariablePatterns) -> None:
        """A function begins: the globals and enclosing variables that it uses have their state from the start."""
        names = self._frames.enter(frame, {})
        code = frame.f_code
        outside = [name for name in (*code.co_names, *code.co_freevars) if patterns.wanted(name)]
        if not outside:
            return
        around = {**frame.f_globals, **frame.f_locals} if code.co_freevars else frame.f_globals
        for name in outside:
            if name in around:
                names[name] = {path: print_of(item) for path, item in patterns.leaves(name, around[name]).items()}

    def _compare(self, point: ReportPoint, value: Any, frame: FrameType, patterns: VariablePatterns, own: bool) -> None:
        names = self._frames.setdefault(id(frame), {})
        before = names.get(point.name, {})
        leaves = patterns.leaves(point.name, value)
        now = names[point.name] = {path: print_of(item) for path, item in leaves.items()}
        is_argument = own and point.moment == "given"
        # Equal numbers are one object, wherever they come from.
        is_binding = point.moment == "bound" or (point.moment == "given" and is_number(value))
        for path, new in now.items():
            changes = self._changes(point, path, before.get(path), new)
            known, self._recorded[path] = self._recorded.get(path), (id(leaves[path]), new)
            if is_argument:  # the decoder must know that it was there
                self._record_known(point, path)
            elif changes and (is_binding or known != self._recorded[path]):
                self._probe.change(VariableEntry(point, path, changes), self._probe.python.look(leaves[path]))
        self._delete(point, before.keys() - now.keys())

    def _changes(self, point: ReportPoint, path: str, before: Print | None, now: Print) -> tuple[Change, ...]:
        changes = differences(before, now)
        if not changes and point.name == path and self.numbers.was_number(path):
            return ("type",)
        return changes

    def _delete(self, point: ReportPoint, paths: Iterable[str]) -> None:
        for path in paths:
            self._recorded.pop(path, None)
            self._probe.change(VariableEntry(point, path, ("deleted",)), None)

    def _record_known(self, point: ReportPoint, path: str) -> None:
        if self._probe.live is None:
            self._probe.change(VariableEntry(point, path, ()), None)
