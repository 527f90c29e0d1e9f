"""The variables of one code object, compared from line to line in each frame that runs it."""

from __future__ import annotations

import threading
from collections import ChainMap
from collections.abc import Callable, Collection, Mapping
from inspect import CO_OPTIMIZED, CO_VARARGS, CO_VARKEYWORDS
from types import CodeType, FrameType
from typing import Any, NamedTuple

from insitu.capture.variables.follow.instructions import dictionary_names, global_names, hidden_names
from insitu.capture.variables.follow.line_meanings import LineMeanings, line_meanings
from insitu.capture.variables.follow.report_plan import Moment
from insitu.capture.variables.follow.rewrite import ReportPoint

Report = Callable[[ReportPoint, Any], object]
# Values of these types cannot change, and equal values are the same. By id: to look a type up in a set could run code
# of its metaclass.
ATOMS = frozenset(map(id, (int, float, complex, bool, str, bytes, object, type(None), type(...))))
MISSING, UNKNOWN = object(), object()


class CurrentFrame(threading.local):
    """The frame whose variable is being reported, in each thread."""

    frame: FrameType | None = None


_CURRENT = CurrentFrame()


def reported_frame() -> FrameType | None:
    """The frame of the variable that is being reported; None outside of a report."""
    return _CURRENT.frame


class VariableNames(NamedTuple):
    """The names of the variables of a code object: its own, and those of its module that it uses."""

    own: tuple[str, ...]
    of_module: tuple[str, ...] = ()


def function_names(code: CodeType) -> VariableNames:
    """The names of the variables of a function."""
    own = dict.fromkeys((*code.co_varnames, *code.co_cellvars, *code.co_freevars))
    return VariableNames(tuple(own), global_names(code))


