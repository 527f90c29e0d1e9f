"""The sinks of recorded values: the journal of a run, a function of the user, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import numpy
import torch
from torch import Tensor

from insitu.capture.isolation import run_isolated
from insitu.capture.values.intake import text_of
from insitu.capture.values.leaves import SMALL
from insitu.capture.values.step_values import Batch
from insitu.errors import is_interrupt
from insitu.store.journal import frames
from insitu.store.journal.journal_writer import Entry, JournalWriter
from insitu.store.stored_type import stored_type

Tell = Callable[[str, str], None]  # with the path and the reason


class JournalSink:
    """Writes values into a journal as soon as they are final, so that a killed process loses no finished step."""

    is_early = True

    def __init__(self, journal: JournalWriter, tell: Tell) -> None:
        self._journal, self._tell = journal, tell

    def write(self, batch: Batch) -> None:
        """Write a batch; the journal skips a batch whose number it has written before."""
        flags = frames.MORE * batch.is_more | frames.OPEN * batch.is_open | frames.AGAIN * batch.is_again
        entries = list(self._entries(batch))
        dropped = self._journal.dropped
        try:
            self._journal.step(batch.step, batch.time, entries, flags=flags, ticket=batch.number)
        except Exception as error:
            if not is_interrupt(error) and self._journal.dropped == dropped:  # otherwise the journal reports it
                self.leave_out(f"step {batch.step}", text_of(error), batch.step)
            raise

    def _entries(self, batch: Batch) -> Iterator[Entry]:
        for path, call, value in batch.taken:
            try:
                yield entry(path, call, value)
            except Exception as error:
                if is_interrupt(error):
                    raise
                self.leave_out(path, text_of(error), batch.step)

    def holds(self, path: str, tensor: Tensor) -> bool:
        """Whether these are the values of a path that were written last."""
        try:
            return self._journal.holds(entry(path, 0, tensor))
        except Exception as error:
            if is_interrupt(error):
                raise
            return False

    def describe(self, path: str, facts: dict[str, Any]) -> None:
        """Write facts about a path, with the next batch."""
        self._journal.describe(path, **facts)

    def leave_out(self, path: str, reason: str, step: int) -> None:
        """Write that values of a path are not recorded, with the next batch, and tell the user."""
        self._journal.omit(path, reason, step=step)
        self._tell(path, reason)


class FunctionSink:
    """Calls a function with each value of a step when the step is over."""

    is_early = False

    def __init__(
        self, function: Callable[..., Any], rank: int, trouble: Callable[[str, Exception], None], tell: Tell
    ) -> None:
        self._function, self._rank, self._trouble, self._tell = function, rank, trouble, tell

    def write(self, batch: Batch) -> None:
        """Call the function once for each value, even if a call is interrupted and the batch comes again."""
        for path, _, value in batch.rest:
            try:
                self._function(path, value, batch.step, self._rank)
            except Exception as error:
                if is_interrupt(error):
                    raise
                self._trouble("the function given as `to`", error)

    def holds(self, path: str, tensor: Tensor) -> bool:
        """False: the function gets the values of every step."""
        return False

    def describe(self, path: str, facts: dict[str, Any]) -> None:
        """Do nothing: the function gets values only."""

    def leave_out(self, path: str, reason: str, step: int) -> None:
        """Tell the user that values are not recorded."""
        self._tell(path, reason)


class EmptySink:
    """Ignores all values: the recording is over, or turned off."""

    is_early = False

    def write(self, batch: Batch) -> None:
        """Do nothing."""

    def holds(self, path: str, tensor: Tensor) -> bool:
        """False: nothing is written."""
        return False

    def describe(self, path: str, facts: dict[str, Any]) -> None:
        """Do nothing."""

    def leave_out(self, path: str, reason: str, step: int) -> None:
        """Do nothing."""


def entry(path: str, call: int, value: Any) -> Entry:
    """A value as an entry of the journal; raises if the value cannot be stored."""
    if type(value) in SMALL:  # the usual case: numbers, such as statistics
        return path, call, None, (), value
    if isinstance(value, Tensor):
        return path, call, *run_isolated(lambda: dense(value))
    if isinstance(value, numpy.ndarray):
        return path, call, dtype_name(value.dtype), value.shape, numpy.ascontiguousarray(value).reshape(-1).view("u1")
    if isinstance(value, numpy.generic):
        value = value.item()
    return path, call, None, (), value


def dense(tensor: Tensor) -> tuple[str, tuple[int, ...], Any]:
    """The dtype, the shape and the bytes of a tensor."""
    if tensor.dtype in IN_NUMPY and tensor.is_cpu and tensor.is_contiguous():  # the usual case, where NumPy is faster
        return dtype_name(tensor.dtype), tuple(tensor.shape), tensor.numpy().reshape(-1).view(numpy.uint8)
    values = tensor.cpu().contiguous()
    return dtype_name(values.dtype), tuple(values.shape), values.reshape(-1).view(torch.uint8).numpy()


IN_NUMPY = frozenset({torch.float32, torch.float64, torch.float16, torch.int64, torch.int32, torch.uint8, torch.bool})


@lru_cache(maxsize=256)
def dtype_name(dtype: Any) -> str:
    """The name of a dtype of torch or NumPy as torch spells it, or as NumPy does where torch has none."""
    name = str(dtype).removeprefix("torch.")
    if not (hasattr(torch, name) or name == "bool"):
        name = f"numpy:{dtype.str}"
    return stored_type(name).name
