"""What a program does, bit for bit: its result and the random numbers; alone, traced, under a bare mode."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy
import torch
from tests.capture.oracle import BareMode, bits, nothing_left
from torch import nn

import insitu

Build = Callable[[], tuple[nn.Module | None, Callable[[], Any]]]
Outcome = tuple[Any, int]


def outcome(build: Build, around: Any) -> Outcome:
    """What a program returns when it is run inside `around`, and the state of the random numbers afterwards."""
    seed(0)
    subject, run = build()
    seed(1)
    with around(subject):
        result = run()
    return bits(result), random_state()


def seed(number: int) -> None:
    """Begin all random numbers anew: those of torch, numpy and Python."""
    torch.manual_seed(number)
    numpy.random.seed(number)
    random.seed(number)


def random_state() -> int:
    """Where all random numbers are, as one number."""
    others = repr((numpy.random.get_state(legacy=False), random.getstate())).encode()
    return zlib.crc32(others, zlib.crc32(torch.get_rng_state().numpy().tobytes()))


@contextmanager
def alone(subject: Any) -> Iterator[None]:
    """Nothing around a program."""
    yield


def untraced(build: Build) -> Outcome:
    """The outcome without the tool, when what torch does only the first time is done."""
    outcome(build, alone)
    return outcome(build, alone)


def steady(build: Build) -> Outcome:
    """The same, of a program of which it is not known whether it does the same each time."""
    first, second = outcome(build, alone), outcome(build, alone)
    if first != second and outcome(build, alone) != second:
        raise ValueError("gives another result each time, also without the tool")
    return second


def bare(build: Build) -> list[str]:
    """The operators that a mode of torch sees."""
    mode = BareMode()
    outcome(build, lambda subject: mode)
    return mode.ops


@dataclass
class Traced:
    """A program under a session: its outcome, and its trace."""

    outcome: Outcome
    trace: insitu.Trace = field(repr=False)


def traced(build: Build, session: Callable[[Any], Any]) -> Traced:
    """The outcome of a program inside what `session` makes of its subject; nothing is left patched."""
    trace = insitu.Trace()

    @contextmanager
    def recorded(subject: Any) -> Iterator[None]:
        nonlocal trace
        with session(subject) as trace:
            yield

    with nothing_left():
        found = outcome(build, recorded)
    return Traced(found, trace)
