"""Texts that are too long for their place, cut so that what matters stays, with a sign where something is left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from insitu.view.line import DETAIL, Line, Span

NARROW_PARTS = (12, 8)  # characters of the first part of a name, and of others
LEAST_NAME = 10  # characters of a name before counts
COUNT = "yellow"  # the ink of `× 8`
COUNT_INKS = (COUNT, "grey")  # that, and of `40 calls`
NUMBER = "0123456789.,-+"

Places = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class Cutter:
    """Cuts texts to a width. `places` gives the width of a text, `more` is the sign where something is left out."""

    places: Places
    more: str

    def cut(self, text: str, width: int, *, keeps_end: bool) -> str:
        """A part of a text: its end, or its beginning."""
        if keeps_end:
            return self.end(text, width)
        return self.beginning(text, width)

    def beginning(self, text: str, width: int, closing: str = "") -> str:
        """The beginning of a text, and perhaps the sign that closes it. A part of a number is never shown.

        >>> cutter = Cutter(len, "…")
        >>> cutter.beginning("f32[2, 24, 128]", 14), cutter.beginning("(24, dtype=torch.bool)", 12, ")")
        ('f32[2, 24, …', '(24, dtype…)')
        """
        left = width - len(self.more) - len(closing)
        if left < 1:
            return self.more[:width]
        head = self._head(text, left)
        kept = _without_cut_number(head, text[len(head) :])
        if kept.rstrip().endswith(self.more):
            return kept.rstrip() + closing
        return kept + self.more + closing

    def end(self, text: str, width: int) -> str:
        """The end of a text; of a file with its folders, the file if it fits.

        >>> cutter = Cutter(len, "…")
        >>> cutter.end("transformers/…/modeling_bert.py:84", 24), cutter.end("model.py:84", 8)
        ('…/modeling_bert.py:84', '…l.py:84')
        """
        left = width - len(self.more)
        if left < 1:
            return self.more[:width]
        tail = self._tail(text, left)
        return self.more + tail[max(0, tail.rfind("/")) :]

    def ends(self, text: str, width: int) -> str:
        """The beginning and the end of a text."""
        left = width - len(self.more)
        if left < 2:
            return self.beginning(text, width)
        return self._head(text, left - left // 2) + self.more + self._tail(text, left // 2)

    def spans(self, spans: Sequence[Span], width: int) -> list[Span]:
        """The beginning of several spans; all of them if they fit."""
        if self.total(spans) <= width:
            return list(spans)
        kept: list[Span] = []
        for text, ink in spans:
            length = self.places(text)
            if length > width - len(self.more):
                return [*kept, (self.beginning(text, width), ink)]
            kept.append((text, ink))
            width -= length
        return kept

    def total(self, spans: Sequence[Span]) -> int:
        """The width of spans."""
        return sum([self.places(text) for text, _ in spans])

    def _head(self, text: str, width: int) -> str:
        text = text[:width]
        while self.places(text) > width:
            text = text[:-1]
        return text

    def _tail(self, text: str, width: int) -> str:
        text = text[-width:]
        while self.places(text) > width:
            text = text[1:]
        return text


def _without_cut_number(kept: str, rest: str) -> str:
    """The beginning of a text without the number that its end is a part of: that would be another number."""
    is_cut = kept[-1:].isdigit() and rest[:1] in NUMBER
    if is_cut:
        return kept.rstrip(NUMBER)
    return kept


def shorten(row: Line, width: int, cutter: Cutter) -> list[Span]:
    """The spans of a row, cut or filled with blanks to a width; a guide that takes half of it is cut, too."""
    guide: list[Span] = []
    name = row.body
    if row.depth:
        text, ink = row.spans[0]
        if cutter.places(text) > width // 2:
            text = cutter.end(text, width // 2)
        guide = [(text, ink)]
    left = width - cutter.total(guide)
    parts = _shortened(name, left, cutter)
    return [*guide, *parts, (" " * (left - cutter.total(parts)), "")]


def _shortened(name: Sequence[Span], width: int, cutter: Cutter) -> list[Span]:
    """A name cut to a width. The counts at its end, `× 8` and `40 calls`, stay if there is room for them."""
    if cutter.total(name) <= width:
        return list(name)
    end = len(name)
    while end > 1 and name[end - 1][1] in COUNT_INKS:
        end -= 1
    counts = name[end:]
    room = width - cutter.total(counts)
    if counts and room >= LEAST_NAME:
        return [*_shortened_parts(name[:end], room, cutter), *counts]
    return _shortened_parts(name, width, cutter)


def _shortened_parts(name: Sequence[Span], width: int, cutter: Cutter) -> list[Span]:
    """A name cut to a width: one with details part by part, another one at its end."""
    is_plain = all(ink != DETAIL for _, ink in name)
    if is_plain:
        return cutter.spans(name, width)
    lengths = [cutter.places(text) for text, _ in name]
    for index, fewest in _parts_to_cut(name, cutter.more):
        excess = sum(lengths) - width
        lengths[index] -= max(0, min(excess, lengths[index] - fewest))
    if sum(lengths) > width:
        return cutter.spans([_without_details(span, cutter.more) for span in name], width)
    return [_cut_part(span, length, cutter) for span, length in zip(name, lengths, strict=True)]


def _parts_to_cut(name: Sequence[Span], more: str) -> Iterator[tuple[int, int]]:
    """The parts of a name, those to cut first, and what is left of them: details, then the parts from the last on."""
    indices = range(len(name) - 1, -1, -1)
    details = [index for index in indices if name[index][1] == DETAIL]
    yield from ((index, len(more) + 2) for index in details)  # the parentheses, and a sign that there is more
    others = [index for index in indices if index not in details and name[index][1] != COUNT]
    yield from ((index, NARROW_PARTS[index > 0]) for index in others)


def _without_details(span: Span, more: str) -> Span:
    text, ink = span
    if ink == DETAIL:
        return (more, ink)
    return (text, ink)


def _cut_part(span: Span, width: int, cutter: Cutter) -> Span:
    """A part of a name, cut if it is longer: a single word in the middle, other parts at their end."""
    text, ink = span
    if cutter.places(text) <= width:
        return span
    if ink == DETAIL:
        return (cutter.beginning(text, width, closing=text[-1]), ink)
    if " " in text:
        return (cutter.beginning(text, width), ink)
    return (cutter.ends(text, width), ink)
