"""The table of the private parts of torch: how a part is looked up, and who hears that it is missing.

`torch_internals` fills the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch

from insitu.capture.torch_versions import OLDEST, report_untried
from insitu.errors import tell


@dataclass(frozen=True, slots=True)
class Internal:
    """A private part of torch: its name, why insitu needs it, since which torch it is known, what is off without it.

    `earlier` names the part that did the same in earlier torches, if there was one. Users hear that a part is missing
    when the first session starts or, with `is_rare`, when the part would be used.
    """

    name: str
    why: str
    since: str
    without: str
    is_missing: bool
    earlier: str = ""
    is_rare: bool = False

    @property
    def is_replaced(self) -> bool:
        """Whether this torch lacks the part, and has the earlier one."""
        return self.is_missing and bool(self.earlier) and lookup(self.earlier) is not None


INTERNALS: dict[str, Internal] = {}
_told: set[str] = set()


def find_part(
    name: str,
    fallback: Any,
    *,
    why: str,
    without: str,
    since: str = OLDEST,
    use: Any = None,
    earlier: str = "",
    is_rare: bool = False,
) -> Any:
    """Look up a part of torch by its full name and enter it in the table.

    Returns the part, or `use` where the part is an attribute that is read by name. Without the part: the fallback.
    """
    found = lookup(name)
    enter_part(Internal(name, why, since, without, is_missing=found is None, earlier=earlier, is_rare=is_rare))
    if found is None:
        return fallback
    if use is None:
        return found
    return use


def enter_part(part: Internal) -> None:
    """Enter a part in the table."""
    INTERNALS[part.name] = part


def lookup(name: str) -> Any:
    """The object with this full name; None if there is none."""
    module, _, own = name.rpartition(".")
    try:
        return getattr(owner_of(module), own, None)
    except (ImportError, AttributeError):
        return None


def owner_of(name: str) -> Any:
    """The module or class with this full name."""
    module, _, own = name.rpartition(".")
    known = torch if not module else getattr(owner_of(module), own, None)
    if known is None:
        return import_module(name)
    return known


def has(*names: str) -> bool:
    """Whether torch has all these parts."""
    return not any(INTERNALS[name].is_missing for name in names)


def report_missing() -> None:
    """Warn once about a torch that was never tried, and about each thing that is off because torch lacks a part."""
    report_untried(torch.__version__)
    for part in INTERNALS.values():
        if not part.is_rare:
            report_part(part)


def report_part(part: Internal) -> None:
    """Warn once if this torch lacks a part, and has no earlier one for the same work."""
    is_off = part.is_missing and not part.is_replaced
    if is_off and part.without not in _told:
        _told.add(part.without)
        tell(f"torch {torch.__version__} does not have {part.name}, so {part.without}")
