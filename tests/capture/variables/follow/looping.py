"""Cases for the passes of loops: reported alike by rewritten functions, by rewritten modules, and line by line."""

from __future__ import annotations

import ast
import linecache
import sys
import textwrap
from collections.abc import Callable
from typing import Any

from tests.capture.variables.follow.programs import made

from insitu.capture.variables.follow.lines import LineFollower
from insitu.capture.variables.follow.report_plan import Extras
from insitu.capture.variables.follow.rewrite import ReportPoint, rewrite, rewrite_module

BODIES = {
    "for": """
        for i in range(2):
            x = i
        """,
    "what is before and after a loop": """
        x = 0
        for i in range(2):
            x += 1
        x = "end"
        """,
    "the target of a loop is in the pass": """
        for x in "ab":
            pass
        """,
    "while with a condition": """
        x = 0
        while x < 2:
            x += 1
        """,
    "while without a condition": """
        x = 0
        while True:
            x += 1
            if x == 3:
                break
        """,
    "while without a condition ends with a loop": """
        x = 0
        while True:
            x += 1
            for _ in range(2):
                pass
            if x == 2:
                break
        """,
    "continue": """
        for i in range(3):
            if i == 1:
                continue
            x = i
        """,
    "loops in a loop": """
        for i in range(2):
            for j in range(2):
                x = i * 2 + j
        """,
    "a loop that changes nothing is left out": """
        for i in range(2):
            x = i
            for _ in range(3):
                pass
        """,
    "a block in a loop": """
        import contextlib
        for i in range(2):
            with contextlib.nullcontext():
                x = i
        """,
    "an exception in a loop": """
        for text in ("1", "a", "2"):
            try:
                x = int(text)
            except ValueError:
                pass
        """,
    "the same value again": """
        for i in range(3):
            x = "same"
            y = x
        """,
    "a statement of several lines": """
        for i in range(2):
            x = max(
                i,
                0,
            )
            y = (
                x)
        """,
    "else": """
        for i in range(2):
            x = i
        else:
            x = "else"
        """,
    "an item is set": """
        x = {}
        for i in range(2):
            x["i"] = i
        """,
}


def seen_by(report: Callable[[Callable[[ReportPoint, Any], None]], None]) -> list[str]:
    """The passes and bindings that somebody reports, in order."""
    seen: list[str] = []

    def hear(point: ReportPoint, value: Any) -> None:
        if point.moment in ("pass", "bound"):
            seen.append(f"{point.moment} {point.name} {value!r}".strip())

    report(hear)
    return seen


def reporter_of(hear: Callable[[ReportPoint, Any], None]) -> Callable[[ReportPoint], Callable[[Any], None]]:
    return lambda point: lambda value: hear(point, value)


def by_function(body: str) -> list[str]:
    """What the body reports as a rewritten function."""
    function = made(f"def f():\n{textwrap.indent(textwrap.dedent(body), '    ')}")["f"]

    def report(hear: Callable[[ReportPoint, Any], None]) -> None:
        wanted = {"x"}.__contains__
        function.__code__ = rewrite(function.__code__, wanted, reporter_of(hear), extras=Extras(passes=True))
        function()

    return seen_by(report)


def by_module(body: str) -> list[str]:
    """What the body reports as a rewritten module."""
    text = textwrap.dedent(body)
    code, tree = compile(text, "<module of a test>", "exec", dont_inherit=True), ast.parse(text)

    def report(hear: Callable[[ReportPoint, Any], None]) -> None:
        new = rewrite_module(code, tree, {"x"}.__contains__, reporter_of(hear), Extras(passes=True))
        exec(new, {})

    return seen_by(report)


def by_lines(body: str) -> list[str]:
    """What is reported of the body line by line."""
    function = made(f"def f():\n{textwrap.indent(textwrap.dedent(body), '    ')}")["f"]

    def report(hear: Callable[[ReportPoint, Any], None]) -> None:
        follower = LineFollower()
        follower.start([function.__code__], {"x"}.__contains__, hear, closely=True)
        function()
        follower.stop()

    return seen_by(report)


def expected(body: str) -> list[str]:
    """What the rewritten function reports, which `case_passes_come_first` compares with what is expected."""
    return by_function(body)


