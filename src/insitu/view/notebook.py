"""Traces and diffs in a notebook: text, a list that folds without any script, and the page in a frame of its own."""

from __future__ import annotations

import hashlib
import io
import os
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from html import escape
from itertools import chain, islice, zip_longest
from pathlib import Path

from insitu.trace.collector import pause_collector
from insitu.trace.diff import Diff
from insitu.trace.trace import Trace
from insitu.view import replay
from insitu.view.line import Line, Span
from insitu.view.missing_text import missing_lines
from insitu.view.terminal import Terminal
from insitu.view.tree import Tree
from insitu.view.value import kept_text, short

TEXT, HTML = "text/plain", "text/html"
MOST_ROWS = 200
MOST_LINES = 1000
MOST_PAGE = 1_000_000  # bytes: a larger page would make the notebook itself slow to open and to save
STYLES = {"red": "color:#d93025", "grey": "opacity:.7", "bold": "font-weight:bold"}
LIST = '<div style="font-family:monospace;white-space:pre-wrap;line-height:1.5">{}</div>'
FRAME = '<iframe sandbox="allow-scripts" srcdoc="{}" style="width:100%;height:520px;border:1px solid #8888"></iframe>'

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

    return _bundle(diff, lambda: diff_lines(diff), lambda lines: _diff_list(diff), _asked(include, exclude))


def _asked(include: Kinds, exclude: Kinds) -> set[str]:
    """The forms that a front end wants."""
    asked = {TEXT, HTML}
    if include:
        asked &= set(include)
    if exclude:
        asked -= set(exclude)
    return asked


@pause_collector()
def _bundle(
    subject: Trace | Diff, make: Callable[[], Iterable[Line]], html: Callable[[list[Line]], str], asked: set[str]
) -> dict[str, str]:
    """The forms that are asked for. A form that fails is reported in the text, never as an error in the user's cell."""
    try:
        lines = list(make())
        found = {TEXT: _text(lines) or str(subject)}
    except Exception as error:
        return {TEXT: f"{object.__repr__(subject)} ({_failed(error)})"}
    if lines and HTML in asked and _shows_html():
        try:
            found[HTML] = html(lines) + _page(subject)
        except Exception as error:
            found[TEXT] += f"\n({_failed(error)})"
    return {kind: text for kind, text in found.items() if kind in asked}


def _failed(error: Exception) -> str:
    return f"it cannot be shown: {type(error).__name__}: {short(kept_text(error), 200)}"


def _text(lines: list[Line]) -> str:
    """The lines as `print` would write them; of very many the first."""
    file = io.StringIO()
    Terminal(file, color=False).write(lines[:MOST_LINES])
    if len(lines) > MOST_LINES:
        file.write(f"… {len(lines) - MOST_LINES:,} more lines: print(…) shows them all")
    return file.getvalue().removesuffix("\n")


def _shows_html() -> bool:
    """Whether the shell shows more than text: IPython in a terminal also asks, and needs no page."""
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
    if len(text) <= MOST_PAGE:
        return FRAME.format(escape(text))
    return _link(text.encode())


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
    """Lines of a tree as a list that unfolds; of a long one the upper levels, and how many lines are below them.

    >>> print(folded([Line((("Net", ""),)), Line((("└─ ", "grey"), ("fc", "")), depth=1)]).partition("<details")[2])
     open><summary>Net</summary><div style="margin-left:1.5em">fc</div></details></div>
    """
    places = sorted(range(len(lines)), key=lambda place: (lines[place].depth, place))[:MOST_ROWS]
    hidden = _hidden(lines, set(places))
    kept = sorted(places)
    parts: list[str] = []
    open_: list[int] = []
    for place, following in zip_longest(kept, kept[1:]):
        line = lines[place]
        while open_ and open_[-1] >= line.depth:
            open_.pop()
            parts.append("</details>")
        has_rows = following is not None and lines[following].depth > line.depth
        if has_rows or hidden[place]:
            parts += _summary(line, hidden[place])
            open_.append(line.depth)
        else:
            parts.append(f"<div{_indent(line)}>{_row(line)}</div>")
    return LIST.format("".join([*parts, "</details>" * len(open_), _more(hidden[None])]))


def _summary(line: Line, hidden: int) -> tuple[str, str]:
    """The row that its children unfold from, the outermost one open."""
    attributes = _indent(line) or " open"
    return f"<details{attributes}><summary>{_row(line)}</summary>", _more(hidden)


def _indent(line: Line) -> str:
    if line.depth:
        return ' style="margin-left:1.5em"'
    return ""


def _hidden(lines: list[Line], shown: set[int]) -> Counter[int | None]:
    """How many lines are left out below each one that is shown; None is for those below none."""
    found: Counter[int | None] = Counter()
    around: list[int] = []
    for place, line in enumerate(lines):
        while around and lines[around[-1]].depth >= line.depth:
            around.pop()
        if place in shown:
            around.append(place)
        elif around:
            found[around[-1]] += 1
        else:
            found[None] += 1
    return found


def _more(count: int) -> str:
    """How many lines are left out."""
    if count:
        return f'<div style="margin-left:1.5em;opacity:.7">… {count:,} more</div>'
    return ""


def _row(line: Line) -> str:
    cells = [_span(cell) for cell in line.cells if cell[0]]
    return "  ".join(["".join(map(_span, line.body)), *cells])


def _span(span: Span) -> str:
    text, ink = escape(span[0]), STYLES.get(span[1])
    if ink is not None:
        return f'<span style="{ink}">{text}</span>'
    return text


def _diff_list(diff: Diff) -> str:
    """The verdict on two runs, which begins with the first cause, and the calls side by side in a list that folds."""
    from insitu.view.diff import pair_lines, verdict_lines

    verdict = _divided(verdict_lines(diff))
    calls = _divided(islice(pair_lines(diff), MOST_ROWS))
    if calls:
        verdict += f"<details><summary>the calls side by side</summary>{calls}</details>"
    return LIST.format(verdict)


def _divided(lines: Iterable[Line]) -> str:
    return "".join(f"<div>{_row(line)}</div>" for line in lines)
