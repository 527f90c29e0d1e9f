"""Variables and results of methods, taken while an unchanged training loop runs."""

from __future__ import annotations

import functools
from contextlib import ExitStack
from types import FrameType
from typing import TYPE_CHECKING, Any

from insitu.capture.changes import Print, print_of
from insitu.capture.values.giving import Giver
from insitu.capture.values.intake import text_of
from insitu.capture.values.leaves import parts
from insitu.capture.values.targets import Method
from insitu.capture.variables.follow.rewrite import Point
from insitu.capture.variables.reporters import hearers
from insitu.capture.variables.swaps import swaps
from insitu.errors import is_interrupt

if TYPE_CHECKING:
    from insitu.capture.values.taking import Taking

MOST_FRAMES = 1000


class Variables:
    """Variables and results of methods, and variables of functions that the model calls."""

    def __init__(self, taking: Taking) -> None:
        self._taking = taking
        self._methods = taking.targets.methods
        every = [*taking.targets.methods.values(), *taking.targets.functions.values()]
        self._places = {self._place(method): method for method in every if method.variables}
        # What is wanted of each running frame, and what its variables were.
        self._frames: dict[int, tuple[Method, dict[str, Print]]] = {}

    @staticmethod
    def _place(method: Method) -> tuple[str, str]:
        code = method.function.__code__
        return code.co_filename, code.co_qualname

    def start(self, undo: ExitStack) -> None:
        """Let the functions report, and the methods give what they return."""
        names: dict[int, tuple[Any, set[str]]] = {}
        for method in (*self._methods.values(), *self._taking.targets.functions.values()):
            if method.variables:
                found = names.setdefault(id(method.function), (method.function, set()))[1]
                found.update(method.variables)
        for function, wanted in names.values():
            undo.enter_context(swaps.swapped([function], tuple(sorted(wanted))))
        if names:
            hearers.append(self.hear)
            undo.callback(hearers.remove, self.hear)
        for owner, name in {(method.owner, name) for (_, name), method in self._methods.items() if method.result}:
            giver = Giver.of(owner, name)
            undo.callback(giver.forget, giver.listen(functools.partial(self._given, name)))

    def forget(self) -> None:
        """No call of the model runs: the frames that were seen have ended."""
        self._frames.clear()

    def hear(self, point: Point, value: Any, frame: FrameType) -> None:
        """A variable was reported."""
        if not self._taking.is_active:
            return
        try:
            if point.moment == "entered":
                self._enter(point, frame)
            elif id(frame) in self._frames and (point.file, point.function) in self._places:
                self._take(*self._frames[id(frame)], point, value)
        except Exception as error:
            if is_interrupt(error):
                raise
            self._taking.leave_out(f"{point.function}.{point.name}", text_of(error))

    def _enter(self, point: Point, frame: FrameType) -> None:
        """A call begins, in a frame that may have the id of one that has ended."""
        known = self._places.get((point.file, point.function))
        method = self._method(frame, known) if known is not None else None
        if method is None:
            self._frames.pop(id(frame), None)
            return
        if len(self._frames) >= MOST_FRAMES:
            self._frames.clear()
        self._frames[id(frame)] = (method, {})

    def _method(self, frame: FrameType, known: Method) -> Method | None:
        """What is wanted of this function for the module that it runs for; one that has none runs for all."""
        if known.is_free:
            return known
        owner = id(frame.f_locals.get(frame.f_code.co_varnames[0]))
        method = self._methods.get((owner, known.name))
        return method if method is not None and method.function is known.function else None

    def _take(self, method: Method, prints: dict[str, Print], point: Point, value: Any) -> None:
        if point.moment == "deleted":
            return
        for path, item in parts(f"{method.path}.{point.name}", value, method.variables.get(point.name, ())).items():
            now = print_of(item)
            if point.moment != "maybe" or prints.get(path, now) != now:
                self._taking.take(path, item)
            prints[path] = now

    def _given(self, name: str, owner: Any, result: Any) -> None:
        """A method has returned; of a static one, it is not known for which module."""
        method = self._methods.get((id(owner), name)) if owner is not None else self._any_method(name)
        if method is not None and method.result:
            self._taking.take(method.path, result, method.result)

    def _any_method(self, name: str) -> Method | None:
        return next((method for (_, other), method in self._methods.items() if other == name and method.result), None)
