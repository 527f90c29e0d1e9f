"""Places: sites by what they say, so that the same line of two parts of a trace is one place."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

from insitu.trace.event import Loop, Site
from insitu.trace.source_file import is_library


@dataclass(eq=False)
class Place:
    """A place in the source: its number is that of its text position, whoever called it."""

    site: Site
    number: int

    @cached_property
    def function(self) -> tuple[str, str]:
        """The file and the name of the function around it."""
        return (self.site.file, self.site.function)

    @cached_property
    def function_name(self) -> str:
        """The name that a call of the function is written with: that of the class, for the method that makes it."""
        parts = self.site.function.split(".")
        if parts[-1] == "__init__" and len(parts) > 1:
            return parts[-2]
        return parts[-1]

    @cached_property
    def is_library(self) -> bool:
        """Whether it is in the code of a library."""
        return is_library(self.site.file)

    @cached_property
    def statement(self) -> tuple[int, bool]:
        """The order of its statement; where that is not known, each place is a statement of its own."""
        if self.site.nesting is None:
            return (-1 - self.number, False)
        return (self.site.nesting.statement, self.site.nesting.is_end)

    @cached_property
    def is_generated(self) -> bool:
        """Whether a program wrote the function, as `dataclass` does, and nobody can read it."""
        return self.site.file.startswith("<") and self.site.nesting is None

    @cached_property
    def is_comprehension(self) -> bool:
        """Whether it is in the frame of a comprehension or of a generator expression."""
        return self.function_name in ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")

    @cached_property
    def loops(self) -> tuple[Loop, ...]:
        """The loops around it in its function, as far as they are known."""
        if self.site.nesting is None:
            return ()
        return self.site.nesting.loops

    @property
    def has_columns(self) -> bool:
        """Whether the columns say which expression of the line it is; they are not known where one spans lines."""
        return self.site.start is not None

    def is_header_of(self, loop: Loop | None) -> bool:
        """Whether it is where a `for` loop gets its next item."""
        nesting = self.site.nesting
        if nesting is None or nesting.is_end or nesting.loops[-1:] != (loop,):
            return False
        return nesting.text == nesting.loops[-1].text

    def excludes(self, other: Place) -> bool:
        """Whether a pass that comes to one of two places of a function never comes to the other one."""
        here, there = self.site.nesting, other.site.nesting
        if here is None or there is None or not here.arms:
            return False
        branches = {arm.condition: arm.branch for arm in here.arms}
        return any(branches.get(arm.condition, arm.branch) != arm.branch for arm in there.arms)

    def calls(self, name: str) -> bool:
        """Whether the expression calls something by this name: `train(x)`, `model.generate(x)`."""
        return _calls(self.site.text[self.site.start : self.site.end], name)


@lru_cache(maxsize=4096)
def _calls(text: str, name: str) -> bool:
    """Whether a name with a parenthesis behind it is in a text."""
    return re.search(rf"\b{re.escape(name)}\s*\(", text) is not None


@dataclass(slots=True, eq=False)
class Position:
    """The places that led from one call to a call inside it, outermost first. The same places are one object."""

    places: tuple[Place, ...]
    number: int

    @property
    def is_known(self) -> bool:
        """Whether the source says what is around the innermost place."""
        return bool(self.places) and self.places[-1].site.nesting is not None


@dataclass(slots=True, eq=False)
class Places:
    """The places and positions of a trace."""

    _places: dict[Any, Place] = field(default_factory=dict)
    _by_site: dict[Site, Place] = field(default_factory=dict)
    _positions: dict[tuple[int, ...], Position] = field(default_factory=dict)
    _by_sites: dict[tuple[Site | None, Site | None], Position] = field(default_factory=dict)

    def position(self, site: Site | None, base: Site | None) -> Position:
        """The position of a call at `site` inside a call at `base`."""
        known = self._by_sites.get((site, base))
        if known is None:
            known = self._by_sites[site, base] = self._make(site, base)
        return known

    def _make(self, site: Site | None, base: Site | None) -> Position:
        """Go from a site to its callers until the base; `site` and `base` are those of `position`."""
        places: list[Place] = []
        while site is not None and site is not base:
            places.append(self._place(site))
            site = site.caller
        places.reverse()
        key = tuple([place.number for place in places])
        return self._positions.setdefault(key, Position(tuple(places), len(self._positions)))

    def _place(self, site: Site) -> Place:
        """The place of a site: sites that differ only in their callers have the same one."""
        place = self._by_site.get(site)
        if place is None:
            key = (site.file, site.line, site.function, site.start, site.end, site.nesting)
            place = self._by_site[site] = self._places.setdefault(key, Place(site, len(self._places)))
        return place
