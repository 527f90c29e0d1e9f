"""The frames of an exception as they were when it passed: where each of them stood, what its names were.

Nothing is kept alive: tensors are noted as everywhere, other objects referred to weakly, of the rest there is a word.
"""

from __future__ import annotations

import os
import sysconfig
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from types import CodeType, FrameType, ModuleType, SimpleNamespace, TracebackType
from typing import TYPE_CHECKING, Any, cast

import numpy
import torch
from torch import Tensor, nn

from insitu.capture.arguments import contained
from insitu.capture.sites import is_hidden
from insitu.capture.tensors import GIVEN, Table, Value, guarded, make_fresh
from insitu.trace.event import Opaque, Word
from insitu.tracebacks import is_own

if TYPE_CHECKING:
    from insitu.capture.probe import Probe

MOST_ITEMS = 32  # of a container that is looked into
OPTIMIZED = 0x1  # flag of code whose locals are slots: its f_locals is a copy
# Code that is not the user's own, unless a model is written in it.
LIBRARIES = tuple(os.path.join(sysconfig.get_path(name), "") for name in ("stdlib", "purelib", "platlib"))
Note = Callable[[Any], Any]


@dataclass(slots=True)
class View:
    """One frame: its code, the instruction it had come to, and what its names were."""

    code: CodeType
    lasti: int
    names: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Scene:
    """What an exception has left: the innermost frame that is the user's, the innermost of all, the modules around.

    `own` is None where only torch ran, and the same as `inner` where no code of torch lies further in; `note` is how
    values are noted.
    """

    own: View | None
    inner: View
    modules: list[weakref.ref[nn.Module]]
    note: Note


def take(traceback: TracebackType | None, table: Table) -> Scene | None:
    """The scene that a traceback shows; None if there is no frame in it but those of this tool."""
    own: TracebackType | None = None
    shown: TracebackType | None = None
    last: TracebackType | None = None
    modules: list[weakref.ref[nn.Module]] = []
    while traceback is not None:
        frame = traceback.tb_frame
        if not is_own(traceback):
            last = traceback
        module = _module_of(frame)
        if module is not None and (not modules or modules[-1]() is not module):
            modules.append(weakref.ref(module))
        if not is_hidden(frame.f_code.co_filename):
            shown = traceback
            if module is not None or not frame.f_code.co_filename.startswith(LIBRARIES):
                own = traceback
        traceback = traceback.tb_next
    own = own or shown
    if last is None:
        return None
    note = make_note(table)
    inner = _view(last, note)
    return Scene(inner if own is last else _view(own, note) if own is not None else None, inner, modules, note)


def is_shown(traceback: TracebackType | None) -> bool:
    """Whether one of the frames is the user's."""
    while traceback is not None:
        if not is_hidden(traceback.tb_frame.f_code.co_filename):
            return True
        traceback = traceback.tb_next
    return False


def _module_of(frame: FrameType) -> nn.Module | None:
    """The module whose method a frame runs."""
    names = frame.f_code.co_varnames
    if not names or names[0] != "self" or frame.f_code.co_name == "_call_impl":
        return None
    owner = frame.f_locals.get("self")
    _let_go(frame)
    return owner if isinstance(owner, nn.Module) else None


def _view(traceback: TracebackType, note: Note) -> View:
    """The frame of a traceback, with the names that its code uses."""
    frame = traceback.tb_frame
    scope, around = frame.f_locals, frame.f_globals
    names: dict[str, Any] = {}
    for name in frame.f_code.co_names if scope is around else (*frame.f_code.co_names, *scope):
        if name in scope:
            names[name] = note(scope[name])
        elif name in around:
            names[name] = note(around[name])
    _let_go(frame)
    return View(frame.f_code, traceback.tb_lasti, names)


def _let_go(frame: FrameType) -> None:
    """Empty the copy of its locals that a frame keeps once they were asked for (before Python 3.13)."""
    scope = frame.f_locals if frame.f_code.co_flags & OPTIMIZED else None
    if type(scope) is dict:
        scope.clear()


def make_note(table: Table) -> Note:
    """The function that notes any value of a frame; tensors that the table has are those that calls have made."""
    unrecorded = SimpleNamespace(table={}, taking=False, paused=True, spent=0.0)
    fresh = guarded(make_fresh(cast("Probe", unrecorded), None))

    def leaf(tensor: Any) -> Value:
        value: Any = table.get(id(tensor)) or unrecorded.table.get(id(tensor))
        if value is None or value() is not tensor:
            return fresh(tensor, GIVEN)
        return value if value.layout[0] == tensor.shape else fresh(tensor, value.producer)  # changed unseen

    def note(item: Any) -> Any:
        kind = type(item)
        if kind in PLAIN:
            return item
        try:
            if issubclass(kind, TENSORS):
                return leaf(item)
            if issubclass(kind, ModuleType):
                return Word(item.__name__)
            if issubclass(kind, CONTAINERS) and len(item) > MOST_ITEMS:
                return Word(f"{kind.__name__}, len {len(item)}")
            return contained(item, leaf) if issubclass(kind, (*CONTAINERS, *ATOMS)) else weakref.ref(item)
        except Exception:  # it cannot be referred to weakly, or is an object of the user with a will of its own
            return Opaque(kind.__name__)

    return note


PLAIN = frozenset({int, float, bool, type(None)})
TENSORS = (Tensor, numpy.ndarray)
CONTAINERS = (list, tuple, dict, set)
ATOMS = (int, float, complex, str, type(None), torch.dtype, torch.device, numpy.generic)


def attribute(item: Any, name: str, note: Note) -> Any:
    """The attribute of what a name refers to, if it is stored in the object itself: no code of the user is run."""
    owner = item() if isinstance(item, weakref.ref) and not isinstance(item, Value) else None
    scope = getattr(owner, "__dict__", None)
    if not isinstance(scope, dict):
        return None
    if name in scope:
        return note(scope[name])
    for part in ("_parameters", "_buffers", "_modules"):
        if isinstance(owner, nn.Module) and name in scope.get(part, {}):
            return note(scope[part][name])
    return None
