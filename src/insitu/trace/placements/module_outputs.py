"""The outputs of modules in a trace, as values by path: what a trace of one process and one of a rank have in common.

The calls inside of modules differ: a sharded model makes calls for its collectives.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from insitu.errors import RanksError
from insitu.trace.event import Call, Event, Variable
from insitu.trace.placements.whole_run import RankedRun
from insitu.trace.trace import Trace

ROOT = "forward"  # the output of the model itself, as in a recorded run


def module_outputs(trace: Trace) -> Trace:
    """The outputs of modules in forward passes, in the order in which the modules return."""
    calls = sorted(filter(_is_forward, trace.calls), key=_end)
    return Trace(_numbered(chain.from_iterable(map(_outputs, calls))), about=trace.about)


def _is_forward(call: Call) -> bool:
    return call.kind == "module" and call.phase == "forward"


def _end(call: Call) -> tuple[int, int]:
    """When a call returned."""
    return call.step, call.start + (call.duration or 0)


def _outputs(call: Call) -> Iterator[Variable]:
    """The tensors that a module returns, each by its path; of several, with its number."""
    name = call.path or ROOT
    outputs = call.outputs
    for number, facts in enumerate(outputs):
        path = name if len(outputs) == 1 else f"{name}.{number}"
        yield Variable(0, None, path, facts, ("values",), call.site, call.start, 0, call.step, call.rank)


def _numbered(events: Iterable[Event]) -> list[Event]:
    """Events with their numbers, as each trace has them."""
    found = list(events)
    for number, event in enumerate(found):
        event.id = number
    return found


def ranked_traces(traces: Sequence[Trace]) -> RankedRun:
    """The traces of all ranks of a run, as values by path; raises RanksError if they do not belong together."""
    ranks = list(map(_rank, traces))
    world_size = _world_size(traces)
    for rank, times in Counter(ranks).items():
        if times > 1:
            raise RanksError(f"{times} of the {len(traces)} traces are of rank {rank}: pass one trace of each rank")
    if world_size != len(traces):
        raise RanksError(
            f"the traces are of a run of {world_size} ranks, and {len(traces)} were passed, of rank"
            f" {', '.join(map(str, sorted(ranks)))}: pass one trace of each rank"
        )
    events = _numbered(chain.from_iterable([module_outputs(trace).events for trace in traces]))
    return RankedRun(Trace(events, about=traces[0].about), world_size, tuple(sorted(ranks)))


def _rank(trace: Trace) -> int:
    """The rank that made a trace; that of an empty one is not known, and 0."""
    calls = trace.calls
    if calls:
        return calls[0].rank
    return 0


def _world_size(traces: Sequence[Trace]) -> int:
    """How many ranks there were, as the traces say; raises RanksError if they say different things."""
    found = sorted({trace.about.get("world_size", len(traces)) for trace in traces})
    if len(found) > 1:
        raise RanksError(
            f"the traces do not belong together: they are of runs of {' and of '.join(map(str, found))} ranks"
        )
    return int(found[0])
