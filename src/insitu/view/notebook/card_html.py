"""A card as HTML: a coloured edge, the line of source with its expression marked, facts with histograms."""

from __future__ import annotations

from insitu.trace.event import TensorFacts
from insitu.view.card import Card, Fact, MarkedSource, marked_source, place_text
from insitu.view.notebook.folded_list import spans_of
from insitu.view.notebook.markup import NOTHING, Markup, element, joined
from insitu.view.notebook.picture import histogram
from insitu.view.number import figure, is_whole


def card_html(card: Card) -> Markup:
    """A card."""
    parts = [element("div", spans_of(card.title), class_="i-title")]
    if card.site is not None:
        parts.append(element("div", place_text(card.site), class_="i-grey"))
        parts.append(_source(marked_source(card.site)))
    if card.facts:
        parts.append(element("table", element("tbody", *map(_row, card.facts))))
    return element("div", *parts, class_=f"i-card i-{card.severity or 'plain'}")


def _source(source: MarkedSource) -> Markup:
    if not f"{source.before}{source.marked}{source.after}":
        return NOTHING
    marked = element("mark", source.marked) if source.marked else NOTHING
    return element("pre", joined(source.before, marked, source.after), class_="i-code")


def _row(fact: Fact) -> Markup:
    cells = [element("td", fact.label, class_="i-grey"), element("td", spans_of(fact.spans))]
    if fact.facts is not None:
        cells.append(element("td", _picture(fact.facts)))
    return element("tr", *cells)


def _picture(facts: TensorFacts) -> Markup:
    """The histogram of a tensor, if it has one."""
    stats = facts.stats
    if stats is None or stats.min is None or stats.max is None or not any(stats.histogram):
        return NOTHING
    ends = [figure(end, whole=is_whole(facts.dtype)) for end in (stats.min, stats.max)]
    return histogram(stats.histogram, *ends)
