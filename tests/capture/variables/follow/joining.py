"""Cases for following a frame that runs already: `with` in the middle of a function, a module, a class."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress
from types import CodeType, FrameType
from typing import Any

from tests.capture.variables.follow.following import Seen, built, tools_in_use, traced

from insitu.capture.variables.follow.lines import LineFollower, reported_frame
from insitu.capture.variables.follow.rewrite import ReportPoint


class Watch:
    """Follows the frame in which a `with` statement stands."""

    def __init__(self, wanted: str = "x", codes: Iterable[CodeType] = ()) -> None:
        self.seen: Seen = []
        self.entered = 0
        self._follower = LineFollower()
        self._wanted, self._codes = wanted.split(), codes

    def __enter__(self) -> Watch:
        frame = sys._getframe(1)
        before = self._state(frame)
        self._follower.start(self._codes, self._wanted.__contains__, self._report, frame=frame)
        self._before = before
        return self

    def __exit__(self, *error: object) -> None:
        self._follower.stop()
        assert self._state(sys._getframe(1)) == self._before

    def _state(self, frame: FrameType) -> tuple[Any, ...]:
        traces = sys.gettrace(), threading.gettrace()
        return (*traces, frame.f_trace, frame.f_trace_lines, frame.f_trace_opcodes, tools_in_use())

    def _report(self, point: ReportPoint, value: Any) -> None:
        frame = reported_frame()
        assert frame is not None and frame.f_code.co_qualname == point.function
        if point.moment == "entered":
            self.entered += 1
        else:
            self.seen.append((point.moment, point.name, point.line, repr(value)))

    def changes(self) -> Seen:
        """What was reported, besides objects that may have changed."""
        return [report for report in self.seen if report[0] != "maybe"]


def ran(source: str, call: str = "f()", **names: Any) -> Watch:
    """What was seen by the watch that a program makes as `w`."""
    watch = Watch()
    eval(call, built(source, **{"w": watch, **names}))
    return watch


def case_from_the_middle_of_a_function() -> None:
    watch = ran("""
def f():
    x = 1
    y = 0
    with w:
        y = 5
        x = 2

        x = [x]
        x.append(
            3)
    x = 4
    return x
""")
    assert watch.entered == 1
    assert watch.changes() == [("given", "x", 4, "1"), ("bound", "x", 6, "2"), ("bound", "x", 8, "[2]")]
    assert ("maybe", "x", 9, "[2, 3]") in watch.seen


def case_the_last_statement_of_the_block() -> None:
    for body, line in {
        "x = 2": 3,
        "if True:\n            x = 2": 4,
        "x = max(\n            1,\n            2)": 3,
        "for x in (2,):\n            pass": 3,
        "y = 1; x = 2": 3,
        "(x := 2)": 3,
        "y = [\n            x := 2\n        ]": 4,
        "try:\n            x = 2\n        finally:\n            pass": 4,
        "x = 2\n        return": 3,
        "return (x := 2)": 3,
        "x = 2\n        raise KeyError": 3,
        "while True:\n            x = 2\n            break": 4,
    }.items():
        source = f"def f():\n    with w:\n        {body}\n"
        with suppress(KeyError):
            names = built(source, w=Watch())
            names["f"]()
        assert names["w"].changes() == [("bound", "x", line, "2")], body


def case_a_block_on_one_line() -> None:
    assert ran("def f():\n    with w: x = 1; x = 2\n").changes() == [("bound", "x", 2, "2")]


def case_what_the_with_itself_binds() -> None:
    watch = ran(
        """
def f():
    with (
        w as x,
        suppress() as y,
    ):
        x = 1
""",
        suppress=contextlib.suppress,
    )
    assert [report[:3] for report in watch.changes()] == [("bound", "x", 3), ("bound", "x", 6)]


def case_parameters_cells_and_globals() -> None:
    watch = ran(
        """
def f(x, *args):
    def change():
        nonlocal x
        x = 2
    w.__init__("x y args")
    with w:
        change()
        global y
        y = 3
        del args
""",
        "f(1, 5)",
        y=0,
    )
    given = {("given", "x", 6, "1"), ("given", "args", 6, "(5,)"), ("given", "y", 6, "0")}
    assert set(watch.changes()[:3]) == given
    assert watch.changes()[-3:] == [("bound", "x", 7, "2"), ("bound", "y", 9, "3"), ("deleted", "args", 10, "None")]


def case_a_module() -> None:
    watch = ran(
        """
