"""Functions whose code is replaced while their variables are followed, and always restored.

What torch.compile compiles must be the original, and it guards on the code of what it has inlined: while a compiled
region runs, all are put back.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import CodeType, FunctionType
from typing import NamedTuple

from insitu.capture.compiled import regions
from insitu.capture.modes import skip_when_compiling
from insitu.capture.variables.follow.definitions import NoSource
from insitu.capture.variables.follow.report_plan import NO_EXTRAS, Extras
from insitu.capture.variables.patterns import patterns_of
from insitu.capture.variables.reporters import make_thread_reporter, rewritten
from insitu.errors import tell
from insitu.operating_system import at_fork


class Wish(NamedTuple):
    """What one user of a function wants it to report: variables by their patterns, and what else."""

    patterns: tuple[str, ...]
    extras: Extras


class Swaps:
    """The functions that report variables now, and their original code."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._users: dict[int, list[Wish]] = {}
        self._originals: dict[int, tuple[FunctionType, CodeType]] = {}
        self._codes: dict[tuple[int, frozenset[Wish]], tuple[CodeType, CodeType]] = {}
        self._pauses = 0

    @contextmanager
    def swapped(
        self, functions: list[FunctionType], patterns: tuple[str, ...], extras: Extras = NO_EXTRAS
    ) -> Iterator[None]:
        """Let these functions report these variables."""
        wish = Wish(patterns, extras)
        regions.begin()
        try:
            self._add(functions, wish)
            yield
        finally:
            self._remove(functions, wish)
            regions.end()

    def original(self, function: FunctionType) -> CodeType:
        """The code of a function without reports."""
        with self._lock:
            return self._originals.get(id(function), (function, function.__code__))[1]

    def _add(self, functions: list[FunctionType], wish: Wish) -> None:
        with self._lock:
            for function in functions:
                self._originals.setdefault(id(function), (function, function.__code__))
                self._users.setdefault(id(function), []).append(wish)
                self._settle(function)

    def _remove(self, functions: list[FunctionType], wish: Wish) -> None:
        with self._lock:
            for function in functions:
                users = self._users.get(id(function), [])
                if wish in users:
                    users.remove(wish)
                    self._settle(function)

    def abandon(self) -> None:
        """This process is the child of a fork: no other thread holds the lock, or follows variables."""
        self._lock = threading.RLock()
        self._pauses = 0
        for function, original in self._originals.values():
            function.__code__ = original
        self._originals.clear()
        self._users.clear()

    def pause(self, by: int) -> None:
        """Put the originals back for a while (1), or let the functions report again (-1)."""
        with self._lock:
            self._pauses = max(0, self._pauses + by)
            for function, _ in list(self._originals.values()):
                self._settle(function)

    def _settle(self, function: FunctionType) -> None:
        _, original = self._originals[id(function)]
        wishes = frozenset(self._users[id(function)])
        code = self._code(original, wishes) if wishes and not self._pauses else original
        if function.__code__ is not code:
            function.__code__ = code
        if not wishes:
            del self._originals[id(function)], self._users[id(function)]

    def _code(self, original: CodeType, wishes: frozenset[Wish]) -> CodeType:
        key = (id(original), wishes)
        if key not in self._codes:
            names = {name for wish in wishes for name in wish.patterns}
            patterns, extras = patterns_of(tuple(sorted(names))), joint_extras(wish.extras for wish in wishes)
            try:
                new = rewritten(original, patterns, make_thread_reporter(), extras=extras)
            except Exception as reason:
                new = original
                why = reason if isinstance(reason, NoSource) else f"{original.co_qualname}: {reason!r}"
                tell(f"variables are not followed in a function that is called: {why}")
            self._codes[key] = (original, new)  # the original is held so that its id stays its own
        return self._codes[key][1]


def joint_extras(several: Iterable[Extras]) -> Extras:
    """All that any of several users wants."""
    every = list(several)
    return Extras(passes=any(each.passes for each in every), ends=any(each.ends for each in every))


swaps = Swaps()
at_fork(after_in_child=swaps.abandon)
regions.pausing.append(swaps.pause)
skip_when_compiling(Swaps.pause, Swaps._settle, Swaps._code)
