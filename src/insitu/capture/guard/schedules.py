"""What is known where a schedule of the learning rate is made: the numbers that its length may come from, by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from types import CodeType, FrameType, FunctionType
from typing import Any

from insitu.capture.guard.arrays import closure_of
from insitu.capture.guard.places import BEFORE, Occurrence
from insitu.capture.sites import is_hidden
from insitu.trace.schedule_source import NamedNumber

MOST_FRAMES = 6
MOST_NUMBERS = 200


@dataclass(frozen=True, slots=True)
class Schedule:
    """When and where a schedule was made, and the numbers that had names there, the nearest first."""

    moment: Occurrence = BEFORE
    numbers: tuple[NamedNumber, ...] = ()


UNSCHEDULED = Schedule()


def named_numbers(arguments: Iterable[Any], frame: FrameType | None) -> tuple[NamedNumber, ...]:
    """The numbers that the functions among some arguments use, and those of the running functions of the user."""
    found = [number for argument in arguments for number in numbers_of_argument(argument)]
    for _ in range(MOST_FRAMES):
        if frame is None:
            break
        if not is_hidden(frame.f_code.co_filename):
            found += numbers_among(frame.f_code, frame.f_locals)
        frame = frame.f_back
    return tuple(found[:MOST_NUMBERS])


def numbers_of_argument(argument: Any) -> Iterator[NamedNumber]:
    """The numbers that a function, or each of some functions, has from around it."""
    if isinstance(argument, partial):
        yield from numbers_of_argument(argument.func)
    elif isinstance(argument, (list, tuple)):
        for each in argument:
            yield from numbers_of_argument(each)
    elif isinstance(argument, FunctionType) and not is_hidden(argument.__code__.co_filename):
        code = argument.__code__
        yield from numbers_in(code.co_filename, code.co_firstlineno, code.co_name, closure_of(argument))
        used = {name: argument.__globals__[name] for name in code.co_names if name in argument.__globals__}
        yield from numbers_in(code.co_filename, 0, "<module>", used)


def numbers_among(code: CodeType, names: dict[str, Any]) -> Iterator[NamedNumber]:
    """The numbers among the names of a running function."""
    line = 0 if code.co_name == "<module>" else code.co_firstlineno
    yield from numbers_in(code.co_filename, line, code.co_name, names)


def numbers_in(file: str, line: int, function: str, names: dict[str, Any]) -> Iterator[NamedNumber]:
    """The names that are numbers."""
    for name, value in list(names.items()):
        if type(value) in (int, float):
            yield NamedNumber(file, line, function, name, float(value))
