"""The handlers of torch functions and of ATen operators: the hot path (see probe.py).

The handlers are dense on purpose. A function for each question would be a Python call for each event.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils.checkpoint import CheckpointFunction

from insitu.capture.arguments import make_argument_writer, make_quick_argument_writer
from insitu.capture.calls import (
    FUNCTION_CALLEES,
    OPERATOR_CALLEES,
    FunctionCallee,
    OperatorCallee,
    function_callee,
    operator_callee,
)
from insitu.capture.collectives import forget_statistics
from insitu.capture.modes import AtenMode, Handler, as_anchor, dispatch_stack, skip_when_compiling
from insitu.capture.outline import outline
from insitu.capture.tape import (
    BACKWARD,
    END,
    FORWARD,
    INHERITED,
    NODE_COUNT,
    NODES,
    PHASE,
    RECOMPUTE,
    RESULT,
    RUNNING,
    START,
)
from insitu.capture.tensors import Fresh, Value, Values, guarded
from insitu.capture.torch_internals import (
    ENGINE_CODE,
    NO_DISPATCH,
    DisableTorchDispatch,
    DisableTorchFunction,
    OpOverload,
    current_node,
    dispatch_stack_length,
    graph_task_id,
    next_node_number,
    node_number,
)

if TYPE_CHECKING:
    from insitu.capture.probe import Probe

_getframe = sys._getframe
REGISTER = Tensor.register_hook
UNKNOWN = FunctionCallee(torch.is_tensor)  # a silent one, for what cannot be named
# The innermost Python frame while autograd's engine runs its own operators.
ENGINE = ENGINE_CODE
CHECKPOINT = CheckpointFunction.forward.__code__.co_filename
DETACH = torch.ops.aten.detach.default


def make_on_function(probe: Probe, values: Values) -> Handler:
    """The handler of torch functions. Their mode is off while it runs, so facts can be read freely."""
    tape, stack, close, clock, callees = probe.tape, probe.stack, probe.close, probe.clock, FUNCTION_CALLEES
    is_quick = probe.scope.keep is None and not probe.modes.is_careful
    write_arguments = make_quick_argument_writer(probe.table, values) if is_quick else make_argument_writer(values)
    learn = make_learn(probe)
    extend, record_tensor, record_result = tape.extend, *make_function_result(probe, values)
    before, after = probe.check.pair if probe.check is not None else (None, None)
    hooks = probe.check.hooks if probe.check is not None else None

    def on_function(mode: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        try:
            callee = callees[func]
        except (KeyError, TypeError):  # it was not met before, or cannot be hashed
            callee = learn(func)
        if callee.silent or not (probe.taking or (callee.runs_backward and probe.follows_backward)):
            result = func(*args, **kwargs) if kwargs else func(*args)
            return hooks.register(args[0], result) if hooks is not None and func is REGISTER else result
        at, outer, function, taking, backward = -1, probe.parent, probe.function, probe.taking, probe.backward
        try:
            phase = phase_of(probe, _getframe(1)) if backward else FORWARD
            # The list of `tape.new_record` in line: a call would cost more than the list.
            record = [callee, RUNNING, outer, 0.0, 0.0, phase, 0, len(args), 0, 0]
            write_arguments(record, args, kwargs)
            stack(_getframe(1), record)
            at = len(tape)  # now: looking at arguments may have run code of the user
            if at >= probe.due:
                at = probe.cut()
            first_node = next_node_number()
            record[START] = clock()
            extend(record)
            probe.parent, probe.function, probe.taking = at, True, True
            if callee.runs_backward:
                probe.backward = True
        except BaseException as error:
            at = probe.give_up(at, error)
        if at < 0:
            return func(*args, **kwargs) if kwargs else func(*args)
        try:
            was = None
            if before is not None and (callee.in_place or callee.runs_backward or callee.takes_indices or kwargs):
                was = before(callee, at, args, kwargs)
            result = func(*args, **kwargs) if kwargs else func(*args)
            tape[at + END] = clock()
        except BaseException as error:
            probe.failed(at, error)
            raise
        else:
            nodes = next_node_number() - first_node
            if nodes:
                tape[at + NODES] = first_node + nodes * NODE_COUNT
            in_place = callee.in_place or (kwargs and ("out" in kwargs or kwargs.get("inplace") is True))
            is_one = type(result) is Tensor
            tape[at + RESULT] = (
                record_tensor(result, at, in_place) if is_one else record_result(result, at, in_place, callee, args)
            )
            if callee.is_pending:
                forget_statistics(tape[at + RESULT])
            if after is not None:  # it may raise: an error of the user's program
                after(callee, at, args, kwargs, result, first_node, nodes, was)
            return result
        finally:
            probe.parent, probe.function, probe.taking, probe.backward = outer, function, taking, backward
            if close is not None:
                close(probe, at)

    return as_anchor(on_function)


def make_learn(probe: Probe) -> Callable[[Any], FunctionCallee]:
    """The function that makes the callee of a torch function at its first call."""

    def learn(func: Any) -> FunctionCallee:
        try:
            return function_callee(func)
        except Exception as error:
            probe.trouble("naming a function", error)
            return UNKNOWN

    return learn


def make_function_result(probe: Probe, values: Values) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The functions that record a tensor that a function returned, and any other result.

    A tensor that an operator of this call has produced keeps that value, if it has not changed since. Otherwise the
    function produced it, unless the same tensor went in and the function does not change its arguments.
    """
    get, gradients, fresh, renew = probe.table.get, probe.gradients, values.fresh, values.renew

    def record_tensor(tensor: Tensor, at: int, in_place: bool) -> Value | None:
        try:
            value = get(id(tensor))
            if value is None or value() is not tensor or (in_place and value.producer < at):
                value = fresh(tensor, at)
            else:
                known, value = value, renew(value, tensor, at)
                if value is known and value.producer < at:
                    return value
            if gradients is not None:
                gradients.follow(value, tensor)
            return value
        except Exception as error:
            probe.trouble("recording a result", error)
            return None

    def record_result(result: Any, at: int, in_place: bool, callee: FunctionCallee, args: Any) -> Any:
        try:
            recorded = outline(result, partial(record_tensor, at=at, in_place=in_place))
            if callee.in_place and args and isinstance(args[0], (Tensor, list, tuple)):
                outline(args[0], partial(record_tensor, at=at, in_place=True))
            if callee.runs_backward and gradients is not None:
                gradients.of_parameters()
            return recorded
        except Exception as error:
            probe.trouble("recording a result", error)
            return None

    return record_tensor, record_result


