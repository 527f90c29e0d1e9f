"""The words for an origin: in the table of an explanation, and in the advice to look at its line."""

from __future__ import annotations

from dataclasses import replace

from insitu.trace.advice import Advice
from insitu.trace.explain.explanation import Origin, OriginKind, RangeExit

# What the table of origins says for each kind: the name, if the origin has none of its own, and the words.
ORIGIN_WORDS: dict[OriginKind, tuple[str, str]] = {
    OriginKind.EARLIER: ("", "made in an earlier call, for"),
    OriginKind.SIZE: ("", "comes from"),
    OriginKind.FACT: ("", "since"),
    OriginKind.VALUE: ("", "comes from"),
    OriginKind.SOURCE: ("", "comes from"),
    OriginKind.POSSIBLE_SOURCE: ("", "may come from"),
    OriginKind.NOT_SAVED: ("", "is not part of the state_dict, since"),
    OriginKind.RANGE: ("", "{exit} at"),
    OriginKind.PRODUCED: ("", "made at"),
    OriginKind.ASSIGNED: ("", "assigned at"),
    OriginKind.PASSED: ("", "passed to {receiver} at"),
    OriginKind.VALUES_PRODUCED: ("", "its values made at"),
    OriginKind.GRADIENT_LOST: ("gradient", "lost at"),
    OriginKind.GRADIENT_OFF: ("gradient", "switched off at"),
    OriginKind.GRADIENT_LEFT_OFF: ("gradient", "may be left switched off at"),
    OriginKind.FROZEN: ("", "frozen at"),
    OriginKind.NUMBER: ("", "became a plain number at"),
    OriginKind.NO_GRADIENT_PRODUCED: ("", "made without a gradient at"),
    OriginKind.NO_GRADIENT_ASSIGNED: ("", "has no gradient, assigned at"),
    OriginKind.CARRIED: ("", "made before that, at"),
    OriginKind.STORED: ("", "stored at"),
    OriginKind.READ_LATER: ("", "read after it, at"),
    OriginKind.GRAPH_FREED: ("graph", "freed by the backward at"),
    OriginKind.CHANGED_IN_PLACE: ("changed", "in place at"),
    OriginKind.NEEDED_FOR_GRADIENT: ("needed", "for the gradient of"),
    OriginKind.NAN_PRODUCED: ("NaN", "made from {count} at"),
    OriginKind.HANDED_OUT: ("shared", "without a copy at"),
    OriginKind.BACKWARD_OF: ("backward", "of the call at"),
    OriginKind.CUSTOM_GRADIENT: ("", "gradient at"),
}
# What happens at an origin, for those kinds whose name does not say it.
EVENTS = {
    OriginKind.GRADIENT_OFF: "gradients are switched off there",
    OriginKind.GRADIENT_LOST: "the gradient is lost there",
    OriginKind.FROZEN: "parameters are frozen there",
    OriginKind.NUMBER: "a tensor becomes a plain number there",
    OriginKind.STORED: "the tensor that is carried over is stored there",
    OriginKind.NAN_PRODUCED: "NaN is produced there",
    OriginKind.VALUES_PRODUCED: "the values come from there",
}
COUNTS = {0: "no element", 1: "one element"}


def connection(origin: Origin) -> str:
    """How a value is connected with the site of its origin: `made at`.

    >>> connection(Origin(OriginKind.RANGE, range_exit=RangeExit(72, is_above=True)))
    'goes past 72 at'
    >>> connection(Origin(OriginKind.NAN_PRODUCED, count=0))
    'made from no element at'
    """
    _, words = ORIGIN_WORDS[origin.kind]
    return words.format(receiver=origin.receiver, exit=_exit(origin.range_exit), count=_elements(origin.count))


def origin_name(origin: Origin) -> str:
    """What comes from there: a size, or the name of a value."""
    if origin.kind is OriginKind.SIZE:
        return f"the {origin.size}"
    default, _ = ORIGIN_WORDS[origin.kind]
    return origin.name or default


def with_reason(advice: Advice, origins: tuple[Origin, ...]) -> Advice:
    """An advice; the advice to look at the line of an origin gets what is known about that line."""
    index = advice.look_at.origin if advice.look_at is not None else None
    if index is None or index not in range(len(origins)):
        return advice
    return replace(advice, doubt=_event(origins[index]))


def _event(origin: Origin) -> str:
    """What happens at the line of an origin."""
    if origin.kind in EVENTS:
        return EVENTS[origin.kind]
    if origin.range_exit is not None:
        return f"{origin.name} {_exit(origin.range_exit)} there"
    if origin.size is not None:
        return f"the {origin.size} comes from there"
    if origin.name:
        return f"{origin.name} comes from there"
    return ""


def _exit(found: RangeExit | None) -> str:
    """How elements leave their range."""
    if found is None:
        return ""
    if found.is_above:
        return f"goes past {found.limit}"
    return f"goes below {found.limit}"


def _elements(count: int | None) -> str:
    """A number of elements."""
    if count is None:
        return ""
    return COUNTS.get(count, f"{count} elements")