x = 1
def change():
    global x
    x = 2
with w:
    change()
    y = [
        x
        for x in range(3)
    ]
    x = 3
x = 4
""",
        "None",
    )
    assert watch.changes() == [("given", "x", 5, "1"), ("bound", "x", 6, "2"), ("bound", "x", 11, "3")]
    assert watch.entered == 1


def case_a_class_and_a_separate_namespace() -> None:
    source = "with w:\n    x = 1\n    y = [\n        x\n        for x in range(3)\n    ]\n    x = y\n    del x\n"
    body = "".join(f"    {line}\n" for line in source.splitlines())
    assert ran(f"class C:\n{body}", "C").changes() == [
        *(("bound", "x", 3, "1"), ("bound", "x", 8, "[0, 1, 2]"), ("deleted", "x", 9, "None")),
    ]
    watch = Watch()
    exec(compile(source, "<no source>", "exec"), {"w": watch}, {})
    assert [report[2] for report in watch.changes()] == [2, 7, 8]


def case_comprehensions_have_variables_of_their_own() -> None:
    watch = ran("""
def f():
    x = 1
    with w:
        y = [
            x
            for x in range(3)
            if (
                x
            )
        ]
        y = {
            x: {
                x
                for x
                in y
            }
            for x in y}
        try:
            y = [
                1 / x
                for x
                in (1, 0)]
        except ZeroDivisionError:
            y = 0
        g = [lambda:
             x
             for x in
             "ab"]
        x = 2
    return x, g
""")
    assert watch.seen == [("given", "x", 3, "1"), ("bound", "x", 29, "2")]


def case_asynchronous_comprehensions() -> None:
    watch = ran(
        """
async def g():
    for i in range(3):
        await sleep(0)
        yield i
async def f():
    x = 1
    with w:
        y = [
            x
            async for x in g()
        ]
        x = 2
    return x
""",
        "run(f())",
        run=asyncio.run,
        sleep=asyncio.sleep,
    )
    assert watch.changes() == [("given", "x", 7, "1"), ("bound", "x", 12, "2")]


def case_other_calls_of_the_same_function() -> None:
    source = """
def f(n):
    x = n
    if n == 2:
        w.__init__("x", codes)
        with w:
            f(1)
            x = 5
    else:
        x = 6
"""
    alone = ran(source, "f(2)", codes=())
    assert alone.changes() == [("given", "x", 5, "2"), ("bound", "x", 7, "5")] and alone.entered == 1
    names = built(source, w=Watch())
    names["codes"] = [names["f"].__code__]
    names["f"](2)
    assert names["w"].changes() == [
        ("given", "x", 5, "2"),
        *(("bound", "x", 2, "1"), ("bound", "x", 9, "6")),
        ("bound", "x", 7, "5"),
    ]
    assert names["w"].entered == 2


def case_functions_that_the_block_calls() -> None:
    names = built(
        """
def g(x):
    x = x + 1
    return x
def f():
    x = 1
    with w:
        x = g(x)
""",
        w=Watch(),
    )
    names["w"].__init__("x", [names["g"].__code__])
    names["f"]()
    assert names["w"].changes() == [
        *(("given", "x", 6, "1"), ("given", "x", 1, "1"), ("bound", "x", 2, "2"), ("bound", "x", 7, "2")),
    ]


def case_generators_that_yield_in_the_block() -> None:
    names = built(
        """
def f(x):
    with w:
        x = yield x
        yield
        x = 3
    x = 4
    yield
def other(x):
    x = 8
    yield
""",
        w=Watch(),
    )
    running = names["f"](1)
    next(running)
    list(names["other"](1)), next(names["other"](1)), names["f"](7)
    running.send(2), next(running)
    assert names["w"].changes() == [("given", "x", 2, "1"), ("bound", "x", 3, "2"), ("bound", "x", 5, "3")]
    assert names["w"].entered == 1


def case_a_generator_that_is_thrown_away_in_the_block() -> None:
    names = built("def f(x):\n    with w:\n        x = 2\n        yield\n", w=Watch())
    next(names["f"](1))
    assert names["w"].changes() == [("given", "x", 2, "1"), ("bound", "x", 3, "2")]
    assert names["w"]._follower._probe is None


def case_two_in_one_frame() -> None:
    names = built(
        """
