"""The text of findings about NaN and Inf."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, repeat

from insitu.trace.event import Call, Stats, TensorFacts
from insitu.trace.findings import (
    ConsequentGradient,
    Finding,
    LeftoverGradient,
    NonFinite,
    NonFiniteData,
    NonFiniteFromHook,
    NonFiniteGradient,
    NonFiniteInput,
    NonFiniteLiteral,
    NonFiniteLoss,
    NonFiniteResult,
    NonFiniteUpdate,
    TensorOperand,
    UncheckedGradient,
)
from insitu.view.finding_dispatch import evidence, lines, sentence
from insitu.view.finding_parts import (
    MOST_EXPRESSION,
    MOST_TEXT,
    EvidenceLine,
    at_site,
    call_site,
    called,
    callee,
    expression_at,
    place_prefix,
)
from insitu.view.hint import hint
from insitu.view.number import spread
from insitu.view.value import safe, short, tensor


@lines.register
def _(finding: NonFinite) -> Iterator[str]:
    yield f"{place_prefix(finding.site)}{sentence(finding)}"
    if finding.site is not None and finding.site.text.strip():
        yield f"    {short(safe(finding.site.text.strip()), MOST_TEXT)}"
    yield from map(str, evidence(finding))


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
    if finding.is_late:
        yield EvidenceLine("when", LATE)


LATE = "found at the end of the step, not at the call: accelerators are read once a step (INSITU_DEFERRED=0: each call)"


def _label_cut(cut: Call | None) -> Iterator[EvidenceLine]:
    if cut is not None:
        yield EvidenceLine("cut", f"{place_prefix(cut.site)}{called(cut)} leaves out a part of the labels")


@sentence.register
def _(finding: NonFiniteResult) -> str:
    result = f"{callee(finding)} produced {_what(finding)}"
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
    owner = callee(finding) or safe(finding.path) or "a tensor"
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
    name = " and ".join(safe(operand.name) for operand in finding.operands if operand.name)
    return f"{callee(finding)} got {name or 'a tensor'}, which already contained {_what(finding)}"


@sentence.register
def _(finding: NonFiniteData) -> str:
    what = f"{_what(finding)} in the data that {callee(finding)}{at_site(call_site(finding))} got"
    source = short(safe(expression_at(finding.site)), MOST_EXPRESSION)
    if len(finding.sources) == 1:
        return f"{source or 'this line'} most likely produced the {what}"
    return f"{source or 'this line'}, or another of {len(finding.sources)} lines, produced the {what}"


@evidence.register
def _(finding: NonFiniteData) -> Iterator[EvidenceLine]:
    if finding.output is not None:
        text = f"{tensor(finding.output)}{_bad(finding.output.stats, finding.index)}"
        yield EvidenceLine("data", text, finding.output)
    for source in finding.sources[1:]:
        yield EvidenceLine("or", f"{place_prefix(source)}{short(safe(expression_at(source)), MOST_TEXT)}")
    if reach := _reach(finding):
        yield EvidenceLine("then", reach)


@sentence.register
def _(finding: NonFiniteLiteral) -> str:
    return f"{callee(finding)} introduced a number that is not finite, and the loss contains {_what(finding)}"


@sentence.register
def _(finding: NonFiniteLoss) -> str:
    return f"{callee(finding)} got a loss that contains {_what(finding)}; {UNCHECKED}"


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
        name = called(finding.consumer) + at_site(finding.consumer.site)
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
    place = at_site(operand.producer.site)
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