class CodeVariables:
    """The followed variables of a code object, with their values in each running frame.

    Given a `frame`, which runs already, no other one is followed.
    """

    def __init__(
        self,
        code: CodeType,
        wanted: Callable[[str], bool],
        report: Report,
        frame: FrameType | None = None,
        *,
        closely: bool = False,
    ) -> None:
        self.code = code
        self._meanings = line_meanings(code, wanted) if closely else None
        self._raised: set[int] = set()  # the frames whose last line has raised
        self._report = report
        self._frame = frame
        self._points: dict[tuple[Moment, str, int], ReportPoint] = {}
        self._parameters = [name for name in parameter_names(code) if wanted(name)]
        # Only a function finds its variables without a dictionary.
        self._space = None if is_function_like(code) else namespace_of(frame)
        names = function_names(code) if self._space is None else VariableNames(dictionary_names(code))
        self._locals = [name for name in names.own if wanted(name)]
        self._globals = [name for name in names.of_module if wanted(name)]
        self._names = (*self._locals, *self._globals)
        self._hiding = hidden_names(code) if self._space is None else {}
        # The last line and the values in each frame, by the id of the frame. No other frame has this id until the
        # frame has returned, yielded or raised.
        self._frames: dict[int, list[Any]] = {}

    @property
    def is_close(self) -> bool:
        """Whether passes of loops, and bindings to the same value, are reported."""
        return self._meanings is not None

    @property
    def has_names(self) -> bool:
        """Whether there is anything to follow."""
        return bool(self._names)

    def covers(self, frame: FrameType) -> bool:
        """Whether a frame of this code is followed."""
        return self._frame is None or self._frame is frame

    def enter(self, frame: FrameType) -> None:
        """A call begins."""
        line = self.code.co_firstlineno
        self._tell(frame, "entered", "", line, None)
        inner = frame.f_locals
        for name in self._parameters:
            if name in inner:
                self._tell(frame, "given", name, line, inner[name])
        self._frames[id(frame)] = [line, *self._values(frame)]

    def join(self, frame: FrameType) -> None:
        """A frame that runs already is followed from here on: all that it has is given."""
        self._tell(frame, "entered", "", self.code.co_firstlineno, None)
        self.resume(frame)
        line, *values = self._frames[id(frame)]
        for name, value in zip(self._names, values, strict=True):
            if value is not MISSING and value is not UNKNOWN:
                self._tell(frame, "given", name, line, value)

    def resume(self, frame: FrameType) -> None:
        """A generator or coroutine resumes."""
        self._frames[id(frame)] = [frame.f_lineno or self.code.co_firstlineno, *self._values(frame)]

    def step(self, frame: FrameType, line: int) -> None:
        """A line is about to run."""
        state = self._frames.get(id(frame))
        if state is None:
            self._frames[id(frame)] = [line, *self._values(frame)]
        elif self._meanings is not None:
            self._step_closely(frame, state, line, self._meanings)
        else:
            self._compare(frame, state)
            state[0] = line

    def _step_closely(self, frame: FrameType, state: list[Any], line: int, meanings: LineMeanings) -> None:
        """A line is about to run, which may begin a pass of a loop; what the line of the loop binds is in the pass."""
        before = state[0]
        beginning = [loop for loop in meanings.loops if loop.begins(before, line)]
        is_from_loop_line = any(before not in loop.body for loop in beginning)
        if is_from_loop_line:
            self._tell(frame, "pass", "", line, None)
        self._compare(frame, state, () if id(frame) in self._raised else meanings.bound(before, line))
        self._raised.discard(id(frame))
        if beginning and not is_from_loop_line:
            self._tell(frame, "pass", "", line, None)
        state[0] = line

    def note_raise(self, frame: FrameType) -> None:
        """The line that runs has raised: it may not have bound what it binds."""
        if self._meanings is not None:
            self._raised.add(id(frame))

    def leave(self, frame: FrameType) -> None:
        """The frame returns, yields or raises, or is not followed any longer: nothing of it is held."""
        state = self._frames.pop(id(frame), None)
        self._raised.discard(id(frame))
        if state is not None:
            self._compare(frame, state)

    def _values(self, frame: FrameType) -> list[Any]:
        """The value of each name; UNKNOWN for a name that a comprehension hides, which must not be read."""
        inner = frame.f_locals if self._space is None else self._space
        # To read a hidden variable that is in a cell crashes Python 3.13.0.
        hidden = self._hiding.get(frame.f_lasti, ())
        values = [UNKNOWN if name in hidden else inner.get(name, MISSING) for name in self._locals]
        return values + [frame.f_globals.get(name, MISSING) for name in self._globals]

    def _compare(self, frame: FrameType, state: list[Any], bound: Collection[str] = ()) -> None:
        """Report what the last line did, and names that it has bound for certain; runs for every line."""
        for index, now in enumerate(self._values(frame)):
            before = state[index + 1]
            is_same = now is before and id(type(now)) in ATOMS
            if bound and self._names[index] in bound and now is not MISSING:
                before, is_same = MISSING, False  # as if it had been unbound
            if is_same or now is UNKNOWN:
                continue
            state[index + 1] = now
            if moment := change(before, now):
                self._tell(frame, moment, self._names[index], state[0], None if now is MISSING else now)

    def _tell(self, frame: FrameType, moment: Moment, name: str, line: int, value: Any) -> None:
        key = (moment, name, line)
        point = self._points.get(key)
        if point is None:
            point = self._points[key] = ReportPoint(moment, name, line, self.code.co_qualname, self.code.co_filename)
        before, _CURRENT.frame = _CURRENT.frame, frame
        self._report(point, value)
        _CURRENT.frame = before


def change(before: Any, now: Any) -> Moment | None:
    """What happened to a variable that had one value and has another, or the same."""
    if before is UNKNOWN:
        if now is MISSING:
            return None
        return "maybe"
    if now is MISSING:
        return "deleted"
    if now is not before and not is_same_atom(now, before):
        return "bound"
    if id(type(now)) in ATOMS:
        return None
    return "maybe"


def is_same_atom(now: Any, before: Any) -> bool:
    """Whether two values are equal atoms: NaN equals NaN, and 0.0 does not equal -0.0."""
    if type(now) is not type(before) or id(type(now)) not in ATOMS:
        return False
    if type(now) in (float, complex):
        return repr(now) == repr(before)
    return bool(now == before)


def is_function_like(code: CodeType) -> bool:
    """Whether the code is that of a function, lambda or comprehension: not of a module or a class."""
    return bool(code.co_flags & CO_OPTIMIZED)


def parameter_names(code: CodeType) -> tuple[str, ...]:
    """The names of the parameters; none for modules and classes."""
    stars = bool(code.co_flags & CO_VARARGS) + bool(code.co_flags & CO_VARKEYWORDS)
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + stars]


def namespace_of(frame: FrameType | None) -> Mapping[str, Any] | None:
    """The variables of a module or a class; `f_locals` of its frame shows others while a comprehension runs."""
    if frame is None:
        return None
    if frame.f_locals is frame.f_globals:
        return frame.f_globals
    return ChainMap(frame.f_locals, frame.f_globals)