def case_passes_come_first() -> None:
    assert expected(BODIES["for"]) == ["pass  None", "bound x 0", "pass  None", "bound x 1"]
    assert expected(BODIES["what is before and after a loop"]) == [
        *("bound x 0", "pass  None", "bound x 1", "pass  None", "bound x 2", "bound x 'end'"),
    ]
    assert expected(BODIES["the target of a loop is in the pass"]) == [
        *("pass  None", "bound x 'a'", "pass  None", "bound x 'b'"),
    ]
    assert expected(BODIES["a loop that changes nothing is left out"]).count("pass  None") == 2
    assert expected(BODIES["loops in a loop"]).count("pass  None") == 6
    assert expected(BODIES["the same value again"]).count("bound x 'same'") == 3


def case_modules_report_as_functions_do() -> None:
    for name, body in BODIES.items():
        assert by_module(body) == expected(body), name


def case_lines_report_as_functions_do() -> None:
    for name, body in BODIES.items():
        assert by_lines(body) == expected(body), name


def case_without_the_option_no_pass_is_reported() -> None:
    function = made("def f():\n    for i in range(2):\n        x = i\n")["f"]
    seen: list[str] = []

    def reporter(point: ReportPoint) -> Callable[[Any], Any]:
        return lambda value: seen.append(point.moment)

    function.__code__ = rewrite(function.__code__, {"x"}.__contains__, reporter)
    function()
    assert seen == ["entered", "bound", "bound"]


def case_the_end_of_a_function_is_reported_even_if_it_raises() -> None:
    names = made("def f(x):\n    if x:\n        return 1 / (x - 1)\n    return None\n")
    function, seen = names["f"], list[str]()

    def reporter(point: ReportPoint) -> Callable[[Any], Any]:
        return lambda value: seen.append(point.moment)

    function.__code__ = rewrite(function.__code__, lambda name: False, reporter, extras=Extras(ends=True))
    assert function(0) is None and function(2) == 1.0
    try:
        function(1)
    except ZeroDivisionError:
        seen.append("raised")
    assert seen == ["entered", "left"] * 3 + ["raised"]


MODULE = '''"""Documented."""
from __future__ import annotations

import math

global x
x = 1


def double(y):
    x = y * 2  # not that of the module
    return x


class Thing:
    x = 3


def set_it():
    global x
    x = 5


x = double(x)
set_it()
try:
    x = math.nothing
except AttributeError:
    pass
later = lambda x: x
later(7)
[x for x in range(3)]
del x
'''


def case_a_module_reports_its_own_variables_and_definitions() -> None:
    code, names = compile(MODULE, "<module of a test>", "exec", dont_inherit=True), dict[str, Any]()
    seen: list[str] = []

    def reporter(point: ReportPoint) -> Callable[[Any], Any]:
        return lambda value: seen.append(f"{point.moment} {point.name} {value}".strip())

    new = rewrite_module(code, ast.parse(MODULE), {"x"}.__contains__, reporter, Extras(definitions=True))
    exec(new, names)
    found = [each for each in seen if not each.startswith("maybe")]
    defined = "defined  None"
    assert found == [
        *("entered  None", defined, "bound x 1", defined, defined, defined, "bound x 2", "deleted x None"),
    ]
    assert "maybe x 5" in seen  # a function has bound it
    assert names["__doc__"] == "Documented." and "x" not in names
    assert names["double"].__code__ == code_of(code, "double")


def code_of(code: Any, name: str) -> Any:
    return next(each for each in code.co_consts if getattr(each, "co_name", None) == name)


def case_lines_and_columns_of_a_module_stay() -> None:
    text = "import sys\nx = 1\nfor x in range(2):\n    y = x\nz = [x,\n     1 / (x - 1)]\n"
    filename = "<columns of a test>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    code = compile(text, filename, "exec", dont_inherit=True)
    new = rewrite_module(code, ast.parse(text), {"x"}.__contains__, lambda point: id, Extras(True, False, True))
    places = []
    for each in (code, new):
        try:
            exec(each, {})
        except ZeroDivisionError as error:
            assert error.__traceback__ is not None and error.__traceback__.tb_next is not None
            frame = error.__traceback__.tb_next
            positions = list(frame.tb_frame.f_code.co_positions())[frame.tb_lasti // 2]
            places.append((frame.tb_lineno, positions))
    assert len(places) == 2 and places[0] == places[1]
    assert sys.gettrace() is None
