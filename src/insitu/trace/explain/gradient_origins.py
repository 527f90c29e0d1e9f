"""Where autograd lost, freed or missed something: origins that only concern backward passes."""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice

from insitu.trace.explain.assignments import assignment_sites, return_sites
from insitu.trace.explain.call_stack import stack_of
from insitu.trace.explain.carried import PARAMETER, carried_origins
from insitu.trace.explain.case import Case
from insitu.trace.explain.explanation import ExpressionSite, Origin, OriginKind
from insitu.trace.explain.expressions import line_at
from insitu.trace.explain.failure import Failure
from insitu.trace.explain.failure_history import FailureHistory, TensorToken, site_of
from insitu.trace.explain.messages import CHANGED_IN_PLACE, INVALID_GRADIENT, NO_GRAPH, SECOND_BACKWARD
from insitu.trace.explain.switched_off import left_off_sites, switch_site
from insitu.trace.explain.value_origins import origins_of, value_origins

MOST_ENDS = 3  # of a graph that never had a gradient
MOST_NUMBERS = 2  # that left the graph
MOST_CUTS = 8  # that are looked at
MOST_FROZEN = 8  # parameters that are looked at
MOST_CALLS = 2000  # behind a loss
# Calls that cut the graph by themselves.
CUTTING = frozenset(("detach", "detach_", "numpy", "item", "tolist", "data", "argmax", "round", "sign", "long", "int"))
FREEZING = frozenset(("requires_grad", "requires_grad_", "requires_grad="))


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
    """The calls behind a loss that cut the graph, and those that froze parameters.

    Without any, the sites that produced values without a gradient.
    """
    if case.first is None:
        return
    graph = _walk_graph(failure.history, case.first.tensor)
    cuts = list(chain.from_iterable(_cut(failure.history, at) for at in graph.cuts[:MOST_CUTS]))
    frozen = list(chain.from_iterable(_frozen(failure.history, at) for at in graph.freezes[:MOST_FROZEN]))
    yield from _each_site_once(cuts)[:MOST_ENDS]
    yield from _each_site_once(frozen)
    if not cuts and not frozen:
        yield from graph.ends[:MOST_ENDS]
        yield from _numbers_of_graph(failure)


def _numbers_of_graph(failure: Failure) -> list[Origin]:
    """The last calls that turned a tensor with a gradient into Python numbers, in a loss of plain numbers."""
    history, found = failure.history, list[Origin]()
    for at in islice(reversed(list(history.before(failure.end))), MOST_CALLS):
        if history.operation(at).family == "number" and _takes_gradient(history, at):
            name = history.name_in(at, _tensor_inputs(history, at)[0])
            found = _each_site_once([*found, Origin(OriginKind.NUMBER, history.site(at), name)])
        if len(found) == MOST_NUMBERS:
            break
    return found


def _each_site_once(origins: list[Origin]) -> list[Origin]:
    by_site = {origin.site: origin for origin in reversed(origins)}
    return list(reversed(by_site.values()))


@dataclass(slots=True, frozen=True)
class GraphBehind:
    """What the walk behind a loss without a gradient found, the nearest first.

    `cuts` are calls that take a gradient and return none, `freezes` those that froze a parameter, `ends` the places
    where values without a gradient were produced.
    """

    cuts: list[int]
    freezes: list[int]
    ends: list[Origin]


def _walk_graph(history: FailureHistory, tensor: TensorToken) -> GraphBehind:
    cuts, freezes, ends = list[int](), list[int](), list[Origin]()
    for at in islice(_producers(history, tensor, before_gradient=True), MOST_CALLS):
        if history.on_line(at) is None:
            continue
        if not _takes_gradient(history, at):
            ends = _ends_at(history, at, ends) if len(ends) < MOST_ENDS else ends
        elif history.operation(at).base in FREEZING:
            freezes.append(at)
        else:
            cuts.append(at)
    return GraphBehind(cuts, freezes, ends)


def _cut(history: FailureHistory, at: int) -> Iterator[Origin]:
    """Where the graph was cut: the code around that switched gradients off, and the call itself."""
    switch = switch_site(history, at)
    if switch is not None:
        yield Origin(OriginKind.GRADIENT_OFF, switch)
    elif history.operation(at).base not in CUTTING:
        sites = list(left_off_sites(history, at))
        kind = OriginKind.GRADIENT_OFF if len(sites) == 1 else OriginKind.GRADIENT_LEFT_OFF
        yield from (Origin(kind, site) for site in sites)
    yield from _at(OriginKind.GRADIENT_LOST, history.site(at))


def _frozen(history: FailureHistory, at: int) -> Iterator[Origin]:
    """Where a parameter was frozen, and the loop that froze it with others."""
    line = history.on_line(at)
    if line is None:
        return
    node = history.expression(line).node
    is_parameter = any(history.plain(item).type == PARAMETER for item in _tensor_inputs(history, at))
    yield Origin(OriginKind.FROZEN, history.site(line), "parameters" if is_parameter else "gradient")
    owner, stack = _owner(node), stack_of(history, line)
    if owner is not None:
        yield from islice(origins_of(history, stack, [owner]), 1)
    for caller in stack[1:2]:
        yield Origin(OriginKind.FROZEN, site_of(caller.code, caller.lasti), "by the call")


def _owner(node: ast.AST) -> ast.Name | None:
    """The name that an expression begins with: `module` in `module.weight.requires_grad_(False)`."""
    if isinstance(node, ast.Assign):
        node = node.targets[0]
    while isinstance(node, (ast.Attribute, ast.Call, ast.Subscript)):
        node = node.func if isinstance(node, ast.Call) else node.value
    if isinstance(node, ast.Name):
        return node
    return None


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
    return [*ends, *_at(OriginKind.NO_GRADIENT_PRODUCED, history.site(at)), *_numbers_that_left(history, at)]


def _numbers_that_left(history: FailureHistory, at: int) -> list[Origin]:
    """Where the Python numbers of a new tensor come from; those that left the graph (`item`, `numpy`) say so."""
    found = []
    for origin in value_origins(history, at):
        is_cut = origin.site is not None and _leaves_graph(history, origin.site, at)
        found.append(replace(origin, kind=OriginKind.GRADIENT_LOST, name="") if is_cut else origin)
    return found


def _leaves_graph(history: FailureHistory, site: ExpressionSite, end: int) -> bool:
    """Whether a call on the line of a site took a gradient and returned none."""
    for at in islice(reversed(list(history.before(end))), MOST_CALLS):
        frame = history.frame(at)
        is_there = frame is not None and (frame[0].co_filename, line_at(*frame)) == (site.file, site.line)
        if is_there and _takes_gradient(history, at) and not _returns_gradient(history, at):
            return True
    return False


def _returns_gradient(history: FailureHistory, at: int) -> bool:
    tokens = history.tensors(history.result(at))
    return any(history.plain(item).requires_grad for item in tokens if not history.is_array(item))


def _producers(history: FailureHistory, tensor: TensorToken, *, before_gradient: bool = False) -> Iterator[int]:
    """The calls behind a tensor, the nearest first; with `before_gradient`, not those behind a call that takes one."""
    seen: set[int] = set()
    waiting = deque([tensor])
    while waiting:
        at = history.producer(waiting.popleft())
        if at is None or at in seen:
            continue
        seen.add(at)
        yield at
        is_end = before_gradient and _takes_gradient(history, at)
        if not is_end:
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
    if change.handed_out is not None:
        yield Origin(OriginKind.HANDED_OUT, history.site(change.handed_out))


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
