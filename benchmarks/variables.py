"""A watched function: loops over a float and a small tensor, what it calls, what it costs when switched off."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

import insitu
from benchmarks.measure import Case, Effort, Row, at_least, at_most, in_turn

PASSES = 10_000
FEW = 500  # for what is slow
CALLS = 10
ORIGINAL = (
    905  # times as long as alone: the least that Tensor Tracker took for such a loop; it cannot be installed here
)


def float_loop(passes: int) -> float:
    """Change a float again and again."""
    x = 0.0
    for _ in range(passes):
        x = x * 0.999 + 1.5
    return x


def tensor_loop(passes: int) -> torch.Tensor:
    """Change a small tensor again and again."""
    x = torch.zeros(4)
    for _ in range(passes):
        x = x * 0.999 + 1.5
    return x


def caller(passes: int) -> float:
    """Bind a variable, and leave the work to a function that has none of that name."""
    y = 0.0
    for _ in range(CALLS):
        y += callee(passes)
    return y


def callee(passes: int) -> float:
    """The work."""
    z = 0.0
    for _ in range(passes):
        z = z * 0.999 + 1.5
    return z


def settrace(function: Callable[[int], object], passes: int) -> None:
    """The way of Tensor Tracker, less all it does besides: the locals are looked at after every line, and printed."""
    out, last = io.StringIO(), [""]

    def trace(frame: Any, event: str, argument: Any) -> Any:
        if event == "line" and (text := repr(frame.f_locals.get("x"))) != last[0]:
            last[0] = text
            print(f"│   ├─ [Var] x@{frame.f_lineno} value: {text}", file=out)
        return trace

    sys.settrace(trace)
    try:
        function(passes)
    finally:
        sys.settrace(None)


def rows(effort: Effort) -> Iterator[Row]:
    """All ratios are to the function alone."""
    yield from loop(effort, "float", float_loop, PASSES, at_most(3))
    yield from loop(effort, "small tensor", tensor_loop, FEW, None)
    watched = insitu.watch("y")(caller)
    times = in_turn(
        {"alone": partial(caller, PASSES), "watched": recording(partial(watched, PASSES))}, effort.repeats(50)
    )
    yield Row("what a watched function calls / alone", times.ratio("watched", "alone"), at_most(1.05))
    yield switched_off(effort)


def loop(effort: Effort, name: str, function: Any, passes: int, target: Any) -> Iterator[Row]:
    """One loop: recorded, printed, and by the way of the original."""
    watched = insitu.watch("x")(function)
    printed = insitu.watch("x", file=io.StringIO())(function)
    cases: dict[str, Any] = {
        "alone": partial(function, passes),
        "recorded": recording(partial(watched, passes)),
        "printed": partial(printed, passes),
        "settrace": partial(settrace, function, passes),
    }
    times = in_turn(cases, effort.repeats(20))
    yield Row(f"loop over a {name}, recorded / alone", times.ratio("recorded", "alone"), target)
    yield Row(f"loop over a {name}, printed / alone", times.ratio("printed", "alone"))
    less = times.overhead("settrace", "recorded", "alone")
    yield Row(f"loop over a {name}, settrace and print / recorded, by overhead", less)
    if name == "float":
        original = [(ORIGINAL - 1) / (ratio - 1) for ratio in times.ratio("recorded", "alone")]
        note = f"Tensor Tracker took {ORIGINAL}x to 2174x when it was measured, not in this run"
        yield Row("loop over a float, Tensor Tracker / recorded, by overhead", original, at_least(50), note=note)


def recording(run: Callable[[], object]) -> Case:
    """The case of a function in a session; starting and ending that is not part of the time."""
    sessions: list[Any] = []

    def start() -> None:
        session = insitu.record(level="python")
        session.__enter__()
        sessions.append(session)
        run()  # the first call in a session rewrites the function

    return Case(run, before=start, after=lambda: sessions.pop().__exit__(None, None, None))


def switched_off(effort: Effort) -> Row:
    """A function that was decorated with INSITU=0."""
    before = os.environ.get("INSITU")
    os.environ["INSITU"] = "0"
    try:
        off = insitu.watch("x")(float_loop)
    finally:
        os.environ.pop("INSITU")
        if before is not None:
            os.environ["INSITU"] = before
    times = in_turn({"alone": partial(float_loop, PASSES), "off": partial(off, PASSES)}, effort.repeats(50))
    return Row("decorated with INSITU=0 / alone", times.ratio("off", "alone"), at_most(1.01))
