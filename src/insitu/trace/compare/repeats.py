"""The same cause in many places: one line that runs in each layer, or in each step."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from insitu.trace.compare.change import Changes
from insitu.trace.diff import Cause, Compared
from insitu.trace.event import Call
from insitu.trace.forest import value_key


def distinct_causes(found: list[tuple[int, Cause]]) -> tuple[list[Cause], dict[int, int]]:
    """Causes without repeats, and for the number of each pair that is a cause the place of its cause among them.

    >>> calls = [Call(number, None, "function", "torch.rand", step=number) for number in range(3)]
    >>> every = [(call.id, Cause("random", call, call)) for call in calls]
    >>> causes, places = distinct_causes(every)
    >>> causes[0].times, places
    (3, {0: 0, 1: 0, 2: 0})
    """
    alike: dict[Any, list[Cause]] = {}
    numbers: dict[int, int] = {}
    places: dict[Any, int] = {}
    for number, cause in found:
        likeness = _likeness(cause)
        numbers[number] = places.setdefault(likeness, len(places))
        alike.setdefault(likeness, []).append(cause)
    return [_one_cause(causes) for causes in alike.values()], numbers


def _one_cause(causes: list[Cause]) -> Cause:
    """The first of several causes that are one, with the places of the others and the largest difference."""
    first = causes[0]
    again = tuple([(cause.a, cause.b) for cause in causes[1:]])
    sizes = [cause.delta for cause in causes if cause.delta is not None and cause.measure == first.measure]
    errors = [cause.relative for cause in causes if cause.relative is not None]
    return replace(first, again=again, delta=max(sizes, default=None), relative=max(errors, default=None))


def _likeness(cause: Cause) -> Any:
    """What two causes have in common that are one: the effect, the reason, the lines and the calls."""
    return cause.effect, cause.kind, cause.certainty, _place(cause.a), _place(cause.b), cause.unknown, _reason(cause)


def _reason(cause: Cause) -> Any:
    """What the sentence about a cause says: the changes, or else what is known of its inputs and of what is around."""
    reason = cause.reason
    if cause.kind == "gradient":
        return reason.cut, _key(reason.manner.layout)
    if reason.manner.changes:
        return _key(reason.manner.changes)
    around = [(name, _key(manner.changes + manner.layout)) for name, manner in reason.around]
    layout = _key(reason.manner.layout) if reason.is_equal else ()
    has_drift = cause.kind == "output" and reason.input_drift > 0
    return reason.shifts_draws, has_drift, layout, tuple(around)


def _key(changes: Changes) -> Any:
    """Changes as something with a hash."""
    return tuple([(change.aspect, change.name, value_key(change.a), value_key(change.b)) for change in changes])


def _place(event: Compared | None) -> Any:
    """The line and the call; without a line the module or variable."""
    if event is None:
        return None
    if event.site is not None:
        return event.name, event.site.file, event.site.line
    return event.name, event.path if isinstance(event, Call) else ""
