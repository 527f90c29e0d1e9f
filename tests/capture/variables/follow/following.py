"""Cases for following line by line, with each of the two ways to do it that this Python has."""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any
from unittest import mock

from insitu.capture.variables.follow import lines
from insitu.capture.variables.follow.definitions import nested_codes
from insitu.capture.variables.follow.lines import LineFollower, reported_frame
from insitu.capture.variables.follow.rewrite import ReportPoint

Seen = list[tuple[str, str, int, str]]


def tracing() -> Any:
    """Follow with a trace function, whatever this Python has."""
    return mock.patch.object(lines, "free_tool", lambda: None)


def monitoring() -> Any:
    """Follow with `sys.monitoring`."""
    return mock.patch.object(lines, "free_tool", lines.free_tool)


WAYS: list[Callable[[], Any]] = [tracing, monitoring] if sys.version_info >= (3, 12) else [tracing]


def built(source: str, **names: Any) -> dict[str, Any]:
    """The names that a program defines, without lines that anyone could read."""
    exec(compile(source.strip("\n"), "<no source>", "exec", dont_inherit=True), names)
    return names


@contextmanager
def followed(*functions: Any, wanted: str = "x") -> Iterator[Seen]:
    """Everything that is reported of functions while the block runs."""
    seen: Seen = []

    def report(point: ReportPoint, value: Any) -> None:
        assert (point.file, point.function) in places, point
        if point.moment == "entered":
            assert (point.name, value) == ("", None)
            return
        frame = reported_frame()
        assert frame is not None and frame.f_code.co_qualname == point.function
        seen.append((point.moment, point.name, point.line, repr(value)))

    places = {
        (code.co_filename, code.co_qualname)
        for function in functions
        for code in (function.__code__, *nested_codes(function.__code__))
    }
    follower = LineFollower()
    follower.start([function.__code__ for function in functions], wanted.split().__contains__, report)
    try:
        yield seen
    finally:
        follower.stop()


def case_the_line_that_made_the_change() -> None:
    f = built("""
def f(x):
    y = 1
    x.append(y)

    y = 2
    del y
    return x
""")["f"]
    with followed(f, wanted="x y") as seen:
        assert f([]) == [1]
    assert [report for report in seen if report[1] == "y"] == [
        ("bound", "y", 2, "1"),
        ("bound", "y", 5, "2"),
        ("deleted", "y", 6, "None"),
    ]
    assert [report for report in seen if report[1] == "x"] == [
        ("given", "x", 1, "[]"),
        ("maybe", "x", 1, "[]"),
        ("maybe", "x", 2, "[]"),
        ("maybe", "x", 3, "[1]"),
        ("maybe", "x", 5, "[1]"),
        ("maybe", "x", 6, "[1]"),
        ("maybe", "x", 7, "[1]"),
    ]


def case_loops() -> None:
    f = built("""
def f():
    x = 0.0
    for i in range(3):
        x = x + i
    return x
""")["f"]
    with followed(f, wanted="x i") as seen:
        assert f() == 3.0
    assert seen == [
        ("bound", "x", 2, "0.0"),
        ("bound", "i", 3, "0"),
        ("bound", "i", 3, "1"),
        ("bound", "x", 4, "1.0"),
        ("bound", "i", 3, "2"),
        ("bound", "x", 4, "3.0"),
    ]


def case_the_last_line_before_an_exception() -> None:
    names = built("""
def spoil(x):
    x.append(1)
    raise ValueError
def f(x):
    y = 0
    spoil(x)
""")
    with followed(names["f"]) as seen, suppress(ValueError):
        names["f"]([])
    assert seen[-1] == ("maybe", "x", 6, "[1]")


def case_the_return_itself() -> None:
    f = built("def f(x):\n    return x.append(1)")["f"]
    with followed(f) as seen:
        f([])
    assert seen[-1] == ("maybe", "x", 2, "[1]")


def case_generators() -> None:
    f = built("""
def f(x):
    y = yield x
    x.append(y)
    y = yield
    return y
""")["f"]
    with followed(f, wanted="x y") as seen:
        one, two = f([]), f([0])
        next(one), next(two)
        one.send(1), two.send(2)
        one.close()
    assert [report for report in seen if report[0] != "maybe"] == [
        ("given", "x", 1, "[]"),
        ("given", "x", 1, "[0]"),
        ("bound", "y", 2, "1"),
        ("bound", "y", 2, "2"),
    ]
    assert ("maybe", "x", 3, "[1]") in seen and ("maybe", "x", 3, "[0, 2]") in seen


