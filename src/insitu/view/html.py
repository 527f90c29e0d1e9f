"""The page: a trace, a comparison, or variables over steps, as one HTML file that needs no network and no server."""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from insitu.errors import SubjectError, tell
from insitu.trace.collector import pause_collector
from insitu.trace.counter import count_progress
from insitu.trace.diff import Diff
from insitu.trace.event import Event, Variable
from insitu.trace.run import Curve
from insitu.trace.selection import select
from insitu.trace.trace import Trace
from insitu.view.missing_text import about_texts
from insitu.view.page import drawn_series, pairs
from insitu.view.page.flags import HAS_INF, HAS_NAN, IS_ORIGIN, IS_WRONG
from insitu.view.page.packing import PackedColumns
from insitu.view.page.row_columns import KINDS, RowColumns
from insitu.view.page.rows import page_rows, places
from insitu.view.page.tables import Tables
from insitu.view.value import safe, short

# The files of `page/web` in the order in which they are joined.
SCRIPTS = (
    *("data", "elements", "formats", "canvas"),
    *("row_tree", "grid", "search", "calls", "call_row"),
    *("histogram", "details", "minimap", "flame", "graph", "series", "pairs"),
    *("app", "keys", "splitter", "start"),
)
STYLES = ("colours", "frame", "layout", "tree", "details", "time", "series", "diff", "narrow")
LARGE = 50_000_000  # characters, from which on browsers take long
POLICY = (
    "default-src 'none'; script-src '{script}'; style-src '{style}'; img-src data:; base-uri 'none'; form-action 'none'"
)

# The flags of a row for what is not finite; the page gets them with its data.
FLAGS = {"HAS_NAN": HAS_NAN, "HAS_INF": HAS_INF, "IS_WRONG": IS_WRONG, "IS_ORIGIN": IS_ORIGIN}

Named = tuple[str, Sequence[Curve]]


def page(
    subject: Trace | Diff | None = None,
    *,
    curves: Iterable[Named] = (),
    title: str | None = None,
    source: bool = True,
    only: str | Iterable[str] | None = None,
    steps: Iterable[int] | None = None,
    depth: int | None = None,
) -> str:
    """A trace or a `Diff` as the text of an HTML file.

    `curves` are variables of a recorded run, each a name and the curves of its ranks (`insitu.store.run.curves`);
    with them the subject may be left out. `source=False` leaves out the lines of source code. What is too much for a
    browser is made less by `only` (path patterns), `steps` (their numbers) and `depth` (levels of the tree).

    >>> from insitu.trace.event import Call
    >>> page(Trace([Call(0, None, "function", "torch.rand")]))[:15]
    '<!doctype html>'
    """
    if not isinstance(subject, (Trace, Diff, type(None))):
        raise SubjectError(f"a page shows a Trace or a Diff, not a {type(subject).__name__}: page(trace)")
    with pause_collector():
        tables, columns, drawn = Tables(source=source), PackedColumns(), drawn_series.of_curves(curves)
        rows = RowColumns(tables)
        header: dict[str, Any] = {"about": {}, "kinds": KINDS, "flags": FLAGS}
        if isinstance(subject, Diff):
            header["diff"] = pairs.fill(subject, tables, rows, columns)
        elif subject is not None:
            events = _chosen(subject, only, steps)
            drawn += _fill(subject, events, tables, rows, depth)
            header |= {"about": _about(subject), "events": len(events)}
        header |= {"title": _title(subject, title), "series": drawn_series.fill(columns, drawn)}
        rows.fill(columns)
        text = _joined(header["title"], columns.packed(header | tables.fill(columns)))
    if len(text) > LARGE:
        tell(f"a page of {len(text) / 1e6:.0f} MB is slow to open: give only=, steps= or depth= to show a part")
    return text


def _chosen(trace: Trace, only: str | Iterable[str] | None, steps: Iterable[int] | None) -> list[Event]:
    events = select(trace.events, only)
    if steps is None:
        return events
    wanted = set(steps)
    return [event for event in events if event.step in wanted]


def _fill(
    trace: Trace, events: list[Event], tables: Tables, rows: RowColumns, depth: int | None
) -> list[drawn_series.DrawnSeries]:
    every, facts = page_rows(trace.events, shown={event.id for event in events}, depth=depth)
    tables.begin(places(every))
    for row in count_progress(every, len(every), "filling the page"):
        rows.add(row, facts)
    return drawn_series.of_variables([event for event in events if isinstance(event, Variable)], tables.places)


def _about(trace: Trace) -> dict[str, str]:
    return {safe(name): short(safe(text), 200) for name, text in about_texts(trace.about).items()}


def _title(subject: Trace | Diff | None, title: str | None) -> str:
    if title is not None:
        return short(safe(title), 200)
    if subject is None:
        return "insitu"
    if isinstance(subject, Diff):
        return short(safe(" | ".join(subject.labels)), 200)
    named = subject.about.get("subject") or "insitu"
    return short(safe(str(named)), 200)


def _joined(title: str, data: str) -> str:
    """The whole file."""
    script, style, frame = _parts()
    policy = POLICY.format(script=_digest(script), style=_digest(style))
    parts = {"title": html.escape(title), "policy": policy, "style": style, "script": script, "data": data}
    pieces = frame.split("%%")
    pieces[1::2] = [parts[name] for name in pieces[1::2]]
    return "".join(pieces)


@cache
def _parts() -> tuple[str, str, str]:
    """The script, the style and the frame around them, joined from their files."""
    folder = files("insitu.view") / "page" / "web"
    scripts = "\n".join([(folder / f"{name}.js").read_text("utf-8") for name in SCRIPTS])
    styles = "\n".join([(folder / f"{name}.css").read_text("utf-8") for name in STYLES])
    return f'"use strict";\n(() => {{\n{scripts}\n}})();\n', styles, (folder / "frame.html").read_text("utf-8")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
