"""Paths and patterns of paths: `encoder.*.attn`, `**.weight`. One class matches them everywhere.

A path has segments with dots between them. In a pattern, `*` is one segment and `**` any number of them; inside
a segment `*` and `?` match as in a shell: `layer*.attn`. Every other character, brackets included, matches itself.
The page searches with the same rules: tests/trace/path_cases.json holds cases that both must answer alike.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from difflib import SequenceMatcher, get_close_matches
from functools import lru_cache
from itertools import chain

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
        self.segments = _segments(text)
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
        """The match of the pattern with this path, or with the path around it; each wildcard is a group.

        The text that matched has a dot before each segment.

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
        left = _with_empty_stars({self.segments})
        for name in _segments(path):
            left = _with_empty_stars(set(chain.from_iterable(step(each, name) for each in left)))
        return left

    def require(self, paths: Collection[str], what: str = "path") -> None:
        """Raise, naming the nearest ones, when the pattern matches none of all the paths there can be."""
        self.matches(paths, what)

    def matches(self, paths: Collection[str], what: str = "path") -> set[str]:
        """The paths that the pattern names; if there are none, raise, naming the nearest ones."""
        found = set(filter(self.match, paths))
        if not found:
            raise PatternError(f"no {what} matches {self.text!r}{self.nearest(paths)}")
        return found

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


def _segments(path: str) -> Segments:
    """The segments of a path; the root has none."""
    if not path:
        return ()
    return tuple(path.split("."))


def _with_empty_stars(rests: set[Segments]) -> set[Segments]:
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
    """A question with the closest path, in which the wildcards of the pattern are kept; empty if none is close.

    The end of a path may be closer than the path: `loss` may be meant for `forward.loss`.
    """
    parts = [part for part in pattern.split(".") if part != "**"]
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
    """A path in the manner of a pattern: `*` where the pattern has it."""
    stars = [index for index, part in enumerate(parts[: len(names)]) if part == "*"]
    found = list(names)
    for index in stars:
        found[index] = "*"
    return ".".join(found)


def relative(path: str, base: str) -> str:
    """A path as seen from another one.

    >>> relative("h.0.attn", "h.0"), relative("head", ""), relative("wte", "head"), relative("h.0", "h.0")
    ('attn', 'head', 'wte', '')
    """
    if not base:
        return path
    if path == base:
        return ""
    return path.removeprefix(f"{base}.")
