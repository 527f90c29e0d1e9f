"""Recorded runs, findings and pages in Weights & Biases; it works offline, too (`WANDB_MODE=offline`).

Curves have the steps of insitu on their axis (`insitu/step`), whatever else the program logs.
"""

from __future__ import annotations

from collections.abc import Iterable
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

STEP = "insitu/step"


def write(run: Run | PathLike, to: Any = None) -> list[str]:
    """Write a run for Weights & Biases: scalars and statistics as they are, tensors as mean, min and max; the tags.

    `to` is what `wandb.init` returned; without it, the run that is active. The tags of several ranks begin with
    `rank0/`, `rank1/`, …; texts are left out.

    ```python
    with wandb.init(project="mine"):
        insitu.integrations.wandb.write("run.h5")
    ```
    """
    target = _target(to)
    steps: dict[int, dict[str, float]] = {}
    tags: dict[str, None] = {}
    with opened_run(run, "Weights & Biases") as found:
        for line in run_scalars(found):
            tag = ranked(line.tag, line.rank, has_ranks=found.world_size > 1)
            tags[tag] = None
            for step, number in zip(line.steps, line.numbers, strict=True):
                steps.setdefault(step, {})[tag] = number
    _declare(target, tags)
    for step in sorted(steps):
        target.log({STEP: step, **steps[step]})
    return list(tags)


def write_findings(findings: Iterable[Finding], to: Any = None, *, name: str = "findings") -> None:
    """Write what a guard found as a table `insitu/findings`: severity, kind, path, place and text.

    ```python
    with insitu.guard(model, action="record") as guard:
        train()
    insitu.integrations.wandb.write_findings(guard.findings)
    ```
    """
    target = _target(to)
    table = _package().Table(columns=list(FINDING_COLUMNS), data=[list(row) for row in finding_rows(findings)])
    target.log({f"insitu/{name}": table})


def write_page(subject: Trace | Diff | Run, to: Any = None, *, name: str = "page") -> None:
    """Write the page of a trace, a comparison or a run as an artifact `insitu-page` with one HTML file."""
    target = _target(to)
    artifact = _package().Artifact(f"insitu-{name}", type="insitu")
    with page_file(subject, name) as path:
        artifact.add_file(str(path))
    target.log_artifact(artifact)


class WandbScalars(LiveSteps):
    """Takes what is recorded and writes the numbers of it for Weights & Biases while the training runs.

    ```python
    with wandb.init(), WandbScalars() as live, insitu.record_run(model, only="**.grad", keep="stats", to=live):
        train()
    ```
    """

    def __init__(self, to: Any = None) -> None:
        super().__init__()
        self._target = _target(to)
        self._declared: set[str] = set()

    def hand_on(self, step: int, numbers: dict[str, float]) -> None:
        """Write the numbers of a step, by tag."""
        _declare(self._target, numbers.keys() - self._declared)
        self._declared |= numbers.keys()
        self._target.log({STEP: step, **numbers})


def _package() -> Any:
    try:
        import wandb
    except ImportError as missing:
        raise MissingError("writing for Weights & Biases needs wandb: pip install 'insitu[wandb]'") from missing
    return wandb


def _target(to: Any) -> Any:
    """The run of Weights & Biases to write to."""
    wandb = _package()
    found = wandb.run if to is None else to
    if found is None:
        raise ChoiceError("no run of Weights & Biases is active: call wandb.init() before, or pass what it returned")
    if not isinstance(found, wandb.Run):
        raise ChoiceError(f"to={found!r:.80} is not a run of Weights & Biases: pass what wandb.init() returned")
    return found


def _declare(target: Any, tags: Iterable[str]) -> None:
    """Say that the numbers of these tags belong to the steps of insitu."""
    target.define_metric(STEP, hidden=True)
    for tag in tags:
        target.define_metric(tag, step_metric=STEP)
