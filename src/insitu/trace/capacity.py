"""Amounts of memory, as people write them."""

from __future__ import annotations

import re

from insitu.errors import ChoiceError

MEMORY = 2**30  # the default limit of a trace
LEAST = 10**6
AMOUNT = re.compile(r"\s*(\d{1,15}(?:\.\d{1,9})?)\s*([a-zA-Z]{0,3})\s*")
MOST = 2**62
UNITS = {
    **{"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12},
    **{"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40},
}


def capacity(option: str, amount: object) -> int:
    """The number of bytes of an amount: a number, or text such as "500MB" or "2 GiB".

    >>> capacity("memory", "500MB"), capacity("memory", "2 GiB"), capacity("memory", 3e6)
    (500000000, 2147483648, 3000000)
    """
    found = _bytes(amount)
    if found is None:
        raise ChoiceError(f"{option}={amount!r:.80} is not an amount of memory: write it as in '500MB' or '2GiB'")
    if found < LEAST:
        raise ChoiceError(f"{option}={amount!r:.80} is too little for a trace: give at least 1MB")
    return found


def _bytes(amount: object) -> int | None:
    """An amount in bytes; None if it is not an amount, or beyond all memory."""
    if isinstance(amount, bool):
        return None
    number = _written_bytes(amount) if isinstance(amount, str) else amount
    if isinstance(number, (int, float)) and 0 <= number < MOST:
        return int(number)
    return None


def _written_bytes(amount: str) -> float | None:
    match = AMOUNT.fullmatch(amount)
    if match is None:
        return None
    unit = UNITS.get(match[2].upper())
    if unit is None:
        return None
    return float(match[1]) * unit


def capacity_text(size: int) -> str:
    """A number of bytes in few characters.

    >>> capacity_text(2**30), capacity_text(500_000_000), capacity_text(1_234_567)
    ('1 GiB', '500 MB', '1.2 MB')
    """
    for letters in ("TiB", "GiB", "MiB"):
        count, rest = divmod(size, UNITS[letters.upper()])
        if count and not rest:
            return f"{count} {letters}"
    for letters in ("TB", "GB", "MB"):
        if size >= UNITS[letters]:
            return f"{size / UNITS[letters]:.1f}".removesuffix(".0") + f" {letters}"
    return f"{size} bytes"
