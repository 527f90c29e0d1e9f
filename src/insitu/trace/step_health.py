"""The logic of training steps, judged at the end of a guard: modes, optimizers, accumulation, clipping, data.

Capture collects a `StepHistory`. `STEP_CHECKS` is a table of small checks, each of which may return findings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from insitu.trace.event import Call, Site, TensorFacts
from insitu.trace.findings import Finding
from insitu.trace.step_findings import (
    ActiveDropout,
    BroadcastLoss,
    ClippedWhileScaled,
    EvaluatedTraining,
    HiddenParameters,
    IndependentLoss,
    InvertedMask,
    ShapeOrigin,
    TrainingModeEvaluation,
    TwoOptimizers,
    UndividedAccumulation,
    UnscaledPixels,
)

FEWEST_SAMPLES = 2  # steps in evaluation mode, with hidden layers, or turns of two optimizers, that count
FEWEST_LAYERS = 2  # of a plain container: `[module]` is the usual way to hide one on purpose
ALMOST_ALWAYS = 0.9  # of all steps of an optimizer
# Parts of the names of optimizers that divide a gradient by its own size: a factor changes nothing there.
ADAPTIVE = ("ada", "rms", "rprop", "lion", "lamb", "lars", "muon", "shampoo", "soap", "sophia", "prodigy", "novograd")


@dataclass(frozen=True, slots=True)
class ModeHistory:
    """The mode of a model when it was trained: in how many of the steps it was in evaluation mode, and in the last.

    `modules` are those that behave differently in that mode; `site` is where the mode was switched, if it is known.
    """

    path: str
    modules: tuple[str, ...]
    steps: int
    samples: int
    is_last: bool
    site: Site | None = None


@dataclass(frozen=True, slots=True)
class EvaluatedDropout:
    """A functional dropout that ran in evaluation, and that nobody told whether the model trains."""

    call: Call
    switch: Site | None = None


@dataclass(frozen=True, slots=True)
class LastEvaluation:
    """A model in training mode that was called without gradients after its last step; `call` is that call."""

    call: Call
    modules: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SharedParameters:
    """The parameters that two optimizers moved; `counts` says how many each has, `returns` how often they alternate."""

    paths: tuple[str, ...]
    optimizers: tuple[str, str]
    rates: tuple[float, float]
    sites: tuple[Site | None, Site | None]
    counts: tuple[int, int]
    returns: int


@dataclass(frozen=True, slots=True)
class LateParameters:
    """Parameters that were assigned, at `site`, after the last optimizer was made."""

    paths: tuple[str, ...] = ()
    site: Site | None = None

    def covers(self, paths: Iterable[str]) -> bool:
        """Whether all parameters at some paths are late."""
        return set(paths) <= set(self.paths)


NONE_LATE = LateParameters()


@dataclass(frozen=True, slots=True)
class AccumulationHistory:
    """The backward passes before each step of an optimizer.

    `usual_steps` of all steps used the sum of `passes` passes, and in `rewritten_steps` somebody changed the gradients
    in between. `has_other_losses` says that a loss was not a plain mean, or that several lines run backward passes, and
    `has_split` that a batch was split.
    """

    optimizer: str
    passes: int
    steps: int
    usual_steps: int
    rewritten_steps: int
    has_other_losses: bool
    has_split: bool
    optimizers: int
    backward: Call
    loss: Call
    step: Site | None = None


@dataclass(frozen=True, slots=True)
class ScaledClip:
    """A call that clipped gradients before a scaler unscaled them."""

    call: Call
    optimizer: str


@dataclass(frozen=True, slots=True)
class ByteInput:
    """What a layer got without any arithmetic: whole numbers from 0 to 255. `source` is where they entered torch."""

    source: Call
    layer: Call
    facts: TensorFacts


@dataclass(frozen=True, slots=True)
class BroadcastPair:
    """A call near a loss that combined a column with a row into a matrix.

    `origins` are the calls that made them, as far as they are known.
    """

    call: Call
    shapes: tuple[tuple[int | str, ...], ...]
    result: tuple[int | str, ...]
    origins: tuple[ShapeOrigin, ...] = ()


@dataclass(frozen=True, slots=True)
class PaddingMask:
    """A mask that keeps nothing but the padding: the comparison that made it, and the call that used it."""

    comparison: Call
    use: Call
    padding: int


@dataclass(frozen=True, slots=True)
class HiddenParameter:
    """A parameter of a layer that its model does not know; the fields are those of `health.ParameterHistory`."""

    path: str
    requires_grad: bool
    has_gradient: bool
    has_optimizer: bool
    has_changed: bool

    @property
    def is_forgotten(self) -> bool:
        """Whether the parameter got a gradient, and nobody moved it."""
        is_idle = not self.has_optimizer and not self.has_changed
        return self.has_gradient and is_idle


@dataclass(frozen=True, slots=True)
class HiddenLayers:
    """Layers in an attribute, at `path`, of a model that is trained: a plain container, which does not register them.

    They were seen at `samples` steps of an optimizer; `site` is the line that assigns the attribute, if it is known.
    """

    path: str
    attribute: str
    container: str
    layers: int
    samples: int
    parameters: tuple[HiddenParameter, ...]
    site: Site | None = None


@dataclass(frozen=True, slots=True)
class UnrelatedLoss:
    """A loss to which nothing leads that went into `model`.

    `begin` is the first call that the loss comes from, and `backward` its backward pass. The losses of all `samples`
    passes that were looked at are like that.
    """

    model: Call
    begin: Call
    backward: Call
    samples: int = 1


@dataclass(frozen=True, slots=True)
class StepHistory:
    """What was seen of the steps of a training."""

    modes: tuple[ModeHistory, ...] = ()
    dropouts: tuple[EvaluatedDropout, ...] = ()
    last_evaluation: LastEvaluation | None = None
    shared: tuple[SharedParameters, ...] = ()
    accumulations: tuple[AccumulationHistory, ...] = ()
    clip: ScaledClip | None = None
    bytes: ByteInput | None = None
    broadcasts: tuple[BroadcastPair, ...] = ()
    masks: tuple[PaddingMask, ...] = ()
    hidden: tuple[HiddenLayers, ...] = ()
    unrelated: UnrelatedLoss | None = None


NO_STEPS = StepHistory()


def step_findings(history: StepHistory) -> Iterator[Finding]:
    """What is wrong with the steps."""
    for check in STEP_CHECKS:
        yield from check(history)


def evaluated_training(history: StepHistory) -> Iterator[Finding]:
    """Models that are in evaluation mode to the last step."""
    for mode in history.modes:
        if mode.is_last and mode.steps >= FEWEST_SAMPLES:
            yield EvaluatedTraining(
                path=mode.path, site=mode.site, modules=mode.modules, steps=mode.steps, samples=mode.samples
            )


def active_dropout(history: StepHistory) -> Iterator[Finding]:
    """Dropout that goes on in evaluation."""
    for each in history.dropouts:
        yield ActiveDropout(path=each.call.path, call=each.call, site=each.call.site, switch=each.switch)


def training_mode_evaluation(history: StepHistory) -> Iterator[Finding]:
    """A model that nobody switched to evaluation mode before it was evaluated."""
    last = history.last_evaluation
    if last is not None:
        yield TrainingModeEvaluation(path=last.call.path, call=last.call, site=last.call.site, modules=last.modules)


def two_optimizers(history: StepHistory) -> Iterator[Finding]:
    """Parameters that two optimizers move in turns: one after the other is a training in two parts."""
    for shared in history.shared:
        if shared.returns >= FEWEST_SAMPLES:
            larger = int(shared.counts[1] > shared.counts[0])
            yield TwoOptimizers(
                path=shared.paths[0],
                site=shared.sites[larger],
                paths=shared.paths,
                optimizers=shared.optimizers,
                rates=shared.rates,
                sites=shared.sites,
            )


def undivided_accumulation(history: StepHistory) -> Iterator[Finding]:
    """Gradients that are added up without a division, for an optimizer to which their size matters."""
    for each in history.accumulations:
        if is_accumulated(each) and is_one_batch(each) and not is_adaptive(each.optimizer):
            yield UndividedAccumulation(
                call=each.backward,
                site=each.backward.site,
                optimizer=each.optimizer,
                passes=each.passes,
                steps=each.steps,
                loss=each.loss,
            )


def is_accumulated(each: AccumulationHistory) -> bool:
    """Whether an optimizer, which is the only one, almost always uses the sum of equally many mean losses."""
    is_usual = each.steps >= FEWEST_SAMPLES and each.usual_steps >= ALMOST_ALWAYS * (each.steps - 1)
    is_plain = not each.has_other_losses and not each.rewritten_steps
    return each.passes > 1 and is_usual and is_plain and each.optimizers == 1


def is_one_batch(each: AccumulationHistory) -> bool:
    """Whether the passes are parts of one batch, and not losses of several tasks: the batch was split, or the loop over
    the batches steps now and then."""
    return each.has_split or steps_now_and_then(each.backward.site, each.step)


def steps_now_and_then(backward: Site | None, step: Site | None) -> bool:
    """Whether a step is in the loop that runs the backward passes, under a condition that they are not under."""
    if backward is None or step is None:
        return False
    places = {(site.file, site.function): site for site in step.chain()}
    for site in reversed(backward.chain()):
        other = places.get((site.file, site.function))
        if other is not None:
            return is_under_condition(site, other)
    return False


def is_under_condition(backward: Site, step: Site) -> bool:
    """The same for two places in one function."""
    if backward.nesting is None or step.nesting is None:
        return False
    is_in_loop = bool(step.nesting.loops) and step.nesting.loops == backward.nesting.loops
    return is_in_loop and len(step.nesting.arms) > len(backward.nesting.arms)


def is_adaptive(optimizer: str) -> bool:
    """Whether an optimizer, by its name, takes steps that do not depend on the size of the gradients."""
    return any(part in optimizer.lower() for part in ADAPTIVE)


def clipped_while_scaled(history: StepHistory) -> Iterator[Finding]:
    """Gradients that are clipped too early."""
    clip = history.clip
    if clip is not None:
        yield ClippedWhileScaled(call=clip.call, site=clip.call.site, optimizer=clip.optimizer)


def unscaled_pixels(history: StepHistory) -> Iterator[Finding]:
    """Bytes that go into a layer."""
    found = history.bytes
    if found is not None:
        yield UnscaledPixels(call=found.source, site=found.source.site, layer=found.layer, facts=found.facts)


def broadcast_losses(history: StepHistory) -> Iterator[Finding]:
    """Losses over each pair of a prediction and a target."""
    for pair in history.broadcasts:
        yield BroadcastLoss(
            call=pair.call, site=pair.call.site, shapes=pair.shapes, result=pair.result, origins=pair.origins
        )


def inverted_masks(history: StepHistory) -> Iterator[Finding]:
    """Masks that are the wrong way round."""
    for mask in history.masks:
        comparison = mask.comparison
        yield InvertedMask(call=comparison, site=comparison.site, use=mask.use, padding=mask.padding)


def hidden_parameters(history: StepHistory) -> Iterator[Finding]:
    """Layers in plain containers that all learn nothing; a single module in a list is hidden on purpose."""
    for each in history.hidden:
        trainable = [parameter for parameter in each.parameters if parameter.requires_grad]
        is_forgotten = bool(trainable) and all(parameter.is_forgotten for parameter in trainable)
        is_seen = each.samples >= FEWEST_SAMPLES and each.layers >= FEWEST_LAYERS
        if is_forgotten and is_seen:
            yield HiddenParameters(
                path=each.path,
                site=each.site,
                attribute=each.attribute,
                container=each.container,
                layers=each.layers,
                paths=tuple(parameter.path for parameter in trainable),
            )


def independent_losses(history: StepHistory) -> Iterator[Finding]:
    """Losses that are the same for any input; a single one may be a penalty on the weights."""
    found = history.unrelated
    if found is not None and found.samples >= FEWEST_SAMPLES:
        yield IndependentLoss(
            path=found.model.path,
            call=found.begin,
            site=found.begin.site,
            model=found.model,
            backward=found.backward,
            samples=found.samples,
        )


STEP_CHECKS: tuple[Callable[[StepHistory], Iterator[Finding]], ...] = (
    evaluated_training,
    active_dropout,
    training_mode_evaluation,
    two_optimizers,
    undivided_accumulation,
    clipped_while_scaled,
    unscaled_pixels,
    broadcast_losses,
    inverted_masks,
    hidden_parameters,
    independent_losses,
)
