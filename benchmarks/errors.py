"""What a session adds to an exception: next to nothing, until somebody looks at it."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import torch

import insitu
from benchmarks.measure import Case, Effort, Row, at_most, in_turn, told

NUMBER = 200
ONE, OTHER = torch.ones(2), torch.ones(3)


def failing() -> BaseException:
    """An operation that fails, as a loop that tries things would meet it."""
    try:
        ONE + OTHER
    except RuntimeError as error:
        return error
    raise AssertionError("it did not fail")


def working() -> Any:
    """The same operation, when it works."""
    return ONE + ONE


def rows(effort: Effort) -> Iterator[Row]:
    """Failing in a session, less what the session costs anyway, against failing alone."""
    cases = {
        "alone": in_block(nullcontext, failing),
        "working": in_block(nullcontext, working),
        "recorded": in_block(insitu.record, failing),
        "recorded, working": in_block(insitu.record, working),
    }
    times = in_turn(cases, effort.repeats(20))
    alone, session = (
        [a - b for a, b in zip(times.seconds[one], times.seconds[other], strict=True)]
        for one, other in (("alone", "working"), ("recorded", "recorded, working"))
    )
    ratios = [a / b for a, b in zip(session, alone, strict=True)]
    note = f"a raise of {min(alone) * 1e6:.0f} µs; all of the call {told(times.ratio('recorded', 'alone'))}"
    yield Row("a torch error raised and caught in a session / alone", ratios, at_most(2), note=note)
    yield Row("that error, rendered", rendered(effort), None, "s")


def in_block(block: Callable[[], Any], run: Callable[[], Any]) -> Case:
    """Many of them in one block."""
    blocks: list[Any] = []

    def start() -> None:
        blocks.append(block())
        blocks[-1].__enter__()

    return Case(run, NUMBER, before=start, after=lambda: blocks.pop().__exit__(None, None, None))


def rendered(effort: Effort) -> list[float]:
    """The seconds that it takes to print the traceback with its explanation, once."""
    from time import process_time

    found = []
    for _ in range(effort.repeats(20)):
        with insitu.record():
            error = failing()
        start = process_time()
        traceback.format_exception(error)
        found.append(process_time() - start)
    return found
