"""What a tape tells of autograd: where a gradient was lost, what was freed, what was changed that was still needed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn

from insitu.capture.explain.assigned import assigned
from insitu.capture.explain.reading import Reading, values
from insitu.capture.explain.saved import share, stale
from insitu.capture.names import ModuleCallee
from insitu.capture.tape import BACKWARD, NODE_COUNT, NODES, PHASE, Raised
from insitu.capture.tensors import Value
from insitu.trace.explanation import Origin


class Graph:
    """The calls before the end of a tape, as autograd sees them."""

    def __init__(self, reading: Reading, end: int) -> None:
        self._reading, self._end = reading, end

    def lost(self, value: Value) -> Iterator[Origin]:
        """The call behind a loss at which the gradient ends: what goes in requires one, what comes out does not."""
        seen: set[int] = set()
        waiting = [value]
        ends: list[Origin] = []
        while waiting:
            made = self._reading.producer(waiting.pop(0))
            if made is None or made in seen:
                continue
            seen.add(made)
            taken = list(values([self._reading.args(made), self._reading.kwargs(made)]))
            tensors = [item for item in taken if not _is_array(item)]
            place = self._reading.place(made)
            if place is not None and any(item.requires_grad for item in tensors):
                yield Origin("gradient", "lost at", place)
                return
            unseen = [each for item in tensors for each in self._unseen(made, item)]
            known = [item for item in tensors if self._reading.producer(item) is not None]
            if place is not None and not known and not unseen:
                ends.append(Origin("", "made without a gradient at", place))
            ends[:0] = unseen
            waiting += tensors
        yield from ends[:3]

    def _unseen(self, at: int, value: Value) -> Iterator[Origin]:
        """Where something that no recorded call has made got its name: from NumPy, mostly."""
        place = self._reading.place(at) if self._reading.producer(value) is None else None
        name = self._reading.name_in(at, value)
        for found in assigned(place.file, place.line, name)[:1] if place is not None else ():
            yield Origin(name, "has no gradient, assigned at", found)

    def forward(self, at: int) -> Origin | None:
        """The call whose gradient an operator of the backward pass was computing."""
        if self._reading.tape[at + PHASE] != BACKWARD or self._reading.callee(at).kind != "aten":
            return None
        found = self._maker(self._reading.tape[at + NODES])
        place = self._reading.place(found) if found is not None else None
        return Origin("backward", "of the call at", place) if place is not None else None

    def _maker(self, node: int) -> int | None:
        """The innermost call that made a node of the graph, which is known by its number."""
        found: int | None = None
        for at in self._reading.before(self._end):
            count, first = divmod(self._reading.tape[at + NODES], NODE_COUNT)
            if count and first <= node < first + count:
                found = at  # the last that fits is the innermost
        return found

    def earlier_backward(self) -> Origin | None:
        """The backward pass before this one, which has freed what it went through."""
        found = None
        for at in self._reading.before(self._end):
            callee = self._reading.callee(at)
            freed = getattr(callee, "runs_backward", False) and self._reading.kwargs(at).get("retain_graph") is not True
            if freed and not isinstance(self._reading.result(at), Raised):
                found = at
        place = self._reading.place(found) if found is not None else None
        return Origin("graph", "freed by the backward at", place) if place is not None else None

    def changed(self, loss: Any, message: str) -> Change | None:
        """What was changed in place after a call that needs it for its gradient, and that call."""
        found = stale(loss, message)
        needed = self._maker(found[0]) if found is not None else None
        if found is None or needed is None:
            return None
        last: int | None = None
        for at in self._reading.before(self._end):
            if at > needed and getattr(self._reading.callee(at), "in_place", False):
                changed = values(self._reading.args(at)[:1])
                last = at if any(self._is_saved(value, needed, found[1]) for value in changed) else last
        return Change(self._reading, needed, last, found[1])

    def _is_saved(self, value: Value, needed: int, saved: Tensor) -> bool:
        """Whether a value is what a call has saved: by its memory or, if only the graph still has it, as what this call
        was given or has made."""
        tensor = value()
        if tensor is not None:
            return share(tensor, saved)
        if value.layout[0] != saved.shape:
            return False
        calls = list(self._reading.ancestors(needed))
        given = [item for at in calls for item in values([self._reading.args(at), self._reading.kwargs(at)])]
        return self._reading.producer(value) in calls or any(item is value for item in given)


class Change:
    """A call that needs a tensor for its gradient and, if it is known, a later one that has changed this in place."""

    def __init__(self, reading: Reading, needed: int, at: int | None, tensor: Tensor) -> None:
        self._reading, self._needed, self._at, self._tensor = reading, needed, at, tensor

    def origins(self) -> Iterator[Origin]:
        """Where both of them are."""
        if self._at is not None:
            yield Origin("changed", "in place at", self._reading.place(self._at))
        yield Origin("needed", "for the gradient of", self._reading.place(self._needed))

    def update(self) -> str:
        """A parameter that was changed, and the step of the optimizer: `optimizer.step() changed D.weight`."""
        parameter = self._parameter()
        line = self._reading.on_line(self._at) if self._at is not None else None
        expression = self._reading.expression(line) if line is not None else None
        called = expression.node.func if expression is not None and isinstance(expression.node, ast.Call) else None
        if expression is not None and isinstance(called, ast.Attribute) and called.attr == "step":
            return f"{expression.text} changed {parameter or 'a parameter'}"
        return f"{parameter} was changed" if parameter and self._at is None else ""

    def _parameter(self) -> str:
        """The parameter by its path in the outermost module around the call that needs it, or by the name of this."""
        for at in reversed(list(self._reading.ancestors(self._needed))):
            callee = self._reading.callee(at)
            module = callee.ref() if isinstance(callee, ModuleCallee) else None
            own = _sharing(module, self._tensor) if module is not None else []
            if own:
                is_told = callee.path and callee.path.partition("#")[0] != callee.facts.type
                return ".".join(filter(None, (callee.path if is_told else self._called(at), own[0])))
        return ""

    def _called(self, at: int) -> str:
        """What a module is called where it is called."""
        expression = self._reading.expression(at)
        node = expression.node if expression is not None else None
        return ast.unparse(node.func) if isinstance(node, ast.Call) else ""


def _sharing(module: nn.Module, tensor: Tensor) -> list[str]:
    return [name for name, parameter in module.named_parameters() if share(parameter, tensor)]


def _is_array(value: Value) -> bool:
    return not issubclass(value.kind, Tensor)
