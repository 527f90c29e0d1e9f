"""How long a person waits for a hundred thousand events as text."""

from __future__ import annotations

import gc
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from time import process_time
from typing import Any

import insitu
from benchmarks.measure import Effort, Row, at_most
from benchmarks.models import Subject, gpt2
from insitu.view import render
from insitu.view.html import page

EVENTS = 100_000
VIEWS: dict[str, dict[str, Any]] = {
    "tree": {"view": "tree"},
    "tree unfolded": {"view": "tree", "unfold": True},
    "code": {"view": "code"},
    "table": {"view": "table"},
}


def rows(effort: Effort) -> Iterator[Row]:
    """Decoding what was captured, and each view of it."""
    subject = gpt2()
    seconds: defaultdict[str, list[float]] = defaultdict(list)
    lines: dict[str, int] = {}
    for _ in range(effort.repeats(3)):
        trace = recorded(subject)
        decoding = clocked(partial(getattr, trace, "events"))
        share = EVENTS / len(trace)
        seconds["decoding"].append(share * decoding)
        for name, options in VIEWS.items():
            seconds[name].append(share * clocked(partial(render, trace, **options)))
            lines[name] = lines.get(name) or render(trace, **options).count("\n") + 1
    for name in VIEWS:
        yield Row(f"100,000 events as text, {name}", seconds[name], at_most(1), "s", f"{lines[name]:,} lines")
    yield Row("100,000 events decoded", seconds["decoding"], unit="s", note="once for each trace, when it is asked for")
    both = [a + b for a, b in zip(seconds["decoding"], seconds["tree"], strict=True)]
    yield Row("100,000 events decoded and as text, tree", both, at_most(1), "s")
    yield from as_page(trace, effort.repeats(2))


def as_page(trace: insitu.Trace, repeats: int) -> Iterator[Row]:
    """How long it takes to make one HTML file of them, and how large that is."""
    share = EVENTS / len(trace)
    seconds = [share * clocked(partial(page, trace)) for _ in range(repeats)]
    yield Row("100,000 events as a page", seconds, unit="s")
    yield Row("100,000 events as a page, size", [share * len(page(trace).encode())], at_most(3e6), "B")


def recorded(subject: Subject) -> insitu.Trace:
    """A trace of at least so many events, not yet decoded."""
    with insitu.record(subject.model, level="aten") as one:
        subject.forward()
    with insitu.record(subject.model, level="aten") as trace:
        for _ in range(-(-EVENTS // len(one))):
            subject.forward()
    return trace


def clocked(run: Callable[[], object]) -> float:
    """The CPU time of one run."""
    gc.collect()
    start = process_time()
    result = run()
    taken = process_time() - start
    del result
    return taken
