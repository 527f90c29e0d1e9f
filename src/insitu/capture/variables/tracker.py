"""Watched variables: what is reported of them becomes records on the tape, for what has changed and nothing else.

Plain numbers in the body of a watched function go straight to the tape (reporters.py), with no look at what was there
before, which decoding finds out. Everything else goes through a `Tracker`, which knows what each variable of each
running frame was.
"""

from __future__ import annotations

from types import FrameType
from typing import TYPE_CHECKING, Any

from insitu.capture.changes import Print, differences, print_of
from insitu.capture.tape import VariableEntry
from insitu.capture.torch_internals import tracing_state
from insitu.capture.variables.follow.rewrite import COMPREHENSIONS, Point
from insitu.capture.variables.patterns import VariablePatterns
from insitu.trace.event import Change

if TYPE_CHECKING:
    from insitu.capture.probe import Probe


def is_number(value: Any) -> bool:
    """Whether a value is a plain number, or nothing: what goes straight to the tape.

    By identity of the type: to look it up in a set could run code of its class.
    """
    kind = type(value)
    return kind is float or kind is int or kind is bool or value is None or kind is complex


# Frames whose variables are remembered; those that ended are not told apart from those that run.
MOST_FRAMES = 1000

# What was known of one variable: a print for each path that is followed.
Known = dict[str, Print]


class Tracker:
    """What the followed variables of one probe were, by frame and name."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._frames: dict[int, dict[str, Known]] = {}
        # What was recorded last under each path, and of which object, in whatever frame: a change is told once.
        self._told: dict[str, tuple[int, Print]] = {}
        # How much of the tape was searched for plain numbers, by name, and where what is watched now began on it.
        self._searched: dict[str, int] = {}
        self._begin = 0
        self._cut: set[str] = set()  # the numbers in what was taken off the tape since

    def forget(self) -> None:
        """Nothing that is watched runs any more."""
        self._frames.clear()
        self._told.clear()
        self._searched.clear()
        self._cut.clear()
        self._begin = len(self._probe.tape)

    def settle(self, begin: int) -> None:
        """The tape is about to be cut at an offset: remember which plain numbers are in what is taken off."""
        is_watching = self._probe.follows or self._probe.suspended
        later = enumerate(self._probe.tape[begin:], begin) if is_watching else ()
        numbers = ((at, slot.name) for at, slot in later if type(slot) is VariableEntry and slot.changes is None)
        self._cut |= {name for at, name in numbers if at >= self._searched.get(name, self._begin)}
        self._searched = {name: min(at, begin) for name, at in self._searched.items()}
        self._begin = min(self._begin, begin)

    def report(
        self, point: Point, value: Any, frame: FrameType, patterns: VariablePatterns, *, own: bool = False
    ) -> None:
        """A variable was reported; `own` says that it is one of a watched function, whose arguments are told anyway."""
        if self._probe.over or tracing_state() is not None:  # torch.jit.trace records each look at a tensor
            return
        try:
            if frame.f_code.co_name in COMPREHENSIONS and frame.f_back is not None:
                frame = frame.f_back  # what `:=` binds in one belongs to the function around it
            if point.moment == "entered":
                self._enter(frame, patterns)
            elif point.moment == "deleted":
                self._lose(point, frame)
            else:
                self._compare(point, value, frame, patterns, own)
        except Exception as error:
            self._probe.trouble("following a variable", error)

    def _enter(self, frame: FrameType, patterns: VariablePatterns) -> None:
        """A function begins: what it finds outside of itself is known from the start."""
        if len(self._frames) >= MOST_FRAMES:
            self._frames.clear()
        names = self._frames[id(frame)] = {}
        code = frame.f_code
        outside = [name for name in (*code.co_names, *code.co_freevars) if patterns.wanted(name)]
        if not outside:
            return
        around = {**frame.f_globals, **frame.f_locals} if code.co_freevars else frame.f_globals
        for name in outside:
            if name in around:
                names[name] = self._prints(patterns.leaves(name, around[name]))

    @staticmethod
    def _prints(leaves: dict[str, Any]) -> Known:
        return {path: print_of(item) for path, item in leaves.items()}

    def _lose(self, point: Point, frame: FrameType) -> None:
        before = self._frames.get(id(frame), {}).pop(point.name, {})
        for path in list(before) or [point.name]:
            self._told.pop(path, None)
            self._probe.change(VariableEntry(point, path, ("deleted",)), None)

    def _compare(self, point: Point, value: Any, frame: FrameType, patterns: VariablePatterns, own: bool) -> None:
        names = self._frames.setdefault(id(frame), {})
        before = names.get(point.name)
        leaves = patterns.leaves(point.name, value)
        now = names[point.name] = self._prints(leaves)
        earlier = before or {}
        # Equal numbers are one object, wherever they come from.
        is_binding = point.moment == "bound" or (point.moment == "given" and is_number(value))
        for path, new in now.items():
            changes = differences(earlier.get(path), new)
            if point.name == path and not changes and self._was_number(path):
                changes = ("type",)
            told, self._told[path] = self._told.get(path), (id(leaves[path]), new)
            if own and point.moment == "given":  # told as an argument; the decoder must know that it was there
                self._note(point, path, ())
            elif changes and (is_binding or told != self._told[path]):
                self._tell(point, path, leaves[path], changes)
        for path in earlier.keys() - now.keys():
            self._told.pop(path, None)
            self._probe.change(VariableEntry(point, path, ("deleted",)), None)

    def _was_number(self, name: str) -> bool:
        """Whether the variable was a plain number in between, of which only the tape knows."""
        if self._probe.live is not None:
            return False
        tape = self._probe.tape
        start, self._searched[name] = self._searched.get(name, self._begin), len(tape)
        if name in self._cut:
            self._cut.remove(name)
            return True
        return any(type(slot) is VariableEntry and slot.changes is None and slot.name == name for slot in tape[start:])

    def _note(self, point: Point, path: str, changes: tuple[Change, ...]) -> None:
        if self._probe.live is None:
            self._probe.change(VariableEntry(point, path, changes), None)

    def _tell(self, point: Point, path: str, value: Any, changes: tuple[Change, ...]) -> None:
        probe = self._probe
        probe.change(VariableEntry(point, path, changes), probe.python.look(value))
