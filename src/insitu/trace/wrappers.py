"""Wrappers: rows for a loop, a function or a line. One that only surrounds another row is left out."""

from __future__ import annotations

from insitu.trace.event import Call
from insitu.trace.fold import Arrange, Fold
from insitu.trace.forest import Group


def without_wrappers(items: list[Fold], arrange: Arrange, *, is_inside_call: bool) -> list[Fold]:
    """Rows without wrappers that say nothing of their own: a loop of one call is that call, several times."""
    found: list[Fold] = []
    for item in items:
        if _is_wrapper(item):
            found += _unwrapped(item, arrange, is_inside_call=is_inside_call)
        else:
            found.append(item)
    return found


def _is_wrapper(item: Fold) -> bool:
    """Whether a row is a loop, a function or a line."""
    return isinstance(item.event, Group) and item.event.is_wrapper


def _unwrapped(item: Fold, arrange: Arrange, *, is_inside_call: bool) -> list[Fold]:
    """The rows in place of a wrapper: those inside a single pass in a call, the only call, or the wrapper itself."""
    inside = item.children(arrange)
    if is_inside_call and item.is_single_pass:
        return inside
    call = _only_call(inside, arrange)
    passes = set(item.passes)
    if call is None or len(passes) > 1:
        return [item]
    is_loop_of_models = call.nodes[0].first.kind == "module" and not item.is_single_pass  # type: ignore[union-attr]
    if is_loop_of_models and not is_inside_call:
        return [item]
    return [Fold(call.nodes, call.count * passes.pop(), item.present, item.blocks)]


def _only_call(rows: list[Fold], arrange: Arrange) -> Fold | None:
    """The call that is alone in each pass, or alone in the lines and functions that are alone there."""
    while _is_alone(rows):
        (row,) = rows
        if isinstance(row.event, Call):
            return row
        if not _is_wrapper(row) or not row.is_single_pass:
            return None
        rows = row.children(arrange)
    return None


def _is_alone(rows: list[Fold]) -> bool:
    """Whether there is one row, and all passes have it."""
    return len(rows) == 1 and rows[0].present == rows[0].blocks
