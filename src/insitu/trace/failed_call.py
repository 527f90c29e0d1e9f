"""The call that raised the exception which ended a trace."""

from __future__ import annotations

from collections.abc import Sequence

from insitu.trace.event import Call, Event


def failed_call(events: Sequence[Event], error: str | None = None) -> Call | None:
    """The innermost call that the exception `error`, which ended the trace, came from; None if it came from no call.

    Without a name for the exception, it is the one that ended the last outermost call.

    >>> outer = Call(0, None, "module", "Net", raised="RuntimeError")
    >>> inner = Call(1, 0, "function", "torch.mm", raised="RuntimeError")
    >>> failed_call([outer, inner]).name
    'torch.mm'
    """
    if error is None:
        error = _last_error(events)
    if error is None:
        return None
    # Calls are in the order in which they began: the innermost of those that an exception left began last.
    found = (event for event in reversed(events) if isinstance(event, Call) and event.raised == error)
    return next(found, None)


def _last_error(events: Sequence[Event]) -> str | None:
    """The exception that ended the last outermost call."""
    outermost = (event for event in reversed(events) if isinstance(event, Call) and event.parent is None)
    last = next(outermost, None)
    if last is None:
        return None
    return last.raised
