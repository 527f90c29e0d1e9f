"""Values on their way into a step: copied, or reduced by a `keep` function; each value that fails is left out."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from itertools import islice
from typing import Any, Protocol

import numpy
from torch import Tensor

from insitu.capture.deferral import Deferral, PendingNumber, PendingStats
from insitu.capture.statistics import Small, stats
from insitu.capture.values.copies import PLAIN, LeftOutError, copies, dense_copy, is_dense, readable
from insitu.capture.values.layouts import layout_facts, local_layout_facts
from insitu.capture.values.leaves import MOST_LEAVES, SMALL, TOO_MANY, Leaves, parts
from insitu.capture.values.step_values import Batch, Put, StepValues
from insitu.errors import is_interrupt
from insitu.trace.event import STATISTICS
from insitu.trace.path import Segments

Keep = Callable[[Any], Any]

MOST_LEFT_OUT = 1000  # values that are named, each with a reason


class ValueSink(Protocol):
    """Takes the values of a recording."""

    is_early: bool  # whether it takes values as soon as they are final; otherwise it takes whole steps

    def write(self, batch: Batch) -> None:
        """Write a batch; an interrupted batch comes again, and its values must not be written twice."""

    def holds(self, path: str, tensor: Tensor) -> bool:
        """Whether these values were the last that were written for a path."""

    def describe(self, path: str, facts: dict[str, Any]) -> None:
        """Write facts about a path that its values do not show."""

    def leave_out(self, path: str, reason: str, step: int) -> None:
        """Write that values of a path are not recorded, and why."""


class Intake:
    """Takes values into a step. A value that cannot be taken is named; the others are taken.

    `keep_of` returns the function that reduces a tensor, by its path and the path of the value that contains it; `seen`
    are the paths that had a value.
    """

    def __init__(
        self, keep_of: Callable[[str, str], Keep | None], sink: ValueSink, deferral: Deferral | None = None
    ) -> None:
        self.keep_of, self._sink, self._deferral = keep_of, sink, deferral
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
        """Take a value, or the parts that the rests name; of a container, each of the values in it."""
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
        """Take one tensor, array or small value, or name it as left out."""
        if type(value) in SMALL:
            self.seen.add(path)
            if (
                value is not None or keep is None
            ):  # `keep` cannot reduce None, the value of a name that is not bound yet
                put(path, value)
            return
        try:
            if keep is not None and isinstance(value, (Tensor, numpy.ndarray)):
                self._add_kept(step, path, value, keep, put)
            elif is_dense(value):
                step.reserve(value.nbytes)
                self.seen.add(path)
                put(path, dense_copy(value.detach()) if self._deferral is None else self._copy(value.detach()))
                if value.grad_fn is not None and (facts := local_layout_facts(value)):  # `to_local()` leaves its node
                    self._sink.describe(path, facts)
            else:
                self._add_copies(step, path, value, put)
        except Exception as error:
            if is_interrupt(error):
                raise
            self.leave_out(path, text_of(error), step.number)

    def _copy(self, tensor: Tensor) -> Any:
        """A copy of a dense tensor; that of one on an accelerator is on its way, unless the sink wants it there."""
        deferral = self._deferral
        if deferral is not None and self._sink.is_early and deferral.applies_to(tensor):
            return deferral.send(tensor, lambda copy: copy)
        return dense_copy(tensor)

    def _add_copies(self, step: StepValues, path: str, value: Any, put: Put) -> None:
        for part, copy, facts in copies(path, value):
            step.reserve(getattr(copy, "nbytes", 0))
            self.seen.add(part)
            put(part, copy)
            if facts:
                self._sink.describe(part, facts)

    def _add_kept(self, step: StepValues, path: str, value: Any, keep: Keep, put: Put) -> None:
        """Take the result of a `keep` function for a tensor or array."""
        given = readable(value, keep) if isinstance(value, Tensor) else value
        kept = keep(given) if self._deferral is None else self._reduced(given, keep)
        if facts := layout_facts(value):
            self._sink.describe(path, facts)
        if type(kept) is Small:
            for name, number in kept.items():
                put(f"{path}.{name}", number)
                self.seen.add(f"{path}.{name}")
        elif kept is None and keep is stats:
            raise LeftOutError(f"torch has no statistics of {value.dtype}")
        else:
            self._add_leaves(step, path, kept, lambda leaf: None, put)

    def _reduced(self, tensor: Any, keep: Keep) -> Any:
        """What `keep` makes of a tensor; the statistics of a tensor on an accelerator are pending."""
        deferral = self._deferral
        is_pending = keep is stats and deferral is not None and deferral.applies_to(tensor) and tensor.numel() > 0
        if deferral is not None and is_pending:
            pending = deferral.statistics(tensor, bins=False)
            return pending_numbers(pending) if isinstance(pending, PendingStats) else pending
        return keep(tensor)


def pending_numbers(pending: PendingStats) -> Small:
    """Pending statistics by name, as `stats` returns those that are known."""
    return Small({row.name: PendingNumber(pending, row.name) for row in STATISTICS})


def text_of(error: BaseException) -> str:
    """The reason why a value is not recorded."""
    text = str(error) if isinstance(error, LeftOutError) else f"{type(error).__name__}: {error}"
    return " ".join(text.split())[:300]
