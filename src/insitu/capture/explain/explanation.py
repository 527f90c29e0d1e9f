"""An explanation, made of a moment: the line, the values on it, what does not fit, where they come from."""

from __future__ import annotations

import linecache
import re
from collections import Counter
from collections.abc import Iterator
from types import CodeType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from insitu.capture.calls import FunctionCallee
from insitu.capture.contents import small_content_of
from insitu.capture.explain.assigned import assigned, returned
from insitu.capture.explain.expressions import Expression, expression_at
from insitu.capture.explain.graph import Change, Graph
from insitu.capture.explain.guess import Guess
from insitu.capture.explain.operands import Statement
from insitu.capture.explain.origins import Around, Origins
from insitu.capture.explain.reading import Reading, values
from insitu.capture.explain.saved import nodes
from insitu.capture.explain.scene import Scene
from insitu.capture.keep import has_values
from insitu.capture.sites import is_hidden
from insitu.capture.tape import ARGS, FIXED, FRAMES, KWARGS, OUTERMOST, PARENT
from insitu.capture.tensors import Value
from insitu.capture.torch_internals import FORWARD_CLASS, DisableTorchDispatch, DisableTorchFunction
from insitu.trace.diagnose import diagnose
from insitu.trace.event import Call, TensorFacts
from insitu.trace.explanation import Case, Explanation, Mark, Operand, Origin, Place

if TYPE_CHECKING:
    from insitu.capture.explain.notes import Moment

MOST_ORIGINS = 4
MOST_MARKS = 4  # under one line; of more, only those of the operands


def explanation(moment: Moment) -> Explanation:
    """Why an exception was raised. Neither autograd nor any mode sees what is done for it."""
    with torch.no_grad(), DisableTorchFunction(), DisableTorchDispatch():
        reading = Reading(moment.tape, thread=moment.thread, cleared=moment.cleared)
        try:
            return _Explaining(moment, reading).explanation()
        finally:
            reading.close()


