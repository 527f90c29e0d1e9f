"""The switch of the environment: `INSITU=0` turns every session off."""

from __future__ import annotations

import os


def is_off() -> bool:
    """Whether the environment turns insitu off: sessions then do nothing, and the program runs as it is."""
    return os.environ.get("INSITU") == "0"
