"""What a guard found, as plain data: one class for each kind of finding; view/finding.py turns them into text.

Finding
├── NonFinite              a tensor that contains NaN or Inf
│   ├── NonFiniteResult        a forward call produced it
│   ├── NonFiniteGradient      an autograd node produced it
│   ├── NonFiniteFromHook      a hook on a gradient produced it
│   ├── NonFiniteUpdate        an optimizer wrote it into a parameter
│   ├── NonFiniteInput         it was there before the guard began
│   ├── NonFiniteData          it was computed outside of torch, and data brought it in
│   ├── NonFiniteLiteral       the program wrote it down, and it reached the loss
│   ├── NonFiniteLoss          a loss contains it, and the call that produced it was not checked
│   ├── UncheckedGradient      a gradient contains it, and the call that produced it was not checked
│   ├── ConsequentGradient     a gradient contains it because the forward call did
│   └── LeftoverGradient       a parameter's gradient contains it at the end, and nothing else explains it
├── MissingGradients
├── VanishingGradients
├── ExplodingGradients
├── FrozenParameters
├── OptimizerGap
├── StuckParameters
├── SpentSchedule          a learning rate that is next to nothing long before the end
├── StaleGradients
├── LossMistake            a loss gets something else than it takes
├── DeadActivation         a ReLU that returns only zeros
├── SaturatedActivation    a sigmoid, tanh or softmax whose outputs are at the ends
├── UnusualUpdates         weights that steps change far too much, or hardly at all
├── OutlierData            an absurd number in data, and a loss far above others with it
├── LossSpike              a loss far above those before it
└── …                      the logic of steps: see step_findings.py
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from insitu.trace.event import Call, Phase, Site, TensorFacts

NumberKind = Literal["nan", "inf", "incoming", "update", "activation", "ratio", "spike"]
TrainingKind = Literal["missing", "vanishing", "exploding", "unchanged", "accumulated", "loss"]
StepKind = Literal["mode", "optimizer", "data"]
FindingKind = NumberKind | TrainingKind | StepKind
Severity = Literal["error", "warning", "info"]
Reach = Literal["nan", "spread", "calls", "model", "loss", "gradient", "backward", "number", "exception", "unused"]


@dataclass(frozen=True, slots=True, eq=False)
class TensorOperand:
    """A tensor that went into a call: its facts, with statistics where it could be read, and its name.

    `producer` is the call that returned the tensor. `source` is the call that computed its numbers: it is found behind
    calls that only move numbers (indexing, reshaping, `1 - x`). `cut` is the call that cut off the labels that count,
    where a loss ignores all labels of the tensor.
    """

    facts: TensorFacts
    name: str = ""
    producer: Call | None = None
    source: Call | None = None
    cut: Call | None = None


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class Finding:
    """One thing that a guard found, at one place of the program. Each kind of finding is a subclass.

    `kind` is "nan" or "inf" for a call that produced it, in the `phase` "forward" or "backward"; "incoming" for NaN or
    Inf that no checked call produced; "update" for what an optimizer wrote into a parameter. About training: "missing"
    (parameters that never got a gradient), "vanishing", "exploding", "unchanged" (parameters), "accumulated" (gradients
    that were not set to zero or not divided), "loss" (a loss that gets something else than it takes), "mode" (training
    or evaluation mode at the wrong time), "optimizer" (which parameters it moves, and how), "data", "activation"
    (outputs of an activation function that are all zero, or at the ends), "ratio" (updates that are too large or too
    small for the weights), "spike" (a loss far above those before it). `call` is the call at fault, `site` its line,
    `path` its module, or a parameter. `severity` is "error" for a finding that a guard raises, "warning" or "info".

    >>> NonFiniteGradient(kind="nan", path="head", node="SqrtBackward0").phase
    'backward'
    """

    kind: FindingKind
    path: str = ""
    call: Call | None = None
    site: Site | None = None
    phase: Phase = "forward"

    @property
    def severity(self) -> Severity:
        """Whether a guard raises this finding, warns of it, or only records it."""
        return "warning"

    @property
    def text(self) -> str:
        """The finding in plain English: a line that says it, and some that show it."""
        from insitu.view.finding import text  # plain data knows no view, except for this

        return text(self)

    @property
    def place(self) -> tuple[object, ...]:
        """What is equal for findings of the same kind at the same place: a guard reports only the first of them."""
        line = self.site and (self.site.file, self.site.line)
        name = self.call.name if self.call is not None else self.path
        return type(self), self.kind, self.phase, line, name

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        from insitu.view.notebook import finding_forms  # only a notebook needs it

        return finding_forms(self, include, exclude)

    def __repr__(self) -> str:
        where = f" at {self.site.file}:{self.site.line}" if self.site is not None else ""
        return f"<{type(self).__name__} {self.kind} {self.path or (self.call.name if self.call else '')}{where}>"


# Tensors that contain NaN or Inf.


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class NonFinite(Finding):
    """A tensor contains NaN or Inf: its facts, with statistics, the index of its first bad element, and what went in.

    `modules` are the paths and classes of the modules around the call, the outermost first. `is_late` says that it was
    found at the end of the step, because the numbers were on an accelerator; then the statistics may be missing, and
    `has_unseen_nan` says whether there is NaN.
    """

    output: TensorFacts | None = None
    index: tuple[int, ...] | None = None
    operands: tuple[TensorOperand, ...] = ()
    modules: tuple[str, ...] = ()
    is_late: bool = False
    has_unseen_nan: bool = False

    @property
    def has_nan(self) -> bool:
        """Whether the tensor contains NaN, and not only Inf."""
        stats = self.output.stats if self.output is not None else None
        if stats is None:
            return self.has_unseen_nan
        return stats.nan > 0


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class NonFiniteResult(NonFinite):
    """A forward call produced NaN or Inf.

    `has_finite_inputs` says that all its inputs are known to be finite, `has_positive_infinity` that an input contained
    +inf; it is None where the signs of infinities are not known. NaN and Inf may heal: the finding is reported once it
    has reached what `reach` says, and `consumer` is the call there. `is_metric` says that it did not reach the
    training.
    """

    has_finite_inputs: bool = False
    has_positive_infinity: bool | None = False
    reach: Reach | None = None
    consumer: Call | None = None
    is_metric: bool = False

    @property
    def severity(self) -> Severity:
        """An error, except in a metric."""
        if self.is_metric:
            return "warning"
        return "error"


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class NonFiniteGradient(NonFinite):
    """An autograd node produced NaN or Inf; `call` is the forward call whose gradient the node computed.

    `has_finite_inputs` says that all inputs are known to be finite, `has_infinite_gradient` that the incoming gradient
    contained Inf.
    """

    node: str
    has_finite_inputs: bool = False
    has_infinite_gradient: bool = False
    phase: Phase = "backward"

    @property
    def severity(self) -> Severity:
        """An error."""
        return "error"


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class NonFiniteFromHook(NonFinite):
    """A hook on the gradient of `call`, or of the parameter `path`, produced NaN or Inf from finite numbers."""

    hook: str
    phase: Phase = "backward"

    @property
    def severity(self) -> Severity:
        """An error."""
        return "error"


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class NonFiniteUpdate(NonFinite):
    """A step of an optimizer wrote NaN or Inf into `count` parameters; `path` is the first of them."""

    optimizer: str
    rate: float
    count: int
    has_bad_gradient: bool = False
    kind: FindingKind = "update"

    @property
    def severity(self) -> Severity:
        """An error."""
        return "error"


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class NonFiniteInput(NonFinite):
    """A call got a tensor that contained NaN or Inf before the guard began; it is the only operand."""

    kind: FindingKind = "incoming"


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class NonFiniteData(NonFinite):
    """A call got data that contains NaN or Inf, and it reached what `reach` says; `consumer` is the call there.

    `sources` are the lines on the way of the data that can have produced it, the nearest first: `site` is the first.
    """

    sources: tuple[Site, ...]
    reach: Reach | None = None
    consumer: Call | None = None
    kind: FindingKind = "incoming"

    @property
    def severity(self) -> Severity:
        """An error."""
        return "error"


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class NonFiniteLiteral(NonFinite):
    """A call introduced NaN or Inf that is written in the program, or data, and the loss (`output`) contains it."""

    kind: FindingKind = "incoming"


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class NonFiniteLoss(NonFinite):
    """A backward pass got a loss (`output`) that contains NaN or Inf; the call that produced it was not checked."""

    kind: FindingKind = "incoming"


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class UncheckedGradient(NonFinite):
    """An autograd node got a gradient that contains NaN or Inf; the call that produced it was not checked."""

    node: str
    phase: Phase = "backward"
    kind: FindingKind = "incoming"


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class ConsequentGradient(NonFinite):
    """A gradient contains NaN or Inf because the forward call got or produced it."""

    node: str
    phase: Phase = "backward"
    kind: FindingKind = "incoming"


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class LeftoverGradient(NonFinite):
    """The gradient of the parameter `path` contains NaN or Inf at the end; the call that produced it is not known."""

    phase: Phase = "backward"
    kind: FindingKind = "incoming"


# The health of a training.


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class MissingGradients(Finding):
    """Parameters never got a gradient; `call` is the call that cuts the graph, if it is known."""

    paths: tuple[str, ...]
    passes: int
    is_every: bool = False
    kind: FindingKind = "missing"


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class VanishingGradients(Finding):
    """The gradients of parameters were never more than `share` of the largest one, element by element."""

    paths: tuple[str, ...]
    share: float
    kind: FindingKind = "vanishing"


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class ExplodingGradients(Finding):
    """The gradients of parameters are too large; `first` and `largest` are norms of all gradients together."""

    paths: tuple[str, ...]
    first: float
    largest: float
    kind: FindingKind = "exploding"


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class FrozenParameters(Finding):
    """Parameters of layers did not change because they are frozen.

    Where they were frozen before the guard began, while others learned, this is fine tuning.
    """

    paths: tuple[str, ...]
    steps: int
    is_fine_tuning: bool = False
    kind: FindingKind = "unchanged"

    @property
    def severity(self) -> Severity:
        """Fine tuning is only recorded."""
        if self.is_fine_tuning:
            return "info"
        return "warning"


@dataclass(frozen=True, slots=True)
class OptimizerPlace:
    """An optimizer, its largest learning rate, and where it and the schedule of the rate were made, if known."""

    name: str
    site: Site | None = None
    rate: float = 0.0
    schedule: Site | None = None


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class OptimizerGap(Finding):
    """Parameters got gradients and did not change because no optimizer that stepped has them.

    `is_late` says that they were assigned, at `site`, after the optimizers were made.
    """

    paths: tuple[str, ...]
    steps: int
    optimizers: tuple[OptimizerPlace, ...] = ()
    is_late: bool = False
    kind: FindingKind = "unchanged"


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class StuckParameters(Finding):
    """Parameters did not change because the learning rate is 0, or too small for them."""

    paths: tuple[str, ...]
    steps: int
    rate: float
    optimizers: tuple[OptimizerPlace, ...] = ()
    kind: FindingKind = "unchanged"


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class SpentSchedule(Finding):
    """The learning rate was next to nothing after `useful_steps` of all steps; `site` is where its schedule was made.

    `length` is the line that bound a name to that number of steps, if there is one.
    """

    optimizer: OptimizerPlace
    steps: int
    useful_steps: int
    rate: float
    length: Site | None = None
    kind: FindingKind = "optimizer"


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class StaleGradients(Finding):
    """Gradients were not set to zero: `stale_steps` of all steps of an optimizer used those of earlier steps too."""

    optimizer: str
    steps: int
    stale_steps: int
    kind: FindingKind = "accumulated"


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class LossMistake(Finding):
    """A loss gets something else than it takes: `call` made the input of the loss what it must not be.

    `loss` is the call of the loss. `mistake` is "probabilities" where the loss takes scores, "logarithms" where it
    takes logarithms of probabilities and gets the probabilities, "scores" where it gets scores instead of them, or
    "batch" if the call normalizes over the batch. `definition` is where the module was made that ran the call.
    """

    loss: Call
    mistake: Literal["probabilities", "logarithms", "batch", "scores"]
    definition: Site | None = None
    kind: FindingKind = "loss"


# The numbers of a training.


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class DeadActivation(Finding):
    """A ReLU returned only zeros in all `samples` sampled backward passes from the pass `since` on."""

    since: int
    samples: int
    kind: FindingKind = "activation"


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class SaturatedActivation(Finding):
    """At least `share` of the outputs of an activation function were at the ends, from the backward pass `since` on."""

    since: int
    share: float
    kind: FindingKind = "activation"


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class UnusualUpdates(Finding):
    """One step changed weights by `ratio` of their norm: far too much (`is_large`), or hardly at all."""

    paths: tuple[str, ...]
    ratio: float
    rate: float
    is_large: bool = False
    kind: FindingKind = "ratio"


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class OutlierData(Finding):
    """Data holds a `number` that is far from the `median` of the others, and the loss with it is far above the `usual`.

    `call` is where the data came into torch, `use` the call that used it. `sources` are the lines that can have put the
    number there: `site` is the first of them.
    """

    use: Call
    number: float
    median: float
    index: tuple[int, ...]
    facts: TensorFacts
    sources: tuple[Site, ...]
    backward_pass: int
    loss: float
    usual: float
    kind: FindingKind = "data"


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class LossSpike(Finding):
    """The loss of one backward pass was far above the `usual` one; the next losses, if there were any, were not.

    `rows` are the rows of the `batch` with the largest `shares` of the loss; empty where they are not known.
    """

    backward_pass: int
    loss: float
    usual: float
    batch: int = 0
    rows: tuple[int, ...] = ()
    shares: tuple[float, ...] = ()
    kind: FindingKind = "spike"
