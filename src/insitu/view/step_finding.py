"""The text of findings about the logic of training steps."""

from __future__ import annotations

from collections.abc import Iterator

from insitu.trace.event import Call, tensors
from insitu.trace.findings import OptimizerPlace
from insitu.trace.step_findings import (
    ActiveDropout,
    BroadcastLoss,
    ClippedWhileScaled,
    EvaluatedTraining,
    HiddenParameters,
    IndependentLoss,
    IndicesOutOfRange,
    InvertedMask,
    StepFinding,
    TrainingModeEvaluation,
    TwoOptimizers,
    UndividedAccumulation,
    UnscaledPixels,
)
from insitu.view.finding_dispatch import evidence, lines, placed_lines, sentence
from insitu.view.finding_parts import (
    EvidenceLine,
    called,
    callee,
    expression_at,
    optimizer_text,
    parameter_count,
    path_list,
    place_prefix,
    quoted_source,
    source_at,
)
from insitu.view.value import safe, tensor

INDICES = {"classes": "the target", "rows": "the input", "num_classes": "the input"}
COUNTED = {"classes": "classes", "rows": "rows", "num_classes": "classes"}


@sentence.register
def _(finding: EvaluatedTraining) -> str:
    model = safe(finding.path) or "the model"
    steps = f"{finding.steps:,} of {finding.samples:,} optimizer steps that were looked at"
    return f"{model} was trained in evaluation mode, in {steps}: dropout is off, running statistics stay as they are"


@evidence.register
def _(finding: EvaluatedTraining) -> Iterator[EvidenceLine]:
    yield EvidenceLine("in", ", ".join(map(safe, finding.modules)))
    when = "before the guard began: "
    if finding.site is not None:
        when = f"{place_prefix(finding.site)}{quoted_source(finding.site)}"
    yield EvidenceLine("mode", f"{when}call train() before the training goes on")


@sentence.register
def _(finding: ActiveDropout) -> str:
    return f"{callee(finding)} goes on in evaluation: nobody tells it whether the model trains"


@evidence.register
def _(finding: ActiveDropout) -> Iterator[EvidenceLine]:
    if finding.switch is not None:
        yield EvidenceLine("mode", f"{place_prefix(finding.switch)}{safe(source_at(finding.switch))}")
    yield EvidenceLine("why", "training=True is the default: pass training=self.training, or use nn.Dropout")


@sentence.register
def _(finding: TrainingModeEvaluation) -> str:
    model = callee(finding) or "the model"
    return f"{model} is evaluated in training mode, after its last step: nobody called eval()"


@evidence.register
def _(finding: TrainingModeEvaluation) -> Iterator[EvidenceLine]:
    yield EvidenceLine("in", ", ".join(map(safe, finding.modules)))


@sentence.register
def _(finding: TwoOptimizers) -> str:
    return f"two optimizers move {parameter_count(finding.paths)} in turns: {path_list(finding.paths)}"


@evidence.register
def _(finding: TwoOptimizers) -> Iterator[EvidenceLine]:
    for name, rate, site in zip(finding.optimizers, finding.rates, finding.sites, strict=True):
        yield EvidenceLine("made", f"{place_prefix(site)}{optimizer_text(OptimizerPlace(name, site, rate))}")


@sentence.register
def _(finding: UndividedAccumulation) -> str:
    gradients = f"each step of {safe(finding.optimizer)} uses the sum of {finding.passes:,} gradients"
    return f"{gradients} of mean losses, and nobody divides by {finding.passes:,}: the step is that much larger"


@evidence.register
def _(finding: UndividedAccumulation) -> Iterator[EvidenceLine]:
    yield EvidenceLine("loss", f"{place_prefix(finding.loss.site)}{called(finding.loss)} is a mean")
    yield EvidenceLine("why", f"divide the loss by {finding.passes:,} before backward()")


@sentence.register
def _(finding: ClippedWhileScaled) -> str:
    return "gradients are clipped while they are scaled: the scaler divides them afterwards, and little is left"


@evidence.register
def _(finding: ClippedWhileScaled) -> Iterator[EvidenceLine]:
    yield EvidenceLine("why", "call scaler.unscale_(optimizer) before the clipping")


