"""What the pane of variables over steps shows: of a run, of a trace, or of two runs that were compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from insitu.trace.diff import Diff
from insitu.trace.event import Variable
from insitu.trace.run import RunSummary
from insitu.view.run_table import TROUBLES, remarks, troubles

if TYPE_CHECKING:
    from insitu.trace.compared_variables import ComparedVariable
    from insitu.trace.variable_curves import VariableCurves

MOST_NOTES = 20
MOST_MARKS = 1000
MOST_POINTS = 4000  # of a curve


@dataclass(frozen=True, slots=True)
class StepMark:
    """Something that happened at a step of a run: the start of another attempt, an error, a mark of the user."""

    step: int
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class SeriesPane:
    """What the pane shows: variables of one run, or `compared` ones of two; `notes` are what a reader must know first.

    A point of a variable is a step or, in a trace of a single step, a change: the `unit`. `labels` are the names of
    two runs. `state` says whether a run goes on: "running", "ended" or "killed"; it is empty where nobody asks.
    """

    variables: Sequence[VariableCurves] = ()
    compared: Sequence[ComparedVariable] = ()
    unit: str = "step"
    labels: tuple[str, str] | None = None
    notes: Sequence[str] = ()
    marks: Sequence[StepMark] = ()
    state: str = ""


def pane_of_run(variables: Sequence[VariableCurves], run: RunSummary, state: str = "") -> SeriesPane:
    """The variables of a recorded run; `run` says what is missing in it, and what happened."""
    notes = [*troubles(run.missing, run.events), *remarks(run)]
    if len(notes) > MOST_NOTES:
        notes = [*notes[:MOST_NOTES], f"{len(notes) - MOST_NOTES:,} more notes: `insitu show` prints all of them"]
    return SeriesPane(variables, notes=notes, marks=list(_marks(run))[:MOST_MARKS], state=state)


def _marks(run: RunSummary) -> Iterator[StepMark]:
    for attempt in run.attempts[1:]:
        if attempt.steps is not None:
            yield StepMark(attempt.steps[0], "attempt", f"attempt {attempt.number} begins")
    for event in run.events:
        if event.step is not None and event.kind != "end":
            yield StepMark(event.step, "error" if event.kind in TROUBLES else "mark", str(event))


def pane_of_trace(variables: Sequence[Variable]) -> SeriesPane:
    """The watched variables of a trace."""
    if not variables:
        return SeriesPane()
    # numpy takes a tenth of a second to import, and most traces have no variables.
    from insitu.trace.event_curves import event_curves, unit_of
    from insitu.trace.variable_curves import reduced

    unit = unit_of(variables)
    return SeriesPane([reduced(found, MOST_POINTS) for found in event_curves(variables, unit)], unit=unit)


def pane_of_diff(diff: Diff) -> SeriesPane:
    """The variables of two runs, or of two traces."""
    if not any(isinstance(event, Variable) for row in diff.differences for event in row.events):
        return SeriesPane()
    from dataclasses import replace

    from insitu.trace.compared_variables import compared_variables
    from insitu.trace.variable_curves import reduced

    found = compared_variables(diff)
    drawn = [replace(each, a=reduced(each.a, MOST_POINTS), b=reduced(each.b, MOST_POINTS)) for each in found]
    return SeriesPane(compared=drawn, labels=diff.labels)
