"""What a guard found about the logic of training steps, as plain data; view/finding.py turns them into text.

StepFinding
├── EvaluatedTraining       a model is trained while it is in evaluation mode
├── ActiveDropout           a functional dropout ignores the mode of its model
├── TrainingModeEvaluation  a model is evaluated while it is in training mode
├── TwoOptimizers           two optimizers move the same parameters in turns
├── UndividedAccumulation   the gradients of several mean losses are added up, and nobody divides them
├── ClippedWhileScaled      gradients are clipped before a scaler has unscaled them
├── UnscaledPixels          bytes go into a layer as they are
├── BroadcastLoss           a loss compares each prediction with each target
├── InvertedMask            a mask keeps the padding and drops the rest
├── HiddenParameters        layers in a plain list are used, and no optimizer gets their parameters
├── IndicesOutOfRange       labels or indices that are negative or too large
└── IndependentLoss         a loss does not depend on what goes into the model
"""

from __future__ import annotations

from dataclasses import dataclass

from insitu.trace.event import Call, Site, TensorFacts
from insitu.trace.findings import Finding, FindingKind
from insitu.trace.index_use import Limit


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class StepFinding(Finding):
    """Something is wrong with the logic of a step; `site` is the line to look at."""


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class EvaluatedTraining(StepFinding):
    """A model was in evaluation mode at `steps` of `samples` steps; `site` is the line that switched its mode.

    `modules` are those that behave differently then.
    """

    modules: tuple[str, ...]
    steps: int
    samples: int
    kind: FindingKind = "mode"


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class ActiveDropout(StepFinding):
    """The functional dropout `call` ran in a model in evaluation mode; `switch` is the line that switched the mode."""

    switch: Site | None = None
    kind: FindingKind = "mode"


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class TrainingModeEvaluation(StepFinding):
    """The model `path` was evaluated without gradients, after its last step, while it was in training mode."""

    modules: tuple[str, ...]
    kind: FindingKind = "mode"


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class TwoOptimizers(StepFinding):
    """Two optimizers moved the same parameters in turns; `site` is where the one that has more of them was made."""

    paths: tuple[str, ...]
    optimizers: tuple[str, str]
    rates: tuple[float, float]
    sites: tuple[Site | None, Site | None]
    kind: FindingKind = "optimizer"


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class UndividedAccumulation(StepFinding):
    """Each step used the sum of the gradients of `passes` losses, each of which is a mean."""

    optimizer: str
    passes: int
    steps: int
    loss: Call
    kind: FindingKind = "accumulated"


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class ClippedWhileScaled(StepFinding):
    """`call` clipped gradients that were still multiplied by the factor of a `GradScaler`."""

    optimizer: str
    kind: FindingKind = "optimizer"


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class UnscaledPixels(StepFinding):
    """A layer got whole numbers from 0 to 255; `call` is where they entered, `layer` the call that used them."""

    layer: Call
    facts: TensorFacts
    kind: FindingKind = "data"


@dataclass(frozen=True, slots=True)
class ShapeOrigin:
    """A call and the shape of what it made."""

    call: Call
    shape: tuple[int | str, ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class BroadcastLoss(StepFinding):
    """`call` combined the prediction and the target into each pair of their elements.

    `origins` are the calls that made them, as far as they are known.
    """

    shapes: tuple[tuple[int | str, ...], ...]
    result: tuple[int | str, ...]
    origins: tuple[ShapeOrigin, ...] = ()
    kind: FindingKind = "loss"


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class InvertedMask(StepFinding):
    """`call` made a mask that keeps nothing but the `padding` of an embedding when `use` applies it."""

    use: Call
    padding: int
    kind: FindingKind = "data"


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class HiddenParameters(StepFinding):
    """The layers in the plain `container` at `path` are used, and `parameters()` does not return theirs (`paths`).

    `site` is the line that assigns the `attribute`, if it is known.
    """

    attribute: str
    container: str
    layers: int
    paths: tuple[str, ...]
    kind: FindingKind = "optimizer"


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class IndicesOutOfRange(StepFinding):
    """`call` was about to take labels or indices from `lowest` to `highest`, where 0 to `count` - 1 fit.

    Labels that a loss ignores do not count. `name` is their expression in the source, and `source` the call that made
    them, if it is known.
    """

    name: str
    facts: TensorFacts
    lowest: int
    highest: int
    count: int
    limit: Limit
    source: Call | None = None
    kind: FindingKind = "data"


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class IndependentLoss(StepFinding):
    """Nothing that goes into `model` reaches the loss of `backward`, in any of `samples` passes that were looked at.

    `call` is the first call that the loss comes from.
    """

    model: Call
    backward: Call
    samples: int
    kind: FindingKind = "loss"
