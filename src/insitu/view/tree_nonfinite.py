"""NaN and Inf in a tree: a mark in each row that has one, the line that names the first, and the totals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from insitu.trace.event import Call, Event, Mark, TensorFacts, Variable, tensors
from insitu.trace.nonfinite import NonFiniteEvent, NonFiniteSearch, key
from insitu.view.line import Line, Span
from insitu.view.number import count_text
from insitu.view.source_names import SourceNames

if TYPE_CHECKING:
    from insitu.view.first_nonfinite import FirstNonFinite

NOTHING: Span = ("", "")
MOST_FOUND = 100_000  # events that are remembered while a program runs


@dataclass(slots=True)
class NonFiniteCounts:
    """How many elements are NaN and Inf; of a tensor that contains both, the NaN count."""

    nan: int = 0
    inf: int = 0

    def add(self, facts: TensorFacts) -> None:
        """Add those of a tensor."""
        stats = facts.stats
        if stats is None:
            return
        if stats.nan:
            self.nan += stats.nan
        else:
            self.inf += stats.inf

    def __str__(self) -> str:
        return count_text({"NaN": self.nan, "Inf": self.inf})


class NonFiniteRows:
    """Follows NaN and Inf through the events of a tree. Masks of -inf and memory that nobody wrote are not marked.

    While a program runs, a NaN or Inf that may still heal is marked without a ✗. If it does not heal, a line names it
    once that is known.
    """

    def __init__(self, sources: SourceNames) -> None:
        self._sources = sources
        self._search = NonFiniteSearch()
        self._recent: list[Call | Variable] = []  # since the last outermost call
        self._origins: dict[int, Call | Variable] = {}
        self._undecided: list[Call] = []  # that were shown
        self._verdicts: dict[int, NonFiniteEvent] | None = None
        self._counted: set[object] = set()
        self._reported: dict[str, str] = {}  # the line of the first NaN, and of the first Inf
        self._has_forgotten = False
        self.counts = NonFiniteCounts()
        self.calls = 0

    def add(self, events: Iterable[Event]) -> None:
        """Receive events that are complete, in the order in which they ended."""
        for event in events:
            if isinstance(event, Mark):
                continue
            self._recent.append(event)
            if isinstance(event, Call) and not self._search.has_found:
                out = event.result
                if type(out) is TensorFacts and out.stats is None:  # as most often
                    continue
            self._search.add(event)

    def mark(self, events: Sequence[Call | Variable]) -> Span:
        """The mark of a row for one event or many: how many elements are NaN or Inf.

        The mark has a ✗ if that is wrong, and none if it may still heal.
        """
        if not self._search.has_found:
            return NOTHING
        wrong = str(_counts(filter(self._is_wrong, events)))
        if wrong:
            return (f"✗ {wrong}", "red")
        return (str(_counts(filter(self._may_heal, events))), "yellow")

    def _is_wrong(self, event: Call | Variable) -> bool:
        verdict = self._verdict(event.id)
        return verdict is not None and verdict.is_wrong

    def _may_heal(self, event: Call | Variable) -> bool:
        verdict = self._verdict(event.id)
        return verdict is not None and verdict.may_heal

    def _verdict(self, id: int) -> NonFiniteEvent | None:
        if self._verdicts is not None:
            return self._verdicts.get(id)
        return self._search.so_far(id)

    def settle(self) -> None:
        """Receive the end of all events: what did not heal is wrong."""
        self._verdicts = self._search.result()

    def lines(self) -> Iterator[Line]:
        """A line for the first NaN, and for the first Inf if that began earlier, unless it was shown before."""
        if not self._search.has_found:
            return
        self._count()
        for first in self._firsts():
            text = self._text(first)
            if self._is_news(first.what, text):
                self._reported[first.what] = text
                yield first_line(text)

    def _is_news(self, what: str, text: str) -> bool:
        """Whether no line was shown for a first NaN or Inf; at the end, whether another one was."""
        if self._verdicts is not None:
            return self._reported.get(what) != text
        return what not in self._reported

    def repeated_lines(self) -> Iterator[Line]:
        """The lines that were shown before."""
        yield from map(first_line, self._reported.values())

    def _firsts(self) -> list[FirstNonFinite]:
        from insitu.view.first_nonfinite import first_among  # only a trace with NaN or Inf needs the reasons

        is_over = self._verdicts is None and "NaN" in self._reported
        if is_over or self._has_forgotten:
            return []
        known = self._origins | {event.id: event for event in self._recent}
        if self._verdicts is not None:
            return first_among(self._verdicts, known)
        found = {id: verdict for id in self._search.origins if (verdict := self._search.so_far(id)) is not None}
        return first_among(found, known)

    def _text(self, first: FirstNonFinite) -> str:
        if first.site is None:
            return first.text_at("")
        return first.text_at(self._sources.place(first.site))

    def _count(self) -> None:
        """Count the elements that are wrong, each tensor once."""
        calls = [event for event in self._recent if isinstance(event, Call)]
        if self._verdicts is not None:
            calls += self._undecided
        for call in filter(self._is_wrong, calls):
            self.calls += 1
            for facts in call.outputs:
                if key(facts) not in self._counted:
                    self._counted.add(key(facts))
                    self.counts.add(facts)

    def forget(self) -> None:
        """Forget the calls that were shown, but for those in which NaN or Inf began, or may still heal."""
        if self._search.has_found:
            self._keep_origins()
            self._undecided += [event for event in self._recent if isinstance(event, Call) and self._may_heal(event)]
        self._recent = []
        if len(self._counted) + len(self._undecided) > MOST_FOUND:
            self._search, self._counted, self._undecided = NonFiniteSearch(), set(), []
            self._has_forgotten = True

    def _keep_origins(self) -> None:
        """Remember the calls in which NaN or Inf began; until there is one, the first variable that contains it."""
        origins = set(self._search.origins)
        self._origins.update((event.id, event) for event in self._recent if event.id in origins)
        if not self._origins:
            self._origins.update((event.id, event) for event in [*filter(self._is_wrong, self._recent)][:1])


def first_line(text: str) -> Line:
    """The line of the first NaN or Inf; it is never cut."""
    return Line(((text, "red"),))


def _counts(events: Iterable[Call | Variable]) -> NonFiniteCounts:
    """How many elements of events are NaN and Inf."""
    counts = NonFiniteCounts()
    for event in events:
        for facts in _tensors(event):
            counts.add(facts)
    return counts


def _tensors(event: Call | Variable) -> Iterable[TensorFacts]:
    if isinstance(event, Call):
        return event.outputs
    return tensors(event.value)
