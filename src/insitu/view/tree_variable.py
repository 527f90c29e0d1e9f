"""Variables and marks as rows of the tree."""

from __future__ import annotations

from insitu.trace.event import Mark, Variable
from insitu.trace.fold import Fold
from insitu.view.line import Column, Line, Span
from insitu.view.tree_cells import TreeCells
from insitu.view.tree_nonfinite import NOTHING
from insitu.view.value import held_text, safe, short

MOST_HELD = 60  # characters of what a variable held
DELETED, YIELDED, NEW = ("deleted",), ("yielded",), ("new",)


def mark_line(mark: Mark, depth: int, guide: str, columns: tuple[Column, ...]) -> Line:
    """A note of the user, or trouble of the tool itself."""
    return Line(((guide, "grey"), mark_span(mark)), (), columns, depth)


def mark_span(mark: Mark) -> Span:
    """The text of a mark, in red for trouble."""
    if mark.kind == "trouble":
        return (f"! {safe(mark.text)}", "red")
    return (f"# {safe(mark.text)}", "green")


def variable_line(item: Fold, depth: int, guide: str, cells: TreeCells) -> Line:
    """A variable, or several changes of it on one line of a loop: the first value and the last."""
    every = [node.event for node in item.nodes if isinstance(node.event, Variable)]
    spans: list[Span] = [(guide, "grey"), *_spans(every, item.count)]
    return Line(tuple(spans), cells.of_variables((_course(every), "blue"), every), cells.columns, depth)


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
    """The name of the row, and the change of the variable with its ink."""
    forms: dict[tuple[str, ...], tuple[str, Span]] = {
        YIELDED: ("yield", NOTHING),
        DELETED: (name, ("deleted", "red")),
        NEW: (f"{name} =", ("new", "green")),
        (): (f"{name} =", NOTHING),
    }
    return forms.get(changes) or (f"{name} =", (f"{', '.join(changes)} changed", "yellow"))


def _course(every: list[Variable]) -> str:
    """The first and the last value of a variable, and how often it was NaN between."""
    ends = [variable for variable in (every[0], every[-1]) if variable.changes != DELETED]
    texts = dict.fromkeys(held_text(variable.value) for variable in ends)
    text = short(" → ".join(filter(None, texts)), MOST_HELD)
    if len(every) < 3:
        return text
    odd = sum(_is_nan(variable.value) for variable in every)
    if odd:
        return f"{text}, {odd:,} NaN"
    return text


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and value != value
