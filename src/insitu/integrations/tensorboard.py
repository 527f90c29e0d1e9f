"""Recorded runs in TensorBoard: numbers over the steps, by path."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from insitu.errors import MissingError
from insitu.integrations.scalars import PathLike, number_of, opened_run, run_scalars, tag_of

if TYPE_CHECKING:
    from insitu.store.run.run import Run


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
    with opened_run(run, "TensorBoard") as found:
        return _write(found, Path(logdir))


def _write(run: Run, logdir: Path) -> list[str]:
    writers = {rank: _writer(logdir / f"rank{rank}" if run.world_size > 1 else logdir) for rank in run.ranks}
    tags: dict[str, None] = {}
    try:
        for line in run_scalars(run):
            tags[line.tag] = None
            for step, time, number in zip(line.steps, line.times, line.numbers, strict=True):
                writers[line.rank].add_scalar(line.tag, number, step, walltime=time)
    finally:
        for writer in writers.values():
            writer.close()
    return list(tags)


def _writer(logdir: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as missing:
        raise MissingError("writing for TensorBoard needs tensorboard: pip install 'insitu[tensorboard]'") from missing
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
        number = number_of(value)
        if number is None:
            return
        if self._writer is None:  # the rank is known only now
            self._writer = _writer(self._logdir / f"rank{rank}" if rank else self._logdir)
        self._writer.add_scalar(tag_of(path), number, step)

    def close(self) -> None:
        """Write everything that waits, and close the file."""
        if self._writer is not None:
            self._writer.close()

    def __enter__(self) -> LiveScalars:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()
