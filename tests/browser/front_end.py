"""A notebook as front ends show it: outputs in a page of their own colours, trusted or sanitized."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from html.parser import HTMLParser

# What sanitizers of notebooks leave, by and large: no frames, styles, scripts or drawings, and no ids.
ALLOWED = frozenset(
    {
        *("a", "b", "blockquote", "br", "code", "dd", "details", "div", "dl", "dt", "em", "h1", "h2", "h3", "hr", "i"),
        *("img", "kbd", "li", "mark", "ol", "p", "pre", "q", "s", "samp", "small", "span", "strong", "sub", "summary"),
        *("sup", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "u", "ul"),
    }
)
WITHOUT_CONTENT = frozenset({"style", "script", "iframe", "svg", "template", "noscript", "object"})
VOID = frozenset({"br", "hr", "img"})
ATTRIBUTES = frozenset({"alt", "class", "colspan", "height", "open", "rowspan", "src", "title", "width"})


class Sanitizer(HTMLParser):
    """Copies HTML without all that could run or load something, and without any style."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self._skipped: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in WITHOUT_CONTENT:
            self._skipped.append(tag)
        elif tag in ALLOWED and not self._skipped:
            kept = [(name, value) for name, value in attrs if name in ATTRIBUTES and _is_inert(name, value)]
            self.parts.append(f"<{tag}{''.join(_attribute(*pair) for pair in kept)}>")

    def handle_endtag(self, tag: str) -> None:
        if self._skipped and self._skipped[-1] == tag:
            self._skipped.pop()
        elif tag in ALLOWED - VOID and not self._skipped:
            self.parts.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        if not self._skipped:
            self.parts.append(escape(data))


def _is_inert(name: str, value: str | None) -> bool:
    return name != "src" or (value or "").startswith("data:image/")


def _attribute(name: str, value: str | None) -> str:
    return f" {name}" if value is None else f' {name}="{escape(value)}"'


def sanitized(html: str) -> str:
    """An output as an untrusted notebook, or GitHub, shows it."""
    sanitizer = Sanitizer()
    sanitizer.feed(html)
    sanitizer.close()
    return "".join(sanitizer.parts)


@dataclass(frozen=True)
class Theme:
    """The colours of a notebook, and how it says which they are."""

    background: str
    text: str
    attribute: str


LIGHT = Theme("#ffffff", "rgba(0, 0, 0, 0.87)", 'data-jp-theme-light="true"')
DARK = Theme("#111111", "rgba(255, 255, 255, 0.87)", 'data-jp-theme-light="false"')
VSCODE_DARK = Theme("#1f1f1f", "#cccccc", 'class="vscode-dark"')
THEMES = {"light": LIGHT, "dark": DARK, "vscode-dark": VSCODE_DARK}

# Rules as notebooks have them for all outputs: the style of an output must win against them.
HOST_STYLE = """
body { font: 14px sans-serif; margin: 16px; }
.rendered ul { list-style: disc; margin: 0 2em; padding-left: 2em; }
.rendered pre { background: #777; border: 1px solid; padding: 10px; }
.rendered table { margin: 0 auto 1em; table-layout: fixed; }
.rendered td, .rendered th { max-width: none; padding: 0.5em; text-align: right; white-space: normal; }
.rendered tbody tr:nth-child(odd) { background: #777; }
"""


def page_of(outputs: dict[str, str], theme: Theme = LIGHT) -> str:
    """A page with the outputs of a notebook, each in an element with its name."""
    divisions = [f'<div class="output rendered" id="{name}">{html}</div>' for name, html in outputs.items()]
    style = f"{HOST_STYLE} body {{ background: {theme.background}; color: {theme.text}; }}"
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>notebook</title><style>{style}</style>"
        f"<body {theme.attribute}><main>{''.join(divisions)}</main>"
    )
