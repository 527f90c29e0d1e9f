"""The page: a trace, a comparison, or variables over steps, as one HTML file that needs no network and no server."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files
from typing import Any

from insitu.errors import SubjectError, tell
from insitu.trace.collector import pause_collector
from insitu.trace.compiled.compiled_rows import with_compiled_rows
from insitu.trace.counter import count_progress
from insitu.trace.diff import Diff
from insitu.trace.event import Event, Variable
from insitu.trace.selection import select
from insitu.trace.trace import Trace
from insitu.view.missing_text import about_texts
from insitu.view.page import pairs
from insitu.view.page.banner import NO_ROW, Answer, diff_answers, trace_answers
from insitu.view.page.flags import HAS_INF, HAS_NAN, IS_ORIGIN, IS_WRONG
from insitu.view.page.packing import PackedColumns
from insitu.view.page.pictures import VALUE_BYTES
from insitu.view.page.row_columns import KINDS, RowColumns
from insitu.view.page.rows import RowFacts, page_rows, places
from insitu.view.page.series_columns import LineColumns
from insitu.view.page.series_pane import SeriesPane, pane_of_diff, pane_of_trace
from insitu.view.page.tables import Tables
from insitu.view.value import safe, short

# The files of `page/web` in the order in which they are joined.
SCRIPTS = (
    *("data", "elements", "formats", "canvas", "pointer", "theme"),
    *("row_index", "calls", "together", "nonfinite"),
    *("hits", "row_tree", "columns", "grid", "sorting", "call_row"),
    *("filters", "query", "search_box", "search", "banner"),
    *("heatmap_values", "heatmap_scale", "heatmap_planes", "heatmap_strip"),
    *("heatmap_words", "heatmap_drawing", "heatmap"),
    *("histogram", "details", "details_values", "details_links"),
    *("minimap", "time_scale", "flame"),
    *("graph_layers", "graph_order", "graph_place", "graph_layout"),
    *("graph_label_place", "graph_interior", "graph_nest"),
    *("graph_scope", "graph_model", "graph_edges", "graph_text", "graph_labels", "graph_scene"),
    *("graph_draw", "graph_wires", "graph_sketch", "graph_camera", "graph_keys", "graph"),
    *("pairs", "pairs_verdict", "pairs_strip", "pairs_details"),
    *("series_model", "series_scale", "series_groups", "series_view", "series_reading", "series_tip", "series_drag"),
    *("series_cells", "series_chart", "series_bands", "series_card", "series_strip"),
    *("series_tools", "series", "series_follow"),
    *("app", "keys", "help", "splitter", "start"),
)
STYLES = ("colours", "frame", "layout", "tree", "details", "graph", "time", "series", "diff", "narrow")
COMMENT_LINES = re.compile(r"^[ ]*//.*\n|^[ ]*/\*\*(?:(?!\*/)[\s\S])*\*/[ ]*\n", re.M)  # a quarter of the scripts
LARGE = 50_000_000  # characters, from which on browsers take long
POLICY = (
    "default-src 'none'; script-src '{script}'; style-src '{style}'; img-src data:; base-uri 'none'; form-action 'none'"
)
SAME_ORIGIN = "; connect-src 'self'"  # of a page that a server serves, which asks the server for changes

# The flags of a row for what is not finite; the page gets them with its data.
FLAGS = {"HAS_NAN": HAS_NAN, "HAS_INF": HAS_INF, "IS_WRONG": IS_WRONG, "IS_ORIGIN": IS_ORIGIN}


def page(
    subject: Trace | Diff | None = None,
    *,
    series: SeriesPane | None = None,
    title: str | None = None,
    source: bool = True,
    only: str | Iterable[str] | None = None,
    steps: Iterable[int] | None = None,
    depth: int | None = None,
    value_bytes: int = VALUE_BYTES,
    revision: int | None = None,
) -> str:
    """A trace or a `Diff` as the text of an HTML file.

    `series` are the variables of a recorded run; with them the subject may be left out. `source=False` leaves out the
    lines of source code. What is too much for a browser is made less by `only` (path patterns), `steps` (their
    numbers) and `depth` (levels of the tree). Pictures of kept values take at most `value_bytes`, before they are
    packed: large tensors are reduced. A page with a `revision` asks the server that it comes from for later ones
    (`insitu.verbs.follow`).

    >>> from insitu.trace.event import Call
    >>> page(Trace([Call(0, None, "function", "torch.rand")]))[:15]
    '<!doctype html>'
    """
    if not isinstance(subject, (Trace, Diff, type(None))):
        raise SubjectError(f"a page shows a Trace or a Diff, not a {type(subject).__name__}: page(trace)")
    with pause_collector():
        tables = Tables(source=source, value_bytes=value_bytes)
        columns = PackedColumns()
        rows = RowColumns(tables)
        pane = series or SeriesPane()
        header: dict[str, Any] = {"about": {}, "kinds": KINDS, "flags": FLAGS}
        answers: Iterator[Answer] = iter(())
        if isinstance(subject, Diff):
            header["diff"] = pairs.fill(subject, tables, rows, columns)
            answers = diff_answers(subject, _first_row(header["diff"]))
            pane = series or pane_of_diff(subject)
        elif subject is not None:
            whole = with_compiled_rows(subject)
            events = _chosen(whole, only, steps)
            facts = _fill(whole, events, tables, rows, depth)
            answers = trace_answers(subject, facts.found, tables.places, source=source)
            pane = series or pane_of_trace([event for event in events if isinstance(event, Variable)])
            header |= {"about": _about(subject), "events": len(events), "empty": _reason_if_empty(subject, events)}
        header["answers"] = [answer.plain() for answer in answers]
        header |= {"title": _title(subject, title), "series": LineColumns(columns).describe(pane)}
        header["series"]["revision"] = revision
        rows.fill(columns)
        policy = POLICY if revision is None else POLICY + SAME_ORIGIN
        what = f"{_what(subject)} · insitu"
        text = _joined(header["title"], what, columns.packed(header | tables.fill(columns)), policy)
    if len(text) > LARGE:
        tell(f"a page of {len(text) / 1e6:.0f} MB is slow to open: give only=, steps= or depth= to show a part")
    return text


def _chosen(trace: Trace, only: str | Iterable[str] | None, steps: Iterable[int] | None) -> list[Event]:
    events = select(trace.events, only)
    if steps is None:
        return events
    wanted = set(steps)
    return [event for event in events if event.step in wanted]


def _fill(trace: Trace, events: list[Event], tables: Tables, rows: RowColumns, depth: int | None) -> RowFacts:
    """Add the rows of a trace; return the facts about its events."""
    every, facts = page_rows(trace.events, shown={event.id for event in events}, depth=depth)
    tables.begin(places(every))
    for row in count_progress(every, len(every), "filling the page"):
        rows.add(row, facts)
    return facts


def _first_row(diff: dict[str, Any]) -> int:
    """The row of the first cause of a comparison; -1 if there is none."""
    if not diff["causes"]:
        return NO_ROW
    a, b = diff["causes"][0][4:6]
    return int(a or b) - 1


def _about(trace: Trace) -> dict[str, str]:
    texts = {safe(name): short(safe(text), 200) for name, text in about_texts(trace.about).items()}
    if any(call.has_launch_time for call in trace.calls):
        texts["times"] = "launch times where tensors are on an accelerator, which may still have worked"
    return texts


def _title(subject: Trace | Diff | None, title: str | None) -> str:
    if title is not None:
        return short(safe(title), 200)
    if subject is None:
        return "insitu"
    if isinstance(subject, Diff):
        return short(safe(" | ".join(subject.labels)), 200)
    named = subject.about.get("subject") or "insitu"
    return short(safe(str(named)), 200)


def _what(subject: Trace | Diff | None) -> str:
    """What a page shows, in a word."""
    if subject is None:
        return "run"
    if isinstance(subject, Diff):
        return "comparison"
    return "trace"


def _reason_if_empty(trace: Trace, events: list[Event]) -> str:
    """Why a page has no row; nothing if it has some."""
    if events:
        return ""
    if len(trace):
        return f"No call was chosen: the trace has {len(trace):,} events, and only= or steps= leave out all of them."
    facts = [f"{name} {safe(str(trace.about[name]))}" for name in ("subject", "level") if trace.about.get(name)]
    limits = ""
    if facts:
        limits = f" ({', '.join(facts)})"
    return f"This trace has no calls: nothing that it records{limits} was called."


def _joined(name: str, what: str, data: str, policy: str) -> str:
    """The whole file."""
    script, style, frame = _parts()
    policy = policy.format(script=_digest(script), style=_digest(style))
    title = html.escape(f"{name} · {what}")
    parts = {
        "title": title,
        "name": html.escape(name),
        "policy": policy,
        "style": style,
        "script": script,
        "data": data,
    }
    pieces = frame.split("%%")
    pieces[1::2] = [parts[name] for name in pieces[1::2]]
    return "".join(pieces)


@cache
def _parts() -> tuple[str, str, str]:
    """The script, the style and the frame around them, joined from their files."""
    folder = files("insitu.view") / "page" / "web"
    scripts = "\n".join([(folder / f"{name}.js").read_text("utf-8") for name in SCRIPTS])
    styles = "\n".join([(folder / f"{name}.css").read_text("utf-8") for name in STYLES])
    script = f'"use strict";\n(() => {{\n{COMMENT_LINES.sub("", scripts)}\n}})();\n'
    return script, styles, (folder / "frame.html").read_text("utf-8")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
