"""Small functions, one for each way to bind or change a variable, and what is to be reported of them.

Plain Python without pytest: other interpreters run them too.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import linecache
import sys
import textwrap
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

from insitu.capture.rewrite import Point, rewrite

_numbers = itertools.count()


def made(source: str) -> dict[str, Any]:
    """The names that a program defines; its lines are where `linecache` finds them."""
    source = textwrap.dedent(source).strip("\n") + "\n"
    filename = f"<program {next(_numbers)}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    names: dict[str, Any] = {"asyncio": asyncio, "contextlib": contextlib, "__name__": "program"}
    exec(compile(source, filename, "exec", dont_inherit=True), names)
    return names


@dataclass(frozen=True)
class Program:
    """A program: how to run it, which names to follow, and the reports to expect."""

    name: str
    source: str
    run: str
    wanted: str
    expected: str
    target: str = "f"
    since: tuple[int, int] = (3, 11)

    def function(self, names: dict[str, Any]) -> Any:
        """The function that is followed."""
        found = eval(self.target, names)
        return getattr(found, "__func__", found)

    def rewritten(self, names: dict[str, Any], reporter: Callable[[Point], Callable[[Any], Any]]) -> CodeType:
        return rewrite(self.function(names).__code__, self.is_wanted, reporter)

    def is_wanted(self, name: str) -> bool:
        return self.wanted == "*" or name in self.wanted.split()


def reports_of(program: Program) -> list[str]:
    """What the rewritten program reports, as text."""
    seen: list[str] = []

    def reporter(point: Point) -> Callable[[Any], Any]:
        def report(value: Any) -> Any:
            seen.append(f"{point.moment} {point.name} {point.line} {value!r}")
            return value

        return report

    names = made(program.source)
    program.function(names).__code__ = program.rewritten(names, reporter)
    outcome(program, names)
    return seen


def outcome(program: Program, names: dict[str, Any]) -> tuple[Any, ...]:
    """What a run returns, or raises and on which lines."""
    try:
        return ("returned", repr(eval(program.run, names)))
    except Exception as error:
        places = traceback.extract_tb(error.__traceback__)
        frames = [(place.name, place.lineno, place.colno) for place in places if place.filename.startswith("<program")]
        return ("raised", type(error), error.args, repr(error.__context__), frames)


def lines_of(program: Program, names: dict[str, Any]) -> list[tuple[str, str, int]]:
    """Every event that a debugger would see in the program."""
    seen: list[tuple[str, str, int]] = []

    def tracer(frame: FrameType, event: str, argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith("<program"):
            return None
        if event in ("call", "line", "return"):
            seen.append((event, frame.f_code.co_qualname, frame.f_lineno))
        return tracer

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        outcome(program, names)
    finally:
        sys.settrace(before)
    return seen


def quiet(point: Point) -> Callable[[Any], Any]:
    """A reporter that says nothing."""
    return lambda value: value
