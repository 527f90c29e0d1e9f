"""Sentences about the events that a trace no longer holds."""

from __future__ import annotations

from typing import Any

from insitu.trace.missing import Missing, missing_of
from insitu.trace.trace import Trace
from insitu.view.line import Line


def missing_text(missing: Missing) -> str:
    """What is missing, in a sentence or two.

    >>> missing_text(Missing(4000, (0, 41)))
    '4,000 events of steps 0 … 41 are not in this trace: there was no memory for them'
    """
    first, last = missing.steps
    steps = f"step {first}" if first == last else f"steps {first} … {last}"
    text = f"{missing.events:,} events of {steps} are not in this trace: there was no memory for them"
    if missing.on_disk:
        number = "them" if missing.on_disk == missing.events else f"{missing.on_disk:,} of them"
        text += f", and its .h5 file holds {number}"
    if missing.calls:
        calls = f"{len(missing.calls)} calls lack" if len(missing.calls) > 1 else "1 call lacks"
        text += f"; {calls} some of what ran inside, which counts as own time"
    return text


def missing_lines(trace: Trace) -> list[Line]:
    """The lines before a trace with missing events."""
    missing = trace.missing
    if missing is None:
        return []
    return [Line((("! ", "red"), (missing_text(missing), "yellow")))]


def about_texts(about: dict[str, Any]) -> dict[str, str]:
    """The facts about a trace as texts."""
    missing = missing_of(about.get("missing"))
    told = {**about, "missing": missing_text(missing)} if missing is not None else about
    return {str(name): str(item) for name, item in told.items() if item is not None}
