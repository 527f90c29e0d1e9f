"""The health of a training, judged at its end: gradients that are missing, vanish or explode, weights that stay.

Capture collects a `TrainingHistory`. `CHECKS` is a table of small checks, each of which may return findings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter

from insitu.trace.event import Call, Site
from insitu.trace.findings import (
    ExplodingGradients,
    Finding,
    FrozenParameters,
    LossMistake,
    MissingGradients,
    OptimizerGap,
    OptimizerPlace,
    SpentSchedule,
    StaleGradients,
    StuckParameters,
    UnusualUpdates,
    VanishingGradients,
)
from insitu.trace.health_numbers import NO_NUMBERS, NumberHistory, number_findings
from insitu.trace.loss_input import LossInput
from insitu.trace.schedule_source import NamedNumber, length_site
from insitu.trace.step_health import NO_STEPS, NONE_LATE, LateParameters, StepHistory, step_findings

VANISHED = 1e-6  # of the largest gradient, element by element
VANISHED_NORM = 1e-7  # a gradient that is larger does not vanish: branches that begin near zero have such gradients
ENOUGH_SAMPLES = 4  # a small layer may be silent for a few batches
EXPLODED = 1e5  # times the norm of the weight itself
GROWN = 1e3  # times the norm of all gradients at first
SMALL_ENOUGH = 1e2  # a norm of all gradients that is nothing to worry about
LEAST_FIRST = 0.5  # norms at first that are smaller say little: the loss may have been zero by then
LARGE_SHARE = 0.1  # of the largest gradient: these are named where all gradients together explode
ALMOST_ALWAYS = 0.9  # of all steps of an optimizer
SPENT = 1e-6  # of the largest learning rate: nothing is learned any more
SPENT_SHARE = 0.1  # of all steps: a schedule may reach 0 at the end
FEWEST_SPENT = 3
MANY_STUCK = 0.5  # of all matrices: else a few weights have gradients that are too small to change them

PATH, PEAK, SHARE = attrgetter("path"), attrgetter("peak"), attrgetter("share")
IS_LAYER, OWNED = attrgetter("is_layer"), attrgetter("has_optimizer")


@dataclass(frozen=True, slots=True)
class ParameterHistory:
    """A parameter in a training.

    `was_frozen` says that it required no gradient when the guard began, `has_optimizer` that an optimizer that stepped
    has it, `is_layer` that it belongs to a layer of torch that is there to learn, and `is_trained` that it belongs to a
    model that is trained. `peak` is the largest norm of its gradient and `norm` its own norm then; `share` is the
    largest part that its gradient had of the largest one, element by element, in `samples` samples. `rate` is the
    largest learning rate that it had.
    """

    path: str
    requires_grad: bool = True
    was_frozen: bool = False
    has_gradient: bool = True
    has_optimizer: bool = True
    has_changed: bool = True
    is_matrix: bool = True
    is_layer: bool = False
    is_trained: bool = True
    peak: float = 0.0
    norm: float = 0.0
    share: float = 1.0
    samples: int = 0
    rate: float = 1.0


@dataclass(frozen=True, slots=True)
class OptimizerHistory:
    """An optimizer in a training: `stale_steps` used gradients of earlier steps too, to which `place` added.

    `site` is where it was made, and `schedule` where that of its learning rate was, if that was after the guard began;
    `numbers` had names there. From the step `spent_since` on, the learning rate was next to nothing, and `last_rate` at
    the end.
    """

    name: str
    steps: int
    rate: float = 0.0
    stale_steps: int = 0
    place: Call | None = None
    site: Site | None = None
    schedule: Site | None = None
    spent_since: int | None = None
    last_rate: float = 0.0
    numbers: tuple[NamedNumber, ...] = ()

    @property
    def spent_steps(self) -> int:
        """The steps at the end whose learning rate was next to nothing, after steps in which it was not."""
        if not self.spent_since or not self.rate:
            return 0
        return self.steps - self.spent_since


@dataclass(frozen=True, slots=True)
class TrainingHistory:
    """A training: its parameters, its optimizers, the number of backward passes, the norms of all gradients.

    `has_model` says that the parameters are those of a model that the user named; `cut` is the call that cuts the graph
    between the losses and parameters without a gradient, if it is known. `loss_inputs` are what the losses got.
    `late` are parameters that no optimizer has because they were assigned later; `steps_seen` is the logic of steps.
    """

    parameters: tuple[ParameterHistory, ...] = ()
    optimizers: tuple[OptimizerHistory, ...] = ()
    passes: int = 0
    first_norms: tuple[float, ...] = ()
    largest_norm: float = 0.0
    has_model: bool = True
    cut: Call | None = None
    loss_inputs: tuple[LossInput, ...] = ()
    late: LateParameters = NONE_LATE
    steps_seen: StepHistory = NO_STEPS
    numbers: NumberHistory = NO_NUMBERS

    @property
    def steps(self) -> int:
        """The most steps of an optimizer."""
        return max((optimizer.steps for optimizer in self.optimizers), default=0)

    @property
    def rate(self) -> float:
        """The largest learning rate."""
        return max((optimizer.rate for optimizer in self.optimizers), default=0.0)

    def late_among(self, paths: Iterable[str]) -> LateParameters:
        """The late parameters, if all parameters at some paths are late."""
        if self.late.covers(paths):
            return self.late
        return NONE_LATE

    @property
    def optimizers_that_step(self) -> Iterator[OptimizerPlace]:
        """The optimizers that stepped, and where they were made."""
        return (
            OptimizerPlace(each.name, each.site, each.rate, each.schedule) for each in self.optimizers if each.steps
        )

    @property
    def has_several_steps(self) -> bool:
        """Whether optimizers stepped more than once together."""
        return sum(optimizer.steps for optimizer in self.optimizers) > 1

    @property
    def unchanged(self) -> list[ParameterHistory]:
        """The parameters that did not change, where optimizers stepped several times."""
        if not self.has_several_steps:
            return []
        return [each for each in self.parameters if not each.has_changed]


def health_findings(training: TrainingHistory) -> Iterator[Finding]:
    """What is wrong with a training."""
    found = [finding for check in CHECKS for finding in check(training)]
    yield from found
    yield from step_findings(training.steps_seen)
    has_stuck = any(isinstance(finding, StuckParameters) for finding in found)
    for finding in number_findings(training.numbers):
        is_said = has_stuck and isinstance(finding, UnusualUpdates) and not finding.is_large
        if not is_said:
            yield finding


def missing_gradients(training: TrainingHistory) -> Iterator[Finding]:
    """Parameters that never got a gradient.

    Where no parameter of the model got one, the model may only be evaluated, unless an optimizer that steps has its
    parameters. Without a model, the parameters of the optimizers are looked at.
    """
    missing = list(filter(is_missing, training.parameters))
    owned = list(filter(OWNED, missing))
    if not training.has_model:
        missing = owned
    is_every = len(missing) == len(training.parameters)
    is_evaluated = is_every and not owned
    if training.passes > 1 and missing and not is_evaluated:
        paths = paths_of(missing)
        yield MissingGradients(
            path=paths[0],
            call=training.cut,
            site=training.cut.site if training.cut is not None else None,
            paths=paths,
            passes=training.passes,
            is_every=is_every and len(paths) > 1,
        )


def is_missing(parameter: ParameterHistory) -> bool:
    """Whether a parameter should have got a gradient and did not; one that changed is trained in another way."""
    return parameter.requires_grad and not parameter.has_gradient and not parameter.has_changed


def extreme_gradients(training: TrainingHistory) -> Iterator[Finding]:
    """Gradients that explode or, where none does, vanish."""
    if training.passes < 2:
        return
    if paths := paths_of(exploding(training)):
        first = training.first_norms[0]
        yield ExplodingGradients(path=paths[0], paths=paths, first=first, largest=training.largest_norm)
    elif vanished := list(filter(is_vanishing, training.parameters)):
        paths = paths_of(vanished)
        yield VanishingGradients(path=paths[0], paths=paths, share=max(map(SHARE, vanished)))


def exploding(training: TrainingHistory) -> list[ParameterHistory]:
    """The parameters whose gradients explode: each by itself or, if none does, all together."""
    alone = list(filter(is_exploding, training.parameters))
    if alone or not has_exploded(training):
        return alone
    least = LARGE_SHARE * max(map(PEAK, training.parameters))
    return [each for each in training.parameters if each.peak >= least]


def is_exploding(parameter: ParameterHistory) -> bool:
    """Whether the gradient of a parameter was much larger than the parameter."""
    return parameter.peak > EXPLODED * max(1.0, parameter.norm)


def has_exploded(training: TrainingHistory) -> bool:
    """Whether all gradients together became much larger than they ever were at first."""
    first = max(training.first_norms, default=0.0)
    return training.largest_norm > max(GROWN * max(first, LEAST_FIRST), SMALL_ENOUGH)


def is_vanishing(parameter: ParameterHistory) -> bool:
    """Whether the gradient of a parameter was tiny in all samples."""
    is_small = parameter.share < VANISHED and parameter.peak < VANISHED_NORM
    return parameter.samples >= ENOUGH_SAMPLES and is_small and parameter.is_matrix


def frozen_parameters(training: TrainingHistory) -> Iterator[Finding]:
    """Layers that did not change because they are frozen; those that were frozen before, while others learn, apart.

    Layers that are frozen and that no optimizer has are frozen on purpose. Where layers are frozen, other parameters
    were frozen with them.
    """
    unchanged = training.unchanged
    if len(unchanged) == len(training.parameters):
        return
    has_learned = any(map(is_learning, training.parameters))
    for is_fine_tuning in (False, True):
        group = [each for each in unchanged if is_frozen(each, is_before=is_fine_tuning, has_learned=has_learned)]
        has_layer, is_owned = any(map(IS_LAYER, group)), any(map(OWNED, group))
        if has_layer and is_owned:
            paths = paths_of(group)
            yield FrozenParameters(path=paths[0], paths=paths, steps=training.steps, is_fine_tuning=is_fine_tuning)


def is_learning(parameter: ParameterHistory) -> bool:
    """Whether a parameter is trained and has changed."""
    return parameter.requires_grad and parameter.has_changed


def is_frozen(parameter: ParameterHistory, *, is_before: bool, has_learned: bool) -> bool:
    """Whether a parameter is frozen: before the guard began, while others learned (`is_before`), or else."""
    was_tuned = parameter.was_frozen and has_learned
    return not parameter.requires_grad and was_tuned == is_before


def optimizer_gap(training: TrainingHistory) -> Iterator[Finding]:
    """Parameters that got gradients, and that no optimizer has."""
    if paths := paths_of(filter(is_forgotten, stalled(training))):
        late = training.late_among(paths)
        yield OptimizerGap(
            path=paths[0],
            site=late.site,
            paths=paths,
            steps=training.steps,
            optimizers=tuple(training.optimizers_that_step),
            is_late=bool(late.paths),
        )


def stuck_parameters(training: TrainingHistory) -> Iterator[Finding]:
    """Parameters that an optimizer has, and that did not change although they got gradients: those whose learning rate
    is 0, and others if there are many of them."""
    movable = list(filter(can_move, stalled(training)))
    still = [each for each in movable if is_still(each, training)]
    slow = slow_parameters(training, movable)
    if paths := paths_of([*still, *slow]):
        yield StuckParameters(
            path=paths[0],
            paths=paths,
            steps=training.steps,
            rate=training.rate if slow else 0.0,
            optimizers=tuple(training.optimizers_that_step),
        )


def is_still(parameter: ParameterHistory, training: TrainingHistory) -> bool:
    """Whether the learning rate of a parameter, or of all, is 0."""
    return not parameter.rate or not training.rate


def slow_parameters(training: TrainingHistory, movable: list[ParameterHistory]) -> list[ParameterHistory]:
    """The matrices whose updates are too small, if that is so for many: a few may have gradients next to nothing."""
    slow = [each for each in movable if each.is_matrix and not is_still(each, training)]
    matrices = sum(each.has_optimizer and each.is_matrix for each in training.parameters)
    if len(slow) < MANY_STUCK * matrices:
        return []
    return slow


def spent_schedules(training: TrainingHistory) -> Iterator[Finding]:
    """Optimizers whose learning rate is next to nothing long before the end."""
    for each in training.optimizers:
        if each.spent_steps >= FEWEST_SPENT and each.spent_steps > SPENT_SHARE * each.steps:
            steps = each.steps - each.spent_steps
            yield SpentSchedule(
                site=each.schedule or each.site,
                optimizer=OptimizerPlace(each.name, each.site, each.rate, each.schedule),
                steps=each.steps,
                useful_steps=steps,
                rate=each.last_rate,
                length=length_site(each.numbers, steps),
            )


def stalled(training: TrainingHistory) -> list[ParameterHistory]:
    """The parameters that got gradients and did not change."""
    return [each for each in training.unchanged if each.has_gradient and each.requires_grad]


def is_forgotten(parameter: ParameterHistory) -> bool:
    """Whether a parameter belongs to a model that is trained, and no optimizer has it."""
    return parameter.is_trained and not parameter.has_optimizer


def can_move(parameter: ParameterHistory) -> bool:
    """Whether an optimizer has a parameter whose gradient does not vanish."""
    return parameter.has_optimizer and parameter.share > VANISHED


def stale_gradients(training: TrainingHistory) -> Iterator[Finding]:
    """Optimizers that almost always used gradients of earlier steps too."""
    for optimizer in training.optimizers:
        place, stale = optimizer.place, optimizer.stale_steps
        if place is not None and stale >= max(1, ALMOST_ALWAYS * (optimizer.steps - 1)):
            yield StaleGradients(
                call=place, site=place.site, optimizer=optimizer.name, steps=optimizer.steps, stale_steps=stale
            )


def loss_mistakes(training: TrainingHistory) -> Iterator[Finding]:
    """Losses that got something else than they take."""
    for each in training.loss_inputs:
        mistake = each.mistake
        if mistake is not None:
            yield LossMistake(
                call=each.source,
                site=each.source.site,
                loss=each.loss,
                mistake=mistake,
                definition=each.definition,
            )


def paths_of(parameters: Iterable[ParameterHistory]) -> tuple[str, ...]:
    """The paths of parameters."""
    return tuple(map(PATH, parameters))


CHECKS: tuple[Callable[[TrainingHistory], Iterator[Finding]], ...] = (
    missing_gradients,
    extreme_gradients,
    frozen_parameters,
    optimizer_gap,
    stuck_parameters,
    spent_schedules,
    stale_gradients,
    loss_mistakes,
)
