"""What a guard checks in the backward pass: that no autograd node produces NaN or Inf from finite gradients.

A function that needs a gradient creates autograd nodes, mostly one. Each gets a hook that looks at the gradients that
leave it; where one function has several nodes, only the gradients that leave all of them count. A node is found again
by its number, so a hook holds neither a tensor nor the place of the call, and does nothing once the guard has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING, Any

from torch import Tensor
from torch.autograd.function import BackwardCFunction

from insitu.capture.containers import tensors_in
from insitu.capture.finite import careful_total, finiteness_of, is_finite, total
from insitu.capture.guard.gradient import backward_finding, gradient_finding
from insitu.capture.guard.risk import has_hooks
from insitu.capture.modes import skip_when_compiling
from insitu.capture.torch_internals import (
    DisableTorchFunction,
    current_node,
    function_stack_length,
    next_node_number,
    node_number,
    transform_interpreter,
)
from insitu.trace.findings import Finding
from insitu.trace.origin import FINITE, Finiteness, GradientOrigin, gradient_origin, union

if TYPE_CHECKING:
    from insitu.capture.guard.check import ProbeChecks
    from insitu.capture.guard.finite_marks import FiniteMarks
    from insitu.capture.probe import Probe

Gradients = tuple[Tensor | None, ...]
PATIENCE = 64  # calls after which nodes that nobody uses are forgotten
MOST_UNSEEN = 1024


class Nodes:
    """The nodes that the calls of one probe create; `next` is the number of the next one.

    Numbers that no call accounts for, `unseen`, belong to nodes that torch created for somebody else: a hand-written
    autograd function, a compiled region. They get their hooks when a call uses their results.
    """

    def __init__(self, check: ProbeChecks) -> None:
        self._check = check
        self.next = next_node_number()
        self.unseen: set[int] = set()
        self._patience = 0
        self._incoming: dict[int, Finiteness] = {}  # of calls with several nodes, by the number of the first
        self._is_spoiled = False  # whether this backward pass met NaN or Inf
        self._user_code = UserCode(check.probe)

    def add(self, result: Tensor, first: int, count: int) -> None:
        """Look at the nodes of a call that returned one tensor."""
        node = result.grad_fn
        if count > 1 or node is None:
            self.add_all([result], first, count)
        elif node_number(node) == first:
            node.register_hook(self.leaving)

    def add_all(self, results: list[Tensor], first: int, count: int) -> None:
        """Look at the nodes of a call that returned several tensors, or created several nodes for one."""
        if transform_interpreter() is not None:
            return
        numbers = range(first, first + count)
        roots = {tensor.grad_fn: None for tensor in results}  # each once, in their order
        nodes = nodes_in(numbers, list(roots))
        for node in nodes:
            if node in roots:
                node.register_prehook(partial(self._entering_group, first))
        for node in nodes:
            inside = [number_of(other) in numbers for other, _ in node.next_functions]
            if not all(inside):
                node.register_hook(partial(self._leaving_group, first, inside))

    def add_unlikely(self, at: int, results: list[Tensor]) -> None:
        """Look at the nodes of a call that are not checked otherwise: it got an infinity, and 0 * inf is NaN."""
        tape = self._check.probe.tape
        nodes = tape.nodes(at)
        if nodes and not has_hooks(tape.callee(at)):
            self.add_all(results, nodes.start, len(nodes))

    def find_unseen(self, number: int, args: Any, kwargs: Any) -> None:
        """A call begins at this number: look whether it uses results of unseen nodes."""
        if number != self.next:
            self._skip_to(number)
        if not self.unseen:
            return
        with DisableTorchFunction():
            roots = [tensor.grad_fn for tensor in tensors_in((args, kwargs))]
        for node in nodes_in(self.unseen, roots):
            self._add_unseen(node)
        self._patience -= 1
        if self._patience < 0:
            self.unseen.clear()

    def _skip_to(self, number: int) -> None:
        """The next number is another one: remember those in between, unless there are too many."""
        skipped = range(self.next, number)
        if len(skipped) < MOST_UNSEEN:
            self.unseen.update(skipped)
        self.next, self._patience = number, PATIENCE

    def _add_unseen(self, node: Any) -> None:
        """A call uses the result of an unseen node: look at the node."""
        self.unseen.discard(node_number(node))
        node.register_hook(self.leaving)
        if runs_user_code(node):
            self._check.checks.runs_user_code = True
            node.register_prehook(self._user_code.enter)
            node.register_hook(self._user_code.leave)

    def leaving(self, inputs: Gradients, outputs: Gradients) -> None:
        """A node has run: look at the gradients that leave it. Autograd calls them its inputs."""
        if self._check.probe.over:
            return
        if self._is_marked(inputs):
            self._mark(lambda marks: marks.see_node(current_node(), inputs, outputs))
            return
        incoming = outputs[0] if outputs else None  # an addition passes it on as it is
        look = careful_total if function_stack_length() else total
        try:
            for grad in inputs:
                if grad is not None and grad is not incoming and not isfinite(look(grad)):
                    break
            else:
                return
        except Exception as error:
            self._check.probe.trouble("checking a gradient", error)
            return
        self._check.tell(self._finding, inputs, lambda: contents(outputs))

    def _entering_group(self, first: int, outputs: Gradients) -> None:
        """The first of several nodes of one call is about to run."""
        if self._check.probe.over:
            return
        if self._is_marked(outputs):
            self._mark(lambda marks: marks.see_group_begin(first, outputs))
            return
        try:
            if not are_finite(outputs):
                self._incoming[first] = contents(outputs)
        except Exception as error:
            self._check.probe.trouble("checking a gradient", error)

    def _leaving_group(self, first: int, inside: list[bool], inputs: Gradients, outputs: Gradients) -> None:
        """One of several nodes of one call has run: look at the gradients that leave them all."""
        if self._check.probe.over:
            return
        outgoing = tuple(grad for grad, is_inside in zip(inputs, inside, strict=False) if not is_inside)
        if self._is_marked(outgoing):
            self._mark(lambda marks: marks.see_group_end(current_node(), first, outgoing))
            return
        try:
            if are_finite(outgoing):
                return
        except Exception as error:
            self._check.probe.trouble("checking a gradient", error)
            return
        self._check.tell(self._finding, outgoing, lambda: self._incoming.get(first, FINITE))

    def _is_marked(self, gradients: Gradients) -> bool:
        """Whether gradients wait on their device."""
        marks = self._check.marks
        return marks is not None and marks.apply_to_one(gradients)

    def _mark(self, mark: Callable[[FiniteMarks], None]) -> None:
        try:
            if self._check.marks is not None:
                mark(self._check.marks)
        except Exception as error:
            self._check.probe.trouble("marking a gradient", error)

    def _finding(self, gradients: Gradients, incoming_of: Callable[[], Finiteness]) -> Finding | None:
        """The finding of gradients that leave the nodes of a call, if it is news."""
        outgoing, incoming = contents(gradients), incoming_of()
        is_known, is_scaled = self._is_spoiled, self._check.checks.is_scaled
        origin = gradient_origin(outgoing, incoming, is_known=is_known, is_scaled=is_scaled)
        self._is_spoiled = self._is_spoiled or not outgoing.is_finite
        if origin is GradientOrigin.KNOWN:
            return None
        written = backward_finding(self._check, self._user_code.since)
        if written is not None:
            return written
        bad = [grad for grad in present(gradients) if not is_finite(grad)]
        return gradient_finding(self._check, bad[0], origin, incoming)

    def spoil(self) -> None:
        """The NaN or Inf of this backward pass was reported: whatever follows from it is not news."""
        self._is_spoiled = True

    def end(self) -> None:
        """A backward pass has ended, by an exception or not."""
        self._user_code.end()
        self._incoming.clear()
        self._is_spoiled = False


class UserCode:
    """Switches the function mode on for code of the user in a backward pass: inside of torch functions it is off.

    `since` is the offset of the first call of the code that runs now; None if none runs.
    """

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._depth = 0
        self.since: int | None = None

    def enter(self, outputs: Gradients) -> None:
        """Code of the user is about to run."""
        mode = self._probe.modes.function
        is_in_backward = self._probe.backward and not self._probe.over
        if is_in_backward and mode is not None:
            mode.enter()
            self._depth += 1
            self.since = len(self._probe.tape)

    def leave(self, inputs: Gradients, outputs: Gradients) -> None:
        """Code of the user has run."""
        mode = self._probe.modes.function
        if self._depth and mode is not None:
            mode.remove()
            self._depth -= 1
        self.since = None

    def end(self) -> None:
        """A backward pass has ended: leave whatever an exception kept from being left."""
        while self._depth:
            self.leave((), ())


def runs_user_code(node: Any) -> bool:
    """Whether the user has written the backward pass of a node."""
    return not node.name().startswith("CompiledFunction") and isinstance(node, BackwardCFunction)


def nodes_in(numbers: Container[int], roots: list[Any]) -> list[Any]:
    """The nodes with these numbers that can be reached from some roots, through such nodes only."""
    found: dict[int, Any] = {}
    waiting = list(roots)
    while waiting:
        node = waiting.pop()
        number = number_of(node)
        if number in numbers and number not in found:
            found[number] = node
            waiting += [other for other, _ in node.next_functions]
    return list(found.values())


def number_of(node: Any) -> int:
    """The number of a node; negative for None."""
    if node is None:
        return -1
    return node_number(node)


def present(gradients: Gradients) -> list[Tensor]:
    """The gradients that there are."""
    return [grad for grad in gradients if grad is not None]


def are_finite(gradients: Gradients) -> bool:
    """Whether the sums of all gradients are finite."""
    look = careful_total if function_stack_length() else total
    return all(map(isfinite, map(look, present(gradients))))


def contents(gradients: Gradients) -> Finiteness:
    """What the gradients contain together that is not finite."""
    return union(map(finiteness_of, present(gradients)))


skip_when_compiling(Nodes.leaving, Nodes._entering_group, Nodes._leaving_group, UserCode.enter, UserCode.leave)
skip_when_compiling(are_finite, contents, present)
