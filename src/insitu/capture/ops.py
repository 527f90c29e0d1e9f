"""What runs at each torch function and at each ATen operator: the hot path (see probe.py)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch._C import DisableTorchFunction, _current_autograd_node, _current_graph_task_id
from torch._C._autograd import _get_sequence_nr as sequence

from insitu.capture.arguments import contained, make_noting
from insitu.capture.calls import (
    FUNCTION_NOTES,
    OPERATOR_NOTES,
    FunctionNote,
    OperatorNote,
    function_note,
    operator_note,
)
from insitu.capture.modes import Handler, as_anchor, skip_when_compiling
from insitu.capture.tape import BACKWARD, END, INHERITED, NODE_COUNT, NODES, RESULT, RUNNING, START
from insitu.capture.tensors import Fresh, Value, guarded

if TYPE_CHECKING:
    from insitu.capture.probe import Probe

_getframe = sys._getframe
REGISTER = Tensor.register_hook
UNKNOWN = FunctionNote(torch.is_tensor)  # a silent one, for what cannot be named
# The innermost Python frame while autograd's engine runs its own operators.
ENGINE = torch.autograd.graph._engine_run_backward.__code__


def make_on_function(probe: Probe, fresh: Fresh) -> Handler:
    """The handler of torch functions. Their mode is off while it runs, so facts can be read freely."""
    tape, stack, close, clock, notes = probe.tape, probe.stack, probe.close, probe.clock, FUNCTION_NOTES
    noting, learn = make_noting(probe.table, fresh, renewing=probe.keeps), make_learn(probe)
    extend, made, made_inside = tape.extend, *make_function_result(probe, fresh)
    before, after = probe.check.pair if probe.check is not None else (None, None)
    hooks = probe.check.hooks if probe.check is not None else None

    def on_function(mode: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        try:
            note = notes[func]
        except (KeyError, TypeError):  # it was not met before, or cannot be hashed
            note = learn(func)
        if note.silent or not (probe.taking or (note.runs_backward and probe.follows_backward)):
            result = func(*args, **kwargs) if kwargs else func(*args)
            return hooks.register(args[0], result) if hooks is not None and func is REGISTER else result
        at, outer, function, taking, backward = -1, probe.parent, probe.function, probe.taking, probe.backward
        try:
            in_engine = backward and _current_graph_task_id() != -1
            record = [note, RUNNING, outer, 0.0, 0.0, in_engine, 0, len(args), 0, 0]
            noting(record, args, kwargs)
            stack(_getframe(1), record)
            at = len(tape)  # now: looking at arguments may have run code of the user
            if at >= probe.due:
                at = probe.cut()
            first_node = sequence()
            record[START] = clock()
            extend(record)
            probe.parent, probe.function, probe.taking = at, True, True
            if note.runs_backward:
                probe.backward = True
        except BaseException as error:
            at = probe.give_up(at, error)
        if at < 0:
            return func(*args, **kwargs) if kwargs else func(*args)
        try:
            was = None
            if before is not None and (note.in_place or note.runs_backward or kwargs):
                was = before(note, at, args, kwargs)
            result = func(*args, **kwargs) if kwargs else func(*args)
            tape[at + END] = clock()
        except BaseException as error:
            probe.failed(at, error)
            raise
        else:
            nodes = sequence() - first_node
            if nodes:
                tape[at + NODES] = first_node + nodes * NODE_COUNT
            in_place = note.in_place or (kwargs and ("out" in kwargs or kwargs.get("inplace") is True))
            is_one = type(result) is Tensor
            tape[at + RESULT] = made(result, at, in_place) if is_one else made_inside(result, at, in_place, note, args)
            if after is not None:  # it may raise: an error of the user's program
                after(note, at, args, kwargs, result, first_node, nodes, was)
            return result
        finally:
            probe.parent, probe.function, probe.taking, probe.backward = outer, function, taking, backward
            if close is not None:
                close(probe, at)

    return as_anchor(on_function)


def make_learn(probe: Probe) -> Callable[[Any], FunctionNote]:
    """The function that notes a torch function at its first call."""

    def learn(func: Any) -> FunctionNote:
        try:
            return function_note(func)
        except Exception as error:
            probe.trouble("naming a function", error)
            return UNKNOWN

    return learn


def make_function_result(probe: Probe, fresh: Fresh) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """What notes a tensor that a function returned, and anything else that it returned.

    A tensor that an operator of this call has made keeps that value. Otherwise the function made it, unless the same
    tensor went in and the function is none that changes it.
    """
    get, careful, gradients = probe.table.get, probe.careful, probe.gradients

    def made(tensor: Tensor, at: int, in_place: bool) -> Value | None:
        try:
            value = get(id(tensor))
            if value is None or value() is not tensor or (in_place and value.producer < at):
                value = fresh(tensor, at)
            elif value.producer >= at:
                settle(value, tensor, careful=careful)
            else:
                return value
            if gradients is not None:
                gradients.follow(value, tensor)
            return value
        except Exception as error:
            probe.trouble("noting a result", error)
            return None

    def made_inside(result: Any, at: int, in_place: bool, note: FunctionNote, args: Any) -> Any:
        try:
            noted = contained(result, partial(made, at=at, in_place=in_place))
            if note.in_place and args and isinstance(args[0], Tensor):
                contained(args[0], made_at(fresh, at))
            if note.runs_backward and gradients is not None:
                gradients.of_parameters()
            return noted
        except Exception as error:
            probe.trouble("noting a result", error)
            return None

    return made, made_inside


def settle(value: Value, tensor: Tensor, *, careful: bool) -> None:
    """A value was noted below autograd, where nothing requires a gradient yet."""
    if not isinstance(tensor, Tensor):  # an array
        return
    if careful:
        with DisableTorchFunction():
            value.requires_grad = tensor.requires_grad
    else:
        value.requires_grad = tensor.requires_grad
    if value.facts is not None:
        value.facts.requires_grad = value.requires_grad


def make_on_aten(probe: Probe, fresh: Fresh) -> Handler:
    """The handler of ATen operators. Inside a function it can read facts freely and needs no stack of its own."""
    tape, stack, close, clock, notes = probe.tape, probe.stack, probe.close, probe.clock, OPERATOR_NOTES
    extend, noting, careful = tape.extend, make_noting(probe.table, fresh, renewing=probe.keeps), guarded(fresh)
    noting_carefully = make_noting(probe.table, careful, renewing=probe.keeps)

    def on_aten(mode: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        at = -1
        if probe.taking:
            inside = probe.function
            try:
                note = notes.get(id(func)) or operator_note(func)
                record = [note, RUNNING, probe.parent, 0.0, 0.0, False, 0, len(args), 0, INHERITED]
                if inside:
                    noting(record, args, kwargs)
                else:
                    noting_carefully(record, args, kwargs)
                if probe.backward or not inside:
                    frame = _getframe(1)
                    if probe.backward and _current_graph_task_id() != -1:
                        current = _current_autograd_node()
                        record[BACKWARD] = True
                        record[NODES] = current._sequence_nr() if current is not None else -1
                    # Autograd may run Python code inside a function: hooks, the backward of the user's own functions.
                    if not inside or frame.f_code is not ENGINE:
                        stack(frame, record)
                at = len(tape)
                if at >= probe.due:
                    at = probe.cut()
                record[START] = clock()
                extend(record)
            except BaseException as error:
                at = probe.give_up(at, error)
        if at < 0:
            return func(*args, **kwargs) if kwargs else func(*args)
        try:
            result = note.call(*args, **kwargs) if kwargs else note.call(*args)
            tape[at + END] = clock()
        except BaseException as error:
            probe.failed(at, error)
            raise
        else:
            try:
                if type(result) is Tensor:
                    tape[at + RESULT] = fresh(result, at) if inside else careful(result, at)
                else:
                    tape[at + RESULT] = made_inside(result, at, note, args, kwargs, fresh if inside else careful)
            except Exception as error:
                tape[at + RESULT] = None
                probe.trouble("noting a result", error)
            return result
        finally:
            if close is not None:
                close(probe, at)

    skip_when_compiling(on_aten)
    return on_aten


def made_at(fresh: Fresh, at: int) -> Callable[[Tensor], Value]:
    """`fresh` for the call at an offset. A closure made in the hot path itself would slow down all of it."""
    return lambda tensor: fresh(tensor, at)


def made_inside(result: Any, at: int, note: OperatorNote, args: Any, kwargs: Any, fresh: Fresh) -> Any:
    """What an operator returned that is no plain tensor: all in it is new, also what was changed in place."""
    new = made_at(fresh, at)
    noted = contained(result, new)
    for changed in note.written(args, kwargs):
        contained(changed, new)
    return noted
