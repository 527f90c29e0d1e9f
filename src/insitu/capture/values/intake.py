"""From what path patterns name to the values of a step: copies of their own, or what functions make of them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from itertools import islice
from typing import Any, Protocol

import numpy
from torch import Tensor

from insitu.capture.keep import Small, stats
from insitu.capture.values.copies import PLAIN, LeftOutError, copies, dense_copy, is_dense, readable, shard_facts
from insitu.capture.values.leaves import MOST_LEAVES, SMALL, TOO_MANY, Leaves, parts
from insitu.capture.values.step_values import Batch, Put, StepValues
from insitu.errors import is_interrupt
from insitu.trace.path import Segments

Keep = Callable[[Any], Any]

MOST_LEFT_OUT = 1000  # paths, with a reason each, that are named


class ValueSink(Protocol):
    """Takes the values of a recording."""

    is_early: bool  # whether it takes values as soon as they are final; else a step as a whole, when it is over

    def write(self, batch: Batch) -> None:
        """Take a batch; one that was interrupted is given again, and then its values must not be taken twice."""

    def holds(self, path: str, tensor: Tensor) -> bool:
        """Whether these are the values of a path that were written last."""

    def describe(self, path: str, facts: dict[str, Any]) -> None:
        """Take what is to be known of a path besides its values."""

    def leave_out(self, path: str, reason: str, step: int) -> None:
        """Values of a path are not recorded."""


class Intake:
    """Takes values into a step. A value that cannot be taken is named, and left out alone.

    `keep_of` says what is made of each tensor, by its path and that of the whole it is an item of; `seen` are the paths
    that had a value.
    """

    def __init__(self, keep_of: Callable[[str, str], Keep | None], sink: ValueSink) -> None:
        self.keep_of, self._sink = keep_of, sink
        self.seen: set[str] = set()
        self._left_out: set[tuple[str, str]] = set()

    def leave_out(self, path: str, reason: str, step: int) -> None:
        """Name a value that is not recorded, and why; each reason once."""
        key = (path, reason)
        if key in self._left_out or len(self._left_out) > MOST_LEFT_OUT:
            return
        if len(self._left_out) == MOST_LEFT_OUT:
            path, reason = "**", f"more than {MOST_LEFT_OUT:,} values are left out, and only the first are named"
        self._left_out.add(key)
        self.seen.add(path)
        self._sink.leave_out(path, reason, step)

    def add_all(self, step: StepValues, path: str, value: Any, rests: Collection[Segments]) -> None:
        """Take a value, or what the rests name in it; of a container each of the values in it."""
        found = parts(path, value, rests)
        for whole, item in islice(found.items(), MOST_LEAVES):
            if type(item) in PLAIN:  # mostly
                self.add(step, whole, item, self.keep_of(whole, whole), step.append)
                continue
            self._add_leaves(step, whole, item, partial(self._keep_of_leaf, whole), step.append)
        if len(found) > MOST_LEAVES:
            self.leave_out(path, TOO_MANY, step.number)

    def _keep_of_leaf(self, whole: str, path: str) -> Keep | None:
        return self.keep_of(path, whole)

    def _add_leaves(
        self, step: StepValues, path: str, value: Any, keep_of: Callable[[str], Keep | None], put: Put
    ) -> None:
        leaves = Leaves(path, value)
        for leaf_path, leaf in leaves:
            self.add(step, leaf_path, leaf, keep_of(leaf_path), put)
        for cut, reason in leaves.cut.items():
            self.leave_out(cut, reason, step.number)

    def add(self, step: StepValues, path: str, value: Any, keep: Keep | None, put: Put) -> None:
        """Take one tensor, array or small value; what cannot be taken is left out alone."""
        if type(value) in SMALL:
            self.seen.add(path)
            if value is not None or keep is None:  # nothing can be made of None; the name is yet to be bound
                put(path, value)
            return
        try:
            if keep is not None and isinstance(value, (Tensor, numpy.ndarray)):
                self._add_kept(step, path, value, keep, put)
            elif is_dense(value):
                step.reserve(value.nbytes)
                self.seen.add(path)
                put(path, dense_copy(value.detach()))
            else:
                self._add_copies(step, path, value, put)
        except Exception as error:
            if is_interrupt(error):
                raise
            self.leave_out(path, text_of(error), step.number)

    def _add_copies(self, step: StepValues, path: str, value: Any, put: Put) -> None:
        for part, copy, facts in copies(path, value):
            step.reserve(getattr(copy, "nbytes", 0))
            self.seen.add(part)
            put(part, copy)
            if facts:
                self._sink.describe(part, facts)

    def _add_kept(self, step: StepValues, path: str, value: Any, keep: Keep, put: Put) -> None:
        """Take what a function makes of a tensor or array."""
        kept = keep(readable(value, keep) if isinstance(value, Tensor) else value)
        if facts := shard_facts(value):
            self._sink.describe(path, facts)
        if type(kept) is Small:
            for name, number in kept.items():
                put(f"{path}.{name}", number)
                self.seen.add(f"{path}.{name}")
        elif kept is None and keep is stats:
            raise LeftOutError(f"torch has no statistics of {value.dtype}")
        else:
            self._add_leaves(step, path, kept, lambda leaf: None, put)


def text_of(error: BaseException) -> str:
    """Why a value is not recorded."""
    text = str(error) if isinstance(error, LeftOutError) else f"{type(error).__name__}: {error}"
    return " ".join(text.split())[:300]
