"""Places of the user's code that a guard remembers without a call on the tape: of a step, or of a method it hears."""

from __future__ import annotations

import copy
import functools
import pickle
from dataclasses import dataclass
from types import FrameType
from typing import Any

from insitu.capture.sites import Sites, is_hidden
from insitu.trace.event import Site

MOST_FRAMES = 8
COPIERS = frozenset((copy.__file__, pickle.__file__, functools.__file__))  # they work for the line that calls them

# Code objects and instructions in turn, the innermost first: they keep no frame alive.
Place = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Occurrence:
    """When and where something happened; `number` orders the moments, and 0 is before the guard began."""

    number: int = 0
    place: Place = ()

    @property
    def site(self) -> Site | None:
        """The site of the place; None if it is not known."""
        return site_at(self.place)


BEFORE = Occurrence()


def place_of(frame: FrameType | None, *, beyond: Any = None) -> Place:
    """The place of the innermost frames of the user; methods of the object `beyond` itself are passed over."""
    pairs: list[Any] = []
    while frame is not None and len(pairs) < 2 * MOST_FRAMES:
        file = frame.f_code.co_filename
        is_shown = not is_hidden(file) and file not in COPIERS
        if is_shown and (pairs or beyond is None or not is_method_of(frame, beyond)):
            pairs += (frame.f_code, frame.f_lasti)
        frame = frame.f_back
    return tuple(pairs)


def is_method_of(frame: FrameType, instance: Any) -> bool:
    """Whether a frame runs a method of an object."""
    code = frame.f_code
    methods = (vars(kind).get(code.co_name) for kind in type(instance).__mro__)
    if not any(getattr(method, "__code__", None) is code for method in methods):
        return False
    return any(frame.f_locals.get(name) is instance for name in code.co_varnames[:1])


def site_at(place: Place) -> Site | None:
    """The site of a place; None if no frame of the user was there."""
    if place:
        return Sites().chain(place, None)
    return None
