"""Colours for the output that the documentation shows: the same kinds of words that the terminal colours."""

from __future__ import annotations

from typing import ClassVar

from pygments.lexer import RegexLexer
from pygments.token import Comment, Generic, Keyword, Name, Number, Text

__all__ = ["OutputLexer"]


class OutputLexer(RegexLexer):
    """What insitu prints: guides, shapes, times, sources, counts, and what is wrong."""

    name = "insitu output"
    aliases: ClassVar[list[str]] = ["insitu-output"]
    tokens: ClassVar = {
        "root": [
            (r"✗[^\n]*", Generic.Error),
            (r"^(first NaN|first Inf)[^\n]*", Generic.Error),
            (r"[┌├└│─╰┬⬇️]+", Comment),
            (r"\b(?:np )?(?:bf|f|i|u|b|c|cf)\d+\w*\[[^\]\n]*\]", Keyword.Type),
            (r"(?:Σ )?\b\d+(?:\.\d+)?(?:ns|µs|ms|s)\b", Generic.Inserted),
            (r"\b[\w./-]+\.py:\d+(?:…\d+)?", Comment),
            (r"× [\d,]+(?: alike)?", Number),
            (r"\b[A-Z]\w*\([^)\n]*→[^)\n]*\)|\b[A-Z]\w+\(\d[^)\n]*\)", Name.Class),
            (r"\bF\.\w+|\btorch(?:\.\w+)+|\baten(?:\.\w+)+|(?<=[\s─])\.\w+(?=[\s(])", Name.Function),
            (r"[^\S\n]+", Text),
            (r"\w+", Text),
            (r".|\n", Text),
        ]
    }
