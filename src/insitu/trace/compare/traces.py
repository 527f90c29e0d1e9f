"""Compare two traces: align them, look at each pair, find the causes, and build a `Diff`."""

from __future__ import annotations

from collections.abc import Mapping

from insitu.errors import ChoiceError
from insitu.trace.collector import pause_collector
from insitu.trace.compare.causes import find_causes
from insitu.trace.compare.change import Remark
from insitu.trace.compare.closeness import CERTAINTIES, Tolerance
from insitu.trace.compare.differences import Findings
from insitu.trace.compare.evidence import Comparison, certainty_counts, evidence_of
from insitu.trace.compare.numbered_layers import NumberedLayers, Renumbering
from insitu.trace.compare.pairs import align_sides
from insitu.trace.compare.rename import renamer
from insitu.trace.compare.stops import Side, kinds, side
from insitu.trace.diff import Diff
from insitu.trace.event import Event
from insitu.trace.model_paths import ModelPaths
from insitu.trace.trace import Trace

TORCH_TESTING = Tolerance()


def compare_traces(
    a: Trace,
    b: Trace,
    *,
    rename: Mapping[str, str] | None = None,
    tolerance: Tolerance = TORCH_TESTING,
    labels: tuple[str, str] = ("a", "b"),
) -> Diff:
    """How two traces differ; see `insitu.compare`.

    >>> from insitu.trace.event import Call, TensorFacts
    >>> one, other = (TensorFacts(0, (2,), "f32", "cpu", kept=value) for value in (1.0, 1.5))
    >>> a, b = (Trace([Call(0, None, "function", "torch.rand", args=(2,), result=made)]) for made in (one, other))
    >>> diff = compare_traces(a, b)
    >>> diff.first.kind, diff.first.delta, diff.first.followers
    ('random', 0.5, 0)
    """
    with pause_collector():  # all but the diff is freed before the collector goes on
        diff = _diff(*_sides(a.events, b.events, rename), tolerance, labels)
        diff.model = ModelPaths.from_about(a.about)
        return diff


def _diff(sides: tuple[Side, Side], layers: list[Remark], tolerance: Tolerance, labels: tuple[str, str]) -> Diff:
    """Align, look at each pair, find the causes, and put together what was found."""
    pairs, remarks = align_sides(*sides)
    comparison = Comparison(tolerance)
    evidence = [evidence_of(pair, comparison) for pair in pairs]
    found = find_causes(pairs, evidence, sides, comparison)
    findings = Findings(pairs, evidence, found, sides, comparison)
    rows, results = findings.rows()
    counts = certainty_counts(evidence, found.ledger.last_outputs)
    known = {certainty: counts[certainty] for certainty in reversed(CERTAINTIES)}
    return Diff(rows, findings.causes(), remarks + layers, known, labels, tolerance, results)


def _sides(a: list[Event], b: list[Event], rename: Mapping[str, str] | None) -> tuple[tuple[Side, Side], list[Remark]]:
    """The stops of both runs, at the finest level that both have, and the layers that only one has."""
    level = _level(kinds(a), kinds(b))
    layers_a, layers_b = NumberedLayers(a), NumberedLayers(b)
    renumbering = Renumbering(layers_a, layers_b, renamer(rename, layers_a.paths))
    shared = layers_b.paths.intersection(map(renumbering, layers_a.paths))
    return (side(a, level, renumbering, shared), side(b, level, str, shared)), renumbering.remarks


def _level(a: set[str], b: set[str]) -> set[str]:
    """The kinds of events to look at: those that both runs have, or all if one run is empty."""
    if not a or not b:
        return a | b
    if a.isdisjoint(b):
        raise ChoiceError(
            f"nothing to compare: a has only {', '.join(sorted(a))}, b only {', '.join(sorted(b))} events;"
            " record both at the same level"
        )
    return a & b
