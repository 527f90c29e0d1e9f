"""What a guard checks at each torch function: that what comes out is finite, with one sum where it is looked at.

Which functions are checked is in ways.py; why something is not finite, and whether that is news, is found out in
cause.py; what the backward pass makes is checked in backward.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import isfinite
from sys import _getframe
from typing import TYPE_CHECKING, Any

from torch import Tensor, float16

from insitu.capture.calls import FunctionCallee
from insitu.capture.explain.note import save_waiting_tapes
from insitu.capture.explain.reading import values
from insitu.capture.guard.backward import Nodes
from insitu.capture.guard.cause import came_in, cause, made_before, made_unseen, waiting_behind
from insitu.capture.guard.entry import come_to_loss
from insitu.capture.guard.hooks import Hooks
from insitu.capture.guard.pause import Pause
from insitu.capture.guard.values import FINITE, State, careful_total, state_of, tensors_in, total
from insitu.capture.guard.waiting import Waiting
from insitu.capture.guard.ways import DIVIDES, HIDES, LEAVING, NODES, OUTPUTS, UNLIKELY, WAYS, changes, way_of
from insitu.capture.modes import skip_when_compiling
from insitu.capture.tape import ARGS, FIXED, OUTERMOST, Raised, Tape, VariableEntry
from insitu.capture.tensors import FORGOTTEN, GIVEN, ParameterValue, RichValue, Value
from insitu.capture.torch_internals import DisableTorchFunction, next_node_number
from insitu.trace.event import Fields
from insitu.trace.findings import Finding, NonFiniteResult
from insitu.trace.operation import own_name
from insitu.trace.path import Pattern

if TYPE_CHECKING:
    from insitu.capture.probe import Probe

# A tape is cleared after a backward pass when it is longer than the first, anyway when it is longer than the second.
SOON, LATE = 1 << 14, 1 << 18

CONTAINERS = (list, tuple, dict, Fields, RichValue)  # a value of another class is treated as one

Before = Callable[[FunctionCallee, int, Any, Any], State]
After = Callable[..., None]


class Checks:
    """The checks of one guard, in all its threads. It also keeps the tapes short: a guard runs for a whole training.

    `report` takes what is found, and raises if that is wanted.
    """

    def __init__(self, report: Callable[[Finding], None], allow: Iterable[str]) -> None:
        self.report, self.allow = report, tuple(allow)
        self.found = False  # whether anything not finite was found: then what comes later may follow from it
        self.told = False  # whether it was told that something came in which was not finite before
        self.trains = False  # whether a backward pass has run
        self.checks: list[Check] = []
        self.on_backward: Callable[[Probe, int | None], None] = lambda probe, at: None
        self.is_scaled = False  # whether losses were scaled for half precision: their gradients may overflow
        self.enters = False  # whether the function mode is switched on for code of the user in a backward pass
        self._allowed: dict[tuple[str, str], bool] = {}

    def of(self, probe: Probe) -> Check:
        """The checks of a new probe."""
        check = Check(probe, self)
        self.checks.append(check)
        return check

    def allowed(self, name: str, path: str) -> bool:
        """Whether a function, or what runs in a module, may make what it wants."""
        key = (name, path)
        if key not in self._allowed:
            self._allowed[key] = any(names(pattern, name, path) for pattern in self.allow)
        return self._allowed[key]

    def note_scaling(self) -> None:
        """A loss is scaled."""
        self.is_scaled = True

    def open(self, probe: Probe, at: int) -> None:
        """A watched function is called: that is none of ours."""

    def change(self, probe: Probe, entry: VariableEntry, value: Any) -> None:
        """A variable has changed: that is none of ours."""

    def close(self, probe: Probe, at: int) -> None:
        """A call has ended, by an exception or not: the tape may be too long."""
        callee, check = probe.tape[at], probe.check
        if check is not None and type(callee) is not FunctionCallee and callee.kind in ("module", "function"):
            check.look_at_unseen(at, is_ours=_getframe(1).f_code is probe.on_module.__code__)
        if check is not None and (len(probe.tape) > SOON or self.enters):
            backward = type(callee) is FunctionCallee and callee.runs_backward
            if backward:
                check.nodes.end()
            if probe.parent == OUTERMOST and not probe.suspended and (backward or len(probe.tape) > LATE):
                check.clear()

    def rest(self, *, is_complete: bool) -> list[Finding]:
        """What to say at the end: of results that were not checked and, in a block that is complete, were not used."""
        with DisableTorchFunction():  # modes of others are not to see this
            found = [finding for check in self.checks for finding in check.rest()]
            if is_complete:
                found += [finding for check in self.checks for finding in check.waiting.unused()]
            return found

    def cleared(self, probe: Probe) -> tuple[int, int]:
        """From where on the tape was cleared last, which is its beginning, and how much of it so far."""
        return 0, probe.check.gone if probe.check is not None else 0

    def stop(self) -> None:
        """Let go of everything: hooks may stay on the nodes of a graph that the user keeps."""
        for check in self.checks:
            check.forget()
        self.checks.clear()
        self.report = lambda finding: None
        self.on_backward = lambda probe, at: None


def names(pattern: str, name: str, path: str) -> bool:
    """Whether a pattern names a function, or a module that a path is in.

    >>> names("log", "torch.Tensor.log", ""), names("h.*.attn", "torch.div", "h.0.attn.c_proj"), names("log", "x", "h")
    (True, True, False)
    """
    if pattern in (name, own_name("function", name).strip("_")):
        return True
    return bool(path) and Pattern.of(pattern).covers(path)


class Check:
    """The checks of one probe; `past` is what was on its tape before it was cleared last."""

    def __init__(self, probe: Probe, checks: Checks) -> None:
        self.probe, self.checks = probe, checks
        self.past = Tape()
        self.pending: set[int] = set()  # the calls whose results were not checked, or came from such
        self.bad: set[int] = set()  # those whose results are not finite, be that news or not
        self.waiting = Waiting(self)
        self.nodes, self.hooks, self.pause = Nodes(self), Hooks(self), Pause(probe)
        self.gone = 0  # how much of the tape was cleared so far
        before, after = make_before(self), make_after(self)
        self.pair = (unheard(before), unheard(after)) if probe.modes.is_careful else (before, after)

    def is_checked(self, at: int) -> bool:
        """Whether the results of a call were checked, or nobody knows what it calls."""
        callee = self.probe.tape[at]
        return not isinstance(callee, FunctionCallee) or (at not in self.pending and self.can_make(callee))

    def has_pending(self, at: int) -> bool:
        """Whether an argument of a call was not checked, or is not finite; parameters can still be checked later."""
        tape, pending, bad = self.probe.tape, self.pending, self.bad
        for item in tape.inputs(at):
            kind = type(item)
            if kind is Value:
                maker = item.producer
                if maker == GIVEN or maker in pending or maker in bad:
                    return True
            elif kind is ParameterValue:
                if item.producer in bad:
                    return True
            elif kind in CONTAINERS and any(map(self._is_pending, values(item))):
                return True
        return False

    def _is_pending(self, value: Value) -> bool:
        return value.producer in self.pending or value.producer in self.bad or value.producer == GIVEN

    def spoiled(self, at: int, look: Callable[[Tensor], float]) -> list[Tensor]:
        """The arguments of a call that were not checked and are not finite, which its result may hide."""
        tape, pending = self.probe.tape, self.pending
        found = []
        for item in tape.inputs(at):
            if isinstance(item, Value) and item.producer in pending and (tensor := item()) is not None:
                if not isfinite(look(tensor)):
                    found.append(tensor)
                elif isinstance(tape.result(item.producer), Value):  # else it is one of several
                    pending.discard(item.producer)
        return found

    def look_at_unseen(self, at: int, *, is_ours: bool) -> None:
        """A module, or a compiled region, has ended: what no function that was seen has made is checked here.

        Not where dynamo would be interrupted: there, whoever uses the result is to find it.
        """
        result = self.probe.tape.result(at)
        made = [value for value in values(result) if value.producer == at] if not isinstance(result, Raised) else []
        if made and not is_ours:
            self.pending.add(at)
        for tensor in (value() for value in made if is_ours):
            if tensor is not None and not isfinite(careful_total(tensor)):
                self.bad.add(at)
                self.tell(made_unseen, self, at, tensor, state_of(tensor))

    def waiting_behind(self, found: list[Value]) -> NonFiniteResult | None:
        """The finding that waits behind one of some values."""
        return waiting_behind(self, found)

    def rest(self) -> Iterator[Finding]:
        """What to say of the results that nobody has used, and that were not checked therefore."""
        for at in sorted(self.pending):
            if self.checks.found or not self.can_make(self.probe.tape[at]):
                continue
            tensors = [tensor for value in values(self.probe.tape.result(at)) if (tensor := value()) is not None]
            finding = came_in(self, at, tensors, "") if any(map(state_of, tensors)) else None
            if finding is not None:
                yield finding

    @staticmethod
    def can_make(callee: Any) -> bool:
        """Whether a call does more than to pass on what it is given."""
        return not isinstance(callee, FunctionCallee) or bool(WAYS.get(callee.name, OUTPUTS) & (OUTPUTS | DIVIDES))

    @staticmethod
    def has_hooks(callee: Any) -> bool:
        """Whether the gradients that a call computes are checked."""
        return not isinstance(callee, FunctionCallee) or bool(WAYS.get(callee.name, NODES) & NODES)

    def clear(self) -> None:
        """Move what is on the tape into the past: a backward pass may still ask for it."""
        probe = self.probe
        save_waiting_tapes(probe)
        self.waiting.clear_tape()
        self.past[:] = probe.tape
        alive = {key: value for key, value in probe.table.items() if value() is not None}
        for value in alive.values():
            value.producer, value.facts = FORGOTTEN, None
        probe.table.clear()
        probe.table.update(alive)
        self.gone += len(probe.tape)
        self.pending.clear()
        self.bad.clear()
        probe.tape.clear()
        probe.codes.clear()

    def forget(self) -> None:
        """The guard has ended."""
        save_waiting_tapes(self.probe)
        self.past.clear()
        self.probe.tape.clear()
        self.nodes.end()
        self.hooks.end()

    def tell(self, look: Callable[..., Finding | None], *args: Any) -> None:
        """Report what looking closer finds; if that fails, it is the tool's own trouble."""
        try:
            with DisableTorchFunction():  # the getters of a subclass are the user's code
                finding = look(*args)
        except Exception as error:
            self.probe.trouble("finding a cause", error)
            return
        if finding is not None:
            self.checks.report(finding)


