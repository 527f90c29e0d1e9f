"""Path patterns: `encoder.*.attn`, `**.weight`. One segment for each dot; `*` is one segment, `**` any number.

Inside a segment `*` and `?` match as in a shell: `layer*.attn`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from difflib import SequenceMatcher, get_close_matches
from functools import lru_cache

from insitu.errors import PatternError


@lru_cache(maxsize=1024)
def compiled(pattern: str) -> re.Pattern[str]:
    """The pattern as a regular expression that matches whole paths."""
    if not pattern:  # the root
        return re.compile("")
    if any(segment == "" for segment in pattern.split(".")):
        raise PatternError(f"{pattern!r} is no path pattern: write segments with dots between, as in 'encoder.*.attn'")
    expression = "".join(_segment(segment) for segment in pattern.split("."))
    return re.compile(expression)


def _segment(segment: str) -> str:
    """Each segment eats the dot before it; matching runs on '.' + path, so that `**` may be empty anywhere."""
    if segment == "**":
        return r"(?:\.[^.]+)*"
    return r"\." + re.escape(segment).replace(r"\*", "[^.]*" if segment != "*" else "[^.]+").replace(r"\?", "[^.]")


def matches(pattern: str, path: str) -> bool:
    """Whether the pattern names this path.

    >>> matches("encoder.*.attn", "encoder.0.attn"), matches("encoder.*", "encoder.0.attn"), matches("**.attn", "attn")
    (True, False, True)
    """
    return compiled(pattern).fullmatch("." + path if path else "") is not None


def require(pattern: str, paths: Collection[str], what: str = "path") -> None:
    """Raise, naming the nearest ones, when the pattern matches none of all the paths there can be."""
    if not any(matches(pattern, path) for path in paths):
        raise PatternError(f"no {what} matches {pattern!r}{nearest(pattern, paths)}")


def nearest(pattern: str, called: Collection[str]) -> str:
    """What to write instead of a pattern that matched none of the paths: what is in it, or one that is like it."""
    if any(matches(f"{pattern}.**", path) for path in called):
        return f" ({pattern}.* is what is in it)"
    return suggestion(pattern, called)


def suggestion(pattern: str, paths: Iterable[str]) -> str:
    """The closest path written in the manner of the pattern: its wildcards are kept where they stood.

    A path is as close as its end is: `loss` may be meant for `forward.loss`.
    """
    parts = pattern.split(".")
    if "**" in parts:
        parts = [part for part in parts if part != "**"]
    text = ".".join(parts)
    candidates = sorted({_like(parts, path.split(".")) for path in paths if path})
    ends: dict[str, str] = {}
    for path in sorted(candidates, key=lambda path: (path.count("."), path)):
        ends.setdefault(".".join(path.split(".")[-len(parts) :]), path)
    near = get_close_matches(text, candidates, n=1, cutoff=0.5)
    near_end = get_close_matches(text, list(ends), n=1, cutoff=0.8)
    if near_end and (not near or _likeness(text, near_end[0]) > _likeness(text, near[0])):
        near = [ends[near_end[0]]]
    return f" (did you mean {near[0]!r}?)" if near else ""


def _likeness(text: str, other: str) -> float:
    return SequenceMatcher(None, text, other).ratio()


def _like(parts: list[str], names: list[str]) -> str:
    return ".".join("*" if index < len(parts) and parts[index] == "*" else name for index, name in enumerate(names))
