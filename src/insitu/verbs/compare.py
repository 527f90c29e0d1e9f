"""`insitu.compare`: traces and recorded runs, at hand or in files, side by side."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from insitu.errors import SubjectError, brief, tell
from insitu.store.rank_files import files_of_ranks
from insitu.trace.compare.closeness import Tolerance
from insitu.trace.compare.fused_groups import FusedGroup, fused_groups
from insitu.trace.compare.reference import add_distances
from insitu.trace.compare.traces import compare_traces
from insitu.trace.compiled.compiled_runs import compiled_runs, without_graphs
from insitu.trace.compiled.region_pairs import compiled_paths, with_closed_modules
from insitu.trace.diff import Diff
from insitu.trace.dtype import dtype_named
from insitu.trace.event import Event, TensorFacts, Variable
from insitu.trace.placements.diff_of_ranks import compare_ranks, needs_joining
from insitu.trace.placements.module_outputs import module_outputs, ranked_traces
from insitu.trace.placements.part_layout import PartLayout, layout_of
from insitu.trace.placements.whole_run import RankedRun
from insitu.trace.trace import Trace
from insitu.verbs.run_site import run_site

if TYPE_CHECKING:
    from insitu.store.run.run import Run
    from insitu.store.run.series import Series

DOUBLE = "float64"
RECORDED = "recorded run"
Subject = Any  # a Trace, a Run, or the path of a file with one


def compare(
    a: Subject,
    b: Subject,
    *,
    reference: Subject | None = None,
    rename: Mapping[str, str] | None = None,
    rtol: float | None = None,
    atol: float | None = None,
) -> Diff:
    """Find where two runs differ: the first call with equal inputs and a different output, and what follows from it.

    Calls are aligned by what they do and in which module; layers that were put in or taken out do not count. Values
    are compared as `torch.testing` does: the values themselves where both runs have kept them (`keep="values"`), else
    their statistics (`keep="stats"`), else only shapes, dtypes and arguments.

    Args:
        a: A trace, a recorded run, or the file of one. Of several ranks, a list of their traces. If one side is one
            process and the other has several ranks, the parts that the ranks hold are joined first.
        b: The other one.
        reference: A third one, such as a run in float64: each cause says how far a and b are from it. With "float64",
            the graphs of compiled code run again in double precision, from the values that the trace has kept, and
            each kernel says how far it and its graph are from that.
        rename: Paths of a, and what b calls them: `{"encoder.layer.*": "encoder.layers.*"}`.
        rtol: The relative tolerance; by default that of `torch.testing` for each dtype.
        atol: The absolute tolerance; by default that of `torch.testing` for each dtype.

    Examples:
        >>> from insitu.trace.event import Call, Site, Stats
        >>> before = Stats(count=4, min=0.0, max=3.0, mean=1.5, std=1.1, zeros=1)
        >>> def run(dim, high):
        ...     x = TensorFacts(0, (2, 2), "f32", "cpu", stats=before)
        ...     after = Stats(count=4, min=0.1, max=high, mean=0.5, std=0.2)
        ...     y = TensorFacts(1, (2, 2), "f32", "cpu", producer=0, stats=after)
        ...     site = Site("model.py", 3, "forward")
        ...     return Trace([Call(0, None, "function", "torch.softmax", args=(x, dim), result=y, site=site)])
        >>> diff = compare(run(dim=-1, high=0.7), run(dim=0, high=0.9))
        >>> diff.same, diff.first.kind, diff.first.why, diff.first.certainty
        (False, 'argument', 'argument 2 is 0 in b, -1 in a', 'statistics')
    """
    tolerance = Tolerance(rtol, atol)  # a wrong tolerance raises before files are read
    is_double = isinstance(reference, str) and reference == DOUBLE
    with ExitStack() as files:
        one, other = _opened(a, files), _opened(b, files)
        first, second = _narrowed(one, other, rename, tolerance) or (
            _Run("a", *_ranked(one)),
            _Run("b", *_ranked(other)),
        )
        third = None
        if reference is not None and not is_double:
            third = _Run("reference", *_ranked(_opened(reference, files)))
    for run in filter(None, (second, third)):
        _check_kinds(first, run)
    for run in filter(None, (first, second, third)):
        _tell_missing(run)
    labels = _labels(a, b)
    if needs_joining(first.ranked, second.ranked):
        diff, traces = compare_ranks(first.by_path, second.by_path, rename, tolerance, labels)
    else:
        traces = _without_compiled_parts(first.trace, second.trace)
        diff = compare_traces(*traces, rename=rename, tolerance=tolerance, labels=labels)
    if third is not None:
        add_distances(diff, traces, without_graphs(third.trace), rename, tolerance)
    diff.groups = _groups(first.trace, second.trace, tolerance, is_double=is_double)
    return diff


def _without_compiled_parts(a: Trace, b: Trace) -> tuple[Trace, Trace]:
    """Both traces without what is inside modules that are compiled in one of them: there each is one call."""
    one, other = without_graphs(a), without_graphs(b)
    return with_closed_modules(one, compiled_paths(other)), with_closed_modules(other, compiled_paths(one))


def _groups(a: Trace, b: Trace, tolerance: Tolerance, *, is_double: bool) -> tuple[FusedGroup, ...]:
    """The kernels of the compiled run, with their distances from double precision on demand."""
    compiled = b if compiled_runs(b) else a
    if not is_double:
        return fused_groups(compiled, tolerance)
    from insitu.capture.compiled_graphs.double_run import double_results  # needs torch

    return fused_groups(compiled, tolerance, double_results(compiled))


class _Run(NamedTuple):
    """One of the runs to compare: what it is called, its values or calls, and what it was before."""

    name: str
    ranked: RankedRun
    kind: str

    @property
    def trace(self) -> Trace:
        """Its events, on all ranks."""
        return self.ranked.trace

    @property
    def by_path(self) -> RankedRun:
        """Its values by path: of the calls in a trace, the outputs of modules."""
        if self.trace.calls:
            return replace(self.ranked, trace=module_outputs(self.trace))
        return self.ranked


def _check_kinds(one: _Run, other: _Run) -> None:
    """Refuse to compare a trace with a recorded run, unless both have variables."""
    if one.kind == other.kind or not one.trace.events or not other.trace.events:
        return
    if one.trace.variables() and other.trace.variables():
        return
    raise SubjectError(
        f"{one.name} is a {one.kind} and {other.name} is a {other.kind}: compare two traces, or two recorded runs"
    )


def _tell_missing(run: _Run) -> None:
    missing = run.trace.missing
    if missing is not None:
        tell(f"{run.name} lacks {missing.events:,} events for which there was no memory: only the rest is compared")


def _ranked(subject: Subject) -> tuple[RankedRun, str]:
    """The values or calls of a run, and what it was before."""
    if isinstance(subject, Trace):
        return _one_process(subject), "trace"
    if isinstance(subject, (list, tuple)):
        return ranked_traces([_trace_of_rank(item) for item in subject]), "trace"
    if isinstance(subject, (str, os.PathLike)):
        with ExitStack() as files:
            return _ranked(_opened(subject, files))
    # h5py takes a tenth of a second to import, and who has a run has it already.
    from insitu.store.run.run import Run

    if isinstance(subject, Run):
        return run_values(subject), RECORDED
    raise SubjectError(
        f"compare() takes traces, runs or files of them, not {brief(subject)}: compare(trace, 'before.h5')"
    )


def _one_process(trace: Trace) -> RankedRun:
    """A trace is that of one process, even if others ran beside it: ranks are joined only if all are passed."""
    return RankedRun(trace, 1, (0,))


def _trace_of_rank(subject: Subject) -> Trace:
    """The trace of one rank, in a list of those of all ranks."""
    ranked, kind = _ranked(subject)
    if kind == "trace" and ranked.world_size == 1:
        return ranked.trace
    raise SubjectError(
        f"a list has the traces of all ranks, and {brief(subject)} is not a trace of one rank:"
        " compare(trace, [rank_0, rank_1])"
    )


def _opened(subject: Subject, files: ExitStack) -> Subject:
    """A trace, the traces of all ranks, or a run, which stays open as long as `files`."""
    if not isinstance(subject, (str, os.PathLike)):
        return subject
    from insitu import store

    is_there = store.holds_shards(subject) or os.path.exists(subject)
    if not is_there and (of_ranks := files_of_ranks(os.fspath(subject))):
        return of_ranks
    found = store.load(subject)
    if isinstance(found, Trace):
        return found
    return files.enter_context(found)


def _narrowed(
    a: Subject, b: Subject, rename: Mapping[str, str] | None, tolerance: Tolerance
) -> tuple[_Run, _Run] | None:
    """The values at which two recorded runs are compared, if they have equal numbers of ranks and one is large."""
    if isinstance(a, (Trace, list, tuple)) or isinstance(b, (Trace, list, tuple)):
        return None
    from insitu.store.run.run import Run
    from insitu.verbs.large_runs import LargeComparison, is_large

    are_alike = isinstance(a, Run) and isinstance(b, Run) and a.world_size == b.world_size
    if not are_alike or not (is_large(a) or is_large(b)):
        return None
    traces = LargeComparison(a, b, rename, tolerance).traces()
    first, second = (
        RankedRun(trace, run.world_size, tuple(run.ranks)) for run, trace in zip((a, b), traces, strict=True)
    )
    return _Run("a", first, RECORDED), _Run("b", second, RECORDED)


def _labels(a: Subject, b: Subject) -> tuple[str, str]:
    """The labels of the two runs: the names of the files, or their paths if the names are the same."""
    if not all(isinstance(subject, (str, os.PathLike)) for subject in (a, b)):
        return ("a", "b")
    names = Path(a).name, Path(b).name
    if names[0] != names[1]:
        return names
    return (str(a), str(b))


def run_values(run: Run) -> RankedRun:
    """A recorded run as a trace, with the layouts that its ranks recorded."""
    layouts = {}
    if run.world_size > 1:
        layouts = dict(_layouts(run))
    return RankedRun(run_trace(run), run.world_size, tuple(run.ranks), layouts)


def _layouts(run: Run) -> Iterator[tuple[tuple[str, int], PartLayout]]:
    """Where the parts that the ranks recorded belong, by path and rank."""
    from insitu.store.journal.run_shards import facts_of_rank

    facts = {path: _series(run, path).facts for path in run.paths}
    for path, rank in product(facts, run.ranks):
        layout = layout_of(path, rank, facts_of_rank(facts[path], rank))
        if layout is not None:
            yield (path, rank), layout


def _series(run: Run, path: str) -> Series:
    """The series with this name; `run[path]` would warn about values of another dtype."""
    (series,) = (found for found in run.find(path) if found.name == path)
    return series


def run_trace(run: Run) -> Trace:
    """A recorded run as a trace: each value of a path is a variable at its step, as the last attempt recorded it."""
    found = [item for order, path in enumerate(run.paths) for item in _values(run, path, order)]
    found.sort(key=lambda item: item[0])
    events: list[Event] = []
    for number, (_, variable) in enumerate(found):
        variable.id = number
        events.append(variable)
    return Trace(events, about=run.about)


def _values(run: Run, path: str, order: int) -> Iterator[tuple[tuple[int, ...], Variable]]:
    """The values of a path with the place of each in the run; paths are listed in the order they were seen."""
    series = _series(run, path).latest()
    values = series if series.dtype == "json" else series.values
    columns = zip(series.steps.tolist(), series.ranks.tolist(), series.calls.tolist(), values, strict=True)
    site = run_site(series)
    for step, rank, call, value in columns:
        held = value if series.dtype == "json" else _facts(series, value)
        yield (step, rank, call, order), Variable(0, None, path, held, ("values",), site, 0, 0, step, rank)


def _facts(series: Series, value: Any) -> TensorFacts:
    return TensorFacts(0, tuple(value.shape), dtype_named(series.dtype).short, "cpu", kept=value)
