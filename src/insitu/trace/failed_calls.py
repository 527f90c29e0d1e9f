"""The call that failed last, and the calls around it that the exception ended as well."""

from __future__ import annotations

from collections.abc import Iterable

from insitu.trace.event import Call, Event


def failed_calls(events: Iterable[Event]) -> list[Call]:
    """The calls that the last exception ended, the innermost first. Events come in the order in which they ended.

    >>> inner, outer = Call(1, 0, "function", "f", raised="E"), Call(0, None, "module", "M", raised="E")
    >>> [call.name for call in failed_calls([Call(2, 0, "function", "g"), inner, outer])]
    ['f', 'M']
    """
    found: list[Call] = []
    for event in events:
        if not isinstance(event, Call) or event.raised is None:
            continue
        if found and found[-1].parent == event.id:
            found.append(event)
        else:
            found = [event]
    return found
