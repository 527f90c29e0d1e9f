"""What `_repr_mimebundle_` returns: the text of an object and, where it can be shown and is asked for, its HTML."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Callable, Collection, Iterable
from functools import cache
from importlib.resources import files

from insitu.ipython import HTML, running_shell, shows_html
from insitu.trace.collector import pause_collector
from insitu.view.line import Line
from insitu.view.notebook.markup import Markup, element, style_sheet
from insitu.view.terminal import Terminal
from insitu.view.value import kept_text, short

TEXT = "text/plain"
MOST_LINES = 1000
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)

Kinds = Collection[str] | None
Forms = dict[str, str]


@pause_collector()
def forms(
    subject: object,
    kinds: tuple[Kinds, Kinds],
    lines: Callable[[], Iterable[Line]],
    html: Callable[[list[Line]], Markup],
) -> Forms:
    """The forms of an object that a front end wants: `kinds` are those to include, and those to leave out.

    A form that fails is reported in the text, never as an error in the user's cell.
    """
    wanted = _wanted(*kinds)
    try:
        rows = list(lines())
        found = {TEXT: text_of(rows) or str(subject)}
    except Exception as error:
        return {TEXT: f"{object.__repr__(subject)} ({failure_text(error)})"}
    if rows and HTML in wanted and _can_show_html():
        try:
            found[HTML] = cell(html(rows))
        except Exception as error:
            found[TEXT] += f"\n({failure_text(error)})"
    return {kind: text for kind, text in found.items() if kind in wanted}


def _wanted(include: Kinds, exclude: Kinds) -> set[str]:
    wanted = {TEXT, HTML}
    if include:
        wanted &= set(include)
    if exclude:
        wanted -= set(exclude)
    return wanted


def _can_show_html() -> bool:
    """Whether HTML is of use: IPython in a terminal asks as well. Another front end than IPython decides by itself."""
    shell = running_shell()
    return shell is None or shows_html(shell)


def failure_text(error: Exception) -> str:
    """Why something cannot be shown."""
    return f"it cannot be shown: {type(error).__name__}: {short(kept_text(error), 200)}"


def text_of(lines: list[Line]) -> str:
    """The lines as `print` would write them; of very many the first."""
    file = io.StringIO()
    Terminal(file, color=False).write(lines[:MOST_LINES])
    if len(lines) > MOST_LINES:
        file.write(f"… {len(lines) - MOST_LINES:,} more lines: print(…) shows them all")
    return file.getvalue().removesuffix("\n")


def cell(body: Markup) -> Markup:
    """The whole of an output. The name of its class depends on the style, so that other versions keep theirs."""
    name, sheet = _style()
    return element("div", style_sheet(sheet), body, class_=name)


@cache
def _style() -> tuple[str, str]:
    """The class of the element around an output, and the style sheet for it."""
    text = (files("insitu.view") / "notebook" / "cell.css").read_text("utf-8")
    name = f"insitu-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
    # Twice, so that the rules count for more than those that a notebook has for all tables and lists.
    rules = COMMENT.sub("", text).replace("&", f".{name}.{name}")
    return name, "\n".join(filter(None, rules.splitlines()))
