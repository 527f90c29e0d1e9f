"""Tensors that are carried over: produced before a backward pass has freed the graph, and read after it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter

from insitu.trace.explain.explanation import Origin, OriginKind
from insitu.trace.explain.failure_history import FailureHistory, TensorToken
from insitu.trace.explain.storage_sites import storage_site

PARAMETER = "Parameter"


@dataclass(slots=True, frozen=True)
class CarriedTensor:
    """A tensor with a graph, the call that produced it, and the first call after the backward pass that reads it."""

    tensor: TensorToken
    produced_by: int
    read_by: int


def carried_origins(history: FailureHistory, calls: Iterable[int], freed_by: int) -> Iterator[Origin]:
    """Where the tensor that is carried over was produced, and where it is read first.

    `calls` are those behind the loss.
    """
    carried = min(_carried(history, calls, freed_by), key=attrgetter("read_by"), default=None)
    if carried is None:
        return
    name, facts = history.name_in(carried.read_by, carried.tensor), history.plain(carried.tensor)
    produced, read = history.site(carried.produced_by), history.site(carried.read_by)
    if produced is not None:
        yield Origin(OriginKind.CARRIED, produced, name, tensors=(facts,))
    stored = storage_site(history, carried.produced_by)
    is_elsewhere = produced is None or stored is None or (stored.file, stored.line) != (produced.file, produced.line)
    if stored is not None and is_elsewhere:
        yield Origin(OriginKind.STORED, stored, name)
    if read is not None:
        yield Origin(OriginKind.READ_LATER, read, name)


def _carried(history: FailureHistory, calls: Iterable[int], freed_by: int) -> Iterator[CarriedTensor]:
    """The tensors with a graph that go from before the backward pass to after it."""
    for at in calls:
        if at < freed_by:
            continue
        for tensor in history.inputs(at):
            producer = history.producer(tensor)
            if producer is None or producer > freed_by:
                continue
            if _has_graph(history, tensor):
                yield CarriedTensor(tensor, producer, at)


def _has_graph(history: FailureHistory, tensor: TensorToken) -> bool:
    """Whether a tensor is a result that a backward pass goes through; a parameter is where it ends."""
    if history.is_array(tensor):
        return False
    facts = history.plain(tensor)
    return bool(facts.requires_grad) and facts.type != PARAMETER
