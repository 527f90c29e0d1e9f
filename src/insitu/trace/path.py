"""Paths and patterns of paths: `encoder.*.attn`, `**.weight`. One class matches them everywhere.

A path is made of segments with dots between them. In a pattern, `*` is one segment and `**` any number of them; inside
a segment `*` and `?` match as in a shell: `layer*.attn`. Every other character, brackets included, stands for itself.
The page searches with the same rules: tests/trace/path_cases.json holds cases that both must answer alike.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from difflib import SequenceMatcher, get_close_matches
from functools import lru_cache

from insitu.errors import PatternError

Segments = tuple[str, ...]
WILDCARDS = frozenset("*?")


class Pattern:
    """A pattern of paths. `Pattern.of(text)` makes one, and raises `PatternError` for a text that is not a pattern.

    >>> pattern = Pattern.of("encoder.*.attn")
    >>> pattern.match("encoder.0.attn"), pattern.match("encoder.0"), pattern.covers("encoder.0.attn.out")
    (True, False, True)
    """

    __slots__ = ("_begin", "_whole", "segments", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.segments: Segments = tuple(text.split(".")) if text else ()  # the root has none
        if "" in self.segments:
            raise PatternError(
                f"{text!r} is not a path pattern: write segments with dots between, as in 'encoder.*.attn'"
            )
        expression = "".join(map(_expression, self.segments))
        self._whole = re.compile(expression)
        self._begin = re.compile(rf"{expression}(?=\.|$)")

    @staticmethod
    @lru_cache(maxsize=1024)
    def of(text: str) -> Pattern:
        """The pattern that a text spells."""
        return Pattern(text)

    def match(self, path: str) -> bool:
        """Whether the pattern names this path."""
        return self._whole.fullmatch(_dotted(path)) is not None

    def covers(self, path: str) -> bool:
        """Whether the pattern names this path, or something that the path is in."""
        return self._begin.match(_dotted(path)) is not None

    def begin(self, path: str) -> re.Match[str] | None:
        """How the pattern names this path, or the path around it; each wildcard is a group.

        What is matched has a dot before each segment.

        >>> Pattern.of("encoder.*").begin("encoder.0.attn").group(0, 1)
        ('.encoder.0', '0')
        """
        return self._begin.match(_dotted(path))

    def rests(self, path: str) -> set[Segments]:
        """The segments that are left of the pattern once it has named all of a path, in every way in which it can.

        >>> Pattern.of("encoder.*.forward.h").rests("encoder.0")
        {('forward', 'h')}
        >>> sorted(Pattern.of("**.weight").rests("a.b"))
        [('**', 'weight'), ('weight',)]
        """
        left = _skipped({self.segments})
        for name in path.split(".") if path else ():
            left = _skipped({rest for each in left for rest in step(each, name)})
        return left

    def require(self, paths: Collection[str], what: str = "path") -> None:
        """Raise, naming the nearest ones, when the pattern matches none of all the paths there can be."""
        if not any(map(self.match, paths)):
            raise PatternError(f"no {what} matches {self.text!r}{self.nearest(paths)}")

    def nearest(self, paths: Collection[str]) -> str:
        """What to write instead of a pattern that matched no path: what is in it, or a path that is like it."""
        if any(map(self.covers, paths)):
            return f" ({self.text}.* is what is in it)"
        return suggestion(self.text, paths)


def is_wild(segment: str) -> bool:
    """Whether a segment has a wildcard."""
    return not WILDCARDS.isdisjoint(segment)


@lru_cache(maxsize=4096)
def fits(segment: str, name: str) -> bool:
    """Whether one segment of a pattern names one segment of a path.

    >>> fits("*", "h"), fits("layer*", "layer12"), fits("layer[12]", "layer1"), fits("**", "h")
    (True, True, False, True)
    """
    return re.fullmatch(_expression(segment), f".{name}") is not None


def step(rest: Segments, name: str) -> Iterable[Segments]:
    """The segments that are left after one more segment of a path; nothing where the pattern leads elsewhere."""
    if not rest or not fits(rest[0], name):
        return ()
    if rest[0] == "**":
        return (rest,)
    return (rest[1:],)


def _skipped(rests: set[Segments]) -> set[Segments]:
    """The rests, and what is left of each if `**` at its beginning names nothing."""
    found = set(rests)
    for rest in rests:
        while rest[:1] == ("**",):
            rest = rest[1:]
            found.add(rest)
    return found


def _expression(segment: str) -> str:
    """A segment with the dot before it; `**` may name nothing, and then it has no dot."""
    if segment == "**":
        return r"((?:\.[^.]+)*?)"
    star = "([^.]+)" if segment == "*" else "([^.]*)"
    return r"\." + re.sub(r"(\\\*)+", star, re.escape(segment)).replace(r"\?", "[^.]")


def _dotted(path: str) -> str:
    if path:
        return f".{path}"
    return ""


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
    if near:
        return f" (did you mean {near[0]!r}?)"
    return ""


def _likeness(text: str, other: str) -> float:
    return SequenceMatcher(None, text, other).ratio()


def _like(parts: list[str], names: list[str]) -> str:
    return ".".join("*" if index < len(parts) and parts[index] == "*" else name for index, name in enumerate(names))


def relative(path: str, base: str) -> str:
    """A path as seen from another one.

    >>> relative("h.0.attn", "h.0"), relative("head", ""), relative("wte", "head"), relative("h.0", "h.0")
    ('attn', 'head', 'wte', '')
    """
    if not base:
        return path
    if path.startswith(base) and (len(path) == len(base) or path[len(base)] == "."):
        return path[len(base) + 1 :]
    return path
