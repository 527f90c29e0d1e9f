"""What a finding shows, by its class: one sentence, the evidence, and both as lines of text.

The sentences and the evidence are in nonfinite_finding.py, training_finding.py and step_finding.py, which register them
here; finding.py puts them together.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import singledispatch

from insitu.trace.findings import Finding
from insitu.view.finding_parts import EvidenceLine, at_site, place_prefix


@singledispatch
def lines(finding: Finding) -> Iterator[str]:
    """The lines of a finding about training."""
    yield f"{sentence(finding)}{at_site(finding.site)}"


@singledispatch
def evidence(finding: Finding) -> Iterator[EvidenceLine]:
    """What shows that a finding is true; the sentence of most findings about training says it all."""
    yield from ()


@singledispatch
def sentence(finding: Finding) -> str:
    """A finding in one sentence."""
    raise NotImplementedError(type(finding))


def placed_lines(finding: Finding) -> Iterator[str]:
    """The sentence behind its place, and the evidence."""
    yield f"{place_prefix(finding.site)}{sentence(finding)}"
    yield from map(str, evidence(finding))
