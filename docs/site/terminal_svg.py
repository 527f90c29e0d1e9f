"""The coloured output of a terminal as an SVG picture, for places that show no colours: a README."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from html import escape

CHARACTER, LINE, FONT = 7.8, 18, 13  # pixels
EDGE, BAR = 16, 34
# The colours of the escape codes that insitu writes, on a light and on a dark background.
COLOURS = {
    "95": ("#7b2fbe", "#d2a8ff"),
    "96": ("#0e7490", "#76e3ea"),
    "36": ("#0f766e", "#56d4c4"),
    "94": ("#1d4ed8", "#9ecbff"),
    "92": ("#2e7d32", "#7ee787"),
    "93": ("#92600a", "#e3b341"),
    "91": ("#c62828", "#ff8f87"),
    "33": ("#9a4d00", "#ffa657"),
    "90": ("#6b7280", "#8b949e"),
}
ESCAPE = re.compile(r"\x1b\[(\d*)m")


@dataclass(frozen=True)
class Piece:
    """A text of one colour, and the column where it begins."""

    column: int
    text: str
    code: str


def terminal_svg(text: str, title: str, *, columns: int = 0, rows: int = 0) -> str:
    """A window of a terminal with this text in it; `text` may hold escape codes for colours.

    The window is as large as the text, and has at least so many columns and rows.
    """
    lines = [_pieces(line) for line in text.rstrip("\n").split("\n")]
    columns = max([columns, *[piece.column + _width(piece.text) for line in lines for piece in line]])
    width = round(columns * CHARACTER + 2 * EDGE)
    height = round(BAR + max(rows, len(lines)) * LINE + EDGE)
    rows = "\n".join(_row(line, number) for number, line in enumerate(lines))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">\n'
        f"<title>{escape(title)}</title>\n<style>{_style()}</style>\n"
        f'<rect class="window" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8"/>\n'
        f'<circle class="button" cx="18" cy="17" r="5"/><circle class="button" cx="36" cy="17" r="5"/>'
        f'<circle class="button" cx="54" cy="17" r="5"/>\n'
        f'<text class="title" x="{width / 2:.0f}" y="21">{escape(title)}</text>\n{rows}\n</svg>\n'
    )


def _pieces(line: str) -> list[Piece]:
    """The parts of a line that have one colour each."""
    found: list[Piece] = []
    column, code = 0, ""
    for index, part in enumerate(ESCAPE.split(line)):
        if index % 2:
            code = "" if part in ("", "0") else part
        elif part:
            found.append(Piece(column, part, code))
            column += _width(part)
    return found


def _width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)


def _row(line: list[Piece], number: int) -> str:
    """A line of text. Each word has its own place, so that columns line up in any font."""
    words = [(piece, match) for piece in line for match in re.finditer(r"\S+(?: \S+)*", piece.text)]
    spans = [_span(piece, match) for piece, match in words]
    return f'<text y="{BAR + number * LINE + FONT}">{"".join(spans)}</text>'


def _span(piece: Piece, match: re.Match[str]) -> str:
    x = EDGE + (piece.column + _width(piece.text[: match.start()])) * CHARACTER
    length = _width(match[0]) * CHARACTER
    kind = f' class="c{piece.code}"' if piece.code else ""
    return f'<tspan{kind} x="{x:.1f}" textLength="{length:.1f}">{escape(match[0])}</tspan>'


def _style() -> str:
    light = "".join(f".c{code}{{fill:{colours[0]}}}" for code, colours in COLOURS.items())
    dark = "".join(f".c{code}{{fill:{colours[1]}}}" for code, colours in COLOURS.items())
    font = f"font:{FONT}px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace"
    return (
        f"text{{{font};fill:#1f2328;white-space:pre}}.title{{text-anchor:middle;fill:#6b7280;font-size:12px}}"
        f".window{{fill:#fff;stroke:#d0d7de}}.button{{fill:#d0d7de}}.c1{{font-weight:bold}}{light}"
        f"@media(prefers-color-scheme:dark){{text{{fill:#e6edf3}}.window{{fill:#0d1117;stroke:#30363d}}"
        f".button{{fill:#30363d}}{dark}}}"
    )
