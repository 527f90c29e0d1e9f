"""Traces and diffs in a notebook: text, a list that folds without any script, and the page in a frame of its own."""

from __future__ import annotations

import hashlib
import io
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from html import escape
from itertools import chain, zip_longest
from pathlib import Path

from insitu.trace.collector import collector_paused
from insitu.trace.diff import Diff
from insitu.trace.trace import Trace
from insitu.view import replay
from insitu.view.line import Line, Span
from insitu.view.missing_text import missing_lines
from insitu.view.terminal import Terminal
from insitu.view.tree import BRANCH, GUIDE, Tree
from insitu.view.value import kept, short

TEXT, HTML = "text/plain", "text/html"
MOST_ROWS = 200
MOST_LINES = 1000
MOST_PAGE = 1_000_000  # bytes: a larger page would make the notebook itself slow to open and to save
GUIDES = frozenset("".join((*GUIDE, *BRANCH)))
STYLES = {"red": "color:#d93025", "grey": "opacity:.7", "bold": "font-weight:bold"}
LIST = '<div style="font-family:monospace;white-space:pre-wrap;line-height:1.5">{}</div>'
FRAME = '<iframe sandbox="allow-scripts" srcdoc="{}" style="width:100%;height:520px;border:1px solid #8888"></iframe>'

Node = tuple[int, Line]
Kinds = Collection[str] | None


def trace_bundle(trace: Trace, include: Kinds = None, exclude: Kinds = None) -> dict[str, str]:
    """A trace for `_repr_mimebundle_`: the tree as text, and as HTML where it can be shown and is asked for.

    >>> from insitu.trace.event import Call
    >>> trace_bundle(Trace([Call(0, None, "function", "torch.ones", args=(3,))]))["text/plain"]
    'torch.ones(3)'
    """

    def lines() -> Iterator[Line]:
        return chain(missing_lines(trace), replay(trace.events, Tree(live=False)))

    return _bundle(trace, lines, folded, _asked(include, exclude))


def diff_bundle(diff: Diff, include: Kinds = None, exclude: Kinds = None) -> dict[str, str]:
    """A diff for `_repr_mimebundle_`: the first cause on top, and the calls side by side in a list that folds.

    >>> diff_bundle(Diff())["text/plain"]
    'nothing to compare: neither run has a call'
    """
    from insitu.view.diff import diff_lines

    return _bundle(diff, lambda: diff_lines(diff), _causes, _asked(include, exclude))


def _asked(include: Kinds, exclude: Kinds) -> set[str]:
    """The forms that a front end wants."""
    return {kind for kind in (TEXT, HTML) if (not include or kind in include) and kind not in (exclude or ())}


@collector_paused()
def _bundle(
    subject: Trace | Diff, make: Callable[[], Iterable[Line]], listed: Callable[[list[Line]], str], asked: set[str]
) -> dict[str, str]:
    """What can be made of it: what fails is only told, for no view is worth an error in the user's cell."""
    try:
        lines = list(make())
        found = {TEXT: _text(lines) or str(subject)}
    except Exception as error:
        return {TEXT: f"{object.__repr__(subject)} ({_failed(error)})"}
    if lines and HTML in asked and _shows_html():
        try:
            found[HTML] = listed(lines) + _page(subject)
        except Exception as error:
            found[TEXT] += f"\n({_failed(error)})"
    return {kind: text for kind, text in found.items() if kind in asked}


def _failed(error: Exception) -> str:
    return f"it cannot be shown: {type(error).__name__}: {short(kept(error), 200)}"


def _text(lines: list[Line]) -> str:
    """The lines as `print` would write them; of very many the first."""
    file = io.StringIO()
    Terminal(file, color=False).write(lines[:MOST_LINES])
    if len(lines) > MOST_LINES:
        file.write(f"… {len(lines) - MOST_LINES:,} more lines: print(…) shows them all")
    return file.getvalue().removesuffix("\n")


