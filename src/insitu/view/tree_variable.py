"""Variables and marks as rows of the tree."""

from __future__ import annotations

from insitu.trace.event import Mark, Variable, tensors
from insitu.trace.fold import Fold
from insitu.view.line import Line, Span
from insitu.view.ranges import values_cell
from insitu.view.tree_cells import COLUMNS, NOTHING, kept_cell, source_cell
from insitu.view.value import held_text, safe, short

MOST_HELD = 60  # characters of what a variable held
DELETED, YIELDED, NEW = ("deleted",), ("yielded",), ("new",)


def mark_line(mark: Mark, depth: int, guide: str) -> Line:
    """A note of the user, or trouble of the tool itself."""
    sign, ink = ("!", "red") if mark.kind == "trouble" else ("#", "green")
    return Line(((guide, "grey"), (f"{sign} {safe(mark.text)}", ink)), (), COLUMNS, depth)


def variable_line(item: Fold, depth: int, guide: str) -> Line:
    """A variable, or several changes of it on one line of a loop: the first value and the last."""
    every = [node.event for node in item.nodes if isinstance(node.event, Variable)]
    spans: list[Span] = [(guide, "grey"), *_spans(every, item.count)]
    values = [variable.value for variable in every if variable.changes != DELETED]
    cell = values_cell([tuple(tensors(value)) for value in values]) or kept_cell(every[-1].value)
    site = every[0].site
    source = NOTHING if site is None else source_cell(site)
    return Line(tuple(spans), ((_course(every), "blue"), cell, NOTHING, source), COLUMNS, depth)


def _spans(every: list[Variable], count: int) -> list[Span]:
    """The name of the variable, how often it changed, and in which way."""
    changes = tuple(dict.fromkeys(change for variable in every for change in variable.changes))
    name, how = _name(safe(every[0].name), changes)
    spans: list[Span] = [(name, "bold")]
    if count > 1:
        spans.append((f"  × {count}", "yellow"))
    if how[0]:
        spans.append((f"  {how[0]}", how[1]))
    return spans


def _name(name: str, changes: tuple[str, ...]) -> tuple[str, Span]:
    """What the row is called, and what happened to the variable, with its ink."""
    forms: dict[tuple[str, ...], tuple[str, Span]] = {
        YIELDED: ("yield", NOTHING),
        DELETED: (name, ("deleted", "red")),
        NEW: (f"{name} =", ("new", "green")),
        (): (f"{name} =", NOTHING),
    }
    return forms.get(changes) or (f"{name} =", (f"{', '.join(changes)} changed", "yellow"))


def _course(every: list[Variable]) -> str:
    """What a variable held first and last, and how often it was NaN between."""
    ends = [variable for variable in (every[0], every[-1]) if variable.changes != DELETED]
    texts = dict.fromkeys(held_text(variable.value) for variable in ends)
    text = short(" → ".join(filter(None, texts)), MOST_HELD)
    odd = sum(_is_nan(variable.value) for variable in every) if len(every) > 2 else 0
    if odd:
        return f"{text}, {odd:,} NaN"
    return text


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and value != value
