"""What a guard checks in the backward pass: that no autograd node makes NaN or Inf of finite gradients.

A function that needs a gradient has made autograd nodes, mostly one. Each gets a hook that looks at what leaves it; of
the several nodes of one function only what leaves all of them counts. A node is found again by its number, so a hook
holds neither a tensor nor the place of the call, and is nothing once the guard has ended.
"""

from __future__ import annotations

from collections.abc import Container
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING, Any

from torch import Tensor
from torch.autograd.function import BackwardCFunction

from insitu.capture.guard.gradient import gradient_cause
from insitu.capture.guard.values import FINITE, State, careful_total, state_of, tensors_in, total
from insitu.capture.modes import skip_when_compiling
from insitu.capture.torch_internals import (
    DisableTorchFunction,
    function_stack_length,
    next_node_number,
    node_number,
    transform_interpreter,
)
from insitu.trace.findings import Finding

if TYPE_CHECKING:
    from insitu.capture.guard.check import Check

Gradients = tuple[Tensor | None, ...]
PATIENCE = 64  # calls after which nodes that nobody uses are forgotten
MOST_UNSEEN = 1024


class Nodes:
    """The nodes that the calls of one probe make; `next` is the number of the next one.

    Numbers that no call has made, `unseen`, are of nodes that torch made for somebody else: a hand-written autograd
    function, a compiled region. They get their hooks when a call uses what they made.
    """

    def __init__(self, check: Check) -> None:
        self._check = check
        self.next = next_node_number()
        self.unseen: set[int] = set()
        self._patience = 0
        self._spoiled: dict[int, State] = {}
        self._bad = False
        self._entered = 0  # how often the function mode was switched on for code of the user

    def add(self, result: Tensor, first: int, made: int) -> None:
        """A call has made nodes, and returned one tensor."""
        node = result.grad_fn
        if made > 1 or node is None:
            self.add_all([result], first, made)
        elif node_number(node) == first:
            node.register_hook(self.leaving)

    def add_all(self, results: list[Tensor], first: int, made: int) -> None:
        """A call has made nodes, and returned several tensors, or made several nodes for one."""
        if transform_interpreter() is not None:
            return
        end = first + made
        roots = [tensor.grad_fn for tensor in results]
        waiting: list[Any] = [node for node in roots if node is not None and first <= node_number(node) < end]
        for node in dict.fromkeys(waiting):
            node.register_prehook(partial(self._entering_group, first))
        met: set[int] = set()
        while waiting:
            node = waiting.pop()
            number = node_number(node)
            if number in met:
                continue
            met.add(number)
            following = [other for other, _ in node.next_functions]
            inside = [other is not None and first <= node_number(other) < end for other in following]
            waiting += [other for other, is_inside in zip(following, inside, strict=True) if is_inside]
            if not all(inside):
                node.register_hook(partial(self._leaving_group, first, inside))

    def add_unlikely(self, at: int, results: list[Tensor]) -> None:
        """A call whose gradients are not checked otherwise has got an infinity: 0 * inf is NaN."""
        tape = self._check.probe.tape
        nodes = tape.nodes(at)
        if nodes and not self._check.has_hooks(tape.callee(at)):
            self.add_all(results, nodes.start, len(nodes))

    def find_unseen(self, number: int, args: Any, kwargs: Any) -> None:
        """A call begins at this number: look whether it uses what unseen nodes made."""
        if number != self.next:
            if 0 < number - self.next < MOST_UNSEEN:
                self.unseen.update(range(self.next, number))
            self.next, self._patience = number, PATIENCE
        node: Any
        with DisableTorchFunction():
            roots = [tensor.grad_fn for tensor in (*tensors_in(args), *tensors_in(kwargs))]
        for node in nodes_in(self.unseen, roots):
            self.unseen.discard(node_number(node))
            node.register_hook(self.leaving)
            if not node.name().startswith("CompiledFunction") and isinstance(node, BackwardCFunction):
                self._check.checks.enters = True
                node.register_prehook(self._enter_mode)
                node.register_hook(self._leave_mode)
        self._patience -= 1
        if self._patience < 0:
            self.unseen.clear()

    def leaving(self, inputs: Gradients, outputs: Gradients) -> None:
        """A node has run: look at what it made of the gradients (autograd calls its inputs what comes out)."""
        if self._check.probe.over:
            return
        entered = outputs[0] if outputs else None  # an addition passes it on as it is
        look = careful_total if function_stack_length() else total
        try:
            for grad in inputs:
                if grad is not None and grad is not entered and not isfinite(look(grad)):
                    break
            else:
                return
        except Exception as error:
            self._check.probe.trouble("checking a gradient", error)
            return
        self._check.tell(self._judge, inputs, outputs, None)

    def _entering_group(self, first: int, outputs: Gradients) -> None:
        """The first of several nodes of one call is about to run."""
        if self._check.probe.over:
            return
        try:
            if not are_finite(outputs):
                self._spoiled[first] = union(outputs)
        except Exception as error:
            self._check.probe.trouble("checking a gradient", error)

    def _leaving_group(self, first: int, inside: list[bool], inputs: Gradients, outputs: Gradients) -> None:
        """One of several nodes of one call has run: look at what leaves them all."""
        if self._check.probe.over:
            return
        try:
            left = tuple(grad for grad, is_inside in zip(inputs, inside, strict=False) if not is_inside)
            if are_finite(left):
                return
        except Exception as error:
            self._check.probe.trouble("checking a gradient", error)
            return
        self._check.tell(self._judge, left, outputs, self._spoiled.get(first, FINITE))

    def _judge(self, left: Gradients, outputs: Gradients, entered: State | None) -> Finding | None:
        """Whether what left a node is news; `entered` is what came into the call, which has more nodes."""
        found = union(left)
        if entered is None:
            entered = union(outputs)
        was_bad, self._bad = self._bad, self._bad or bool(found)
        if not found:
            return None
        given = bool(entered) and not (found.nan and not entered.nan)
        if given and was_bad:
            return None
        if self._check.checks.is_scaled and not (found.nan and not entered):
            return None
        bad = next(grad for grad in left if grad is not None and state_of(grad))
        return gradient_cause(self._check, bad, given=given, entered=entered)

    def _enter_mode(self, outputs: Gradients) -> None:
        """The user's own code is about to run, inside a function of torch, where the mode is off."""
        probe = self._check.probe
        if not probe.over and probe.backward and probe.modes.function is not None:
            probe.modes.function.enter()
            self._entered += 1

    def _leave_mode(self, inputs: Gradients, outputs: Gradients) -> None:
        if self._entered and self._check.probe.modes.function is not None:
            self._check.probe.modes.function.remove()
            self._entered -= 1

    def spoil(self) -> None:
        """A hook of the user has made what is not finite: what follows in this pass is no news."""
        self._bad = True

    def end(self) -> None:
        """A backward pass has ended, by an exception or not."""
        while self._entered:
            self._leave_mode((), ())
        self._spoiled.clear()
        self._bad = False


def nodes_in(numbers: Container[int], roots: list[Any]) -> list[Any]:
    """The nodes with these numbers that can be reached from some, through such nodes only."""
    found: dict[int, Any] = {}
    waiting = list(roots)
    while waiting:
        node = waiting.pop()
        number = node_number(node) if node is not None else -1
        if number in numbers and number not in found:
            found[number] = node
            waiting += [other for other, _ in node.next_functions]
    return list(found.values())


def are_finite(gradients: Gradients) -> bool:
    """Whether the sums of all gradients are finite."""
    look = careful_total if function_stack_length() else total
    return all(grad is None or isfinite(look(grad)) for grad in gradients)


def union(gradients: Gradients) -> State:
    """What is not finite in any of the gradients."""
    states = [state_of(grad) for grad in gradients if grad is not None]
    return State(*(any(each) for each in zip(*states, strict=True))) if states else FINITE


skip_when_compiling(Nodes.leaving, Nodes._entering_group, Nodes._leaving_group, Nodes._enter_mode, Nodes._leave_mode)
skip_when_compiling(are_finite, union)
