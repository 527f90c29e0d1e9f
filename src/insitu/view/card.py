"""A card: a title, a place in the source, and facts, each behind a label. One form for text and for notebooks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from insitu.trace.event import Site, TensorFacts
from insitu.view.line import Line, Span
from insitu.view.name import spot
from insitu.view.value import safe, short

MOST_SOURCE = 200  # characters of a line of source


@dataclass(slots=True, frozen=True)
class Fact:
    """A fact behind its label; `facts` is the tensor that it is about, whose histogram can be drawn."""

    label: str
    spans: tuple[Span, ...]
    facts: TensorFacts | None = None


@dataclass(slots=True, frozen=True)
class Card:
    """What is known about one thing. `severity` is "error", "warning", "info", or nothing."""

    title: tuple[Span, ...]
    site: Site | None = None
    facts: tuple[Fact, ...] = ()
    severity: str = ""


@dataclass(slots=True, frozen=True)
class MarkedSource:
    """A line of source without its indentation, in three parts: the expression that is meant is the second."""

    before: str
    marked: str = ""
    after: str = ""

    @property
    def underline(self) -> str:
        """A line that is drawn under the expression."""
        return " " * len(self.before) + "─" * len(self.marked)


def marked_source(site: Site) -> MarkedSource:
    """The line of source of a site.

    >>> marked_source(Site("model.py", 3, "forward", "    y = x.relu()", start=8, end=16))
    MarkedSource(before='y = ', marked='x.relu()', after='')
    """
    text = site.text.rstrip()
    indent = len(text) - len(text.lstrip())
    if site.start is None or site.end is None:
        return MarkedSource(short(safe(text[indent:]), MOST_SOURCE))
    parts = (text[indent : site.start], text[site.start : site.end], text[site.end :])
    return MarkedSource(*(short(safe(part), MOST_SOURCE) for part in parts))


def place_text(site: Site) -> str:
    """The file, the line and the function of a site."""
    return f"{spot(site)} in {safe(site.function)}"


def card_lines(card: Card) -> Iterator[Line]:
    """A card as text."""
    yield Line(card.title)
    if card.site is not None:
        yield Line((("  ", ""), (place_text(card.site), "grey")))
        yield from _source_lines(marked_source(card.site))
    width = max((len(fact.label) for fact in card.facts), default=0)
    for fact in card.facts:
        yield Line(((f"  {fact.label:{width}}  ", "grey"), *fact.spans))


def _source_lines(source: MarkedSource) -> Iterator[Line]:
    text = f"{source.before}{source.marked}{source.after}"
    if text:
        yield Line(((f"    {text}", ""),))
    if source.marked:
        yield Line(((f"    {source.underline}", "grey"),))
