"""What a session costs while a small model runs, against running it alone and against the floors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import insitu
from benchmarks import floors
from benchmarks.measure import Case, Effort, Row, Run, at_most, in_turn, told
from benchmarks.models import PASSES, SMALL, Subject


def recorded(level: str, run: Callable[[], object]) -> insitu.Trace:
    """Record something."""
    with insitu.record(level=level) as trace:
        run()
    return trace


def rows(effort: Effort) -> Iterator[Row]:
    """Forward passes of all models, then forward and backward ones."""
    subjects = [make() for make in SMALL]
    for subject in subjects:
        yield from forward(subject, effort)
    for subject in subjects:
        yield from training(subject, effort)


def forward(subject: Subject, effort: Effort) -> Iterator[Row]:
    """Forward passes at each level."""
    run = subject.forwards
    cases: dict[str, Case | Run] = {
        "alone": run,
        "floor": partial(floors.standard, run),
        "tuned floor": partial(floors.tuned, run),
        "modules": partial(recorded, "modules", run),
        "functions": partial(recorded, "functions", run),
        "aten": partial(recorded, "aten", run),
        "each pass": Case(partial(recorded, "aten", subject.forward), number=PASSES),
    }
    times = in_turn(cases, effort.repeats(50))
    name, alone = subject.name, partial(times.ratio, other="alone")
    each_pass = [PASSES * ratio for ratio in times.ratio("each pass", "alone")]
    note = f"floor {told(alone('floor'))}, insitu {told(alone('aten'))} of untraced"
    yield Row(f"everything on / no-op floor, {name}", times.ratio("aten", "floor"), at_most(1.6), note=note)
    note = f"tuned floor {told(alone('tuned floor'))} of untraced"
    yield Row(f"everything on / tuned no-op floor, {name}", times.ratio("aten", "tuned floor"), note=note)
    yield Row(f"everything on, a session for each pass / untraced, {name}", each_pass)
    yield Row(f"functions + modules + stacks / untraced, {name}", alone("functions"), at_most(2.5))
    yield Row(f"modules only / untraced, {name}", alone("modules"))


def training(subject: Subject, effort: Effort) -> Iterator[Row]:
    """Forward and backward passes with everything on."""
    run = subject.trainings
    cases: dict[str, Case | Run] = {
        "alone": run,
        "tuned floor": partial(floors.tuned, run),
        "aten": partial(recorded, "aten", run),
    }
    times = in_turn(cases, effort.repeats(40))
    note = f"insitu {told(times.ratio('aten', 'alone'))} of untraced"
    name = f"everything on, forward + backward / tuned no-op floor, {subject.name}"
    yield Row(name, times.ratio("aten", "tuned floor"), at_most(1.5), note=note)
