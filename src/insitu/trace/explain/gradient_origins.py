"""Where autograd lost, freed or missed something: origins that only concern backward passes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from insitu.trace.explain.assignments import assignment_sites, return_sites
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
    node = history.backward_node(failure.at) if failure.at is not None else None
    maker = history.maker(node, failure.end) if node is not None else None
    yield from _at(OriginKind.BACKWARD_OF, history.site(maker))


def _at(kind: OriginKind, site: ExpressionSite | None, name: str = "") -> list[Origin]:
    if site is not None:
        return [Origin(kind, site, name)]
    return []


def _lost(failure: Failure, case: Case) -> Iterator[Origin]:
    """The call behind a loss that cuts the graph; else the sites that produced values without a gradient."""
    if case.first is None:
        return
    history, ends = failure.history, list[Origin]()
    for at in _producers(history, case.first.tensor):
        site = history.site(at)
        tensors = _tensor_inputs(history, at)
        if site is not None and any(history.plain(item).requires_grad for item in tensors):
            yield Origin(OriginKind.GRADIENT_LOST, site)
            return
        ends = _ends_at(history, at, site, tensors, ends)
    yield from ends[:MOST_ENDS]


def _ends_at(
    history: FailureHistory, at: int, site: ExpressionSite | None, tensors: list[TensorToken], ends: list[Origin]
) -> list[Origin]:
    """The ends of the graph found so far, with those at one call: assignments of arrays and other unrecorded values
    first."""
    unrecorded = [item for item in tensors if history.producer(item) is None]
    assigned = [origin for item in unrecorded for origin in _assigned_without_gradient(history, at, item)]
    is_end = len(unrecorded) == len(tensors) and not assigned
    here = _at(OriginKind.NO_GRADIENT_PRODUCED, site) if is_end else []
    return [*assigned, *ends, *here]


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


def _assigned_without_gradient(history: FailureHistory, at: int, tensor: TensorToken) -> list[Origin]:
    """The assignment of a tensor that no recorded call produced: it comes from NumPy, mostly."""
    site, name = history.site(at), history.name_in(at, tensor)
    sites = assignment_sites(site.file, site.line, name)[:1] if site is not None else []
    return [Origin(OriginKind.NO_GRADIENT_ASSIGNED, each, name) for each in sites]


def _earlier_backward(failure: Failure, case: Case) -> Iterator[Origin]:
    """The last backward pass before this one: it has freed the graph."""
    history, found = failure.history, None
    for at in history.before(failure.end):
        if history.callee_facts(at).runs_backward and _frees_graph(history, at):
            found = at
    yield from _at(OriginKind.GRAPH_FREED, history.site(found))


def _frees_graph(history: FailureHistory, at: int) -> bool:
    return history.kwargs(at).get("retain_graph") is not True and not history.has_raised(at)


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
    loss = case.first.tensor if case.first is not None else None
    code = failure.live.custom_backward(loss, function)
    if code is not None:
        sites = return_sites(code.co_filename, code.co_firstlineno + 1, int(found["index"]))
        yield from (Origin(OriginKind.CUSTOM_GRADIENT, site, function.removesuffix("Backward")) for site in sites)


# What to look for, by the words of the error.
FINDERS: dict[str, Callable[[Failure, Case], Iterator[Origin]]] = {
    NO_GRAPH: _lost,
    SECOND_BACKWARD: _earlier_backward,
    CHANGED_IN_PLACE: _changed_in_place,
    "returned an invalid gradient": _custom_gradient,
}