def f():
    x = y = 0
    with one:
        x = 1
        with two:
            y = 2
            x = 3
        y = 4
        x = 5
""",
        one=Watch("x"),
        two=Watch("y"),
    )
    names["f"]()
    assert names["one"].changes() == [
        *(("given", "x", 3, "0"), ("bound", "x", 4, "1"), ("bound", "x", 7, "3"), ("bound", "x", 9, "5")),
    ]
    assert names["two"].changes() == [("given", "y", 5, "0"), ("bound", "y", 6, "2")]


def case_two_in_one_frame_stopped_in_the_other_order() -> None:
    def follow(name: str) -> LineFollower:
        follower = LineFollower()
        frame = sys._getframe(1)
        follower.start([], {name}.__contains__, lambda point, value: seen.append((point.name, value)), frame=frame)
        return follower

    seen: list[tuple[str, Any]] = []
    frame = sys._getframe()
    before = sys.gettrace(), frame.f_trace, frame.f_trace_lines
    x = y = 0
    one = follow("x")
    two = follow("y")
    x = 1
    one.stop()
    x = 2
    y = 1
    two.stop()
    y = 2
    assert (x, y) == (2, 2) and (sys.gettrace(), frame.f_trace, frame.f_trace_lines) == before
    assert [report for report in seen if report[0]] == [("x", 0), ("y", 0), ("x", 1), ("y", 1)]


def case_again_and_again() -> None:
    watch = ran("""
def f():
    for x in range(3):
        with w:
            w.seen.clear()
            x = x + 10
""")
    assert watch.changes() == [("bound", "x", 5, "12")] and watch.entered == 3


def case_nothing_that_is_wanted() -> None:
    assert ran("def f():\n    y = 1\n    with w:\n        y = 2\n").seen == []


def case_a_debugger_is_there_already() -> None:
    source = """
def helper():
    return 1
def f():
    x = 1
    with w:
        x = helper()
        x = 2
    return x
"""
    plain: list[tuple[str, str, int]] = []
    with traced(plain):
        ran(source, w=contextlib.nullcontext())
    both: list[tuple[str, str, int]] = []
    with traced(both):
        watch = ran(source)
    inside = {event for event in both if event[1] in ("f", "helper")}
    assert both == plain and inside
    assert watch.changes() == [("given", "x", 5, "1"), ("bound", "x", 7, "2")]


def case_a_debugger_that_wants_no_lines() -> None:
    events: list[str] = []

    def tracer(frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename != "<no source>":
            return None
        frame.f_trace_lines = False
        events.append(event)
        return tracer

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        watch = ran("def f():\n    x = 1\n    with w:\n        x = 2\n")
    finally:
        sys.settrace(before)
    assert "line" not in events and "return" in events
    assert watch.changes() == [("given", "x", 3, "1"), ("bound", "x", 4, "2")]


def case_a_debugger_that_goes_while_the_block_runs() -> None:
    """`continue` in pdb takes all trace functions away when there is no breakpoint left."""

    def tracer(frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code.co_name == "f" and frame.f_lineno == 5 and event == "line":
            sys.settrace(None)
            del frame.f_trace
        return tracer

    names = built("def f():\n    x = 1\n    with w:\n        x = 2\n        x = 3\n        x = 4\n    return x\n")
    follower, seen = LineFollower(), []

    class Block:
        def __enter__(self) -> None:
            frame = sys._getframe(1)
            follower.start([], {"x"}.__contains__, lambda point, value: seen.append(value), frame=frame)

        def __exit__(self, *error: object) -> None:
            follower.stop()

    names["w"] = Block()
    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        names["f"]()
        after = sys.gettrace()
    finally:
        sys.settrace(before)
    assert seen == [None, 1, 2, 3, 4] and after is None


def case_a_trace_function_that_was_left_behind() -> None:
    names = built(
        """
def f(frame, left):
    frame().f_trace = left
    x = 1
    with w:
        x = 2
    x = 3
    return frame().f_trace
""",
        w=Watch(),
    )
    calls: list[str] = []
    left = lambda frame, event, argument: calls.append(event)  # noqa: E731
    before = sys.gettrace()
    sys.settrace(None)
    try:
        assert names["f"](lambda: sys._getframe(1), left) is left
    finally:
        sys.settrace(before)
    assert calls == [] and names["w"].changes() == [("given", "x", 4, "1"), ("bound", "x", 5, "2")]
