"""Running a small program as it is and rewritten, and what of both can be compared.

Plain Python without pytest, like all that `running.py` runs: other interpreters run it too.
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
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

from insitu.capture.variables.follow.rewrite import ReportPoint, Shortcut, rewrite

Reporter = Callable[[ReportPoint], Callable[[Any], Any]]
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
    """A program, how to run it, which names to follow in which function, and the reports to expect."""

    name: str
    source: str
    expected: str = ""
    run: str = "f()"
    wanted: str = "x"
    target: str = "f"
    since: tuple[int, int] = (3, 11)

    def function(self, names: dict[str, Any]) -> Any:
        """The function that is followed."""
        found = eval(self.target, names)
        return getattr(found, "__func__", found)

    def rewritten(self, reporter: Reporter, shortcut: Shortcut | None = None) -> dict[str, Any]:
        """The names that the program defines, with the function rewritten."""
        names = made(self.source)
        function = self.function(names)
        function.__code__ = rewrite(function.__code__, self.is_wanted, reporter, shortcut)
        return names

    def is_wanted(self, name: str) -> bool:
        return self.wanted == "*" or name in self.wanted.split()


def silent(point: ReportPoint) -> Callable[[Any], Any]:
    """A reporter that drops what it is told."""
    return id


def writing(seen: list[str]) -> Reporter:
    """Reporters that write down what they are told; that a function was entered is no news of a variable."""

    def reporter(point: ReportPoint) -> Callable[[Any], Any]:
        if point.moment == "entered":
            return id
        return lambda value: seen.append(f"{point.moment} {point.name} {point.line} {text(value)}")

    return reporter


def text(value: Any) -> str:
    """A value as text that is the same on every run and every Python."""
    if isinstance(value, ModuleType):
        return f"module {value.__name__}"
    if isinstance(value, FunctionType | type):
        return f"{type(value).__name__} {value.__qualname__}"
    return repr(value)


def reports_of(program: Program) -> list[str]:
    """What the rewritten program reports."""
    seen: list[str] = []
    outcome(program, program.rewritten(writing(seen)))
    return seen


def outcome(program: Program, names: dict[str, Any]) -> tuple[Any, ...]:
    """What a run returns, or raises and on which lines and columns."""
    try:
        return ("returned", repr(eval(program.run, names)))
    except Exception as error:
        places = traceback.extract_tb(error.__traceback__)
        frames = [(place.name, place.lineno, place.colno) for place in places if place.filename.startswith("<program")]
        return ("raised", type(error), error.args, repr(error.__context__), frames)


def events_of(program: Program, names: dict[str, Any]) -> list[tuple[str, str, int]]:
    """The calls, lines and returns that a debugger would see in the program."""
    seen: list[tuple[str, str, int]] = []

    def tracer(frame: FrameType, event: str, argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith("<program"):
            return None
        if event != "exception":
            seen.append((event, frame.f_code.co_qualname, frame.f_lineno))
        return tracer

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        outcome(program, names)
    finally:
        sys.settrace(before)
    return seen


def lines_covered(program: Program, names: dict[str, Any]) -> set[tuple[str, int]]:
    """The lines that `sys.monitoring` reports, as coverage does; empty where Python has none."""
    seen: set[tuple[str, int]] = set()
    if sys.version_info >= (3, 12):
        monitoring, event, tool = sys.monitoring, sys.monitoring.events.LINE, sys.monitoring.COVERAGE_ID

        def line_runs(code: CodeType, line: int) -> None:
            if code.co_filename.startswith("<program"):
                seen.add((code.co_qualname, line))

        monitoring.use_tool_id(tool, "test")
        monitoring.register_callback(tool, event, line_runs)
        monitoring.set_events(tool, event)
        outcome(program, names)
        monitoring.set_events(tool, 0)
        monitoring.register_callback(tool, event, None)
        monitoring.free_tool_id(tool)
    return seen


def stops(events: list[tuple[str, str, int]]) -> dict[str, list[int]]:
    """Where a debugger that steps through each function would stop; the same line twice in a row is once."""
    found: dict[str, list[int]] = {}
    for event, function, line in events:
        lines = found.setdefault(function, [])
        if event == "line" and lines[-1:] != [line]:
            lines.append(line)
    return found


def codes_in(code: CodeType) -> list[CodeType]:
    """A code object and all inside of it."""
    inner = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return [code, *(each for constant in inner for each in codes_in(constant))]
