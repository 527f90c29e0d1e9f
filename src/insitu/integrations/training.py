"""The part that the callbacks of all frameworks share: a recording that begins and ends with a training."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from insitu.session.live_run import LiveRun
    from insitu.session.record_run import RunSession


class RecordedTraining:
    """Does around a training what `insitu.record` does around a block; `recorded` is what it has so far.

    `only`, `keep`, `every`, `to`, `overwrite`, `resume` and `compression` mean what they mean for `insitu.record`; the
    values are kept unless `keep` says otherwise. A step is one update of the trainer, with all the batches that its
    gradients come from, numbered as the trainer numbers it; what runs between updates, as an evaluation, is in none.

    >>> import torch
    >>> model = torch.nn.Linear(3, 2)
    >>> training = RecordedTraining(only="weight")
    >>> training.start(model, first=100)
    >>> for _ in range(2):
    ...     training.begin_step()
    ...     training.end_step()
    >>> training.stop()
    >>> training.recorded["weight"].steps.tolist()
    [100, 101]
    """

    def __init__(
        self,
        *,
        only: str | Iterable[str] | None = None,
        keep: str | Callable[..., Any] | dict[str, Any] = "values",
        every: int = 1,
        to: str | os.PathLike[str] | Callable[..., Any] | None = None,
        overwrite: bool = False,
        resume: bool = False,
        compression: str = "none",
    ) -> None:
        super().__init__()
        self._only = (only,) if isinstance(only, str) else tuple(only or ())
        self._options: dict[str, Any] = {"keep": keep, "every": every, "to": to}
        self._options |= {"overwrite": overwrite, "resume": resume, "compression": compression}
        self._recording: RunSession | None = None
        self.recorded: LiveRun | None = None
        self._next = 0

    def start(self, model: Any, *, first: int) -> None:
        """Begin to record the model; the next step has this number."""
        from insitu.session.record_run import record_run

        options = dict(self._options)
        if self._recording is not None:  # the training starts again, with smaller batches: discard the steps so far
            self.stop()
            options["overwrite"] = not options["resume"]
        recording = record_run(model, only=self._only, **options)
        self.recorded = recording.__enter__()
        self._recording = recording
        self._next = first
        self.recorded.end_step()  # a call of the model before the first step is in none

    def begin_step(self) -> None:
        """A step begins."""
        if self._recording is not None and self.recorded is not None:
            self.recorded.step(self._next)
            self._next += 1

    def end_step(self) -> None:
        """The step has ended: what the model does until the next one begins is not recorded."""
        if self._recording is not None and self.recorded is not None:
            self.recorded.end_step()

    def stop(self, error: BaseException | None = None) -> None:
        """End the recording, if there is one."""
        recording, self._recording = self._recording, None
        if recording is not None:
            recording.__exit__(type(error) if error else None, error, None)
