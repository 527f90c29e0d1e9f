"""What a guard does before and after each torch function: the hot path of a guard.

How a function can produce NaN or Inf (`Operation.risk`) decides what is done after it:

    none       the output is not checked; where an input was not checked either, that is remembered
    backward   the same, and in fp16 the autograd nodes are checked
    overflow   the output is checked only where an input was not: so two unchecked calls never follow each other, and it
               is plain which of them is at fault
    division   as overflow for a plain number as divisor, else as any
    any        the output and the autograd nodes are checked

A function that hides NaN and Inf returns finite numbers although an input is not finite: such inputs are checked there.
The handlers may be dense: each is called for each torch function, and a call of a Python function is dear here.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import TYPE_CHECKING, Any

from torch import Tensor, float16

from insitu.capture.calls import FunctionCallee
from insitu.capture.containers import tensors_in
from insitu.capture.finite import careful_total, finiteness_of, total
from insitu.capture.guard.forward import changes, output_finding, unchecked_finding
from insitu.capture.guard.index_range import index_finding
from insitu.capture.guard.loss import loss_finding
from insitu.capture.guard.risk import has_hooks, risk_of
from insitu.capture.modes import skip_when_compiling
from insitu.capture.tape import ARGS, FIXED
from insitu.capture.tensors import GIVEN, ParameterValue, RichValue, Value
from insitu.capture.torch_internals import DisableTorchFunction, next_node_number, node_number
from insitu.trace.event import Fields
from insitu.trace.operation import Risk, operation
from insitu.trace.origin import FINITE, Finiteness

if TYPE_CHECKING:
    from insitu.capture.guard.check import ProbeChecks
    from insitu.capture.guard.finite_marks import FiniteMarks

CONTAINERS = (list, tuple, dict, Fields, RichValue)  # a value of another class is treated as one

Before = Callable[[FunctionCallee, int, Any, Any], Finiteness]
After = Callable[..., None]
# Whether the outputs of a call are not finite, from: offset, args, kwargs, result, first node, number of nodes.
Strategy = Callable[[int, Any, Any, Any, int, int], bool]
# Whether a function hides NaN and Inf, and the strategy for it.
ChosenStrategy = tuple[bool | None, Strategy]


def hides(callee: FunctionCallee) -> bool | None:
    """Whether the output of a function can be finite although an input is not; None: only if it divides by a tensor.

    A function that repairs NaN and Inf hides nothing.
    """
    what = operation(callee.kind, callee.name)
    if callee.runs_backward or what.repairs:
        return False
    risk = risk_of(callee)
    if risk == "division":
        return None
    return risk == "any" or what.hides


def divides_by_tensor(args: Any) -> bool:
    """Whether the divisor is a tensor, or is not among the positional arguments."""
    return not args or isinstance(args[-1], Tensor)


def look_of(check: ProbeChecks) -> Callable[[Tensor], float]:
    """How to sum a tensor: with care where function modes of others are on."""
    look = careful_total if check.probe.modes.is_careful else total
    marks = check.marks
    if marks is None:
        return look

    def look_later(tensor: Tensor) -> float:
        """What waits on its device counts as finite for now: its mark is read at the end of the step."""
        if marks.applies_to(tensor):
            return 0.0
        return look(tensor)

    skip_when_compiling(look_later)
    return look_later


def make_before(check: ProbeChecks) -> Before:
    """The function that looks at what a call changes in place, takes as indices, or begins a backward pass with."""
    probe = check.probe
    look = look_of(check)

    def before(callee: FunctionCallee, at: int, args: Any, kwargs: Any) -> Finiteness:
        if callee.takes_indices:
            if check.marks is None or not check.marks.see_indices(callee, at, args, kwargs or {}):
                check.tell(index_finding, check, callee, at, args, kwargs or {})
            return FINITE
        try:
            with DisableTorchFunction():
                read = losses_of if callee.runs_backward else in_place_target
                tensors = read(check, callee, at, args, kwargs)
                if all(isfinite(look(tensor)) for tensor in tensors):
                    return FINITE
                found = finiteness_of(tensors[0])
        except Exception as error:
            probe.trouble("checking an argument", error)
            return FINITE
        if callee.runs_backward:
            check.tell(loss_finding, check, at, tensors)
            return FINITE
        if not operation(callee.kind, callee.name).repairs:
            check.tell(unchecked_finding, check, tensors)
        return found

    skip_when_compiling(before)
    return before


def in_place_target(check: ProbeChecks, callee: FunctionCallee, at: int, args: Any, kwargs: Any) -> list[Tensor]:
    """The tensor that a function is about to change in place."""
    if changes(callee, args, kwargs) and isinstance(args[0], Tensor):
        return [args[0]]
    return []


def losses_of(check: ProbeChecks, callee: FunctionCallee, at: int, args: Any, kwargs: Any) -> list[Tensor]:
    """Prepare for a backward pass; returns the losses that are worth a look."""
    check.checks.passes += 1
    check.nodes.end()
    check.nodes.find_unseen(next_node_number(), args, kwargs)
    check.checks.on_backward(check.probe, None)
    check.checks.on_loss(check, at, args)
    if check.has_suspect(at):
        return tensors_in(args[0] if args else kwargs)
    return []


def make_after(check: ProbeChecks) -> After:
    """The function that looks at the output of a call."""
    probe, nodes, unchecked, nonfinite = check.probe, check.nodes, check.unchecked, check.nonfinite
    look = look_of(check)
    strategies = check.strategies
    choose = make_choose(check, strategies)

    def after(
        callee: FunctionCallee, at: int, args: Any, kwargs: Any, result: Any, first: int, count: int, before: Any
    ) -> None:
        try:
            if first != nodes.next or nodes.unseen:
                nodes.find_unseen(first, args, kwargs)
            nodes.next = first + count
            may_hide, strategy = strategies.get(callee.name) or choose(callee)
            if may_hide is None:
                may_hide = divides_by_tensor(args)
            hidden = check.hidden_inputs(at, look) if may_hide and unchecked else None
            is_bad = strategy(at, args, kwargs, result, first, count)
        except Exception as error:
            probe.trouble("checking a result", error)
            return
        if hidden:
            check.tell(unchecked_finding, check, hidden)
        if is_bad:
            nonfinite.add(at)
            check.tell(output_finding, check, callee, at, args, kwargs, result, before)

    skip_when_compiling(after, divides_by_tensor)
    if check.marks is None:
        return after
    return make_after_with_marks(check, check.marks, after)


def make_after_with_marks(check: ProbeChecks, marks: FiniteMarks, after: After) -> After:
    """The function that looks at the output of a call, and marks what waits on its device."""

    def after_with_marks(callee: FunctionCallee, at: int, *rest: Any) -> None:
        after(callee, at, *rest)
        try:
            marks.see_call(callee, at)
        except Exception as error:
            check.probe.trouble("marking a result", error)

    skip_when_compiling(after_with_marks)
    return after_with_marks


def make_choose(
    check: ProbeChecks, strategies: dict[str, ChosenStrategy]
) -> Callable[[FunctionCallee], ChosenStrategy]:
    """The function that chooses the strategy for a function that was not met before."""

    def choose(callee: FunctionCallee) -> ChosenStrategy:
        make = SPECIAL.get(callee.name) or MAKERS[risk_of(callee)]
        if callee.runs_backward:
            make = make_check_backward
        strategies[callee.name] = (hides(callee), make(check, callee))
        return strategies[callee.name]

    return choose


# The strategies: whether the output of a call is not finite.


def make_pass_on(check: ProbeChecks, callee: FunctionCallee) -> Strategy:
    """For functions that only pass on what they get: remember that nobody checked the output."""
    tape, unchecked, nonfinite, nodes = check.probe.tape, check.unchecked, check.nonfinite, check.nodes
    is_harmless = risk_of(callee) == "none"

    def pass_on(at: int, args: Any, kwargs: Any, result: Any, first: int, count: int) -> bool:
        given = tape[at + FIXED] if tape[at + ARGS] else None
        if type(given) is Value:  # mostly there is but one tensor
            producer = given.producer
            if producer == GIVEN or producer in unchecked or producer in nonfinite:
                unchecked.add(at)
        elif type(given) is ParameterValue and not kwargs and tape[at + ARGS] == 1:  # `parameter.grad`
            if given.producer in nonfinite:
                unchecked.add(at)
        elif check.has_suspect(at):
            unchecked.add(at)
        if is_harmless or not count:
            return False
        tensors = [result] if type(result) is Tensor else tensors_in(result)
        halves = [tensor for tensor in tensors if tensor.dtype is float16]
        if halves:
            nodes.add_all(halves, first, count)
        return False

    skip_when_compiling(pass_on)
    return pass_on


def make_check_rarely(check: ProbeChecks, callee: FunctionCallee) -> Strategy:
    """For functions that produce NaN or Inf only by an overflow, of which little but fp16 is in danger."""
    tape, unchecked, nonfinite, nodes = check.probe.tape, check.unchecked, check.nonfinite, check.nodes
    several = make_several(check, callee)
    look = look_of(check)

    def check_rarely(at: int, args: Any, kwargs: Any, result: Any, first: int, count: int) -> bool:
        if type(result) is not Tensor:
            return several(result, args, first, count)
        if count:
            if result.dtype is float16:
                nodes.add(result, first, count)
            elif not kwargs:  # `check.has_suspect` in line
                for item in tape[at + FIXED : at + FIXED + tape[at + ARGS]]:
                    kind = type(item)
                    if kind is Value:
                        producer = item.producer
                        if producer == GIVEN or producer in unchecked or producer in nonfinite:
                            break
                    elif kind is ParameterValue:
                        if item.producer in nonfinite:
                            break
                    elif kind in CONTAINERS and check.has_suspect(at):
                        break
                else:
                    unchecked.add(at)
                    return False
        return not isfinite(look(result))

    skip_when_compiling(check_rarely)
    return check_rarely


def make_check_always(check: ProbeChecks, callee: FunctionCallee) -> Strategy:
    """For all functions that can have a pole, or about which nothing is known."""
    nodes, leaving, several = check.nodes, check.nodes.leaving, make_several(check, callee)
    look = look_of(check)

    def check_always(at: int, args: Any, kwargs: Any, result: Any, first: int, count: int) -> bool:
        if type(result) is not Tensor:
            return several(result, args, first, count)
        if count:
            node = result.grad_fn
            if count == 1 and node is not None and node_number(node) == first:  # as most often
                node.register_hook(leaving)
            else:
                nodes.add(result, first, count)
        return not isfinite(look(result))

    skip_when_compiling(check_always)
    return check_always


def make_check_division(check: ProbeChecks, callee: FunctionCallee) -> Strategy:
    """For divisions: those by a plain number only overflow."""
    rarely, always = make_check_rarely(check, callee), make_check_always(check, callee)

    def check_division(at: int, args: Any, kwargs: Any, result: Any, first: int, count: int) -> bool:
        strategy = always if divides_by_tensor(args) else rarely
        return strategy(at, args, kwargs, result, first, count)

    skip_when_compiling(check_division)
    return check_division


def make_check_leaving(check: ProbeChecks, callee: FunctionCallee) -> Strategy:
    """For functions that take numbers out of torch, where nobody can follow them: it matters what went in."""

    def check_leaving(at: int, args: Any, kwargs: Any, result: Any, first: int, count: int) -> bool:
        return bool(check.waiting) and check.has_suspect(at)

    skip_when_compiling(check_leaving)
    return check_leaving


def make_check_backward(check: ProbeChecks, callee: FunctionCallee) -> Strategy:
    """For functions that run a backward pass: only the nodes of the gradients themselves are checked."""

    def check_backward(at: int, args: Any, kwargs: Any, result: Any, first: int, count: int) -> bool:
        with DisableTorchFunction():
            check.checks.on_backward(check.probe, at)
            if count:
                check.nodes.add_all(tensors_in(result), first, count)
        return False

    skip_when_compiling(check_backward)
    return check_backward


def make_several(check: ProbeChecks, callee: FunctionCallee) -> Callable[[Any, Any, int, int], bool]:
    """The function that looks at the output of a call that is not a plain tensor."""
    look, nodes = look_of(check), check.nodes
    is_risky, is_in_place = has_hooks(callee), callee.in_place

    def several(result: Any, args: Any, first: int, count: int) -> bool:
        if type(result) is float:
            return not isfinite(result)
        with DisableTorchFunction():
            tensors = tensors_in((result, args[:1] if is_in_place else ()))
            if count and (is_risky or any(tensor.dtype is float16 for tensor in tensors)):
                nodes.add_all(tensors, first, count)
            return not all(isfinite(look(tensor)) for tensor in tensors)

    skip_when_compiling(several)
    return several


MAKERS: dict[Risk, Callable[[ProbeChecks, FunctionCallee], Strategy]] = {
    "none": make_pass_on,
    "backward": make_pass_on,
    "overflow": make_check_rarely,
    "division": make_check_division,
    "any": make_check_always,
}
SPECIAL = {f"torch.Tensor.{name}": make_check_leaving for name in ("numpy", "tolist", "__array__")}
