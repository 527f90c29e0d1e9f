"""Advice: the most likely fix of a mistake as one line of code, and how sure it is. Plain data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Certainty(Enum):
    """How sure an advice is; docs/explain.md defines the words.

    CERTAIN: a rule of torch leaves only this change at this place. LIKELY: the change removes the failure, and the
    program may have meant something else. POSSIBLE: one of several changes, and nothing in the program says which.
    UNKNOWN: no fix is known.
    """

    CERTAIN = "certain"
    LIKELY = "likely"
    POSSIBLE = "possible"
    UNKNOWN = "unknown"


@dataclass(slots=True, frozen=True)
class Fix:
    """A line of the source as it should be; `action` says whether `code` replaces it, or goes before or after it."""

    file: str
    line: int
    code: str
    action: str = "replace"

    def applied(self, source: str) -> str:
        """The source of the file with the fix.

        >>> Fix("a.py", 2, "y = x.float()").applied("x = 1\\ny = x")
        'x = 1\\ny = x.float()'
        >>> Fix("a.py", 2, "x = 2", "before").applied("x = 1\\n  y = x")
        'x = 1\\n  x = 2\\n  y = x'
        """
        lines = source.splitlines()
        old = lines[self.line - 1]
        new = old[: len(old) - len(old.lstrip())] + self.code
        block = {"replace": [new], "before": [new, old], "after": [old, new]}[self.action]
        return "\n".join([*lines[: self.line - 1], *block, *lines[self.line :]])


@dataclass(slots=True, frozen=True)
class SuspectLine:
    """A line of the source to look at, where no fix is known.

    `origin` is the index of the origin in the explanation that says what comes from the line.
    """

    file: str
    line: int
    origin: int | None = None


@dataclass(slots=True, frozen=True)
class Advice:
    """A fix, and how sure it is.

    `doubt` says what speaks against the fix; of an unknown fix, what is known about the line `look_at` if no origin
    says it. `words` are the fix where it cannot be written as one line of code.
    """

    certainty: Certainty
    fix: Fix | None = None
    doubt: str = ""
    words: str = ""
    look_at: SuspectLine | None = None


def certain(fix: Fix) -> Advice:
    """The advice of a fix that a rule of torch leaves no choice about."""
    return Advice(Certainty.CERTAIN, fix)


def likely(fix: Fix, doubt: str) -> Advice:
    """The advice of a fix that removes the failure."""
    return Advice(Certainty.LIKELY, fix, doubt)


def possible(fix: Fix, doubt: str) -> Advice:
    """The advice of one fix of several."""
    return Advice(Certainty.POSSIBLE, fix, doubt)


def unknown(file: str, line: int, reason: str) -> Advice:
    """The advice to look at a line, where no fix is known."""
    return Advice(Certainty.UNKNOWN, doubt=reason, look_at=SuspectLine(file, line))
