"""The answer on top of a page: the exception that ended a run, its first NaN or Inf, the first difference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from insitu.trace.crash import Crash
from insitu.trace.diff import Diff
from insitu.trace.event import Call, Event, Mark, Variable
from insitu.trace.explain.explanation import Explanation
from insitu.trace.failed_call import failed_call
from insitu.trace.first_findings import first_origins, nonfinite_finding
from insitu.trace.nonfinite import NonFiniteEvent
from insitu.trace.trace import Trace
from insitu.view.crash_text import crash_contents, crash_details, crash_head
from insitu.view.diff import verdict_lines
from insitu.view.first_nonfinite import first_among
from insitu.view.headline import headline, name_in_module
from insitu.view.name import spot
from insitu.view.value import safe, short

MOST_TEXT = 400
MOST_LINES = 60
NO_ROW = -1

Seen = Call | Variable


@dataclass(frozen=True, slots=True)
class Answer:
    """One line of the banner; `banner.js` reads it.

    `head` says what it is, `text` where and why, `more` explains it in several lines, `row` is the row of the call.
    """

    kind: Literal["crash", "exception", "nonfinite", "difference"]
    head: str
    text: str
    more: str = ""
    row: int = NO_ROW

    def plain(self) -> dict[str, Any]:
        """The same as plain data."""
        return asdict(self)


def trace_answers(
    trace: Trace, found: Mapping[int, NonFiniteEvent], rows: Mapping[int, int], *, source: bool
) -> Iterator[Answer]:
    """What a trace says first: why a guard wrote it, its exception, then its first NaN or Inf; nothing of it twice.

    `found` are the events that are not finite, `rows` the rows of events by id. Without `source`, no source is shown.
    """
    others = list(_failures(trace, found, rows, source=source))
    crash = trace.crash
    if crash is not None:
        same = next((answer for answer in others if _is_same_event(crash, answer, rows)), None)
        yield _crashed(crash, same, rows, source=source)
        others = [answer for answer in others if answer is not same]
    yield from others


def _failures(
    trace: Trace, found: Mapping[int, NonFiniteEvent], rows: Mapping[int, int], *, source: bool
) -> Iterator[Answer]:
    """The exception of a trace, then its first NaN or Inf."""
    events, explanation = trace.events, trace.explanation
    if explanation is not None:
        yield _explained(explanation, failed_call(events, explanation.error), rows, source=source)
    else:
        yield from _raised(failed_call(events), rows)
    yield from _nonfinite(events, found, rows)


def _is_same_event(crash: Crash, answer: Answer, rows: Mapping[int, int]) -> bool:
    """Whether an answer is about what made a guard write the last steps."""
    if answer.row != _crash_row(crash, rows):
        return False
    return (crash.kind, answer.kind) in (("exception", "exception"), ("finding", "nonfinite"))


def _crash_row(crash: Crash, rows: Mapping[int, int]) -> int:
    if crash.call is None:
        return NO_ROW
    return rows.get(crash.call, NO_ROW)


def _crashed(crash: Crash, same: Answer | None, rows: Mapping[int, int], *, source: bool) -> Answer:
    """Why a guard wrote the last steps, and what is in the file; `same` is what else is known about the event."""
    text, contents = safe(crash.text), crash_contents(crash)
    more = "\n".join(crash_details(crash)) if source else ""  # findings and stacks show lines of source
    row = _crash_row(crash, rows)
    if same is not None and same.kind == "exception":
        text = f"{same.head}: {same.text}"
        more = "\n\n".join(filter(None, [same.more, more]))
        return Answer("exception", crash_head(crash), short(f"{text} · {contents}", MOST_TEXT), more, row)
    return Answer("crash", crash_head(crash), short(f"{text} · {contents}", MOST_TEXT), more, row)


def _explained(explanation: Explanation, call: Call | None, rows: Mapping[int, int], *, source: bool) -> Answer:
    """The exception that ended the recording, with its explanation."""
    if not source:
        explanation = replace(explanation, source=(), underlines=(), advice=None)  # a fix is source
    message = explanation.message.strip().partition("\n")[0]
    reasons = [safe(misfit.text) for misfit in explanation.misfits[:1]]
    text = " · ".join(filter(None, [safe(message), _place(explanation, call), *reasons]))
    return Answer(
        "exception", safe(explanation.error), short(text, MOST_TEXT), _explanation_text(explanation), _row(call, rows)
    )


def _place(explanation: Explanation, call: Call | None) -> str:
    """Where the exception was raised: the call and its line, else the line."""
    places = []
    if call is not None:
        places.append(name_in_module(call))
    if explanation.site is not None:
        places.append(f"({spot(explanation.site)})")
    return " ".join(places)


def _explanation_text(explanation: Explanation) -> str:
    """The explanation as `insitu.explain` prints it; an error of insitu explains itself in its message."""
    if explanation.site is None and "\n" in explanation.message:
        return _lines(explanation.message.splitlines())
    return _lines(str(explanation).splitlines())


def _lines(lines: Sequence[str]) -> str:
    """Lines of text, each without control characters."""
    return "\n".join(map(safe, lines[:MOST_LINES]))


def _raised(call: Call | None, rows: Mapping[int, int]) -> Iterator[Answer]:
    """The exception of the last call, if nothing explains it."""
    if call is None or call.raised is None:
        return
    text = name_in_module(call)
    if call.site is not None:
        text += f" ({spot(call.site)})"
    if call.message:
        text += f": {safe(call.message)}"
    yield Answer("exception", safe(call.raised), short(text, MOST_TEXT), row=_row(call, rows))


def _nonfinite(
    events: Sequence[Event], found: Mapping[int, NonFiniteEvent], rows: Mapping[int, int]
) -> Iterator[Answer]:
    """The first NaN and, if that was earlier, the first Inf."""
    if not first_origins(found):
        return
    known = {event.id: event for event in events if not isinstance(event, Mark)}
    for first in first_among(found, known):
        text = first.text.removeprefix(f"first {first.what}: ")
        more = ""
        if isinstance(first.event, Call):
            more = _lines(nonfinite_finding(first.event, known).text.splitlines())
        row = _row(_shown(first.event, known, rows), rows)
        yield Answer("nonfinite", f"First {first.what}", short(text, MOST_TEXT), more, row)


def _shown(event: Seen | None, known: Mapping[int, Seen], rows: Mapping[int, int]) -> Seen | None:
    """The event, or the innermost call around it that has a row."""
    while event is not None and event.id not in rows:
        event = None if event.parent is None else known.get(event.parent)
    return event


def _row(event: Seen | None, rows: Mapping[int, int]) -> int:
    if event is None:
        return NO_ROW
    return rows.get(event.id, NO_ROW)


def diff_answers(diff: Diff, row: int) -> Iterator[Answer]:
    """The first difference of two runs, at a row."""
    if diff.first is None:
        return
    more = _lines([str(line).rstrip() for line in verdict_lines(diff)])
    yield Answer("difference", "First difference", short(headline(diff, diff.first), MOST_TEXT), more, row)