class _Explaining:
    def __init__(self, moment: Moment, reading: Reading) -> None:
        self.moment, self.reading, self.scene = moment, reading, moment.scene
        self.at = self._function(moment.at)
        self.expression, self.place = self._where()
        self.statement = self._statement()
        self.modules = self._modules()
        self.origins = Origins(reading, self.at, self.modules)
        self._own_guess = self._own()
        self.call, self.values = self._called()
        self.change = self._change()

    def _function(self, at: int | None) -> int | None:
        """The torch function that failed, if it was one of its operators that was seen to; else the call itself."""
        if at is None or self.reading.callee(at).kind != "aten":
            return at
        above = self.reading.tape[at + PARENT]
        is_function = above != OUTERMOST and isinstance(self.reading.callee(above), FunctionCallee)
        return above if is_function and not self.reading.callee(above).runs_backward else at

    def _where(self) -> tuple[Expression | None, Place | None]:
        """The line that failed: of the innermost frame of the user or, where only torch ran, of the call."""
        if self.scene is not None and self.scene.own is not None:
            view = self.scene.own
            return expression_at(view.code, view.lasti), Reading.place_of(view.code, view.lasti)
        line = self.reading.on_line(self.at) if self.at is not None else None
        if line is None:
            return None, None
        return self.reading.expression(line), self.reading.place(line)

    def _statement(self) -> Statement | None:
        if self.expression is None:
            return None
        if self.scene is not None and self.scene.own is not None:
            parent = self.moment.at if self.moment.at is not None else OUTERMOST
            return Statement(self.reading, self.expression, parent=parent, end=self.moment.end)
        line = self.reading.on_line(self.at) if self.at is not None else None
        assert line is not None
        tape = self.reading.tape
        end = line + FIXED + tape[line + ARGS] + tape[line + KWARGS] + max(tape[line + FRAMES], 0)
        return Statement(self.reading, self.expression, parent=tape[line + PARENT], end=end)

    def _modules(self) -> list[Around]:
        """The modules around, the outermost first, with their paths."""
        if self.at is not None:
            callees = self.reading.modules(self.at)
            return [(module, callee.path) for callee in callees if (module := callee.ref()) is not None]
        found = [module for ref in (self.scene.modules if self.scene else []) if (module := ref()) is not None]
        if not found:
            return []
        paths = {id(module): name for name, module in found[0].named_modules()}
        return [(module, paths[id(module)]) for module in found if id(module) in paths]

    def _own(self) -> Guess | None:
        """What the innermost frame of the user was about to do."""
        if self.scene is None or self.scene.own is None:
            return None
        return Guess(self.scene.own, self.reading, self.scene.note, self.statement)

    def _called(self) -> tuple[Call | None, list[tuple[Value, str]]]:
        """The call that failed, and the names of the values that went into it."""
        if self.scene is not None:
            guessed = self._guessed(self.scene)
            if guessed is not None or self.scene.own is not None:
                return guessed or (None, [])
        if self.at is None:
            return None, []
        call = self.reading.call(self.at)
        given = values([self.reading.args(self.at), self.reading.kwargs(self.at)])
        return call, [(value, "") for value in given]

    def _guessed(self, scene: Scene) -> tuple[Call, list[tuple[Value, str]]] | None:
        """The call that the innermost frame was making; what torch calls its values is not what the user does."""
        statement = self.statement if scene.inner is scene.own else None
        guess = Guess(scene.inner, self.reading, scene.note, statement)
        found = guess.call(self.moment.error, self.moment.message)
        if found is None and self._own_guess is not None and scene.inner is not scene.own:
            found = self._own_guess.call(self.moment.error, self.moment.message)
        if found is None or (scene.own is None and self.at is not None and found[0].name not in KNOWN_INSIDE):
            return None
        hidden = is_hidden(scene.inner.code.co_filename)
        return found[0], [(value, "" if hidden else name) for value, name in found[1]]

    def _change(self) -> Change | None:
        """What was changed in place that a backward pass needs."""
        if "modified by an inplace operation" not in self.moment.message:
            return None
        inner = self.scene.inner.names if self.scene is not None else {}
        losses = [value for value, _ in self.values] or list(values(inner.get("t_outputs")))  # as the engine has them
        loss = losses[0]() if losses else None
        return Graph(self.reading, self.moment.end).changed(loss, self.moment.message)

    def explanation(self) -> Explanation:
        """All of it."""
        operands = tuple(self._operands())
        self.marks = tuple(self._marks())
        unpacked = self.reading.plain(self._own_guess.unpacked()) if self._own_guess is not None else None
        nothing = tuple(self._nothing())
        case = Case(self.moment.error, self.moment.message, self.call, operands, self._limits, nothing, unpacked)
        case.update = self.change.update() if self.change is not None else ""
        self.misfits = diagnose(case)
        first, last = self.expression.lines if self.expression is not None else (0, -1)
        place = self.place
        if self.expression is None and place is not None:
            first = last = place.line
        file = place.file if place is not None else ""
        source = tuple((line, linecache.getline(file, line).rstrip("\n")) for line in range(first, last + 1))
        labels = [path or type(module).__name__ for module, path in self.modules]
        return Explanation(
            self.moment.error,
            self.moment.message,
            place,
            tuple(labels),
            tuple((line, text) for line, text in source if text.strip()),
            self.marks,
            self.misfits,
            self._told(),
        )

    def _operands(self) -> Iterator[Operand]:
        for index, (value, text) in enumerate(self.values):
            name = self._name(value) or text
            self.values[index] = (value, name)
            yield Operand(name, self.reading.plain(value))

    def _name(self, value: Value) -> str:
        named = self.statement.named_as(value) if self.statement is not None else None
        path = self.origins.path(value)
        if named is not None or path is not None:
            return named.text if named is not None else path or ""
        names = self.scene.own.names if self.scene is not None and self.scene.own is not None else {}
        return next((name for name, item in names.items() if item is value), "")

    def _marks(self) -> Iterator[Mark]:
        """What is on the line: the operands of the call that failed, and the rest where there is room for it."""
        first, last = self.expression.lines if self.expression is not None else (0, -1)
        operands = self.statement.operands([value for value, _ in self.values]) if self.statement is not None else []
        found = {(mark.line, mark.start): mark for mark in self._names_on_line()}
        if operands and max(Counter(line for line, _ in found).values(), default=0) > MOST_MARKS:
            found.clear()
        for mark in operands:
            if not any(_is_within(other, mark) for other in found.values()):  # else its parts are marked
                found[mark.line, mark.start] = mark
        yield from (mark for mark in found.values() if first <= mark.line <= last)

    def _names_on_line(self) -> Iterator[Mark]:
        if self._own_guess is not None:
            yield from self._own_guess.marks()
        if self.statement is not None:
            yield from self.statement.marks()

    def _limits(self, facts: TensorFacts) -> tuple[float, float] | None:
        """The smallest and the largest value of a tensor that is still there and as it was."""
        value = next((value for value, _ in self.values if self.reading.plain(value) is facts), None)
        tensor = value() if value is not None else None
        if not isinstance(tensor, Tensor) or not has_values(tensor) or not tensor.numel():
            return None
        before = self.moment.contents.get(id(value))
        if before is None or before != small_content_of(tensor):
            return None
        low, high = tensor.detach().aminmax()
        return float(low), float(high)

    def _told(self) -> tuple[Origin, ...]:
        """Each origin once, unless it is the line that failed."""
        found: dict[Any, Origin] = {}
        for origin in self._origins():
            if origin.place != self.place or origin.how != "made at":
                found.setdefault(origin.place, origin)
        return tuple(found.values())[:MOST_ORIGINS]

    def _origins(self) -> Iterator[Origin]:
        """Where the operands come from, unless the line itself has made them; what autograd tells."""
        yield from self._autograd()
        for value, name in [*self.values, *self._others()]:
            made_here = self.statement.named_as(value) if self.statement is not None else None
            if name and not (made_here is not None and made_here.made_here) and self._matters(value, name):
                yield from self.origins.origins(name, value, self.place)
                if VALUES.search(self.moment.message):
                    yield from self._source(value)
        yield from self._missing()

    def _matters(self, value: Value, name: str) -> bool:
        """Whether to tell where an operand comes from: of a parameter only if it is part of what does not fit."""
        if self.origins.path(value) is None:
            return True
        texts = [text for found in self.misfits for text in (found.text, *(row.name for row in found.rows))]
        return any(name in text for text in texts)

    def _others(self) -> list[tuple[Value, str]]:
        """Where no call is known that failed: the tensors on the line."""
        if self.call is not None:
            return []
        found = [(named.value, named.text) for named in self.statement.named] if self.statement is not None else []
        return found + (self._own_guess.tensors() if self._own_guess is not None else [])

    def _source(self, value: Value) -> Iterator[Origin]:
        """For what is wrong with the values themselves: where these come from."""
        place = self.origins.source(value)
        if place is not None:
            yield Origin("", "its values made at", place)

    def _missing(self) -> Iterator[Origin]:
        """Where what is None was assigned."""
        for name, place in self._nones():
            if place is not None:
                yield Origin(name, "assigned at", place)

    def _nothing(self) -> Iterator[tuple[str, str]]:
        """What is None on the line, and the module or function that has returned it."""
        for name, place in self._nones():
            yield name, self.reading.returning_none(place, self.moment.end) if place is not None else ""

    def _nones(self) -> Iterator[tuple[str, Place | None]]:
        """The names on the line that are None, and where that was assigned."""
        if "NoneType" not in self.moment.message or self.place is None or self.expression is None:
            return
        for mark in self.marks:
            if mark.value is None:
                name = linecache.getline(self.place.file, mark.line)[mark.start : mark.end]
                yield name, next(iter(assigned(self.place.file, self.place.line, name)), None)

    def _autograd(self) -> Iterator[Origin]:
        graph, message = Graph(self.reading, self.moment.end), self.moment.message
        loss = self.values[0][0] if self.values else None
        forward = graph.forward(self.moment.at) if self.moment.at is not None else None
        if forward is not None:
            yield forward
        if "does not have a grad_fn" in message and loss is not None:
            yield from graph.lost(loss)
        elif "backward through the graph a second time" in message:
            earlier = graph.earlier_backward()
            if earlier is not None:
                yield earlier
        elif "modified by an inplace operation" in message:
            yield from self.change.origins() if self.change is not None else ()
        elif found := re.search(r"Function (\w+) returned an invalid gradient", message):
            function, number = found[1], re.search(r"at index (\d+)", message)
            code = custom_backward(loss() if loss is not None else None, function)
            if code is not None:
                places = returned(code.co_filename, code.co_firstlineno + 1, int(number[1]) if number else 0)
                yield from (Origin(function.removesuffix("Backward"), "gradient at", place) for place in places)


VALUES = re.compile("out of range|out of bounds|between 0 and 1|Class values")
# What torch's own modules call where they fail, and whose operands say more than those of the module.
KNOWN_INSIDE = frozenset(
    {"torch.nn.functional.linear", "torch.nn.functional.embedding", "torch.nn.functional.layer_norm"}
)


def _is_within(mark: Mark, other: Mark) -> bool:
    return mark.line == other.line and other.start <= mark.start and mark.end <= other.end


def custom_backward(loss: Any, name: str) -> CodeType | None:
    """The backward of a custom function of the user that is in the graph of a loss."""
    for node in nodes(loss):
        function = getattr(type(node), FORWARD_CLASS, None)
        if node.name() == name and function is not None:
            return getattr(function.backward, "__code__", None)
    return None
