"""The values of the current step, on their way to the sink in batches."""

from __future__ import annotations

from collections.abc import Callable

from insitu.capture.values.intake import ValueSink
from insitu.capture.values.step_values import Batch, StepValues
from insitu.errors import is_interrupt


class StepWriter:
    """Writes the values of a step. A batch that an interrupt keeps from being written is written the next time."""

    def __init__(
        self, sink: ValueSink, trouble: Callable[[str, Exception], None], *, is_deferred: bool = False
    ) -> None:
        self.sink, self._trouble, self._is_deferred = sink, trouble, is_deferred
        self.now = StepValues(-1)
        self._batch: Batch | None = None

    @property
    def has_batch(self) -> bool:
        """Whether a batch is not written yet."""
        return self._batch is not None

    def commit(self, *, is_open: bool, is_last: bool = False) -> None:
        """Write all values that are not written yet; every step gets at least one batch."""
        self.write()
        now = self.now
        if now.has_news or (is_last and now.is_open):
            batch, rest = now.split(is_open=is_open)
            if self._is_deferred:
                batch.settle(self._trouble)
            self._batch, self.now = batch, rest  # one assignment: no signal handler runs within it
            self.write()

    def write(self) -> None:
        """Write the batch, if there is one; an interrupted batch stays."""
        batch = self._batch
        if batch is None:
            return
        try:
            self.sink.write(batch)
        except Exception as error:
            if is_interrupt(error):
                raise
            self._trouble("recording a step", error)
        self._batch = None

    def drop_batch(self) -> None:
        """Do not write the batch that an interrupt has kept from being written."""
        self._batch = None
