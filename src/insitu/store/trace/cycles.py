"""Checks that no row contains itself: a reader would follow such rows for ever."""

from __future__ import annotations

import numpy as np

from insitu.errors import StoreError
from insitu.store.stored_type import Array

# Pages know whole numbers up to here, and no trace has more events.
_LARGEST_ID = 2**53


def check_events(ids: Array, distances: Array) -> None:
    """Raise unless each event has an id of its own and none contains itself; a distance of 0 means no parent.

    >>> check_events(np.array([0, 1, 2]), np.array([0, -1, 1]))
    Traceback (most recent call last):
    insitu.errors.StoreError: an event contains itself
    """
    if not len(ids):
        return
    if min(ids.min(), distances.min()) < -_LARGEST_ID or max(ids.max(), distances.max()) > _LARGEST_ID:
        raise StoreError("an event has a number that none can have")
    order = np.argsort(ids, kind="stable")
    ordered = ids[order]
    same = ordered[1:][ordered[1:] == ordered[:-1]]
    if len(same):
        raise StoreError(f"two events have the same number, {same[0]}")
    parents = ids - distances
    places = np.minimum(np.searchsorted(ordered, parents), len(ids) - 1)
    found = (distances != 0) & (ordered[places] == parents)
    above = np.where(found, order[places], -1)
    if (above >= np.arange(len(ids))).any() and _leads_back(above):
        raise StoreError("an event contains itself")


def _leads_back(above: Array) -> bool:
    """Whether a row is among the rows around it; -1 is a row without one around. Each round looks twice as far."""
    for _ in range(len(above).bit_length()):
        above = np.where(above >= 0, above[above], -1)
    return bool((above >= 0).any())


def check_depth(links: Array, deepest: int, what: str) -> None:
    """No row leads over more than so many others, each the number of a row or -1.

    >>> check_depth(np.array([1, 0]), 64, "gradients")
    Traceback (most recent call last):
    insitu.errors.StoreError: gradients lead over more than 64 others
    """
    at = links[links >= 0]
    for _ in range(deepest):
        if not len(at):
            return
        at = links[at]
        at = at[at >= 0]
    raise StoreError(f"{what} lead over more than {deepest} others")
