"""Where values come from: the line that made one, the path of a parameter, the call that it was given to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from torch import nn

from insitu.capture.explain.assigned import assigned
from insitu.capture.explain.reading import Reading, values
from insitu.capture.explain.scene import LIBRARIES
from insitu.capture.names import ModuleCallee, wrapped_name
from insitu.capture.tensors import Value
from insitu.capture.torch_internals import BUFFERS, PARAMETERS
from insitu.trace.explanation import Origin, Place
from insitu.trace.operation import Operation, operation

MOST_STEPS = 50

# A module around the call, and its path.
Around = tuple[nn.Module, str]


class Origins:
    """Names the values of one failure and tells where they were made."""

    def __init__(self, reading: Reading, at: int | None, modules: Sequence[Around]) -> None:
        self._reading, self._at, self._modules = reading, at, modules

    def path(self, value: Value) -> str | None:
        """The path of a parameter or buffer: of the innermost module around, else of any in the outermost."""
        tensor = value()
        if tensor is None:
            return None
        for module, path in reversed(self._modules):
            name = _own_name(module, tensor)
            if name is not None:
                return f"{path}.{name}" if path else name
        for module, path in self._modules[:1]:
            for name, inner in module.named_modules():
                own = _own_name(inner, tensor) if wrapped_name(inner) is None else None
                if own is not None:
                    return ".".join(filter(None, (path, name, own)))
        return None

    def origins(self, name: str, value: Value, here: Place | None) -> Iterator[Origin]:
        """Where a value was made, to whom it was given, or at least where its name was assigned."""
        if self.path(value) is not None:
            yield from self._initialized(name, value)
            return
        made = self._reading.producer(value)
        place = self._reading.place(made) if made is not None else None
        if place is not None:
            yield Origin(name, "made at", place)
            return
        given = self._given(value)
        if given is not None:
            label, at = given
            place = self._reading.place(at)
            yield Origin(name, f"given to {label} at", place)
            name, here = self._reading.name_in(at, value), place
        if here is not None:
            yield from (Origin(name, "assigned at", place) for place in assigned(here.file, here.line, name))

    def _initialized(self, name: str, value: Value) -> Iterator[Origin]:
        """Where a parameter got its first values: where its module was made, if that was recorded."""
        tensor = value()
        for at in self._reading.before(len(self._reading.tape)) if tensor is not None else ():
            result = self._reading.result(at)
            if isinstance(result, Value) and result() is tensor:
                if _operation(self._reading.callee(at)).is_initial:
                    yield Origin(name, "made at", self._reading.place(at))
                return

    def _given(self, value: Value) -> tuple[str, int] | None:
        """The outermost call around that was given the value."""
        found: tuple[str, int] | None = None
        for at in self._reading.ancestors(self._at) if self._at is not None else ():
            callee, place = self._reading.callee(at), self._reading.place(at)
            taken = values([self._reading.args(at), self._reading.kwargs(at)])
            if place is None or place.file.startswith(LIBRARIES):
                continue
            if callee.kind in ("module", "python") and any(item is value for item in taken):
                label = (callee.path or callee.facts.type) if isinstance(callee, ModuleCallee) else callee.name
                found = label, at
        return found

    def source(self, value: Value) -> Place | None:
        """The line where the values of a tensor come from, behind all that only moves or converts them."""
        made = self._reading.producer(value)
        for _ in range(MOST_STEPS):
            before = self._moved(made) if made is not None else None
            if before is None:
                break
            made = before
        return self._reading.place(made) if made is not None else None

    def _moved(self, at: int) -> int | None:
        """The call that produced the values which the call at this place only moves or converts."""
        what = _operation(self._reading.callee(at))
        if not what.is_move:
            return None
        producers = [self._reading.producer(item) for item in values(self._reading.args(at))]
        if what.family == "join":
            return next((producer for producer in reversed(producers) if producer is not None), None)
        moved = producers[1:] if what.overwrites else producers
        return moved[0] if moved else None


def _operation(callee: Any) -> Operation:
    return operation(callee.kind, getattr(callee, "name", ""))


def _own_name(module: nn.Module, tensor: Any) -> str | None:
    scope = module.__dict__
    for part in (PARAMETERS, BUFFERS):
        for name, own in scope.get(part, {}).items():
            if own is tensor:
                return str(name)
    return None