def unheard(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same for where function modes of others are on: they are not to see how tensors are read."""

    def call(*args: Any) -> Any:
        with DisableTorchFunction():
            return function(*args)

    skip_when_compiling(call)
    return call


def make_before(check: Check) -> Before:
    """What is done before a function: it may change a tensor that is not finite already."""
    probe, checks = check.probe, check.checks
    look = careful_total if probe.modes.is_careful else total

    def before(callee: FunctionCallee, at: int, args: Any, kwargs: Any) -> State:
        try:
            with DisableTorchFunction():
                if not callee.runs_backward:
                    target = args[0] if changes(callee, args, kwargs) and isinstance(args[0], Tensor) else None
                    if target is None or isfinite(look(target)):
                        return FINITE
                    state = state_of(target)
                else:
                    checks.trains = True
                    check.nodes.end()
                    check.nodes.find_unseen(next_node_number(), args, kwargs)
                    checks.on_backward(probe, None)
                    losses = tensors_in(args[0] if args else kwargs)
                    if not check.has_pending(at) or all(isfinite(look(loss)) for loss in losses):
                        return FINITE
        except Exception as error:
            probe.trouble("checking an argument", error)
            return FINITE
        if callee.runs_backward:
            check.tell(come_to_loss, check, at, losses)
            return FINITE
        check.tell(made_before, check, [target])
        return state

    skip_when_compiling(before)
    return before


def make_after(check: Check) -> After:
    """What is done with the result of a function."""
    probe, nodes, ways, pending, bad = check.probe, check.nodes, WAYS, check.pending, check.bad
    look = careful_total if probe.modes.is_careful else total

    def after(
        callee: FunctionCallee,
        at: int,
        args: Any,
        kwargs: Any,
        result: Any,
        first: int,
        made: int,
        before: State | None,
    ) -> None:
        try:
            way = ways.get(callee.name)
            if way is None:
                way = way_of(callee)
            if first != nodes.next or nodes.unseen:
                nodes.find_unseen(first, args, kwargs)
            nodes.next = first + made
            if way & DIVIDES:
                way = OUTPUTS | (NODES | HIDES if isinstance(args[-1], Tensor) else UNLIKELY)
            spoiled = check.spoiled(at, look) if way & HIDES and pending else None
        except Exception as error:
            probe.trouble("checking an argument", error)
            return
        if spoiled:
            check.tell(made_before, check, spoiled)
        try:
            if not way & OUTPUTS:
                pass_on(at)
                if not way & UNLIKELY:
                    return
            if type(result) is Tensor:
                half = result.dtype is float16
                if made and (way & NODES or half):
                    nodes.add(result, first, made)
                if not way & OUTPUTS:
                    return
                if way & UNLIKELY and made and not half and not kwargs and not check.has_pending(at):
                    pending.add(at)
                    return
                if isfinite(look(result)):
                    return
            else:
                with DisableTorchFunction():
                    if is_fine(callee, at, args, result, first, made, way):
                        return
        except Exception as error:
            probe.trouble("checking a result", error)
            return
        bad.add(at)
        check.tell(cause, check, callee, at, args, kwargs, result, before)

    def is_fine(callee: FunctionCallee, at: int, args: Any, result: Any, first: int, made: int, way: int) -> bool:
        """The same for what returns no tensor, or several."""
        if callee.runs_backward:
            check.checks.on_backward(probe, at)
            way = NODES  # those of the gradients themselves
        if type(result) is float:
            return isfinite(result)
        if check.waiting and callee.name in LEAVING:
            return not check.has_pending(at)
        tensors = tensors_in(result)
        if callee.in_place and args:
            tensors += tensors_in(args[0])
        if made and (way & NODES or any(tensor.dtype is float16 for tensor in tensors)):
            nodes.add_all(tensors, first, made)
        return not way & OUTPUTS or all(isfinite(look(tensor)) for tensor in tensors)

    pass_on = make_pass_on(check)
    skip_when_compiling(after, is_fine)
    return after


def make_pass_on(check: Check) -> Callable[[int], None]:
    """Notes that what a call passes on was not checked, where what it was given was not."""
    tape, pending, bad = check.probe.tape, check.pending, check.bad

    def pass_on(at: int) -> None:
        given = tape[at + FIXED] if tape[at + ARGS] else None
        if type(given) is Value:  # mostly there is but one tensor
            maker = given.producer
            if maker == GIVEN or maker in pending or maker in bad:
                pending.add(at)
        elif check.has_pending(at):
            pending.add(at)

    skip_when_compiling(pass_on)
    return pass_on
