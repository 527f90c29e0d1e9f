"""The versions of torch and Python that are tried together."""

from __future__ import annotations

from argparse import ArgumentTypeError
from dataclasses import dataclass

NEWEST = "newest"  # the newest torch that the index has


@dataclass(frozen=True)
class Pair:
    """A torch and a Python, as in `2.8.0/3.12`."""

    torch: str
    python: str

    @property
    def text(self) -> str:
        """How the pair is written on the command line."""
        return f"{self.torch}/{self.python}"


PAIRS = (
    Pair("2.6.0", "3.11"),
    Pair("2.7.1", "3.11"),
    Pair("2.8.0", "3.12"),
    Pair("2.10.0", "3.13"),
    Pair("2.12.1", "3.11"),
    Pair("2.13.0", "3.11"),
    Pair(NEWEST, "3.12"),
    Pair(NEWEST, "3.13"),
    Pair(NEWEST, "3.14"),
)


def parse_pair(text: str) -> Pair:
    """Read a pair from the command line."""
    torch, slash, python = text.partition("/")
    if not (torch and slash and python):
        raise ArgumentTypeError(f"a pair is written as 2.8.0/3.12 or newest/3.13, got {text!r}")
    return Pair(torch, python)
