"""Recorded runs, findings and pages in MLflow, on a server or in a local store (`sqlite:///mlflow.db`)."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from insitu.errors import ChoiceError, MissingError
from insitu.integrations.scalars import (
    FINDING_COLUMNS,
    LiveSteps,
    PathLike,
    finding_rows,
    opened_run,
    page_file,
    ranked,
    run_scalars,
)

if TYPE_CHECKING:
    from insitu.store.run.run import Run
    from insitu.trace.diff import Diff
    from insitu.trace.findings import Finding
    from insitu.trace.trace import Trace

MOST_METRICS = 1000  # that MLflow takes at once
FOLDER = "insitu"  # for the artifacts of a run
REFUSED = re.compile(r"[^\w\-./ ]")  # characters that MLflow refuses in the name of a metric


def write(run: Run | PathLike, run_id: str | None = None) -> list[str]:
    """Write a run for MLflow: scalars and kept statistics as they are, tensors as mean, min and max; the names.

    `run_id` is that of a run of MLflow; without it, the run that is active. The names of several ranks begin with
    `rank0/`, `rank1/`, …; texts are left out.

    ```python
    with mlflow.start_run():
        insitu.integrations.mlflow.write("run.h5")
    ```
    """
    target = _MlflowRun(run_id)
    names: dict[str, None] = {}
    with opened_run(run, "MLflow") as found:
        for line in run_scalars(found):
            name = metric_name(ranked(line.tag, line.rank, has_ranks=found.world_size > 1))
            names[name] = None
            rows = zip(line.steps, line.times, line.numbers, strict=True)
            target.log((name, number, moment, step) for step, moment, number in rows)
    return list(names)


def write_findings(findings: Iterable[Finding], run_id: str | None = None, *, name: str = "findings") -> None:
    """Write what a guard found as a table `insitu/findings.json`: severity, kind, path, place and text.

    ```python
    with insitu.guard(model, action="record") as guard:
        train()
    insitu.integrations.mlflow.write_findings(guard.findings)
    ```
    """
    target = _MlflowRun(run_id)
    rows = finding_rows(findings)
    columns = {column: [row[place] for row in rows] for place, column in enumerate(FINDING_COLUMNS)}
    target.client.log_table(target.run_id, columns, f"{FOLDER}/{name}.json")


def write_page(subject: Trace | Diff | Run, run_id: str | None = None, *, name: str = "page") -> None:
    """Write the page of a trace, a comparison or a run as the artifact `insitu/page.html`."""
    target = _MlflowRun(run_id)
    with page_file(subject, name) as path:
        target.client.log_artifact(target.run_id, str(path), FOLDER)


class MlflowScalars(LiveSteps):
    """Takes what is recorded and writes the numbers of it for MLflow while the training runs.

    ```python
    with mlflow.start_run(), MlflowScalars() as live, insitu.record_run(model, only="**.grad", keep="stats", to=live):
        train()
    ```
    """

    def __init__(self, run_id: str | None = None) -> None:
        super().__init__()
        self._target = _MlflowRun(run_id)

    def hand_on(self, step: int, numbers: dict[str, float]) -> None:
        """Write the numbers of a step, by tag."""
        now = time.time()
        self._target.log((metric_name(tag), number, now, step) for tag, number in numbers.items())


def metric_name(tag: str) -> str:
    """A tag as the name of a metric, without characters that MLflow refuses.

    >>> metric_name("h.0.attn/mean"), metric_name("Net#2/loss")
    ('h.0.attn/mean', 'Net_2/loss')
    """
    return REFUSED.sub("_", tag)


class _MlflowRun:
    """A run of MLflow to write to."""

    def __init__(self, run_id: str | None) -> None:
        mlflow = _package()
        active = mlflow.active_run()
        if run_id is None and active is None:
            raise ChoiceError("no run of MLflow is active: call mlflow.start_run() before, or pass run_id")
        self.run_id: str = run_id or active.info.run_id
        self.client = mlflow.MlflowClient()

    def log(self, rows: Iterable[tuple[str, float, float, int]]) -> None:
        """Write numbers: the name, the number, the time in seconds and the step of each."""
        from mlflow.entities import Metric

        metrics = (Metric(name, number, int(1000 * moment), step) for name, number, moment, step in rows)
        for part in _parts(metrics):
            self.client.log_batch(self.run_id, metrics=part)


def _parts(metrics: Iterator[Any]) -> Iterator[list[Any]]:
    """The metrics in lists that MLflow takes at once."""
    while part := list(islice(metrics, MOST_METRICS)):
        yield part


def _package() -> Any:
    try:
        import mlflow
    except ImportError as missing:
        raise MissingError("writing for MLflow needs mlflow: pip install 'insitu[mlflow]'") from missing
    return mlflow
