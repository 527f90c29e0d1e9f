"""What a guard found, in words: the place, what came out, what went in and where that was made."""

from __future__ import annotations

from collections.abc import Iterator
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
    2 parameters got no gradient in 3 backward passes: a.weight, a.bias
    """
    if finding.kind in TRAINING:
        return TRAINING[finding.kind](finding.details) + (_cut(finding) or _at(finding.site))
    return "\n".join([_head(finding), *_body(finding)])


def _head(finding: Finding) -> str:
    where = f"{spot(finding.site)}: " if finding.site is not None else ""
    if finding.kind == "update":
        return f"{where}{_update(finding)}"
    return f"{where}{_subject(finding)} {_verb(finding)}"


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


def _verb(finding: Finding) -> str:
    """What the subject did."""
    stats = finding.output.stats if finding.output is not None else None
    what = "NaN" if stats is not None and stats.nan else "Inf"
    if finding.kind != "given":
        return f"produced {what}{_from(finding)}"
    if finding.details.get("entry"):
        return f"introduced a number that is not finite, and the loss contains {what}"
    if finding.details.get("grad"):
        return f"contains {what}; the call that produced it was not checked"
    if finding.details.get("loss"):
        return f"got a loss that contains {what}; the call that produced it was not checked"
    if finding.details.get("follows"):
        return f"contains {what}, because the call itself got or produced a number that is not finite"
    if finding.phase == "backward":
        return f"got a gradient that contains {what}; the call that produced it was not checked"
    name = finding.operands[0].name if finding.operands else ""
    return f"got {safe(name) or 'a tensor'}, which already contained {what}"


def _from(finding: Finding) -> str:
    """What NaN or Inf was computed from, where that is known."""
    if finding.details.get("entered"):
        return " from a gradient that contains Inf"
    return " from finite inputs" if finding.details.get("finite") else ""


def _update(finding: Finding) -> str:
    details = finding.details
    many = f" and {details['count'] - 1:,} more" if details["count"] > 1 else ""
    why = " with a gradient that is not finite" if details["spoiled"] else f" with lr={details['rate']:g}"
    path = safe(finding.path) or "a parameter"
    return f"the step of {safe(details['optimizer'])}{why} wrote NaN or Inf into {path}{many}"


def _body(finding: Finding) -> Iterator[str]:
    if finding.site is not None and finding.site.text.strip():
        yield f"    {short(safe(finding.site.text.strip()), MOST_TEXT)}"
    if finding.details.get("modules"):
        yield f"  in    {' ▸ '.join(map(safe, finding.details['modules']))}"
    if finding.output is not None and finding.kind != "given":
        yield f"  out   {tensor(finding.output)}{_bad(finding.output.stats, finding.index)}"
    for index, operand in enumerate(finding.operands):
        yield f"  {'from' if index == 0 else '    '}  {_operand(operand)}"
    if reason := hint(finding):
        yield f"  why   {reason}"
    if reached := _reached(finding):
        yield f"  then  {reached}"


def _reached(finding: Finding) -> str:
    """Why NaN or Inf that might have healed is reported after all."""
    user = finding.details.get("user")
    name = called(user) + _at(user.site) if user is not None else ""
    return {
        "nan": f"{name} produced NaN from it",
        "model": f"{name} used it",
        "loss": f"it reached the loss: {name}",
        "gradient": f"it reached the gradient of {name}",
        "number": f"it left torch: {name}",
        "unused": "it is in a result that no call used",
    }.get(finding.details.get("reached", ""), "")


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
    count = f"none of {_parameters(details['paths'])}" if details.get("all") else _parameters(details["paths"])
    return f"{count} got {'a' if details.get('all') else 'no'} gradient in {passes}: {_list(details['paths'])}"


def _cut(finding: Finding) -> str:
    """Where the graph between the parameters and the loss is cut, if that is known."""
    if finding.kind != "none" or finding.call is None:
        return ""
    site = f"{spot(finding.site)}: " if finding.site is not None else ""
    return f"\n  cut   {site}{called(finding.call)} takes a tensor that requires a gradient; its result does not"


def _vanishing(details: dict[str, Any]) -> str:
    share = details["share"]
    size = f"never more than {max(share, 1e-30):.0e} of the largest" if share else "always exactly zero"
    return f"the gradient of {_parameters(details['paths'])} vanishes ({size}): {_list(details['paths'])}"


def _exploding(details: dict[str, Any]) -> str:
    grown = f" ({details['first']:.3g} at first)" if details["largest"] > 10 * details["first"] else ""
    norm = f"the norm of all gradients reached {details['largest']:.3g}{grown}"
    return f"the gradient of {_parameters(details['paths'])} explodes; {norm}: {_list(details['paths'])}"


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
        f"gradients were not set to zero: {times:,} of {steps:,} optimizer steps also used the gradients of earlier "
        f"steps (optimizer.zero_grad() is missing); backward added to them"
    )


TRAINING = {
    "none": _none,
    "vanishing": _vanishing,
    "exploding": _exploding,
    "unchanged": _unchanged,
    "accumulated": _accumulated,
}
