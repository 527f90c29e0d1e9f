"""How many faults to try: a sample, or all with `INSITU_FAULTS=full`."""

from __future__ import annotations

import os

FULL = os.environ.get("INSITU_FAULTS") == "full"


def amount(sample: int, full: int) -> int:
    """The one number or the other."""
    return full if FULL else sample