def make_on_aten(probe: Probe, values: Values) -> Handler:
    """The handler of ATen operators. Inside a function it can read facts freely and needs no stack of its own."""
    tape, stack, close, clock, callees = probe.tape, probe.stack, probe.close, probe.clock, OPERATOR_CALLEES
    is_quick = probe.scope.keep is None and not probe.modes.is_careful
    write_arguments = make_quick_argument_writer(probe.table, values) if is_quick else make_argument_writer(values)
    write_arguments_carefully = make_argument_writer(guarded(values))
    extend, fresh, careful = tape.extend, values.fresh, guarded(values).fresh

    def on_aten(mode: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if types and func is DETACH and is_phantom(types):
            return shallow_copy(probe, types, args)
        at, inside = -1, probe.function
        if probe.taking:
            try:
                callee = callees.get(id(func)) or operator_callee(func)
                # The list of `tape.new_record` in line: a call would cost more than the list.
                record = [callee, RUNNING, probe.parent, 0.0, 0.0, FORWARD, 0, len(args), 0, INHERITED]
                if inside:
                    write_arguments(record, args, kwargs)
                else:
                    write_arguments_carefully(record, args, kwargs)
                if probe.backward or not inside:
                    frame = _getframe(1)
                    is_engine = frame.f_code is ENGINE
                    if probe.backward and graph_task_id() != -1:
                        record[PHASE] = phase = BACKWARD if is_engine else phase_of(probe, frame)
                        if phase == BACKWARD:
                            current = current_node()
                            record[NODES] = node_number(current) if current is not None else -1
                    # Autograd may run Python code inside a function: hooks, the backward of the user's own functions.
                    if not inside or not is_engine:
                        stack(frame, record)
                at = len(tape)
                if at >= probe.due:
                    at = probe.cut()
                record[START] = clock()
                extend(record)
            except BaseException as error:
                at = probe.give_up(at, error)
        if at < 0:
            if not inside:
                return call_alone(probe, func, types, args, kwargs)
            return func(*args, **kwargs) if kwargs else func(*args)
        try:
            if inside:
                result = callee.call(*args, **kwargs) if kwargs else callee.call(*args)
            else:
                result = call_alone(probe, func, types, args, kwargs)
            tape[at + END] = clock()
        except BaseException as error:
            probe.failed(at, error)
            raise
        else:
            try:
                if type(result) is Tensor:
                    tape[at + RESULT] = value = fresh(result, at) if inside else careful(result, at)
                    value.requires_grad = value.requires_grad or None  # autograd says so later
                else:
                    tape[at + RESULT] = record_outputs(result, at, callee, args, kwargs, fresh if inside else careful)
                if callee.is_pending:
                    forget_statistics(tape[at + RESULT])
            except Exception as error:
                tape[at + RESULT] = None
                probe.trouble("recording a result", error)
            return result
        finally:
            if close is not None:
                close(probe, at)

    skip_when_compiling(on_aten)
    return on_aten


def is_phantom(types: tuple[type, ...]) -> bool:
    """Whether autograd asks for a shallow copy by a `detach`, as it does under any dispatch mode.

    Only then the types are those of tensors that do not dispatch in Python.
    """
    return types[0].__torch_dispatch__ is NO_DISPATCH  # type: ignore[attr-defined]


def shallow_copy(probe: Probe, types: tuple[type, ...], args: Any) -> Any:
    """Make the shallow copy that autograd has asked for; other sessions must not record it as an operator."""
    if not all(isinstance(mode, AtenMode) for mode in dispatch_stack()):
        copy = call_alone(probe, DETACH, types, args, None)
    else:
        with DisableTorchFunction(), DisableTorchDispatch():
            copy = DETACH(*args)
    if probe.taking:
        follow_copy(probe, args[0], copy)
    return copy


def follow_copy(probe: Probe, tensor: Tensor, copy: Any) -> None:
    """The shallow copy of a tensor was made by the call that made the tensor, but for `.data`, which gives it out."""
    try:
        running = probe.tape[probe.parent] if probe.parent >= 0 else None
        if getattr(running, "name", None) == "torch.Tensor.data":
            return
        value = probe.table.get(id(tensor))
        if value is not None and value() is tensor:
            guarded(probe.values).fresh(copy, value.producer)
    except Exception as error:
        probe.trouble("recording a shallow copy", error)


def call_alone(probe: Probe, func: Any, types: tuple[type, ...], args: Any, kwargs: Any) -> Any:
    """Call an operator that TorchScript or C++ has called, and not a torch function: function modes must not see it.

    All function modes are off where nothing in Python can run inside; elsewhere only the one of this probe.
    """
    kwargs = kwargs or {}
    if is_native(func) and not types and not dispatch_stack_length():
        with DisableTorchFunction():
            return func(*args, **kwargs)
    mode = probe.modes.function
    above = mode.remove() if mode is not None else None
    try:
        return func(*args, **kwargs)
    finally:
        if mode is not None and above is not None:
            mode.enter(above)


def is_native(func: Any) -> bool:
    """Whether an operator is one of torch's own, written in C++."""
    return isinstance(func, OpOverload) and func.namespace == "aten"


def phase_of(probe: Probe, frame: FrameType | None) -> int:
    """The phase of what runs while a backward pass does. Checkpointing runs forward code again there."""
    task = graph_task_id()
    if task == -1:
        return FORWARD
    return RECOMPUTE if task == probe.recomputes or is_in_checkpoint(frame) else BACKWARD


def is_in_checkpoint(frame: FrameType | None) -> bool:
    """Whether autograd's engine runs the code of a frame for checkpointing."""
    while frame is not None and frame.f_code is not ENGINE:
        if frame.f_code.co_filename == CHECKPOINT:
            return True
        frame = frame.f_back
    return False


def record_outputs(result: Any, at: int, callee: OperatorCallee, args: Any, kwargs: Any, fresh: Fresh) -> Any:
    """Record a result that is not a plain tensor: every tensor in it is new, even one that was changed in place."""

    def new(tensor: Any) -> Value:
        value = fresh(tensor, at)
        value.requires_grad = value.requires_grad or None  # autograd says so later
        return value

    recorded = outline(result, new)
    for changed in callee.write_targets(args, kwargs):
        outline(changed, new)
    return recorded


skip_when_compiling(is_phantom, shallow_copy, call_alone, is_native)
