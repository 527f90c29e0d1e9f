"""A finding in plain English: the place, what came out, what went in and where that was produced."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import singledispatch
from itertools import chain, repeat

from insitu.trace.advice_of_findings import advice_of
from insitu.trace.event import Call, Site, Stats, TensorFacts
from insitu.trace.findings import (
    ConsequentGradient,
    DeadActivation,
    ExplodingGradients,
    Finding,
    FrozenParameters,
    LeftoverGradient,
    LossMistake,
    LossSpike,
    MissingGradients,
    NonFinite,
    NonFiniteData,
    NonFiniteFromHook,
    NonFiniteGradient,
    NonFiniteInput,
    NonFiniteLiteral,
    NonFiniteLoss,
    NonFiniteResult,
    NonFiniteUpdate,
    OptimizerGap,
    OptimizerPlace,
    OutlierData,
    SaturatedActivation,
    SpentSchedule,
    StaleGradients,
    StuckParameters,
    TensorOperand,
    UncheckedGradient,
    UnusualUpdates,
    VanishingGradients,
)
from insitu.trace.step_findings import (
    ActiveDropout,
    BroadcastLoss,
    ClippedWhileScaled,
    EvaluatedTraining,
    InvertedMask,
    TrainingModeEvaluation,
    TwoOptimizers,
    UndividedAccumulation,
    UnscaledPixels,
)
from insitu.view.advice_line import advice_texts
from insitu.view.hint import hint
from insitu.view.name import compact, function_name, spot
from insitu.view.number import spread
from insitu.view.value import safe, short, tensor

MOST_PATHS = 8
MOST_OPTIMIZERS = 3
MOST_CALLERS = 2
MOST_TEXT = 100
MOST_EXPRESSION = 50
SOON = 3  # the first backward pass whose activations are looked at


def text(finding: Finding) -> str:
    """A finding as plain text: one line that says it, and some that show it.

    >>> print(text(MissingGradients(path="a.weight", paths=("a.weight", "a.bias"), passes=3)))
    2 parameters got no gradient in 3 backward passes: a.weight, a.bias
    """
    return "\n".join(text_lines(finding))


def text_lines(finding: Finding) -> Iterator[str]:
    """The lines of a finding, and the advice at the end."""
    yield from lines(finding)
    yield from map(str, fix_lines(finding))


@singledispatch
def lines(finding: Finding) -> Iterator[str]:
    """The lines of a finding about training."""
    yield f"{sentence(finding)}{_at(finding.site)}"


@lines.register
def _(finding: MissingGradients) -> Iterator[str]:
    yield sentence(finding)
    yield from map(str, evidence(finding))


@lines.register(OutlierData)
@lines.register(LossSpike)
@lines.register(LossMistake)
@lines.register(OptimizerGap)
@lines.register(StuckParameters)
@lines.register(SpentSchedule)
@lines.register(EvaluatedTraining)
@lines.register(ActiveDropout)
@lines.register(TrainingModeEvaluation)
@lines.register(TwoOptimizers)
@lines.register(UndividedAccumulation)
@lines.register(ClippedWhileScaled)
@lines.register(UnscaledPixels)
@lines.register(BroadcastLoss)
@lines.register(InvertedMask)
def _(finding: Finding) -> Iterator[str]:
    yield f"{_place(finding.site)}{sentence(finding)}"
    yield from map(str, evidence(finding))


@lines.register
def _(finding: NonFinite) -> Iterator[str]:
    yield f"{_place(finding.site)}{sentence(finding)}"
    if finding.site is not None and finding.site.text.strip():
        yield f"    {short(safe(finding.site.text.strip()), MOST_TEXT)}"
    yield from map(str, evidence(finding))


@dataclass(slots=True, frozen=True)
class EvidenceLine:
    """A line that shows what a finding says, behind a label; `facts` is the tensor that it is about."""

    label: str
    text: str
    facts: TensorFacts | None = None

    def __str__(self) -> str:
        return f"  {self.label:4}  {self.text}"


def fix_lines(finding: Finding) -> Iterator[EvidenceLine]:
    """The fix of what a finding says, where one is known."""
    advice = advice_of(finding)
    if advice is None:
        return
    for label, each in zip(chain(["→"], repeat("")), advice_texts(advice), strict=False):
        yield EvidenceLine(label, each)


@singledispatch
def evidence(finding: Finding) -> Iterator[EvidenceLine]:
    """What shows that a finding is true; the sentence of most findings about training says it all."""
    yield from ()


@evidence.register
def _(finding: MissingGradients) -> Iterator[EvidenceLine]:
    if finding.call is not None:
        cut = f"{called(finding.call)} takes a tensor that requires a gradient; its result does not"
        yield EvidenceLine("cut", f"{_place(finding.site)}{cut}")


@evidence.register
def _(finding: NonFinite) -> Iterator[EvidenceLine]:
    if finding.modules:
        yield EvidenceLine("in", " ▸ ".join(map(safe, finding.modules)))
    if finding.output is not None and finding.kind != "incoming":
        text = f"{tensor(finding.output)}{_bad(finding.output.stats, finding.index)}"
        yield EvidenceLine("out", text, finding.output)
    for label, operand in zip(chain(["from"], repeat("")), finding.operands, strict=False):
        yield EvidenceLine(label, _operand(operand), operand.facts)
        yield from _label_cut(operand.cut)
    if reason := hint(finding):
        yield EvidenceLine("why", reason)
    if reach := _reach(finding):
        yield EvidenceLine("then", reach)


def _label_cut(cut: Call | None) -> Iterator[EvidenceLine]:
    if cut is not None:
        yield EvidenceLine("cut", f"{_place(cut.site)}{called(cut)} leaves out a part of the labels")


# The sentence of each kind of finding.


@singledispatch
def sentence(finding: Finding) -> str:
    """A finding in one sentence."""
    raise NotImplementedError(type(finding))


@sentence.register
def _(finding: NonFiniteResult) -> str:
    result = f"{_callee(finding)} produced {_what(finding)}"
    if finding.has_finite_inputs:
        return f"{result} from finite inputs"
    return result


@sentence.register
def _(finding: NonFiniteGradient) -> str:
    return f"{_gradient(finding, finding.node)} produced {_what(finding)}{_gradient_origin(finding)}"


def _gradient_origin(finding: NonFiniteGradient) -> str:
    if finding.has_infinite_gradient:
        return " from a gradient that contains Inf"
    if finding.has_finite_inputs:
        return " from finite inputs"
    return ""


@sentence.register
def _(finding: NonFiniteFromHook) -> str:
    owner = _callee(finding) or safe(finding.path) or "a tensor"
    hook = f"a hook ({safe(finding.hook)}) on the gradient of {owner}"
    return f"{hook} produced {_what(finding)} from finite inputs"


@sentence.register
def _(finding: NonFiniteUpdate) -> str:
    path = safe(finding.path) or "a parameter"
    if finding.count > 1:
        path += f" and {finding.count - 1:,} more"
    why = f"lr={finding.rate:g}"
    if finding.has_bad_gradient:
        why = "a gradient that is not finite"
    return f"the step of {safe(finding.optimizer)} with {why} wrote NaN or Inf into {path}"


@sentence.register
def _(finding: NonFiniteInput) -> str:
    name = "".join(safe(operand.name) for operand in finding.operands)
    return f"{_callee(finding)} got {name or 'a tensor'}, which already contained {_what(finding)}"


@sentence.register
def _(finding: NonFiniteData) -> str:
    what = f"{_what(finding)} in the data that {_callee(finding)}{_at(_call_site(finding))} got"
    source = short(safe(_written(finding.site)), MOST_EXPRESSION)
    if len(finding.sources) == 1:
        return f"{source or 'this line'} most likely produced the {what}"
    return f"{source or 'this line'}, or another of {len(finding.sources)} lines, produced the {what}"


def _call_site(finding: Finding) -> Site | None:
    if finding.call is not None:
        return finding.call.site
    return None


@evidence.register
def _(finding: NonFiniteData) -> Iterator[EvidenceLine]:
    if finding.output is not None:
        text = f"{tensor(finding.output)}{_bad(finding.output.stats, finding.index)}"
        yield EvidenceLine("data", text, finding.output)
    for source in finding.sources[1:]:
        yield EvidenceLine("or", f"{_place(source)}{short(safe(_written(source)), MOST_TEXT)}")
    if reach := _reach(finding):
        yield EvidenceLine("then", reach)


@sentence.register
def _(finding: NonFiniteLiteral) -> str:
    return f"{_callee(finding)} introduced a number that is not finite, and the loss contains {_what(finding)}"


@sentence.register
def _(finding: NonFiniteLoss) -> str:
    return f"{_callee(finding)} got a loss that contains {_what(finding)}; {UNCHECKED}"


@sentence.register
def _(finding: UncheckedGradient) -> str:
    return f"{_gradient(finding, finding.node)} got a gradient that contains {_what(finding)}; {UNCHECKED}"


@sentence.register
def _(finding: ConsequentGradient) -> str:
    because = "because the call itself got or produced a number that is not finite"
    return f"{_gradient(finding, finding.node)} contains {_what(finding)}, {because}"


@sentence.register
def _(finding: LeftoverGradient) -> str:
    return f"the gradient of {safe(finding.path)} contains {_what(finding)}; {UNCHECKED}"


UNCHECKED = "the call that produced it was not checked"


@sentence.register
def _(finding: MissingGradients) -> str:
    passes = {1: "the backward pass"}.get(finding.passes, f"{finding.passes:,} backward passes")
    count = _parameters(finding.paths)
    subject = f"{count} got no gradient"
    if finding.is_every:
        subject = f"none of {count} got a gradient"
    return f"{subject} in {passes}: {_list(finding.paths)}"


@sentence.register
def _(finding: VanishingGradients) -> str:
    size = "always exactly zero"
    if finding.share:
        size = f"never more than {max(finding.share, 1e-30):.0e} of the largest"
    return f"the gradient of {_parameters(finding.paths)} vanishes ({size}): {_list(finding.paths)}"


@sentence.register
def _(finding: ExplodingGradients) -> str:
    norm = f"the norm of all gradients reached {finding.largest:.3g}"
    if finding.largest > 10 * finding.first:
        norm += f" ({finding.first:.3g} at first)"
    return f"the gradient of {_parameters(finding.paths)} explodes; {norm}: {_list(finding.paths)}"


@sentence.register
def _(finding: FrozenParameters) -> str:
    since = "frozen"
    if finding.is_fine_tuning:
        since = "frozen from the beginning"
    return _unchanged(finding.paths, finding.steps, f"{since}: requires_grad is False")


@sentence.register
def _(finding: OptimizerGap) -> str:
    reason = "no optimizer that stepped has them"
    if finding.is_late:
        reason = "no optimizer has them: they were assigned after it was made"
    return _unchanged(finding.paths, finding.steps, reason)


@sentence.register
def _(finding: StuckParameters) -> str:
    reason = "the learning rate is 0"
    if finding.rate:
        reason = f"the updates are too small for them at lr={finding.rate:g}"
    return _unchanged(finding.paths, finding.steps, reason)


@sentence.register
def _(finding: SpentSchedule) -> str:
    steps = f"after {finding.useful_steps:,} of {finding.steps:,} steps of {safe(finding.optimizer.name)}"
    return f"the learning rate falls to {finding.rate:g} {steps}: nothing is learned from then on"


@evidence.register
def _(finding: SpentSchedule) -> Iterator[EvidenceLine]:
    if finding.length is not None:
        yield EvidenceLine("from", f"{_place(finding.length)}{safe(_code(finding.length.text))}")
    if finding.optimizer.schedule is not None:
        yield EvidenceLine("rate", f"{_place(finding.site)}{safe(_source(finding.optimizer.schedule))}")
    if finding.length is None:
        yield from _callers(finding.site)
    yield EvidenceLine("why", f"the schedule must last {finding.steps:,} steps: it counts each call of its step()")


def _callers(site: Site | None) -> Iterator[EvidenceLine]:
    """The lines of the user that led to a place, the nearest first."""
    callers = site.chain()[-2::-1] if site is not None else []
    for caller in callers[:MOST_CALLERS]:
        yield EvidenceLine("by", f"{_place(caller)}{safe(_source(caller))}")


def _unchanged(paths: Sequence[str], steps: int, reason: str) -> str:
    return f"{_parameters(paths)} did not change in {steps:,} optimizer steps ({reason}): {_list(paths)}"


@sentence.register
def _(finding: StaleGradients) -> str:
    return (
        f"gradients were not set to zero: {finding.stale_steps:,} of {finding.steps:,} optimizer steps also used the "
        f"gradients of earlier steps (optimizer.zero_grad() is missing); backward added to them"
    )


@sentence.register
def _(finding: LossMistake) -> str:
    loss = called(finding.loss)
    if finding.mistake == "batch":
        return f"{_callee(finding)} normalizes over the batch, and {loss} takes one distribution for each sample"
    if finding.mistake == "scores":
        return f"{loss} gets scores from {_callee(finding)}, and takes logarithms of probabilities"
    return f"{loss} gets probabilities from {_callee(finding)}, and computes them itself"


@evidence.register
def _(finding: LossMistake) -> Iterator[EvidenceLine]:
    yield EvidenceLine("loss", f"{_place(finding.loss.site)}{called(finding.loss)}")
    if finding.definition is not None:
        yield EvidenceLine("made", f"{_place(finding.definition)}{safe(_code(finding.definition.text))}")
    if finding.mistake == "batch":
        yield EvidenceLine("why", "each sample is a row: use dim=-1")
    elif finding.mistake == "scores":
        yield EvidenceLine("why", "apply log_softmax before it, or use cross_entropy")
    else:
        yield EvidenceLine("why", "leave the call out, and pass the scores to the loss")


# The logic of steps.


@evidence.register
def _(finding: OptimizerGap) -> Iterator[EvidenceLine]:
    if finding.is_late:
        yield from _callers(finding.site)
    yield from _optimizers(finding)


@evidence.register
def _(finding: StuckParameters) -> Iterator[EvidenceLine]:
    yield from _optimizers(finding)


def _optimizers(finding: OptimizerGap | StuckParameters) -> Iterator[EvidenceLine]:
    """Where the optimizers, and schedules that make the learning rate 0, were made."""
    for place in finding.optimizers[:MOST_OPTIMIZERS]:
        if place.site is not None:
            yield EvidenceLine("made", f"{_place(place.site)}{_optimizer(place)}")
        if place.schedule is not None and not place.rate:
            yield EvidenceLine("rate", f"{_place(place.schedule)}{safe(_source(place.schedule))}")


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
        when = f"{_place(finding.site)}{_quoted(finding.site)}"
    yield EvidenceLine("mode", f"{when}call train() before the training goes on")


@sentence.register
def _(finding: ActiveDropout) -> str:
    return f"{_callee(finding)} goes on in evaluation: nobody tells it whether the model trains"


@evidence.register
def _(finding: ActiveDropout) -> Iterator[EvidenceLine]:
    if finding.switch is not None:
        yield EvidenceLine("mode", f"{_place(finding.switch)}{safe(_source(finding.switch))}")
    yield EvidenceLine("why", "training=True is the default: pass training=self.training, or use nn.Dropout")


@sentence.register
def _(finding: TrainingModeEvaluation) -> str:
    model = _callee(finding) or "the model"
    return f"{model} is evaluated in training mode, after its last step: nobody called eval()"


@evidence.register
def _(finding: TrainingModeEvaluation) -> Iterator[EvidenceLine]:
    yield EvidenceLine("in", ", ".join(map(safe, finding.modules)))


@sentence.register
def _(finding: TwoOptimizers) -> str:
    return f"two optimizers move {_parameters(finding.paths)} in turns: {_list(finding.paths)}"


@evidence.register
def _(finding: TwoOptimizers) -> Iterator[EvidenceLine]:
    for name, rate, site in zip(finding.optimizers, finding.rates, finding.sites, strict=True):
        yield EvidenceLine("made", f"{_place(site)}{_optimizer(OptimizerPlace(name, site, rate))}")


@sentence.register
def _(finding: UndividedAccumulation) -> str:
    gradients = f"each step of {safe(finding.optimizer)} uses the sum of {finding.passes:,} gradients"
    return f"{gradients} of mean losses, and nobody divides by {finding.passes:,}: the step is that much larger"


@evidence.register
def _(finding: UndividedAccumulation) -> Iterator[EvidenceLine]:
    yield EvidenceLine("loss", f"{_place(finding.loss.site)}{called(finding.loss)} is a mean")
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
        "in", f"{_place(finding.layer.site)}{called(finding.layer)} got {tensor(finding.facts)}", finding.facts
    )
    yield EvidenceLine("from", f"{_place(finding.site)}{_callee(finding)}: divide by 255")


@sentence.register
def _(finding: BroadcastLoss) -> str:
    shapes = " and ".join(str(list(shape)) for shape in finding.shapes)
    return f"{_callee(finding)} combines {shapes} into {list(finding.result)}: each prediction with each target"


@evidence.register
def _(finding: BroadcastLoss) -> Iterator[EvidenceLine]:
    for origin in finding.origins:
        yield EvidenceLine("from", f"{_place(origin.call.site)}{called(origin.call)} made {list(origin.shape)}")
    yield EvidenceLine("why", "give both the same shape: squeeze(-1) the prediction, or unsqueeze(-1) the target")


@sentence.register
def _(finding: InvertedMask) -> str:
    return f"the mask {_callee(finding)} keeps the padding ({finding.padding}), and drops all that counts"


@evidence.register
def _(finding: InvertedMask) -> Iterator[EvidenceLine]:
    yield EvidenceLine("use", f"{_place(finding.use.site)}{called(finding.use)}")
    yield EvidenceLine("why", "the mask is the wrong way round: negate the comparison")


def _optimizer(place: OptimizerPlace) -> str:
    return f"{safe(place.name)} with lr={place.rate:g}"


# The numbers of a training.


@sentence.register
def _(finding: DeadActivation) -> str:
    since = _since(finding.since)
    return f"{_activation(finding)} returned only zeros in {finding.samples} sampled backward passes, {since}"


@sentence.register
def _(finding: SaturatedActivation) -> str:
    share = f"{finding.share:.1%} of the outputs of {_activation(finding)}"
    return f"at least {share} are at the ends, where the slope is zero, {_since(finding.since)}"


def _activation(finding: Finding) -> str:
    if finding.path:
        return f"{_callee(finding)} in {safe(finding.path)}"
    return _callee(finding)


def _since(backward_pass: int) -> str:
    if backward_pass <= SOON:
        return "from the beginning"
    return f"since backward pass {backward_pass:,}"


@sentence.register
def _(finding: UnusualUpdates) -> str:
    size = f"hardly changes {_parameters(finding.paths)}: by {finding.ratio:.0e} of their norm"
    if finding.is_large:
        size = f"changes {_parameters(finding.paths)} by up to {finding.ratio:.2g} times their norm"
    return f"one optimizer step {size} at lr={finding.rate:g}: {_list(finding.paths)}"


@sentence.register
def _(finding: OutlierData) -> str:
    written = short(safe(_code(finding.site.text)), MOST_EXPRESSION) if finding.site is not None else ""
    number = f"{finding.number:g} in the data of {called(finding.use)}"
    size = f"the median size there is {finding.median:.3g}"
    if finding.sources and written:
        return f"{written} most likely put the {number}; {size}"
    return f"there is {number}; {size}"


@evidence.register
def _(finding: OutlierData) -> Iterator[EvidenceLine]:
    place = f"{tensor(finding.facts)}  {finding.number:g} at {list(finding.index)}"
    yield EvidenceLine("data", f"{_place(_call_site(finding))}{place}", finding.facts)
    for source in finding.sources[1:]:
        yield EvidenceLine("or", f"{_place(source)}{short(safe(_written(source)), MOST_TEXT)}")
    usual = f"of backward pass {finding.backward_pass:,} (the first is 0) is {finding.loss:.3g}"
    yield EvidenceLine("loss", f"{_place(finding.use.site)}the loss {usual}; that of others is {finding.usual:.3g}")


@sentence.register
def _(finding: LossSpike) -> str:
    usual = f"the usual loss before it is {finding.usual:.3g}"
    return f"the loss of backward pass {finding.backward_pass:,} (the first is 0) is {finding.loss:.3g}; {usual}"


@evidence.register
def _(finding: LossSpike) -> Iterator[EvidenceLine]:
    if not finding.rows:
        yield EvidenceLine("rows", "not known: autograd has not saved the loss of each row")
        return
    shares = zip(finding.rows, finding.shares, strict=True)
    text = ", ".join(f"row {row} {share:.0%}" for row, share in shares)
    yield EvidenceLine("rows", f"{text} of the loss, of {finding.batch:,} rows")


# Parts of sentences and lines.


def _callee(finding: Finding) -> str:
    if finding.call is not None:
        return called(finding.call)
    return ""


def _gradient(finding: Finding, node: str) -> str:
    if finding.call is None:
        return f"the gradient of {safe(node)}"
    return f"the gradient of {called(finding.call)} ({safe(node)})"


def _what(finding: NonFinite) -> str:
    if finding.has_nan:
        return "NaN"
    return "Inf"


def _reach(finding: NonFinite) -> str:
    """Why NaN or Inf that might have healed is reported after all."""
    if not isinstance(finding, (NonFiniteResult, NonFiniteData)):
        return ""
    if finding.reach is None:
        return ""
    name = ""
    if finding.consumer is not None:
        name = called(finding.consumer) + _at(finding.consumer.site)
    return REACHES[finding.reach].format(name)


REACHES = {
    "nan": "{} produced NaN from it",
    "spread": "{} spread it",
    "calls": "nothing repaired it before {}",
    "model": "the result of {} contains it",
    "loss": "it reached the loss: {}",
    "gradient": "it reached the gradient of {}",
    "backward": "the backward function of the user returned it",
    "number": "it left torch: {}",
    "exception": "an exception ended the block while a tensor held it",
    "unused": "it is in a result that no call used",
}


def _bad(stats: Stats | None, index: tuple[int, ...] | None) -> str:
    """How many elements are bad, and the index of the first."""
    if stats is None:
        return ""
    counts = [f"{count:,} {what}" for count, what in ((stats.nan, "NaN"), (stats.inf, "Inf")) if count]
    text = f"  {' and '.join(counts)} of {stats.count:,}"
    if index:
        return f"{text}, the first at {list(index)}"
    return text


def _operand(operand: TensorOperand) -> str:
    facts = f"{tensor(operand.facts)}{_range(operand.facts)}{_producer(operand)}"
    if operand.name:
        name = " ".join(operand.name.split())  # an expression may go over several lines
        return f"{short(safe(name), MOST_TEXT)}  {facts}"
    return facts


def _producer(operand: TensorOperand) -> str:
    if operand.producer is None:
        return ""
    producer = called(operand.producer)
    place = _at(operand.producer.site)
    if producer == operand.name:
        return f"   made{place}"
    return f"   made by {producer}{place}"


def _range(facts: TensorFacts) -> str:
    stats = facts.stats
    if stats is None:
        return ""
    if not stats.count:
        return "  empty"
    zeros = {0: "", 1: ", 1 zero"}.get(stats.zeros, f", {stats.zeros:,} zeros")
    return f"  {spread(stats, facts.dtype)}{zeros}"


def called(call: Call) -> str:
    """A call in a few words."""
    if call.kind == "module":
        if call.path:
            return f"{safe(call.path)} ({safe(call.name)})"
        return safe(call.name)
    if call.operator is None:
        return function_name(call.name)
    return short(safe(_written(call.site)), MOST_EXPRESSION) or compact(call)


def _written(site: Site | None) -> str:
    """The expression of a call as it is in the source, if it is known."""
    if site is None or site.start is None:
        return ""
    return site.text[site.start : site.end]


def _source(site: Site) -> str:
    """The expression at a place or, where its columns are not known, the line."""
    return _written(site) or site.text.strip()


def _quoted(site: Site) -> str:
    """The source of a line before a colon; nothing if it is not there."""
    source = safe(_source(site))
    if source:
        return f"{source}: "
    return ""


def _code(line: str) -> str:
    """A line without its comment, as far as can be told without reading the quotes in it."""
    return line.partition("  #")[0].strip().rstrip(",")


def _at(site: Site | None) -> str:
    if site is not None:
        return f" at {spot(site)}"
    return ""


def _place(site: Site | None) -> str:
    if site is not None:
        return f"{spot(site)}: "
    return ""


def _list(paths: Sequence[str]) -> str:
    text = ", ".join(map(safe, paths[:MOST_PATHS]))
    if len(paths) > MOST_PATHS:
        return f"{text}, … {len(paths) - MOST_PATHS:,} more"
    return text


def _parameters(paths: Sequence[str]) -> str:
    return {1: "1 parameter"}.get(len(paths), f"{len(paths):,} parameters")