def case_coroutines_and_throw() -> None:
    f = built("""
async def f(x, steps):
    try:
        await steps
    except KeyError:
        x = x + 1
    return x
""")["f"]

    class Steps:
        def __await__(self) -> Iterator[None]:
            yield

    with followed(f) as seen:
        running = f(1, Steps())
        running.send(None)
        try:
            running.throw(KeyError())
        except StopIteration as stop:
            assert stop.value == 2
    assert seen == [("given", "x", 1, "1"), ("bound", "x", 5, "2")]


def case_recursion_and_nested_functions() -> None:
    f = built("""
def f(n):
    def g(x):
        x = x + 1
        return x
    x = g(n)
    if n:
        f(n - 1)
    return [y for y in (1, 2)]
""")["f"]
    with followed(f) as seen:
        f(1)
    assert seen == [
        ("given", "x", 2, "1"),
        ("bound", "x", 3, "2"),
        ("bound", "x", 5, "2"),
        ("given", "x", 2, "0"),
        ("bound", "x", 3, "1"),
        ("bound", "x", 5, "1"),
    ]


def case_globals_and_closures() -> None:
    names = built("""
total = 0
def outer():
    x = []
    def f():
        global total
        total = 5
        x.append(total)
        return x
    return f
f = outer()
""")
    with followed(names["f"], wanted="x total") as seen:
        names["f"]()
    assert ("bound", "total", 6, "5") in seen and ("maybe", "x", 7, "[5]") in seen


def case_names_of_classes_and_comprehensions_are_no_variables() -> None:
    f = built("""
def f():
    class C:
        x = 1
    y = [x for x in (1, 2)]
    return y
""")["f"]
    with followed(f) as seen:
        assert f() == [1, 2]
    assert seen == []


def case_a_parameter_in_a_closure_is_one_variable() -> None:
    f = built("def f(x):\n    g = lambda: x\n    x = g() + 1\n    return x")["f"]
    with followed(f) as seen:
        f(1)
    assert seen == [("given", "x", 1, "1"), ("bound", "x", 3, "2")]


def case_equal_atoms_are_no_change() -> None:
    f = built("""
def f(nan, other):
    x = nan
    x = other
    x = 0.0
    x = -0.0
    x = 1000
    x = 10 ** 3
    x = True
    x = 1
""")["f"]
    with followed(f) as seen:
        f(float("nan"), float("nan"))
    assert [(line, value) for _, _, line, value in seen] == [
        *((2, "nan"), (4, "0.0"), (5, "-0.0"), (6, "1000"), (8, "True"), (9, "1")),
    ]


def case_strangers_are_never_compared() -> None:
    class Stranger:
        def __eq__(self, other: object) -> bool:
            raise AssertionError("compared")

        __hash__ = None  # type: ignore[assignment]

        def __repr__(self) -> str:
            return "stranger"

    f = built("def f(a, b):\n    x = a\n    x = b\n    return 1")["f"]
    with followed(f) as seen:
        f(Stranger(), Stranger())
    assert [report[0] for report in seen] == ["bound", "bound", "maybe"]


def case_nothing_is_held_after_the_call() -> None:
    class Thing:
        pass

    f = built("def f(x):\n    y = x\n    return 1")["f"]
    with followed(f):
        thing = Thing()
        there = weakref.ref(thing)
        f(thing)
        del thing
        assert there() is None


def case_other_threads() -> None:
    f = built("def f(x):\n    x = x + 1\n    return x")["f"]
    with followed(f) as seen:
        thread = threading.Thread(target=f, args=(1,))
        thread.start()
        thread.join()
    assert seen == [("given", "x", 1, "1"), ("bound", "x", 2, "2")]


def case_functions_that_are_not_followed() -> None:
    names = built("def f(x):\n    x = 1\n    return x\ndef g(x):\n    x = 2\n    return x")
    with followed(names["f"]) as seen:
        names["g"](0)
        local = names["g"]
    assert seen == [] and local(0) == 2


