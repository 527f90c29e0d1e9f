"""Compiled code beside its graph: which group of calls that a kernel fuses gives another result.

Both sides start from the same inputs: the kernels of the compiler, and the same graph call by call. So the first group
whose output differs is where compiled code begins to differ from eager code.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

from insitu.trace.compare.closeness import Certainty, Closeness, Tolerance, close, close_arrays, worst
from insitu.trace.compare.distance import Distance
from insitu.trace.compare.relative import RelativeError
from insitu.trace.compiled.compiled_graph import GraphLine, Kernel
from insitu.trace.compiled.compiled_runs import CompiledRun, KernelRun, compiled_runs
from insitu.trace.event import Call, TensorFacts
from insitu.trace.kept_values import has_all_values
from insitu.trace.trace import Trace

GroupStatus = Literal["same", "close", "differs", "random", "unknown"]
# The results of a graph in double precision, by the id of its call and the name of the result.
DoubleResults = dict[int, dict[str, Any]]


@dataclass(frozen=True, slots=True, eq=False)
class FusedGroup:
    """A kernel of compiled code beside the calls of the graph that it fuses.

    `call` is the kernel in the trace, `lines` are the lines of the program that it computes. `status` is "differs" if
    an output is beyond the tolerance, "random" if it depends on random numbers that compiled code draws in its own way,
    and "unknown" if the trace does not have the output. `distance` says how far the graph (a) and the kernel (b) are
    from the same graph in double precision.
    """

    call: Call
    kernel: Kernel
    lines: tuple[GraphLine, ...]
    status: GroupStatus
    relative: RelativeError | None = None
    delta: float | None = None
    certainty: Certainty = "structure"
    distance: Distance | None = None


def fused_groups(trace: Trace, tolerance: Tolerance, doubles: DoubleResults | None = None) -> tuple[FusedGroup, ...]:
    """The kernels of a trace in the order in which they ran; none without `inside_compiled=True`."""
    found = []
    for run in compiled_runs(trace):
        groups = _groups(run, tolerance)
        if doubles is not None:
            known = doubles.get(run.call.id, {})
            pairs = zip(groups, run.kernels, strict=True)
            groups = [replace(group, distance=_distance(run, kernel, known, tolerance)) for group, kernel in pairs]
        found += groups
    return tuple(found)


def first_that_differs(groups: Iterable[FusedGroup]) -> FusedGroup | None:
    """The first group whose output is beyond the tolerance."""
    return next((group for group in groups if group.status == "differs"), None)


def _groups(run: CompiledRun, tolerance: Tolerance) -> list[FusedGroup]:
    random = run.random
    return [_group(run, kernel, random, tolerance) for kernel in run.kernels]


def _group(run: CompiledRun, ran: KernelRun, random: frozenset[str], tolerance: Tolerance) -> FusedGroup:
    group = FusedGroup(ran.call, ran.kernel, run.graph.sources(ran.kernel), "unknown")
    if any(name in random for name, _ in ran.outputs):
        return replace(group, status="random")
    found = [close(run.results[name], facts, tolerance) for name, facts in _comparable(run, ran)]
    known = [closeness for closeness in found if closeness.same is not None]
    if not known:
        return group
    largest = worst(known)
    return replace(
        group,
        status=_status(largest),
        relative=largest.relative,
        delta=largest.delta,
        certainty=largest.certainty,
    )


def _comparable(run: CompiledRun, ran: KernelRun) -> list[tuple[str, TensorFacts]]:
    """The outputs of a kernel that the interpreter has in the same shape."""
    return [(name, facts) for name, facts in ran.outputs if _has_shape(run.results.get(name), facts)]


def _has_shape(expected: TensorFacts | None, facts: TensorFacts) -> bool:
    return expected is not None and expected.shape == facts.shape


def _status(closeness: Closeness) -> GroupStatus:
    if not closeness.same:
        return "differs"
    if closeness.drifts:
        return "close"
    return "same"


def _distance(run: CompiledRun, ran: KernelRun, doubles: dict[str, Any], tolerance: Tolerance) -> Distance | None:
    """How far the graph and the kernel are from double precision, in the output where the kernel is furthest."""
    found = []
    for name, facts in _comparable(run, ran):
        expected, truth = run.results[name], doubles.get(name)
        if truth is not None and has_all_values(expected) and has_all_values(facts):
            found.append((_apart(expected, truth, tolerance), _apart(facts, truth, tolerance)))
    if not found:
        return None
    a, b = max(found, key=lambda pair: _size(pair[1]))
    return Distance(a.relative, b.relative, bool(a.same), bool(b.same))


def _apart(facts: TensorFacts, truth: Any, tolerance: Tolerance) -> Closeness:
    import numpy as np

    return close_arrays(np.asarray(facts.kept), truth, *tolerance.of(facts.dtype, facts.dtype))


def _size(closeness: Closeness) -> float:
    if closeness.relative is None:
        return 0.0
    return closeness.relative.size