@sentence.register
def _(finding: UnscaledPixels) -> str:
    return f"{called(finding.layer)} gets whole numbers from 0 to 255: bytes that nobody has scaled"


@evidence.register
def _(finding: UnscaledPixels) -> Iterator[EvidenceLine]:
    yield EvidenceLine(
        "in", f"{place_prefix(finding.layer.site)}{called(finding.layer)} got {tensor(finding.facts)}", finding.facts
    )
    yield EvidenceLine("from", f"{place_prefix(finding.site)}{callee(finding)}: divide by 255")


@sentence.register
def _(finding: BroadcastLoss) -> str:
    shapes = " and ".join(str(list(shape)) for shape in finding.shapes)
    return f"{callee(finding)} combines {shapes} into {list(finding.result)}: each prediction with each target"


@evidence.register
def _(finding: BroadcastLoss) -> Iterator[EvidenceLine]:
    for origin in finding.origins:
        yield EvidenceLine("from", f"{place_prefix(origin.call.site)}{called(origin.call)} made {list(origin.shape)}")
    yield EvidenceLine("why", "give both the same shape: squeeze(-1) the prediction, or unsqueeze(-1) the target")


@sentence.register
def _(finding: InvertedMask) -> str:
    return f"the mask {callee(finding)} keeps the padding ({finding.padding}), and drops all that counts"


@evidence.register
def _(finding: InvertedMask) -> Iterator[EvidenceLine]:
    yield EvidenceLine("use", f"{place_prefix(finding.use.site)}{called(finding.use)}")
    yield EvidenceLine("why", "the mask is the wrong way round: negate the comparison")


@sentence.register
def _(finding: HiddenParameters) -> str:
    layers = f"{finding.layers:,} layers are in a plain {finding.container}, {safe(finding.path)}"
    return f"{layers}: they are used, but parameters() does not return theirs, and no optimizer moves them"


@evidence.register
def _(finding: HiddenParameters) -> Iterator[EvidenceLine]:
    yield EvidenceLine("of", f"{parameter_count(finding.paths)}: {path_list(finding.paths)}")
    registering = "nn.ModuleDict" if finding.container == "dict" else "nn.ModuleList"
    yield EvidenceLine(
        "why",
        f"a plain {finding.container} does not register its layers: make {safe(finding.attribute)} an {registering}",
    )


@sentence.register
def _(finding: IndicesOutOfRange) -> str:
    name = safe(finding.name) or INDICES[finding.limit]
    limit = f"{finding.count:,} {COUNTED[finding.limit]} (0 … {finding.count - 1})"
    return f"{name} holds {finding.lowest} … {finding.highest}, and {callee(finding)} has {limit}"


@evidence.register
def _(finding: IndicesOutOfRange) -> Iterator[EvidenceLine]:
    yield EvidenceLine("in", tensor(finding.facts), finding.facts)
    source = finding.source
    if source is None:
        yield EvidenceLine("from", "not known: no call that the guard has seen made them")
        return
    yield EvidenceLine("from", f"{place_prefix(source.site)}{source_text(source)}")


def source_text(call: Call) -> str:
    """The expression of a call or, where it is not known, its name."""
    return safe(expression_at(call.site)) or called(call)


@sentence.register
def _(finding: IndependentLoss) -> str:
    passes = f"in {finding.samples:,} backward passes that were looked at"
    return f"what goes into {source_text(finding.model)} does not reach the loss, except for labels, {passes}"


@evidence.register
def _(finding: IndependentLoss) -> Iterator[EvidenceLine]:
    inputs = ", ".join(map(tensor, tensors((finding.model.args, finding.model.kwargs))))
    yield EvidenceLine("in", f"{place_prefix(finding.model.site)}{source_text(finding.model)} got {inputs}")
    if finding.call is not None:
        begin = f"{place_prefix(finding.site)}{source_text(finding.call)}"
        yield EvidenceLine("from", f"{begin}: the loss begins here, without the input")
    yield EvidenceLine("loss", f"{place_prefix(finding.backward.site)}{source_text(finding.backward)}")


lines.register(StepFinding)(placed_lines)
