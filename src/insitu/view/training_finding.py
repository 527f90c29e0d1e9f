"""The text of findings about gradients, parameters, losses and numbers of a training."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from insitu.trace.event import Site
from insitu.trace.findings import (
    DeadActivation,
    ExplodingGradients,
    Finding,
    FrozenParameters,
    LossMistake,
    LossSpike,
    MissingGradients,
    OptimizerGap,
    OutlierData,
    SaturatedActivation,
    SpentSchedule,
    StaleGradients,
    StuckParameters,
    UnusualUpdates,
    VanishingGradients,
)
from insitu.view.finding_dispatch import evidence, lines, placed_lines, sentence
from insitu.view.finding_parts import (
    MOST_EXPRESSION,
    MOST_TEXT,
    EvidenceLine,
    call_site,
    called,
    callee,
    code_of_line,
    expression_at,
    optimizer_text,
    parameter_count,
    path_list,
    place_prefix,
    source_at,
)
from insitu.view.value import safe, short, tensor

MOST_OPTIMIZERS = 3
MOST_CALLERS = 2
SOON = 3  # the first backward pass whose activations are looked at


@lines.register
def _(finding: MissingGradients) -> Iterator[str]:
    yield sentence(finding)
    yield from map(str, evidence(finding))


@evidence.register
def _(finding: MissingGradients) -> Iterator[EvidenceLine]:
    if finding.call is not None:
        cut = f"{called(finding.call)} takes a tensor that requires a gradient; its result does not"
        yield EvidenceLine("cut", f"{place_prefix(finding.site)}{cut}")


@sentence.register
def _(finding: MissingGradients) -> str:
    passes = {1: "the backward pass"}.get(finding.passes, f"{finding.passes:,} backward passes")
    count = parameter_count(finding.paths)
    subject = f"{count} got no gradient"
    if finding.is_every:
        subject = f"none of {count} got a gradient"
    return f"{subject} in {passes}: {path_list(finding.paths)}"


@sentence.register
def _(finding: VanishingGradients) -> str:
    size = "always exactly zero"
    if finding.share:
        size = f"never more than {max(finding.share, 1e-30):.0e} of the largest"
    return f"the gradient of {parameter_count(finding.paths)} vanishes ({size}): {path_list(finding.paths)}"


@sentence.register
def _(finding: ExplodingGradients) -> str:
    norm = f"the norm of all gradients reached {finding.largest:.3g}"
    if finding.largest > 10 * finding.first:
        norm += f" ({finding.first:.3g} at first)"
    return f"the gradient of {parameter_count(finding.paths)} explodes; {norm}: {path_list(finding.paths)}"


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
        yield EvidenceLine("from", f"{place_prefix(finding.length)}{safe(code_of_line(finding.length.text))}")
    if finding.optimizer.schedule is not None:
        yield EvidenceLine("rate", f"{place_prefix(finding.site)}{safe(source_at(finding.optimizer.schedule))}")
    if finding.length is None:
        yield from _callers(finding.site)
    yield EvidenceLine("why", f"the schedule must last {finding.steps:,} steps: it counts each call of its step()")


def _callers(site: Site | None) -> Iterator[EvidenceLine]:
    """The lines of the user that led to a place, the nearest first."""
    callers = site.chain()[-2::-1] if site is not None else []
    for caller in callers[:MOST_CALLERS]:
        yield EvidenceLine("by", f"{place_prefix(caller)}{safe(source_at(caller))}")


def _unchanged(paths: Sequence[str], steps: int, reason: str) -> str:
    return f"{parameter_count(paths)} did not change in {steps:,} optimizer steps ({reason}): {path_list(paths)}"


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
        return f"{callee(finding)} normalizes over the batch, and {loss} takes one distribution for each sample"
    if finding.mistake == "scores":
        return f"{loss} gets scores from {callee(finding)}, and takes logarithms of probabilities"
    if finding.mistake == "logarithms":
        return f"{loss} gets probabilities from {callee(finding)}, and needs their logarithms"
    return f"{loss} gets probabilities from {callee(finding)}, and computes them itself"


# What a loss needs instead, for each mistake.
WAYS_OUT = {
    "batch": "each sample is a row: use dim=-1",
    "scores": "apply log_softmax before it, or use cross_entropy",
    "logarithms": "take log_softmax, or logsigmoid, in place of the call",
    "probabilities": "leave the call out, and pass the scores to the loss",
}


@evidence.register
def _(finding: LossMistake) -> Iterator[EvidenceLine]:
    yield EvidenceLine("loss", f"{place_prefix(finding.loss.site)}{called(finding.loss)}")
    if finding.definition is not None:
        yield EvidenceLine("made", f"{place_prefix(finding.definition)}{safe(code_of_line(finding.definition.text))}")
    yield EvidenceLine("why", WAYS_OUT[finding.mistake])


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
            yield EvidenceLine("made", f"{place_prefix(place.site)}{optimizer_text(place)}")
        if place.schedule is not None and not place.rate:
            yield EvidenceLine("rate", f"{place_prefix(place.schedule)}{safe(source_at(place.schedule))}")


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
        return f"{callee(finding)} in {safe(finding.path)}"
    return callee(finding)


def _since(backward_pass: int) -> str:
    if backward_pass <= SOON:
        return "from the beginning"
    return f"since backward pass {backward_pass:,}"


@sentence.register
def _(finding: UnusualUpdates) -> str:
    size = f"hardly changes {parameter_count(finding.paths)}: by {finding.ratio:.0e} of their norm"
    if finding.is_large:
        size = f"changes {parameter_count(finding.paths)} by up to {finding.ratio:.2g} times their norm"
    return f"one optimizer step {size} at lr={finding.rate:g}: {path_list(finding.paths)}"


@sentence.register
def _(finding: OutlierData) -> str:
    written = short(safe(code_of_line(finding.site.text)), MOST_EXPRESSION) if finding.site is not None else ""
    number = f"{finding.number:g} in the data of {called(finding.use)}"
    size = f"the median size there is {finding.median:.3g}"
    if finding.sources and written:
        return f"{written} most likely put the {number}; {size}"
    return f"there is {number}; {size}"


@evidence.register
def _(finding: OutlierData) -> Iterator[EvidenceLine]:
    place = f"{tensor(finding.facts)}  {finding.number:g} at {list(finding.index)}"
    yield EvidenceLine("data", f"{place_prefix(call_site(finding))}{place}", finding.facts)
    for source in finding.sources[1:]:
        yield EvidenceLine("or", f"{place_prefix(source)}{short(safe(expression_at(source)), MOST_TEXT)}")
    usual = f"of backward pass {finding.backward_pass:,} (the first is 0) is {finding.loss:.3g}"
    yield EvidenceLine(
        "loss", f"{place_prefix(finding.use.site)}the loss {usual}; that of others is {finding.usual:.3g}"
    )


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


for _kind in (OutlierData, LossSpike, LossMistake, OptimizerGap, StuckParameters, SpentSchedule):
    lines.register(_kind)(placed_lines)
