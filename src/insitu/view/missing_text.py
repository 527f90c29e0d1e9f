"""Sentences about the events that a trace no longer holds."""

from __future__ import annotations

from typing import Any

from insitu.trace.missing import Missing, missing_of
from insitu.trace.trace import Trace
from insitu.view.line import Line


def missing_text(missing: Missing) -> str:
    """The number of missing events and their steps, in a sentence or two.

    >>> missing_text(Missing(4000, (0, 41)))
    '4,000 events of steps 0 … 41 are not in this trace: there was no memory for them'
    """
    text = f"{missing.events:,} events of {_steps(*missing.steps)} are not in this trace: there was no memory for them"
    if missing.on_disk:
        number = f"{missing.on_disk:,} of them"
        if missing.on_disk == missing.events:
            number = "them"
        text += f", and its .h5 file holds {number}"
    if missing.calls:
        calls = {1: "1 call lacks"}.get(len(missing.calls), f"{len(missing.calls)} calls lack")
        text += f"; {calls} some of what ran inside, which counts as own time"
    return text


def _steps(first: int, last: int) -> str:
    if first == last:
        return f"step {first}"
    return f"steps {first} … {last}"


def missing_lines(trace: Trace) -> list[Line]:
    """The lines before a trace with missing events."""
    missing = trace.missing
    if missing is None:
        return []
    return [Line((("! ", "red"), (missing_text(missing), "yellow")))]


def about_texts(about: dict[str, Any]) -> dict[str, str]:
    """The facts about a trace as texts, without the explanation of its exception, and without its crash."""
    about = {name: item for name, item in about.items() if name not in ("explanation", "crash")}
    missing = missing_of(about.get("missing"))
    if missing is not None:
        about = {**about, "missing": missing_text(missing)}
    return {str(name): str(item) for name, item in about.items() if item is not None}
