"""Patterns of variables: `video`, `self.cache.*`, `*`; which variables they name, and what inside of these."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from insitu.capture.containers import select
from insitu.errors import PatternError
from insitu.trace.path import Pattern, Segments, fits, is_wild

MOST = 1000  # values that the patterns may name inside of one variable


class VariablePatterns:
    """Patterns of variables, and the variables and parts of variables that they name."""

    def __init__(self, patterns: tuple[str, ...]) -> None:
        self.patterns = patterns
        self._segments = [Pattern.of(pattern).segments for pattern in patterns]
        self._rests: dict[str, tuple[Segments, ...]] = {}

    def wanted(self, name: str) -> bool:
        """Whether a pattern names a variable, or something inside of it."""
        return bool(self._rests_of(name))

    def is_plain(self, name: str) -> bool:
        """Whether the patterns name the variable itself and nothing inside of it."""
        return self._rests_of(name) == ((),)

    def leaves(self, name: str, value: Any) -> dict[str, Any]:
        """The values that the patterns name in a variable, by path."""
        if self.is_plain(name):
            return {name: value}
        found: dict[str, Any] = {}
        for rest in self._rests_of(name):
            for path, item in select(name, value, rest):
                if len(found) >= MOST:
                    return found
                found.setdefault(path, item)
        return found

    def _rests_of(self, name: str) -> tuple[Segments, ...]:
        """The segments after the name, for each pattern that begins with it."""
        if name not in self._rests:
            rests = [rest_after(name, segments) for segments in self._segments]
            self._rests[name] = tuple(dict.fromkeys(rest for rest in rests if rest is not None))
        return self._rests[name]


def rest_after(name: str, segments: Segments) -> Segments | None:
    """What is left of a pattern after the name of a variable; None if it names another one.

    >>> rest_after("state", ("state", "*")), rest_after("other", ("state", "*")), rest_after("_private", ("*",))
    (('*',), None, None)
    """
    first = segments[0]
    if not name:
        return None
    if first == "**":
        return segments
    if not fits(first, name) or (is_wild(first) and is_passed_over(name, first)):
        return None
    return segments[1:]


def is_passed_over(name: str, wildcard: str) -> bool:
    """Whether a wildcard leaves a name out: `self`, and names with an underscore that the pattern does not have."""
    if name in ("self", "cls"):
        return True
    return name.startswith("_") and not wildcard.startswith("_")


@lru_cache(maxsize=1024)
def patterns_of(patterns: tuple[str, ...]) -> VariablePatterns:
    """The patterns, which must be valid; the same object for the same ones."""
    return VariablePatterns(patterns)


def valid_patterns(patterns: tuple[Any, ...]) -> tuple[str, ...]:
    """The patterns, each once; a PatternError if one can name no variable."""
    for pattern in patterns:
        if not isinstance(pattern, str) or not pattern:
            raise PatternError(f"expected the name of a variable or a pattern such as 'state.*', got {pattern!r:.80}")
        Pattern.of(pattern)
        first = pattern.partition(".")[0]
        if not is_wild(first) and not first.isidentifier():
            raise PatternError(f"{pattern!r} names no variable: {first!r} is not a name in Python")
    return tuple(dict.fromkeys(patterns))
