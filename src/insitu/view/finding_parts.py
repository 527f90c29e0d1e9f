"""Parts of the sentences and lines of a finding: calls, places, expressions, lists of parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from insitu.trace.event import Call, Site, TensorFacts
from insitu.trace.findings import Finding, OptimizerPlace
from insitu.view.name import compact, function_name, spot
from insitu.view.value import safe, short

MOST_PATHS = 8
MOST_TEXT = 100
MOST_EXPRESSION = 50


@dataclass(slots=True, frozen=True)
class EvidenceLine:
    """A line that shows what a finding says, behind a label; `facts` is the tensor that it is about."""

    label: str
    text: str
    facts: TensorFacts | None = None

    def __str__(self) -> str:
        return f"  {self.label:4}  {self.text}"


def call_site(finding: Finding) -> Site | None:
    """Where the call of a finding is, if it has one."""
    if finding.call is not None:
        return finding.call.site
    return None


def optimizer_text(place: OptimizerPlace) -> str:
    """An optimizer with its learning rate."""
    return f"{safe(place.name)} with lr={place.rate:g}"


def callee(finding: Finding) -> str:
    """The call of a finding in a few words; nothing if it has none."""
    if finding.call is not None:
        return called(finding.call)
    return ""


def called(call: Call) -> str:
    """A call in a few words."""
    if call.kind == "module":
        if call.path:
            return f"{safe(call.path)} ({safe(call.name)})"
        return safe(call.name)
    if call.operator is None:
        return function_name(call.name)
    return short(safe(expression_at(call.site)), MOST_EXPRESSION) or compact(call)


def expression_at(site: Site | None) -> str:
    """The expression of a call as it is in the source, if it is known."""
    if site is None or site.start is None:
        return ""
    return site.text[site.start : site.end]


def source_at(site: Site) -> str:
    """The expression at a place or, where its columns are not known, the line."""
    return expression_at(site) or site.text.strip()


def quoted_source(site: Site) -> str:
    """The source of a line before a colon; nothing if it is not there."""
    source = safe(source_at(site))
    if source:
        return f"{source}: "
    return ""


def code_of_line(line: str) -> str:
    """A line without its comment, as far as can be told without reading the quotes in it."""
    return line.partition("  #")[0].strip().rstrip(",")


def at_site(site: Site | None) -> str:
    """` at file.py:12`, or nothing."""
    if site is not None:
        return f" at {spot(site)}"
    return ""


def place_prefix(site: Site | None) -> str:
    """`file.py:12: ` before a sentence, or nothing."""
    if site is not None:
        return f"{spot(site)}: "
    return ""


def path_list(paths: Sequence[str]) -> str:
    """The first of some paths, and how many more there are."""
    text = ", ".join(map(safe, paths[:MOST_PATHS]))
    if len(paths) > MOST_PATHS:
        return f"{text}, … {len(paths) - MOST_PATHS:,} more"
    return text


def parameter_count(paths: Sequence[str]) -> str:
    """How many parameters some paths are."""
    return {1: "1 parameter"}.get(len(paths), f"{len(paths):,} parameters")
