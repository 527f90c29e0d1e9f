"""`record_run`: values of a training run, step by step, into a file that survives a crash."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any, TypeVar

from torch import nn

from insitu.errors import not_entered
from insitu.session.live_run import LiveRun
from insitu.session.recorded_function import recorded_function
from insitu.session.run_block import RunBlock
from insitu.session.run_entry import RunEntry
from insitu.session.run_options import KeepOption, RunOptions
from insitu.session.session import Session

Function = TypeVar("Function", bound=Callable[..., Any])


def record_run(
    model: nn.Module | None = None,
    *,
    only: str | Iterable[str] | None = None,
    keep: KeepOption | dict[str, KeepOption] = "values",
    every: int = 1,
    when: str | None = None,
    step: str = "call",
    to: Any = None,
    overwrite: bool = False,
    resume: bool = False,
    compression: str = "none",
    spool: str | os.PathLike[str] | None = None,
    segment: int | str | None = None,
) -> RunSession:
    """Record values of a model, and variables of the training loop, at each step of a training run.

    As a decorator, it records the variables of the function, in all its calls.

    A step is one outermost call of the model, with all of the pass of the loop in which the call is; `live.step()`
    begins one elsewhere. Without a model it is one update of an optimizer or, without one, a pass of the loop. Outputs
    and variables are recorded when the program computes them, several in a step if there are; gradients when an
    optimizer is about to use them; parameters and buffers after the update. Each value is written as soon as it is
    final: a killed process loses no step that has ended.

    Args:
        model: The model that `only` names parts of; a decorated function, or a script, can do without.
        only: Path patterns that name outputs (`encoder.1`), variables (`encoder.*.forward.scores`), parameters
            (`head.weight`) and gradients (`head.weight.grad`) of the model. Other names are variables of the function
            or cell that has the `with` block (`loss`), or of functions that the block calls (`train.loss`).
        keep: "values", "stats" (`head.weight.mean`, …), a function of a tensor, or a dict of these by pattern.
        every: 4 records each fourth step.
        when: "train" or "eval" records only the steps in which the model is in that mode.
        step: "call", or "update": a step is then one update of an optimizer that has parameters of the model, with all
            the calls that its gradients come from. An evaluation between two updates is in no step.
        to: "run.h5" writes a journal for each rank to `run.h5.parts` while the program runs, and merges them into the
            file at the end: of the block or, for a decorated function, of the program. "run.h5.parts" leaves the
            journals as they are. "s3://bucket/run", or any other address of fsspec, sends them there, segment by
            segment. A function is called with path, value, step and rank. Without `to`, the values of a block are in a
            temporary folder.
        overwrite: Whether an existing file is replaced; it is an error otherwise.
        resume: Whether the run in an existing file continues, as a new attempt.
        compression: "none", "gzip", "lzf", or "blosc2" with hdf5plugin.
        spool: The folder in which segments wait until they are at the address; the default is the current one.
        segment: The size ("64MB") or the number of steps (100) after which a journal begins another segment.

    Examples:
        >>> import torch, insitu
        >>> model = torch.nn.Linear(3, 2)
        >>> with insitu.record_run(model, only=["forward.input", "weight"]) as live:
        ...     for _ in range(3):
        ...         _ = model(torch.ones(4, 3))
        >>> live["forward.input"].values.shape, live["weight"].steps.tolist()
        ((3, 4, 3), [0, 1, 2])

        A decorated function:

        >>> @insitu.record_run(only=["loss", "rate"], to=lambda path, value, step, rank: print(path, step, value))
        ... def train(rate=0.5):
        ...     for loss in (2, 1):
        ...         rate = rate / 2
        >>> train()
        rate 0 0.5
        loss 0 2
        rate 0 0.25
        loss 1 1
        rate 1 0.125
    """
    options = RunOptions(
        model,
        only=only,
        keep=keep,
        every=every,
        when=when,
        step=step,
        to=to,
        overwrite=overwrite,
        resume=resume,
        compression=compression,
        spool=spool,
        segment=segment,
    )
    return RunSession(options)


class RunSession(Session[RunEntry]):
    """A `with` block, or a decorator, that records values at each step."""

    def __init__(self, options: RunOptions) -> None:
        super().__init__()
        self._options = options

    def __getattr__(self, name: str) -> Any:
        raise not_entered(self, name, LiveRun, "record_run", "live")

    def __enter__(self) -> LiveRun:
        return self.enter(sys._getframe(1)).live

    def open(self, frame: FrameType | None) -> RunEntry:
        """Open the journal and start to record."""
        return RunEntry(self._options, self._options.plan(RunBlock.in_frame(frame)))

    def __call__(self, function: Function) -> Function:
        """The function, whose calls are recorded: all of them are one run."""
        return recorded_function(function, self._options)
