"""What a guard found, in words: the place, what came out, what went in and where that was made."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite
from typing import Any

from insitu.trace.event import Call, Site, Stats, TensorFacts
from insitu.trace.finding import Finding, Operand
from insitu.view.hint import hint
from insitu.view.name import compact, function_name, spot
from insitu.view.value import safe, short, spread, tensor

MOST_PATHS = 8
MOST_TEXT = 100
MOST_EXPRESSION = 50


def text(finding: Finding) -> str:
    """A finding as plain text: one line that says it, and some that show it.

    >>> print(text(Finding("none", path="a.weight", details={"paths": ["a.weight", "a.bias"], "passes": 3})))
    no gradient came to 2 parameters in 3 backward passes: a.weight, a.bias
    """
    if finding.kind in TRAINING:
        return TRAINING[finding.kind](finding.details) + _at(finding.site)
    return "\n".join([_head(finding), *_body(finding)])


def _head(finding: Finding) -> str:
    where = f"{spot(finding.site)}: " if finding.site is not None else ""
    if finding.kind == "update":
        return f"{where}{_update(finding)}"
    return f"{where}{_subject(finding)} {_made(finding)}"


def _subject(finding: Finding) -> str:
    """Who did it."""
    name = called(finding.call) if finding.call is not None else ""
    if "hook" in finding.details:
        return f"a hook ({safe(finding.details['hook'])}) on the gradient of {name or safe(finding.path) or 'a tensor'}"
    if finding.details.get("grad"):
        return f"the gradient of {safe(finding.path)}"
    if finding.node is None:
        return name
    return f"the gradient of {name} ({safe(finding.node)})" if name else f"the gradient of {safe(finding.node)}"


def _made(finding: Finding) -> str:
    """What was done."""
    stats = finding.output.stats if finding.output is not None else None
    what = "NaN" if stats is not None and stats.nan else "Inf"
    if finding.kind != "given":
        return f"made {what}{_of(finding)}"
    if finding.details.get("entry"):
        return f"brought in what is not finite: the loss has {what}"
    if finding.details.get("grad"):
        return f"has {what}, from what was not checked"
    if finding.details.get("loss"):
        return f"got a loss that has {what} already, from what was not checked"
    if finding.phase == "backward":
        if finding.details.get("follows"):
            return f"has {what}, for the call itself got, or made, what is not finite"
        return f"got a gradient that has {what} already, from what was not checked"
    name = finding.operands[0].name if finding.operands else ""
    return f"got {safe(name) or 'a tensor'}, which has {what} already: it was there before"


def _of(finding: Finding) -> str:
    """What it was made of, where that is plain."""
    if finding.details.get("entered"):
        return " of a gradient that has Inf"
    known = [operand.facts.stats for operand in finding.operands if operand.facts.stats is not None]
    written = [item for item in finding.call.args if isinstance(item, float)] if finding.call is not None else []
    if any(stats.inf or stats.nan for stats in known) or not all(map(isfinite, written)):
        return ""
    return " of finite numbers"


def _update(finding: Finding) -> str:
    details = finding.details
    many = f" and {details['count'] - 1:,} more" if details["count"] > 1 else ""
    why = ", for its gradient had it," if details["spoiled"] else f" with lr={details['rate']:g}"
    return f"the step of {safe(details['optimizer'])}{why} made {safe(finding.path) or 'a parameter'}{many} not finite"


def _body(finding: Finding) -> Iterator[str]:
    if finding.site is not None and finding.site.text.strip():
        yield f"    {short(safe(finding.site.text.strip()), MOST_TEXT)}"
    if finding.details.get("modules"):
        yield f"  in   {' ▸ '.join(map(safe, finding.details['modules']))}"
    if finding.output is not None and finding.kind != "given":
        yield f"  out  {tensor(finding.output)}{_bad(finding.output.stats, finding.index)}"
    for index, operand in enumerate(finding.operands):
        yield f"  {'of ' if index == 0 else '   '}  {_operand(operand)}"
    if reason := hint(finding):
        yield f"  why  {reason}"


def _bad(stats: Stats | None, index: tuple[int, ...] | None) -> str:
    """How much of it is bad, and where first."""
    if stats is None:
        return ""
    counts = [f"{count:,} {what}" for count, what in ((stats.nan, "NaN"), (stats.inf, "Inf")) if count]
    first = f", the first at [{', '.join(map(str, index))}]" if index else ""
    return f"  {' and '.join(counts)} of {stats.count:,}{first}"


def _operand(operand: Operand) -> str:
    name = f"{short(safe(operand.name), MOST_TEXT)}  " if operand.name else ""
    origin = ""
    if operand.made is not None:
        maker = called(operand.made)
        origin = f"   made{'' if maker == operand.name else f' by {maker}'}{_at(operand.made.site)}"
    return f"{name}{tensor(operand.facts)}{_range(operand.facts)}{origin}"


def _range(facts: TensorFacts) -> str:
    stats = facts.stats
    if stats is None:
        return ""
    zeros = f", {stats.zeros:,} zeros" if stats.zeros > 1 else ", 1 zero" if stats.zeros else ""
    return f"  {spread(stats, facts.dtype)}{zeros}" if stats.count else "  empty"


def called(call: Call) -> str:
    """A call in a few words."""
    if call.kind == "module":
        return f"{safe(call.path)} ({safe(call.name)})" if call.path else safe(call.name)
    if call.operator is None:
        return function_name(call.name)
    site = call.site
    written = site.text[site.start : site.end] if site is not None and site.start is not None else ""
    return short(safe(written), MOST_EXPRESSION) or compact(call)


def _at(site: Site | None) -> str:
    return f" at {spot(site)}" if site is not None else ""


def _list(paths: list[str]) -> str:
    more = f", … {len(paths) - MOST_PATHS:,} more" if len(paths) > MOST_PATHS else ""
    return ", ".join(map(safe, paths[:MOST_PATHS])) + more


def _parameters(paths: list[str]) -> str:
    return f"{len(paths):,} parameters" if len(paths) > 1 else "1 parameter"


def _none(details: dict[str, Any]) -> str:
    passes = details["passes"]
    passes = f"{passes:,} backward passes" if passes > 1 else "the backward pass"
    return f"no gradient came to {_parameters(details['paths'])} in {passes}: {_list(details['paths'])}"


def _vanishing(details: dict[str, Any]) -> str:
    share = details["share"]
    size = f"less than {max(share, 1e-30):.0e} of the largest" if share else "exactly zero"
    return f"the gradient of {_parameters(details['paths'])} vanishes, all along {size}: {_list(details['paths'])}"


def _exploding(details: dict[str, Any]) -> str:
    grown = f" (it began with {details['first']:.3g})" if details["largest"] > 10 * details["first"] else ""
    norm = f"a norm of {details['largest']:.3g}{grown}"
    return f"the gradient of {_parameters(details['paths'])} explodes, to {norm}: {_list(details['paths'])}"


def _unchanged(details: dict[str, Any]) -> str:
    said = f"did not change in {details['steps']:,} optimizer steps"
    reason = {
        "frozen": "frozen: requires_grad is False",
        "frozen before": "frozen from the beginning: requires_grad is False",
        "left out": "no optimizer that stepped has them",
        "rate": "the learning rate is 0"
        if not details["rate"]
        else f"the updates are too small for them at lr={details['rate']:g}",
    }[details["reason"]]
    return f"{_parameters(details['paths'])} {said} ({reason}): {_list(details['paths'])}"


def _accumulated(details: dict[str, Any]) -> str:
    times, steps = details["times"], details["steps"]
    return (
        f"gradients were not set to zero: {times:,} of {steps:,} optimizer steps also took those of the step before "
        f"(optimizer.zero_grad() is missing); they were added up by backward"
    )


TRAINING = {
    "none": _none,
    "vanishing": _vanishing,
    "exploding": _exploding,
    "unchanged": _unchanged,
    "accumulated": _accumulated,
}
