"""Recorded runs in TensorBoard: numbers over the steps, by path."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from insitu.errors import ChoiceError, MissingError

if TYPE_CHECKING:
    from insitu.store.run.run import Run
    from insitu.trace.curve import Curve

PathLike = str | os.PathLike[str]


def write(run: Run | PathLike, logdir: PathLike) -> list[str]:
    """Write a run for TensorBoard: scalars and kept statistics as they are, tensors as mean, min and max; the tags.

    A run of several ranks has a folder for each; of a step that several attempts recorded, the last counts. Texts are
    left out.

    >>> import tempfile
    >>> from insitu.store.journal.journal_writer import JournalWriter
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with JournalWriter(f"{folder}/run.h5.parts") as journal:
    ...         _ = journal.step(0, 0.0, [("forward.loss", 0, None, (), 2.5)])
    ...     write(f"{folder}/run.h5", f"{folder}/logs")  # then: tensorboard --logdir logs
    ['forward/loss']
    """
    from insitu.store import load
    from insitu.store.run.run import Run

    if isinstance(run, Run):
        return _write(run, Path(logdir))
    found = load(run)
    if not isinstance(found, Run):
        raise ChoiceError(f"{os.fspath(run)!r} is a trace, and TensorBoard shows recorded runs")
    with found:
        return _write(found, Path(logdir))


def _write(run: Run, logdir: Path) -> list[str]:
    from insitu.store.run.curves import curves

    writers = {rank: _writer(logdir / f"rank{rank}" if run.world_size > 1 else logdir) for rank in run.ranks}
    tags: dict[str, None] = {}
    try:
        for path in run:
            series = run[path].latest()
            is_scalar = series.dtype == "json" or series.shape == ()
            for curve in curves(series):
                tags.update(dict.fromkeys(_add(writers[curve.rank], path, curve, is_scalar)))
    finally:
        for writer in writers.values():
            writer.close()
    return list(tags)


def _add(writer: Any, path: str, curve: Curve, is_scalar: bool) -> list[str]:
    lines = {tag_of(path): curve.mean}
    if not is_scalar:
        lines = {f"{path or 'root'}/{name}": getattr(curve, at) for name, at in _RANGE.items()}
    for tag, numbers in lines.items():
        for step, time, number in zip(curve.steps.tolist(), curve.times.tolist(), numbers.tolist(), strict=True):
            writer.add_scalar(tag, number, step, walltime=time)
    return list(lines)


_RANGE = {"mean": "mean", "min": "low", "max": "high"}


def tag_of(path: str) -> str:
    """A path as a tag: TensorBoard makes a group of what stands before the slash.

    >>> tag_of("encoder.0.weight.grad.mean"), tag_of("forward.loss"), tag_of("loss")
    ('encoder.0.weight.grad/mean', 'forward/loss', 'loss')
    """
    group, _, name = path.rpartition(".")
    if group:
        return f"{group}/{name}"
    return name or "root"


def _writer(logdir: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as missing:
        raise MissingError("writing for TensorBoard needs tensorboard: pip install tensorboard") from missing
    return SummaryWriter(str(logdir))


class LiveScalars:
    """Takes what is recorded and writes the numbers of it for TensorBoard while the training runs.

    ```python
    with LiveScalars("logs") as live, insitu.record_run(model, only="**.weight.grad", keep="stats", to=live):
        train()
    ```
    """

    def __init__(self, logdir: PathLike) -> None:
        self._logdir = Path(logdir)
        self._writer: Any = None

    def __call__(self, path: str, value: Any, step: int, rank: int) -> None:
        """Write a value, if it is one number."""
        number = value.item() if getattr(value, "shape", None) == () else value
        if isinstance(number, (bool, int, float)):
            if self._writer is None:  # the rank is known only now
                self._writer = _writer(self._logdir / f"rank{rank}" if rank else self._logdir)
            self._writer.add_scalar(tag_of(path), float(number), step)

    def close(self) -> None:
        """Write everything that waits, and close the file."""
        if self._writer is not None:
            self._writer.close()

    def __enter__(self) -> LiveScalars:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()
