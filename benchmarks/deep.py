"""Whether it costs more to trace what is called from deep down: it must not, for stacks are walked at each call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import insitu
from benchmarks.measure import Effort, Row, in_turn
from benchmarks.models import PASSES, Subject, gpt2, mha

DEPTH = 60


def from_deep(depth: int, run: Callable[[], object]) -> object:
    """Run something from so many frames further down."""
    return run() if depth == 0 else from_deep(depth - 1, run)


def recorded(subject: Subject, depth: int) -> insitu.Trace:
    """Record forward passes, each called from so deep."""
    with insitu.record(level="aten") as trace:
        for _ in range(PASSES):
            from_deep(depth, subject.forward)
    return trace


def recorded_without_modules(subject: Subject, depth: int) -> insitu.Trace:
    """The same with no module call between the session and the functions, where a walk must go all the way up."""
    model = subject.model
    with insitu.record(level="aten") as trace:
        for _ in range(PASSES):
            from_deep(depth, lambda: type(model).forward(model, subject.input))
    return trace


def rows(effort: Effort) -> Iterator[Row]:
    """From sixty frames down against from the top."""
    for what, record, subject in (
        ("GPT2", recorded, gpt2()),
        ("MHA", recorded, mha()),
        ("MHA.forward called as a function", recorded_without_modules, mha()),
    ):
        cases = {"top": partial(record, subject, 0), "deep": partial(record, subject, DEPTH)}
        times = in_turn(cases, effort.repeats(30))
        yield Row(f"everything on, {DEPTH} frames deeper / at the top, {what}", times.ratio("deep", "top"))