def _shows_html() -> bool:
    """Whether the shell shows more than text: IPython in a terminal asks too, and needs no page."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    formatter = getattr(shell, "display_formatter", None)
    return formatter is None or HTML in formatter.active_types


def _page(subject: Trace | Diff) -> str:
    """The page in a frame, from which no script reaches the notebook; one that is too large in a file beside it."""
    from insitu.view.html import page

    try:
        text = page(subject)
    except Exception as error:
        return f"<p>The page: {escape(_failed(error))}</p>"
    return FRAME.format(escape(text)) if len(text) <= MOST_PAGE else _link(text.encode())


def _link(page: bytes) -> str:
    """The page in a file of the working directory, where the server of a notebook finds it; the same one once."""
    path = Path(f"insitu-{hashlib.sha256(page).hexdigest()[:12]}.html")
    size = f"{len(page) / 1e6:.1f} MB"
    try:
        with open(path, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(page)
    except OSError as error:
        reason = escape(str(error.strerror or error))
        return f"<p>The page, {size}, cannot be written here ({reason}): insitu.save(…, 'run.html') writes it</p>"
    return f'<p><a href="{path}" target="_blank" rel="noopener">{path}</a> is the page, {size}</p>'


def folded(lines: list[Line]) -> str:
    """Lines of a tree as a list that unfolds; of a long one the upper levels, and how much lies below them.

    >>> print(folded([Line((("Net", ""),)), Line((("└─ ", "grey"), ("fc", "")))]).partition("<details")[2])
     open><summary>Net</summary><div style="margin-left:1.5em">fc</div></details></div>
    """
    nodes = list(map(_node, lines))
    shown = set(sorted(range(len(nodes)), key=lambda index: (nodes[index][0], index))[:MOST_ROWS])
    hidden = _hidden(nodes, shown)
    kept = [index for index in range(len(nodes)) if index in shown]
    parts: list[str] = []
    open_: list[int] = []
    for index, following in zip_longest(kept, kept[1:]):
        depth, line = nodes[index]
        while open_ and open_[-1] >= depth:
            open_.pop()
            parts.append("</details>")
        indent = ' style="margin-left:1.5em"' if depth else ""
        if hidden.get(index) or (following is not None and nodes[following][0] > depth):
            parts.append(f"<details{indent}{' open' if not depth else ''}><summary>{_row(line)}</summary>")
            open_.append(depth)
            parts += _note(hidden.get(index, 0))
        else:
            parts.append(f"<div{indent}>{_row(line)}</div>")
    return LIST.format("".join([*parts, "</details>" * len(open_), *_note(hidden.get(None, 0))]))


def _node(line: Line) -> Node:
    """How deep a line of a tree lies, and the line without what is drawn before it."""
    first, ink = line.spans[0] if line.spans else ("", "")
    if ink != "grey" or not GUIDES.issuperset(first):
        return 0, line
    return len(first) // len(GUIDE[0]), Line(line.spans[1:], line.cells, line.columns)


def _hidden(nodes: list[Node], shown: set[int]) -> dict[int | None, int]:
    """How many lines are left out below each one that is shown."""
    found: dict[int | None, int] = {}
    around: list[int] = []
    for index, (depth, _) in enumerate(nodes):
        while around and nodes[around[-1]][0] >= depth:
            around.pop()
        if index in shown:
            around.append(index)
        else:
            above = around[-1] if around else None
            found[above] = found.get(above, 0) + 1
    return found


def _note(count: int) -> Iterator[str]:
    if count:
        yield f'<div style="margin-left:1.5em;opacity:.7">… {count:,} more</div>'


def _row(line: Line) -> str:
    cells = [_span(cell) for cell in line.cells if cell[0]]
    return "  ".join(["".join(map(_span, line.spans)), *cells])


def _span(span: Span) -> str:
    text, ink = escape(span[0]), STYLES.get(span[1])
    return f'<span style="{ink}">{text}</span>' if ink is not None else text


def _causes(lines: list[Line]) -> str:
    """The verdict on two runs, which begins with the first cause, and below it, after an empty line, the calls."""
    rows = list(map(_row, lines))
    end = rows.index("") if "" in rows else len(rows)
    calls = rows[end + 1 :][:MOST_ROWS]
    below = f"<details><summary>the calls side by side</summary>{_divided(calls)}</details>" if calls else ""
    return LIST.format(_divided(rows[:end]) + below)


def _divided(rows: list[str]) -> str:
    return "".join(f"<div>{row}</div>" for row in rows)
