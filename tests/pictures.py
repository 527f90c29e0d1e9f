"""Pictures of what a program prints to a terminal, compared with what it prints."""

from __future__ import annotations

import re
import sys
from html import unescape
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "docs" / "site"))
from real_terminal import printed_in_a_terminal
from terminal_svg import CHARACTER, EDGE, ESCAPE, terminal_svg

__all__ = ["TERMINAL_COLUMNS", "are_alike", "cells", "printed_in_a_terminal", "svg_lines", "terminal_svg"]

TERMINAL_COLUMNS = 110
TIME = re.compile(r"\s+(Σ )?\d+(\.\d+)?(ns|µs|ms|s)\b")
CUT = re.compile(r"(?<! )…")  # the sign of a cut; in a range, it has a space before it
ROW = re.compile(r"<text y[^>]*>(.*?)</text>")
WORD = re.compile(r'<tspan[^>]* x="([\d.]+)"[^>]*>([^<]*)</tspan>')


def cells(text: str | list[str]) -> list[list[str]]:
    """The cells of each line, without colours and times."""
    lines = text.strip().splitlines() if isinstance(text, str) else text
    plain = [TIME.sub("", ESCAPE.sub("", line)) for line in lines]
    return [re.split(r"\s{2,}", line.strip()) for line in plain]


def are_alike(shown: list[str], printed: list[str]) -> bool:
    """Whether the cells of two lines are equal as far as they go: how much is cut depends on how long the times are."""
    if len(shown) != len(printed):
        return False
    return all(_is_alike(*pair) for pair in zip(shown, printed, strict=True))


def _is_alike(shown: str, printed: str) -> bool:
    length = min(_whole(shown), _whole(printed))
    return shown[:length] == printed[:length]


def _whole(cell: str) -> int:
    """How long the part of a cell is that was not cut."""
    cut = CUT.search(cell)
    if cut is None:
        return max(len(cell), 1000)
    return cut.start()


def svg_lines(picture: str) -> list[str]:
    """The lines of text of a picture, each word in its column."""
    found: list[str] = []
    for row in ROW.findall(picture):
        line = ""
        for x, word in WORD.findall(row):
            column = round((float(x) - EDGE) / CHARACTER)
            line = line.ljust(column) + unescape(word)
        found.append(line)
    return found
