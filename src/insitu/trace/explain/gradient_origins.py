"""Where autograd lost, freed or missed something: origins that only concern backward passes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

from insitu.trace.explain.assignments import assignment_sites, return_sites
from insitu.trace.explain.carried import carried_origins
from insitu.trace.explain.case import Case
from insitu.trace.explain.explanation import ExpressionSite, Origin, OriginKind
from insitu.trace.explain.failure import Failure
from insitu.trace.explain.failure_history import FailureHistory, TensorToken
from insitu.trace.explain.messages import CHANGED_IN_PLACE, INVALID_GRADIENT, NO_GRAPH, SECOND_BACKWARD

MOST_ENDS = 3  # of a graph that never had a gradient


def autograd_origins(failure: Failure, case: Case) -> Iterator[Origin]:
    """The forward call whose gradient failed, and what the kind of the error asks for."""
    yield from _forward(failure)
    for words, find in FINDERS.items():
        if words in failure.message:
            yield from find(failure, case)
            return


def _forward(failure: Failure) -> Iterator[Origin]:
    """The call whose gradient an operator of the backward pass was computing."""
    history = failure.history
    if failure.at is None:
        return
    node = history.backward_node(failure.at)
    if node is None:
        return
    maker = history.maker(node, failure.end)
    yield from _at(OriginKind.BACKWARD_OF, history.site(maker))


def _at(kind: OriginKind, site: ExpressionSite | None) -> list[Origin]:
    if site is None:
        return []
    return [Origin(kind, site)]


def _lost_gradient(failure: Failure, case: Case) -> Iterator[Origin]:
    """The call behind a loss that cuts the graph; else the sites that produced values without a gradient."""
    if case.first is None:
        return
    history, ends = failure.history, list[Origin]()
    for at in _producers(history, case.first.tensor):
        site = history.site(at)
        if site is not None and _takes_gradient(history, at):
            yield Origin(OriginKind.GRADIENT_LOST, site)
            return
        ends = _ends_at(history, at, ends)
    yield from ends[:MOST_ENDS]


def _takes_gradient(history: FailureHistory, at: int) -> bool:
    return any(history.plain(item).requires_grad for item in _tensor_inputs(history, at))


def _ends_at(history: FailureHistory, at: int, ends: list[Origin]) -> list[Origin]:
    """The ends of the graph so far, with those at one call: assignments of values that no call produced come first."""
    tensors = _tensor_inputs(history, at)
    unrecorded = [item for item in tensors if history.producer(item) is None]
    assigned = list(chain.from_iterable(_assignments_without_gradient(history, at, item) for item in unrecorded))
    if assigned:
        return [*assigned, *ends]
    if len(unrecorded) < len(tensors):
        return ends
    return [*ends, *_at(OriginKind.NO_GRADIENT_PRODUCED, history.site(at))]


def _producers(history: FailureHistory, tensor: TensorToken) -> Iterator[int]:
    """The calls behind a tensor, the nearest first."""
    seen: set[int] = set()
    waiting = [tensor]
    while waiting:
        at = history.producer(waiting.pop(0))
        if at is not None and at not in seen:
            seen.add(at)
            yield at
            waiting += _tensor_inputs(history, at)


def _tensor_inputs(history: FailureHistory, at: int) -> list[TensorToken]:
    return [item for item in history.inputs(at) if not history.is_array(item)]


def _assignments_without_gradient(history: FailureHistory, at: int, tensor: TensorToken) -> list[Origin]:
    """The assignment of a tensor that no recorded call produced: mostly, the tensor comes from NumPy."""
    name = history.name_in(at, tensor)
    sites = assignment_sites(history.site(at), name)
    return [Origin(OriginKind.NO_GRADIENT_ASSIGNED, each, name) for each in sites[:1]]


def _earlier_backward(failure: Failure, case: Case) -> Iterator[Origin]:
    """The last backward pass before this one, which has freed the graph, and the tensor that leads into it."""
    history, found = failure.history, None
    for at in history.before(failure.end):
        if _frees_graph(history, at):
            found = at
    yield from _at(OriginKind.GRAPH_FREED, history.site(found))
    if found is not None and case.first is not None:
        yield from carried_origins(history, _producers(history, case.first.tensor), found)


def _frees_graph(history: FailureHistory, at: int) -> bool:
    if not history.callee_facts(at).runs_backward or history.has_raised(at):
        return False
    return history.kwargs(at).get("retain_graph") is not True


def _changed_in_place(failure: Failure, case: Case) -> Iterator[Origin]:
    """The call that changed a tensor in place, and the call that needs the tensor for its gradient."""
    change, history = case.change, failure.history
    if change is None:
        return
    if change.changed_by is not None:
        yield Origin(OriginKind.CHANGED_IN_PLACE, history.site(change.changed_by))
    yield Origin(OriginKind.NEEDED_FOR_GRADIENT, history.site(change.needed_by))


def _custom_gradient(failure: Failure, case: Case) -> Iterator[Origin]:
    """What the `backward` of a custom function returns, where the gradient is wrong."""
    found = INVALID_GRADIENT.search(failure.message)
    if found is None:
        return
    function = found["function"]
    loss = None if case.first is None else case.first.tensor
    code = failure.live.custom_backward(loss, function)
    if code is None:
        return
    for site in return_sites(code.co_filename, code.co_firstlineno + 1, int(found["index"])):
        yield Origin(OriginKind.CUSTOM_GRADIENT, site, function.removesuffix("Backward"))


# What to look for, by the words of the error.
FINDERS: dict[str, Callable[[Failure, Case], Iterator[Origin]]] = {
    NO_GRAPH: _lost_gradient,
    SECOND_BACKWARD: _earlier_backward,
    CHANGED_IN_PLACE: _changed_in_place,
    "returned an invalid gradient": _custom_gradient,
}