def case_two_at_once() -> None:
    f = built("def f(x):\n    y = x\n    return y")["f"]
    with followed(f, wanted="x") as outer, followed(f, wanted="y") as inner:
        f(1)
    assert outer == [("given", "x", 1, "1")] and inner == [("bound", "y", 2, "1")]


def case_stopped_in_the_other_order() -> None:
    f = built("def f(x):\n    y = x\n    return y")["f"]
    before = sys.gettrace(), threading.gettrace()
    one, two = LineFollower(), LineFollower()
    seen: list[str] = []
    one.start([f.__code__], {"x"}.__contains__, lambda point, value: seen.append(f"one {point.moment}"))
    two.start([f.__code__], {"x"}.__contains__, lambda point, value: seen.append(f"two {point.moment}"))
    one.stop()
    f(1)
    two.stop()
    f(1)
    assert seen == ["two entered", "two given"] and (sys.gettrace(), threading.gettrace()) == before


def case_started_twice() -> None:
    follower = LineFollower()
    follower.start([], {"x"}.__contains__, lambda point, value: None)
    try:
        follower.start([], {"x"}.__contains__, lambda point, value: None)
    except RuntimeError as error:
        assert "stop it first" in str(error)
    else:
        raise AssertionError("it was started twice")
    finally:
        follower.stop()
    follower.stop()


def case_a_debugger_keeps_working() -> None:
    names = built("""
def helper(n):
    return n + 1
def f(x):
    x = helper(x)
    return x
""")
    plain: list[tuple[str, str, int]] = []
    with traced(plain):
        names["f"](1)
    both: list[tuple[str, str, int]] = []
    with traced(both) as tracer:
        with followed(names["f"]) as seen:
            names["f"](1)
        assert sys.gettrace() is tracer
    assert both == plain and seen == [("given", "x", 3, "1"), ("bound", "x", 4, "2")]


@contextmanager
def traced(seen: list[tuple[str, str, int]]) -> Iterator[Any]:
    """A trace function like that of a debugger."""

    def tracer(frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename != "<no source>":
            return None
        seen.append((event, frame.f_code.co_name, frame.f_lineno))
        return tracer

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        yield tracer
    finally:
        sys.settrace(before)


def case_tracers_that_put_themselves_in_place() -> None:
    """The tracer of coverage does so, in C, on every call."""
    f = built("def f(x):\n    x = x + 1\n    return x")["f"]
    calls: list[str] = []

    def tracer(frame: FrameType, event: str, argument: Any) -> Any:
        calls.append(event)
        sys.settrace(tracer)
        return None

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        with followed(f) as seen:
            f(1)
            f(5)
        assert sys.gettrace() is tracer
    finally:
        sys.settrace(before)
    assert [report[3] for report in seen] == ["1", "2", "5", "6"] and "call" in calls


def case_everything_is_given_back() -> None:
    f = built("def f(x):\n    return x")["f"]
    before = sys.gettrace(), threading.gettrace(), tools_in_use()
    with followed(f):
        f(1)
    assert (sys.gettrace(), threading.gettrace(), tools_in_use()) == before


def tools_in_use() -> list[str | None]:
    if sys.version_info < (3, 12):
        return []
    return [sys.monitoring.get_tool(tool) for tool in range(6)]


def case_no_tool_id_is_free() -> None:
    if sys.version_info >= (3, 12):
        taken = [tool for tool in lines.TOOL_IDS if sys.monitoring.get_tool(tool) is None]
        for tool in taken:
            sys.monitoring.use_tool_id(tool, "somebody else")
        try:
            case_loops()
        finally:
            for tool in taken:
                sys.monitoring.free_tool_id(tool)


def case_a_thread_that_goes_on_after_the_end() -> None:
    names = built(
        """
def f(x):
    x = x + 1
    return x
def work(started, go, seen):
    f(1)
    started.set()
    go.wait(10)
    f(1)
    f(1)
    seen.append(gettrace())
""",
        gettrace=sys.gettrace,
    )
    started, go = threading.Event(), threading.Event()
    last: list[Any] = []
    with followed(names["f"]) as seen:
        thread = threading.Thread(target=names["work"], args=(started, go, last))
        thread.start()
        assert started.wait(10)
    count = len(seen)
    go.set()
    thread.join(10)
    assert len(seen) == count == 2 and last == [None]
