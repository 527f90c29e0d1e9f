"""The outputs of modules in a trace, as values by path: what a trace of one process and one of a rank have in common.

The calls inside of modules differ: a sharded model makes calls for its collectives.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from insitu.errors import RanksError
from insitu.trace.event import Call, Event, Variable
from insitu.trace.placements.whole_run import RankedRun
from insitu.trace.trace import Trace

ROOT = "forward"  # the output of the model itself, as in a recorded run


def module_outputs(trace: Trace) -> Trace:
    """The outputs of modules in forward passes, in the order in which the modules return."""
    calls = [call for call in trace.calls if call.kind == "module" and call.phase == "forward"]
    calls.sort(key=lambda call: (call.step, _end(call)))
    events: list[Event] = []
    for call in calls:
        for variable in _outputs(call):
            variable.id = len(events)
            events.append(variable)
    return Trace(events, about=trace.about)


def _end(call: Call) -> int:
    return call.start + (call.duration or 0)


def _outputs(call: Call) -> Iterator[Variable]:
    """The tensors that a module returns, each by its path; of several, with its number."""
    name = call.path or ROOT
    outputs = call.outputs
    for number, facts in enumerate(outputs):
        path = name if len(outputs) == 1 else f"{name}.{number}"
        yield Variable(0, None, path, facts, ("values",), call.site, call.start, 0, call.step, call.rank)


def ranked_traces(traces: Sequence[Trace]) -> RankedRun:
    """The traces of all ranks of a run, as values by path; raises RanksError if they do not belong together."""
    by_rank: dict[int, Trace] = {}
    for number, trace in enumerate(traces):
        rank = _rank(trace, number)
        if rank in by_rank:
            raise RanksError(f"two of the {len(traces)} traces are of rank {rank}: pass one trace of each rank")
        by_rank[rank] = trace
    world_size = _world_size(traces)
    if world_size != len(traces):
        raise RanksError(
            f"the traces are of a run of {world_size} ranks, and {len(traces)} were passed, of rank"
            f" {', '.join(map(str, sorted(by_rank)))}: pass one trace of each rank"
        )
    ranks = sorted(by_rank)
    events = [event for rank in ranks for event in module_outputs(by_rank[rank]).events]
    for number, event in enumerate(events):
        event.id = number
    return RankedRun(Trace(events, about=by_rank[ranks[0]].about), world_size, tuple(ranks))


def _rank(trace: Trace, number: int) -> int:
    calls = trace.calls
    if calls:
        return calls[0].rank
    return number


def _world_size(traces: Sequence[Trace]) -> int:
    """How many ranks there were, as the traces say; raises RanksError if they say different things."""
    found = sorted({trace.about["world_size"] for trace in traces if "world_size" in trace.about})
    if len(found) > 1:
        raise RanksError(
            f"the traces do not belong together: they are of runs of {' and of '.join(map(str, found))} ranks"
        )
    if found:
        return int(found[0])
    return len(traces)
