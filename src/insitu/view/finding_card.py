"""Findings on cards, and all of those of a guard."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from insitu.trace.findings import Finding
from insitu.view.card import Card, Fact
from insitu.view.finding import fix_lines, text_lines
from insitu.view.finding_dispatch import evidence, sentence
from insitu.view.line import Line

INKS = {"error": "red", "warning": "yellow", "info": "grey"}


@dataclass(slots=True, frozen=True)
class CountedFinding:
    """A finding, and how often it was found at its place."""

    finding: Finding
    times: int = 1


def finding_card(counted: CountedFinding) -> Card:
    """The card of a finding."""
    finding = counted.finding
    severity = finding.severity
    title = [(f"{severity}  ", INKS[severity]), (sentence(finding), "bold")]
    if counted.times > 1:
        title.append((f"  × {counted.times:,}", "yellow"))
    facts = tuple(Fact(row.label, ((row.text, ""),), row.facts) for row in [*evidence(finding), *fix_lines(finding)])
    return Card(tuple(title), finding.site, facts, severity)


def finding_lines(finding: Finding) -> Iterator[Line]:
    """A finding as lines of text."""
    for text in text_lines(finding):
        yield Line(((text, ""),))


def guard_title(findings: Sequence[CountedFinding], *, is_running: bool) -> str:
    """How many findings a guard has.

    >>> guard_title([], is_running=False), guard_title([], is_running=True)
    ('Guard: no findings', 'Guard: no findings so far')
    """
    count = {0: "no findings", 1: "1 finding"}.get(len(findings), f"{len(findings):,} findings")
    if is_running:
        return f"Guard: {count} so far"
    return f"Guard: {count}"


def guard_lines(findings: Sequence[CountedFinding], *, is_running: bool) -> Iterator[Line]:
    """The findings of a guard as lines of text."""
    yield Line(((guard_title(findings, is_running=is_running), "bold"),))
    for counted in findings:
        yield from finding_lines(counted.finding)
