"""Recorded runs as numbers over the steps, by tag: what the viewers of experiments take.

Each viewer is a file of its own: `tensorboard.py`, `wandb.py`, `mlflow.py`.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from insitu.errors import ChoiceError, tell

if TYPE_CHECKING:
    from insitu.store.run.run import Run
    from insitu.trace.curve import Curve
    from insitu.trace.findings import Finding

PathLike = str | os.PathLike[str]

# The lines of a tensor, and the field of a `Curve` that has each.
_RANGE = {"mean": "mean", "min": "low", "max": "high"}


@dataclass(frozen=True, slots=True)
class Scalars:
    """The numbers of one tag over the steps, in one rank."""

    tag: str
    rank: int
    steps: list[int]
    times: list[float]
    numbers: list[float]


@contextmanager
def opened_run(run: Run | PathLike, viewer: str) -> Iterator[Run]:
    """A run; one that is named by its file is closed afterwards."""
    from insitu.store import load
    from insitu.store.run.run import Run

    if isinstance(run, Run):
        yield run
        return
    found = load(run)
    if not isinstance(found, Run):
        raise ChoiceError(f"{os.fspath(run)!r} is a trace, and {viewer} shows recorded runs")
    with found:
        yield found


def run_scalars(run: Run) -> Iterator[Scalars]:
    """Scalars and kept statistics as they are, tensors as mean, min and max; texts are left out.

    Of a step that several attempts recorded, the last counts.
    """
    from insitu.store.run.curves import curves

    for path in run:
        series = run[path].latest()
        is_scalar = series.dtype == "json" or series.shape == ()
        for curve in curves(series):
            yield from _curve_scalars(path, curve, is_scalar=is_scalar)


def _curve_scalars(path: str, curve: Curve, *, is_scalar: bool) -> Iterator[Scalars]:
    lines = {tag_of(path): curve.mean}
    if not is_scalar:
        lines = {f"{path or 'root'}/{name}": getattr(curve, at) for name, at in _RANGE.items()}
    for tag, numbers in lines.items():
        yield Scalars(tag, curve.rank, curve.steps.tolist(), curve.times.tolist(), numbers.tolist())


def tag_of(path: str) -> str:
    """A path as a tag: viewers make a group of what is before the slash.

    >>> tag_of("encoder.0.weight.grad.mean"), tag_of("forward.loss"), tag_of("loss")
    ('encoder.0.weight.grad/mean', 'forward/loss', 'loss')
    """
    group, _, name = path.rpartition(".")
    if group:
        return f"{group}/{name}"
    return name or "root"


def ranked(tag: str, rank: int, *, has_ranks: bool) -> str:
    """The tag of one rank, for a viewer without folders."""
    if has_ranks:
        return f"rank{rank}/{tag}"
    return tag


def number_of(value: Any) -> float | None:
    """A value as a number; None if it is none.

    >>> number_of(True), number_of("text")
    (1.0, None)
    """
    number = value.item() if getattr(value, "shape", None) == () else value
    if isinstance(number, (bool, int, float)):
        return float(number)
    return None


class LiveSteps:
    """Takes what is recorded, collects the numbers of each step, and hands each step on once it is complete.

    A viewer that does not answer does not end the program: its steps are lost, and that is said once.
    """

    def __init__(self) -> None:
        self._step = 0
        self._numbers: dict[str, float] = {}
        self._has_failed = False

    def hand_on(self, step: int, numbers: dict[str, float]) -> None:
        """Write the numbers of a step, by tag."""
        raise NotImplementedError

    def __call__(self, path: str, value: Any, step: int, rank: int) -> None:
        """Take a value, if it is one number; another value of the same step replaces it."""
        number = number_of(value)
        if number is None:
            return
        if step != self._step:
            self.flush()
        self._step = step
        self._numbers[ranked(tag_of(path), rank, has_ranks=rank > 0)] = number

    def flush(self) -> None:
        """Hand on the last step."""
        numbers, self._numbers = self._numbers, {}
        if not numbers:
            return
        try:
            self.hand_on(self._step, numbers)
        except Exception as error:  # of a server, or of the package that asks it
            self._report(error)

    def _report(self, error: Exception) -> None:
        if not self._has_failed:
            self._has_failed = True
            tell(
                f"{type(self).__name__} could not write the numbers of step {self._step}: {type(error).__name__}:"
                f" {error}. The program goes on, and each later step is tried"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.flush()


FINDING_COLUMNS = ("severity", "kind", "path", "place", "text")


def finding_rows(findings: Iterable[Finding]) -> list[tuple[str, ...]]:
    """A row of `FINDING_COLUMNS` for each finding."""
    return [(each.severity, each.kind, each.path, _place(each), each.text) for each in findings]


def _place(finding: Finding) -> str:
    if finding.site is None:
        return ""
    return f"{finding.site.file}:{finding.site.line}"


@contextmanager
def page_file(subject: Any, name: str) -> Iterator[Path]:
    """The page of a trace, a comparison or a run in a temporary file of this name."""
    from insitu.verbs.save import save

    with tempfile.TemporaryDirectory(prefix="insitu-") as folder:
        path = Path(folder, f"{name}.html")
        save(subject, path)
        yield path
