"""Rows of the tree for several calls: a loop, a line of the user, a function, what a library does for an expression."""

from __future__ import annotations

import re
from collections.abc import Sequence

from insitu.trace.fold import Fold
from insitu.trace.forest import Group
from insitu.view.line import Span
from insitu.view.name import expression
from insitu.view.tree_row import Gap
from insitu.view.value import safe, short

MOST_TEXT = 72  # characters of a line of source
COMMENT = re.compile(r"\s+#[^'\"]*$")
FOR = re.compile(r"\s*(?:async\s+)?for\s.*?\sin\s+")


def group_spans(group: Group, item: Fold) -> tuple[Span, ...]:
    """The name of a row for several calls, and how many they are."""
    if group.kind == "pass":
        return ((f"× {item.count} alike", "yellow"),)
    if group.kind == "token":
        return _token_spans(item)
    if group.has_passes:
        return ((source_text(group), "teal"), *_passes(group, item))
    if group.kind == "rest":
        return ((f"… {calls_text(item)}", "grey"),)
    spans: tuple[Span, ...] = ((source_text(group), "teal"), (f"  {calls_text(item)}", "grey"))
    if item.count > 1:
        spans = (*spans, (f"  × {item.count} alike", "yellow"))
    return spans


def _token_spans(item: Fold) -> tuple[Span, ...]:
    """The number of a token, or those of the first and the last of several that are alike."""
    numbers = [node.event.number for node in item.nodes if isinstance(node.event, Group)]
    first, last = min(numbers), max(numbers)
    if first == last:
        return ((f"token {first}", "teal"),)
    return ((f"token {first} … token {last}", "teal"), (f"  × {item.count} alike", "yellow"))


def source_text(group: Group) -> str:
    """The source of a group: the header of a loop, the name of a function, a line, or an expression."""
    site = group.site
    if group.kind == "token":
        return f"token {group.number}"
    if group.loop is not None:
        return short(safe(group.loop.text), MOST_TEXT)
    if group.kind == "rest":
        return "…"
    if group.kind in ("function", "pass") and site is not None:
        return safe(site.function)
    if site is not None and site.end is None:
        return _line_text(site.text)
    return expression(site)


def _line_text(text: str) -> str:
    """A line without its comment; of the header of a loop, what the loop goes through."""
    header = FOR.match(text)
    if header is not None:
        text = _before_colon(text[header.end() :])
    return short(safe(COMMENT.sub("", text).strip()), MOST_TEXT)


def _before_colon(text: str) -> str:
    """A text up to the colon that ends the header of a loop; the colon of a slice or a dict is in brackets.

    >>> _before_colon("rows[:2]: print(1)")
    'rows[:2]'
    """
    depth = 0
    for place, letter in enumerate(text):
        if letter == ":" and depth == 0:
            return text[:place]
        depth += (letter in "([{") - (letter in ")]}")
    return text


def _passes(group: Group, item: Fold) -> tuple[Span, ...]:
    """How often the body of a loop ran: exactly, or at least so often."""
    text = range_text(item.passes)
    if group.is_unsure and _has_loop(group):
        text = f"≥ {text}"
    elif group.is_unsure:
        text = f"{text} in all"
    if text in ("1", "≥ 1"):
        return ()
    return ((f"  × {text}", "yellow"),)


def _has_loop(group: Group) -> bool:
    """Whether another loop is in the first pass of a loop."""
    return any(isinstance(node.event, Group) for node in group.nodes[0].children)


def present_spans(item: Fold) -> tuple[Span, ...]:
    """In how many of the passes around it a row occurs, if not in all."""
    if item.present == item.blocks:
        return ()
    return ((f"  in {item.present:,} of {item.blocks:,}", "yellow"),)


def calls_text(item: Fold) -> str:
    """The number of calls of a row."""
    counts = [node.event.calls for node in item.nodes if isinstance(node.event, Group)]
    return _calls(range_text(counts))


def _calls(number: str) -> str:
    if number == "1":
        return "1 call"
    return f"{number} calls"


def closed_spans(item: Fold) -> tuple[Span, ...]:
    """What a row hides that is not open, unless its name says that already."""
    event = item.event
    if isinstance(event, Group):
        has_number_of_calls = not event.has_passes and event.kind != "token"
        if has_number_of_calls:
            return ()
        return ((f"  … {calls_text(item)}", "grey"),)
    text = range_text([node.size - 1 for node in item.nodes])
    return ((f"  … {_calls(text)}", "grey"),)


def gap_spans(gap: Gap) -> tuple[Span, ...]:
    """How many calls the rows have that are not shown."""
    return ((f"… {_calls(range_text([gap.calls]))}", "grey"),)


def range_text(counts: Sequence[int]) -> str:
    """A number, or the least and the largest of several.

    >>> range_text([4, 4]), range_text([8, 4, 1200])
    ('4', '4–1,200')
    """
    least, most = min(counts), max(counts)
    if least == most:
        return f"{most:,}"
    return f"{least:,}–{most:,}"
