"""Where values come from: the line that made one, the path of a parameter, the call that it was given to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from torch import nn

from insitu.capture.explain.assigned import assigned
from insitu.capture.explain.reading import Reading, values
from insitu.capture.explain.scene import LIBRARIES
from insitu.capture.names import ModuleNote, wrapped_name
from insitu.capture.tensors import Value
from insitu.trace.compare.operation import own_name
from insitu.trace.explanation import Origin, Place

# Functions whose result has the values of what went in, moved or converted: values come from further back.
_MOVING = """
    stack cat concat view reshape flatten unflatten squeeze unsqueeze permute transpose t mT T expand contiguous clone
    to long int float double half cuda cpu split chunk unbind detach narrow select __getitem__ movedim repeat type
    pad_sequence
"""
MOVING = frozenset(_MOVING.split())
# Functions that give a parameter, or a buffer, its first values.
INITIAL = ("uniform_", "normal_", "ones_", "zeros_", "zero_", "fill_", "orthogonal_", ".zeros", ".ones", ".tensor")
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
                if self._reading.note(at).name.endswith(INITIAL):
                    yield Origin(name, "made at", self._reading.place(at))
                return

    def _given(self, value: Value) -> tuple[str, int] | None:
        """The outermost call around that was given the value."""
        found: tuple[str, int] | None = None
        for at in self._reading.ancestors(self._at) if self._at is not None else ():
            note, place = self._reading.note(at), self._reading.place(at)
            taken = values([self._reading.args(at), self._reading.kwargs(at)])
            if place is None or place.file.startswith(LIBRARIES):
                continue
            if note.kind in ("module", "python") and any(item is value for item in taken):
                label = (note.path or note.facts.type) if isinstance(note, ModuleNote) else note.name
                found = label, at
        return found

    def source(self, value: Value) -> Place | None:
        """The line where the values of a tensor come from, behind all that only moves or converts them."""
        made = self._reading.producer(value)
        for _ in range(MOST_STEPS):
            if made is None or not _is_moving(self._reading.note(made)):
                break
            before = [self._reading.producer(item) for item in values(self._reading.args(made))]
            known = [at for at in before if at is not None]
            if not known:
                break
            made = known[-1]
        return self._reading.place(made) if made is not None else None


def _is_moving(note: Any) -> bool:
    """Whether a call only moves or converts what it is given."""
    return own_name(note.kind, getattr(note, "name", "")) in MOVING


def _own_name(module: nn.Module, tensor: Any) -> str | None:
    scope = module.__dict__
    for part in ("_parameters", "_buffers"):
        for name, own in scope.get(part, {}).items():
            if own is tensor:
                return str(name)
    return None
