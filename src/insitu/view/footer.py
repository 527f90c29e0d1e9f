"""The footer of a tree: one grey line with the totals of what it shows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, repeat

from insitu.trace.costs import size
from insitu.trace.event import Call, TensorFacts, tensors
from insitu.view.line import Line, Span, TimeSpan
from insitu.view.number import amount, call_time
from insitu.view.tree_nonfinite import NonFiniteRows

FEWEST_CALLS = 20  # with a footer of their own: fewer can be counted
BETWEEN = " · "


class Footer:
    """Adds up the calls of a tree, and the bytes of their outputs: each tensor counts in the call that produced it.

    >>> footer = Footer()
    >>> tensors = [TensorFacts(id, (256,), "f32", "cpu", producer=id) for id in range(1200)]
    >>> footer.add([Call(facts.id, None, "function", "f", result=facts, duration=10**6) for facts in tensors])
    >>> footer.remark("file written: step.h5")
    >>> str(footer.line())
    '1,200 calls · 1.0ms · 1.2 MiB of outputs · file written: step.h5'
    """

    def __init__(self) -> None:
        self._calls = self._left_out = 0
        self._start: int | None = None
        self._end = 0
        self._is_launch = False  # whether an accelerator has done some of the work
        self._bytes = 0
        self._remarks: list[str] = []

    def add(self, calls: Sequence[Call], *, left_out: int = 0) -> None:
        """Count calls that have rows, or that a row includes, and those that have none."""
        calls = [call for call in calls if not _is_inside_compiled(call)]
        self._calls += len(calls)
        self._left_out += left_out
        for call in [call for call in calls if call.parent is None]:
            self._add_time(call)
        for call in calls:
            out = call.result
            if type(out) is not TensorFacts:
                self._bytes += sum([size(facts) for facts in tensors(out) if facts.producer == call.id])
            elif out.producer == call.id:  # as most often
                self._bytes += size(out)

    def _add_time(self, call: Call) -> None:
        """Extend the time from the start of the first outermost call to the end of the last."""
        if self._start is None or call.start < self._start:
            self._start = call.start
        self._end = max(self._end, call.start + (call.duration or 0))
        self._is_launch = self._is_launch or call.has_launch_time

    def remark(self, *texts: str) -> None:
        """Add texts that the footer ends with: `file written: step.h5`."""
        self._remarks += texts

    def line(self, nonfinite: NonFiniteRows | None = None) -> Line | None:
        """The footer; None for a tree that is so short that the footer would say nothing new."""
        is_long = self._calls + self._left_out >= FEWEST_CALLS
        if not is_long and not self._remarks:
            return None
        parts = [*self._totals(), *_grey(*_nonfinite(nonfinite), *self._remarks)]
        gaps = repeat((BETWEEN, "grey"))
        return Line(tuple(chain.from_iterable(zip(gaps, parts, strict=False)))[1:])

    def _totals(self) -> Iterator[Span]:
        """The number of calls, their time and the size of their outputs, as far as they are known."""
        if self._calls or self._left_out:
            yield from _grey(self._count_text())
        time = self._end - (self._start or 0)
        if time:
            yield TimeSpan(call_time(time, is_launch=self._is_launch), "grey")
        if self._bytes:
            yield from _grey(f"{amount(self._bytes)} of outputs")

    def _count_text(self) -> str:
        if self._left_out:
            return f"{self._calls:,} of {self._calls + self._left_out:,} calls"
        return _calls(self._calls)


def _is_inside_compiled(call: Call) -> bool:
    """Whether a row is one of a compiled graph, which no call of the program made."""
    return call.mode == "compiled" and call.duration is None


def _grey(*texts: str) -> list[Span]:
    return [(text, "grey") for text in texts]


def _nonfinite(rows: NonFiniteRows | None) -> Iterable[str]:
    """How many elements are NaN and Inf, and in how many calls."""
    if rows is not None and rows.calls:
        yield f"{rows.counts} in {_calls(rows.calls)}"


def _calls(count: int) -> str:
    if count == 1:
        return "1 call"
    return f"{count:,} calls"
