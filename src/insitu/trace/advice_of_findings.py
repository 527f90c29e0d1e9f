"""The advice on each kind of finding: one function for each, registered by the class of the finding.

To add one, write `@advise.register` above a function that takes the finding and returns an advice. `needed`, `require`
and the parts of the source raise NoAdvice where it does not apply. The guard shows no advice on other findings.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import singledispatch

from insitu.trace.advice import Advice, Fix, likely, possible
from insitu.trace.array_source import first_parameter
from insitu.trace.event import Site
from insitu.trace.explain.bindings import nodes_of, scope_of
from insitu.trace.explain.case import before_dot
from insitu.trace.explain.edits import new_line
from insitu.trace.explain.explanation import ExpressionSite
from insitu.trace.explain.expressions import called_name, segment, tree_of
from insitu.trace.explain.remedies.call_parts import call_in, keyword, method_in, receiver, with_keyword
from insitu.trace.explain.remedies.gradient_remedies import connected
from insitu.trace.explain.remedies.source_part import NoAdvice, SourcePart, attempt, needed, only, part_at, require
from insitu.trace.findings import (
    Finding,
    LossMistake,
    MissingGradients,
    NonFinite,
    NonFiniteGradient,
    NonFiniteResult,
    StaleGradients,
)
from insitu.trace.operation import operation
from insitu.trace.step_findings import (
    ActiveDropout,
    BroadcastLoss,
    ClippedWhileScaled,
    EvaluatedTraining,
    HiddenParameters,
    InvertedMask,
    TrainingModeEvaluation,
    UndividedAccumulation,
    UnscaledPixels,
)

PROBABILITIES = ("softmax", "log_softmax", "sigmoid")
# The smallest number that a fix adds, or clamps to: in f16, the gradient of the logarithm of smaller ones overflows.
SMALL = {"f16": "1e-4"}
SMALLEST = "1e-8"
# How far a fix stays away from 1: in f16 and bf16, what is nearer rounds to 1.
DISTANCES = {"f16": "1e-3", "bf16": "1e-2"}
SMALLEST_DISTANCE = "1e-6"
# A number that is as good as -inf in a mask.
LARGE = {"f16": "-6e4"}
LARGEST = "-1e9"
MASKS = ('float("-inf")', "float('-inf')", "-torch.inf", "-math.inf", "-np.inf", '-float("inf")')
NOT_OPTIMIZERS = ("sched", "scaler")


def advice_of(finding: Finding) -> Advice | None:
    """The most likely fix of what a guard found; None where no fix is known."""
    return attempt(advise, finding)


@singledispatch
def advise(finding: Finding) -> Advice:
    """The most likely fix; NoAdvice where no fix is known."""
    raise NoAdvice


@advise.register
def _(finding: NonFiniteResult) -> Advice:
    return needed(FORWARD.get((_operator(finding), finding.kind)))(finding, part_of(finding.site))


@advise.register
def _(finding: NonFiniteGradient) -> Advice:
    require(not finding.has_infinite_gradient)
    return needed(BACKWARD.get(_operator(finding)))(finding, part_of(finding.site))


@advise.register
def _(finding: MissingGradients) -> Advice:
    require(finding.call is not None)
    return connected(part_of(finding.site))


@advise.register
def _(finding: StaleGradients) -> Advice:
    site = needed(finding.site)
    code = f"{_optimizer(site)}.zero_grad()"
    fix = needed(new_line(site.file, site.line, code, "before"))
    return likely(fix, "the gradients of several steps may be meant to add up")


def _optimizer(site: Site) -> str:
    """The only name on which the function around a line calls `.step()`, without schedulers and scalers."""
    calls = nodes_of(scope_of(needed(tree_of(site.file)), site.line), ast.Call)
    names = {ast.unparse(call.func.value) for call in calls if called_name(call) == "step" and not call.args}
    return only(name for name in names if not any(word in name.lower() for word in NOT_OPTIMIZERS))


@advise.register
def _(finding: LossMistake) -> Advice:
    part = part_of(finding.site)
    require(called_name(part.node) in PROBABILITIES)
    if finding.mistake == "batch":
        return likely(with_keyword(part, "dim", "-1", 1), "the classes may be another dimension than the last")
    if finding.mistake == "logarithms":
        return _logarithm(part)
    return likely(part.with_value(receiver(part).text), "the probabilities may be needed elsewhere")


def _logarithm(part: SourcePart) -> Advice:
    """`softmax` as `log_softmax`."""
    require(called_name(part.node) == "softmax")
    function = part.inner(call_in(part).func)
    fix = function.with_text(f"{function.text.removesuffix('softmax')}log_softmax")
    return likely(fix, "the probabilities may be needed elsewhere")


# The logic of steps.


@advise.register
def _(finding: EvaluatedTraining) -> Advice:
    part = part_of(finding.site)
    require(called_name(part.node) == "eval")
    fix = part.with_text(f"{receiver(part).text}.train()")
    return possible(fix, "if the line begins an evaluation, call train() after that instead")


@advise.register
def _(finding: ActiveDropout) -> Advice:
    part = part_of(finding.site)
    require("dropout" in called_name(part.node), keyword(part.node, "training") is None)
    scope = scope_of(needed(tree_of(part.file)), needed(finding.site).line)
    require("self" in first_parameter(scope))
    return likely(with_keyword(part, "training", "self.training"), "dropout in evaluation may be meant")


@advise.register
def _(finding: TrainingModeEvaluation) -> Advice:
    part = part_of(finding.site)
    require(isinstance(part.node, ast.Call))
    model = part.text_of(part.node.func)  # type: ignore[attr-defined]
    site = needed(finding.site)
    fix = needed(new_line(site.file, site.line, f"{model}.eval()", "before"))
    return likely(fix, "call train() again if the training goes on")


@advise.register
def _(finding: UndividedAccumulation) -> Advice:
    part = part_of(finding.site)
    require(called_name(part.node) == "backward")
    loss = receiver(part)
    fix = loss.with_value(f"{loss.text} / {finding.passes}")
    return likely(fix, f"the last of the batches may have fewer than {finding.passes} parts")


@advise.register
def _(finding: ClippedWhileScaled) -> Advice:
    site = needed(finding.site)
    calls = nodes_of(scope_of(needed(tree_of(site.file)), site.line), ast.Call)
    step = only(call for call in calls if called_name(call) == "step" and len(call.args) == 1)
    code = f"{ast.unparse(step.func.value)}.unscale_({ast.unparse(step.args[0])})"
    return likely(needed(new_line(site.file, site.line, code, "before")), "the limit may be meant for scaled gradients")


@advise.register
def _(finding: UnscaledPixels) -> Advice:
    part = part_of(finding.site)
    return likely(part.with_value(f"{part.text} / 255"), "a normalization may be missing instead")


@advise.register
def _(finding: BroadcastLoss) -> Advice:
    part = part_of(finding.site)
    column = max(range(len(finding.shapes)), key=lambda at: len(finding.shapes[at]))
    operand = part.inner(_operands(part.node)[column])
    return likely(operand.with_suffix(".squeeze(-1)"), "the other one may be meant to have the same shape")


def _operands(node: ast.AST) -> list[ast.expr]:
    """The two operands of an operator, or the first arguments of a call."""
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    if isinstance(node, ast.Call):
        return node.args[:2]
    raise NoAdvice


@advise.register
def _(finding: InvertedMask) -> Advice:
    part = part_of(finding.site)
    require(isinstance(part.node, ast.Compare), part.text.count("==") == 1)
    return likely(part.with_text(part.text.replace("==", "!=")), "the mask may be meant for the padding")


@advise.register
def _(finding: HiddenParameters) -> Advice:
    site = needed(finding.site)
    tree = needed(tree_of(site.file))
    values = [node.value for node in nodes_of(tree, ast.Assign) if node.lineno == site.line]
    value = part_at(ExpressionSite(site.file, site.line, site.function, segment(site.file, only(values))))
    registering = {"dict": "ModuleDict"}.get(finding.container, "ModuleList")
    has_nn = any(node.id == "nn" for node in nodes_of(tree, ast.Name))
    package = "nn" if has_nn else "torch.nn"
    fix = value.with_text(f"{package}.{registering}({value.text})")
    return likely(fix, "the layers may be left out on purpose")


# NaN and Inf: the finding, and the expression of its call.
Rule = Callable[[NonFinite, SourcePart], Advice]


def part_of(site: Site | None) -> SourcePart:
    """The expression of a site in the source."""
    place = needed(site)
    require(place.start is not None)
    return part_at(ExpressionSite(place.file, place.line, place.function, place.text[place.start : place.end]))


def _operator(finding: NonFinite) -> str:
    """The common name of the operator that a finding is about."""
    call = needed(finding.call)
    return operation(call.kind, call.name).base


def _small(finding: NonFinite) -> str:
    return SMALL.get(finding.operands[0].facts.dtype, SMALLEST)


def _distance(finding: NonFinite) -> str:
    return DISTANCES.get(finding.operands[0].facts.dtype, SMALLEST_DISTANCE)


def _input(part: SourcePart) -> SourcePart:
    """The tensor whose function is computed: the left side of a power, else the tensor that the call takes."""
    if isinstance(part.node, ast.BinOp):
        return part.inner(part.node.left)
    return receiver(part)


def _clamped(finding: NonFinite, part: SourcePart) -> Fix:
    """The input kept above 0."""
    return _input(part).with_suffix(f".clamp_min({_small(finding)})")


def _above_zero(finding: NonFinite, part: SourcePart) -> Advice:
    source = finding.operands[0].source
    if source is not None and operation(source.kind, source.name).base == "softmax":
        return likely(_clamped(finding, part), "log_softmax of the scores is more exact")
    return likely(_clamped(finding, part), "a number that is not above 0 may be the mistake")


def _possibly_above_zero(finding: NonFinite, part: SourcePart) -> Advice:
    return possible(_clamped(finding, part), "a number below 0 may be the mistake")


def _plus_small(finding: NonFinite, part: SourcePart) -> Advice:
    """A root whose gradient at 0 is infinite."""
    inside = _input(part)
    return likely(inside.with_value(f"{inside.text} + {_small(finding)}"), "a zero may be the mistake")


def _divisor(finding: NonFinite, part: SourcePart) -> Advice:
    """A divisor that is 0: kept above 0, if it has no sign."""
    divisor = part.inner(getattr(part.node, "right", None) or part.node.args[-1])  # type: ignore[attr-defined]
    operand = next(operand for operand in finding.operands if operand.name == divisor.text)
    stats = needed(operand.facts.stats)
    require(stats.zeros)
    if needed(stats.min) >= 0:
        fix = divisor.with_suffix(f".clamp_min({_small(finding)})")
        return likely(fix, "a divisor of 0 may be the mistake")
    fix = divisor.with_value(f"{divisor.text} + {_small(finding)}")
    return possible(fix, "a divisor of 0 may be the mistake")


def _logit(finding: NonFinite, part: SourcePart) -> Advice:
    return likely(with_keyword(part, "eps", _distance(finding), 1), "a probability of 0 or 1 may be the mistake")


def _deviation_of_one(finding: NonFinite, part: SourcePart) -> Advice:
    """The deviation of a single number."""
    require(keyword(part.node, "unbiased") is None)
    return likely(with_keyword(part, "correction", "0"), "a batch of one may be the mistake; its deviation is then 0")


def _root_of_variance(finding: NonFinite, part: SourcePart) -> Advice:
    """The gradient of a deviation that is 0: the root of the variance and a small number."""
    function = part.text_of(method_in(part, "std"))
    variance = part.text.replace(function, f"{function.removesuffix('std')}var", 1)
    fix = part.with_text(f"({variance} + {_small(finding)}).sqrt()")
    return likely(fix, "numbers that are all the same may be the mistake")


def _inside_of_one(finding: NonFinite, part: SourcePart) -> Advice:
    """The gradient of acos and asin at -1 and 1."""
    inside = _input(part)
    cosine = inside
    if called_name(inside.node) == "clamp":
        cosine = receiver(inside)
    distance = _distance(finding)
    fix = inside.with_text(f"{before_dot(cosine.text)}.clamp(-1 + {distance}, 1 - {distance})")
    return likely(fix, "the angle is then a little too large or too small")


def _mask_that_leaves_something(finding: NonFinite, part: SourcePart) -> Advice:
    """A row that is masked completely: masked by a large number, it has no NaN."""
    scores = finding.operands[0]
    masked = part_of(needed(scores.producer).site)
    mask = masked.inner(only(node for node in nodes_of(masked.node, ast.expr) if masked.text_of(node) in MASKS))
    fix = mask.with_text(LARGE.get(scores.facts.dtype, LARGEST))
    return likely(fix, "a row that is masked completely is then spread evenly; it may be meant to be left out")


def _largest_subtracted(finding: NonFinite, part: SourcePart) -> Advice:
    """An exponential that overflows."""
    power = _input(part)
    require(power.text.isidentifier())
    fix = power.with_value(f"{power.text} - {power.text}.amax(-1, keepdim=True)")
    return possible(fix, "this is right if the result is divided by its sum")


# The rules for each operator and what it produced.
FORWARD: dict[tuple[str, str], Rule] = {
    ("log", "inf"): _above_zero,
    ("log", "nan"): _possibly_above_zero,
    ("sqrt", "nan"): _possibly_above_zero,
    ("rsqrt", "nan"): _possibly_above_zero,
    ("rsqrt", "inf"): _above_zero,
    ("reciprocal", "inf"): _above_zero,
    ("pow", "nan"): _possibly_above_zero,
    ("div", "nan"): _divisor,
    ("div", "inf"): _divisor,
    ("logit", "inf"): _logit,
    ("std", "nan"): _deviation_of_one,
    ("softmax", "nan"): _mask_that_leaves_something,
    ("exp", "inf"): _largest_subtracted,
}
# The rules for the gradient of each operator.
BACKWARD: dict[str, Rule] = {
    "sqrt": _plus_small,
    "log": _above_zero,
    "div": _divisor,
    "std": _root_of_variance,
    "acos": _inside_of_one,
}
