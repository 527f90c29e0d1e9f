"""The frames of an exception as they were when it passed: where each of them stood, what its names were.

Nothing is kept alive: tensors are noted as everywhere, other objects referred to weakly, of the rest there is a word.
"""

from __future__ import annotations

import dataclasses
import os
import sys
import sysconfig
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from types import CodeType, FrameType, ModuleType, SimpleNamespace, TracebackType
from typing import TYPE_CHECKING, Any, cast

import numpy
import torch
from torch import Tensor, nn

from insitu.capture.containers import outline
from insitu.capture.contents import content_of, small_content_of
from insitu.capture.sites import is_hidden
from insitu.capture.tensors import (
    GIVEN,
    Table,
    Value,
    is_same_layout,
    layout_of,
    make_fresh,
    with_mode_off,
)
from insitu.capture.torch_internals import BUFFERS, MODULE_CALL, MODULES, PARAMETERS, DisableTorchFunction
from insitu.trace.event import Opaque, Word
from insitu.tracebacks import is_own

if TYPE_CHECKING:
    from insitu.capture.probe import Probe

MOST_ITEMS = 32  # of a container that is looked into
MOST_LEAVES = 200  # of all containers together
MOST_DEPTH = 2  # containers in each other
OPTIMIZED = 0x1  # flag of code whose locals are slots: before Python 3.13, its f_locals is a copy that the frame keeps
COPIES = sys.version_info < (3, 13)
# What the user may have that copy by: reading it again would change it.
ASKING = frozenset({"locals", "vars", "eval", "exec", "f_locals", "_getframe", "currentframe", "stack"})
SUSPENDED = 0x20 | 0x80 | 0x200  # flags of generators and coroutines, whose frames forget who has called them
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
    values are noted, `contents` the digests of their values, by id, as far as they are small.
    """

    own: View | None
    inner: View
    modules: list[weakref.ref[nn.Module]]
    note: Note
    contents: dict[int, Any] = field(default_factory=dict)


def take(traceback: TracebackType | None, table: Table, until: TracebackType | None = None) -> Scene | None:
    """The scene that a traceback shows, up to one of its frames; None if there is none in it but those of this tool."""
    own: TracebackType | None = None
    shown: TracebackType | None = None
    last: TracebackType | None = None
    modules: list[weakref.ref[nn.Module]] = []
    for entry in entries(traceback, until):
        frame = entry.tb_frame
        if not is_own(entry):
            last = entry
        module = _module_of(frame)
        if module is not None and (not modules or modules[-1]() is not module):
            modules.append(weakref.ref(module))
        if not is_hidden(frame.f_code.co_filename):
            shown = entry
            if module is not None or not frame.f_code.co_filename.startswith(LIBRARIES):
                own = entry
    own = own or shown
    if last is None:
        return None
    contents: dict[int, Any] = {}
    note = make_note(table, contents)
    inner = _view(last, note)
    view = inner if own is last else _view(own, note) if own is not None else None
    return Scene(view, inner, modules, note, dict(contents))  # what is noted later has none: it is not of this moment


def entries(traceback: TracebackType | None, until: TracebackType | None = None) -> Iterator[TracebackType]:
    """The entries of a traceback, the outermost first."""
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next if traceback is not until else None


def is_shown(traceback: TracebackType | None) -> bool:
    """Whether one of the frames is the user's."""
    return any(not is_hidden(entry.tb_frame.f_code.co_filename) for entry in entries(traceback))


def last_raised(traceback: TracebackType | None) -> TracebackType | None:
    """The entry that raised an exception last: what an earlier raise of the same object has left comes behind it."""
    while traceback is not None and traceback.tb_next is not None:
        if not _leads_to(traceback.tb_frame, traceback.tb_next.tb_frame):
            break
        traceback = traceback.tb_next
    return traceback


def has_come_further(traceback: TracebackType | None, frame: int) -> bool:
    """Whether an exception that had come to a frame, which is known by its id, has only gone on from there."""
    while traceback is not None and id(traceback.tb_frame) != frame:
        if traceback.tb_next is None or not _leads_to(traceback.tb_frame, traceback.tb_next.tb_frame):
            return False
        traceback = traceback.tb_next
    return traceback is not None


def _leads_to(frame: FrameType, inner: FrameType) -> bool:
    """Whether one frame has called another, or may have: a coroutine that has ended does not tell."""
    here = inner
    while here is not frame:
        if here.f_back is None:
            return bool(here.f_code.co_flags & SUSPENDED)
        here = here.f_back
    return True


def _module_of(frame: FrameType) -> nn.Module | None:
    """The module whose method a frame runs."""
    names = frame.f_code.co_varnames
    if not names or names[0] != "self" or frame.f_code.co_name == MODULE_CALL:
        return None
    owner = _locals(frame).get("self")
    return owner if isinstance(owner, nn.Module) else None


def _view(traceback: TracebackType, note: Note) -> View:
    """The frame of a traceback, with the names that its code uses."""
    frame = traceback.tb_frame
    scope, around = _locals(frame), frame.f_globals
    names: dict[str, Any] = {}
    for name in frame.f_code.co_names if scope is around else (*frame.f_code.co_names, *scope):
        if name in scope:
            names[name] = note(scope[name])
        elif name in around:
            names[name] = note(around[name])
    return View(frame.f_code, traceback.tb_lasti, names)


def _locals(frame: FrameType) -> Mapping[str, Any]:
    """The local names of a frame, unless the user may see that they were read."""
    if not COPIES or not frame.f_code.co_flags & OPTIMIZED:
        return frame.f_locals
    if not ASKING.isdisjoint(frame.f_code.co_names):
        return {}
    copy = frame.f_locals
    found = dict(copy)
    if sys.getrefcount(copy) <= 3:  # of the frame, of this function, of the question: it would keep tensors alive
        copy.clear()
    return found


def make_note(table: Table, contents: dict[int, Any]) -> Note:
    """The function that notes any value of a frame; tensors that the table has are those that calls have made."""
    unrecorded = SimpleNamespace(table={}, tape=[], taking=False, paused=True, spent=0.0)
    fresh = with_mode_off(make_fresh(cast("Probe", unrecorded), None, content_of))
    room = MOST_LEAVES

    def leaf(tensor: Any) -> Value:
        value = known(tensor)
        with DisableTorchFunction():
            contents[id(value)] = small_content_of(tensor)
        return value

    def known(tensor: Any) -> Value:
        value: Any = table.get(id(tensor)) or unrecorded.table.get(id(tensor))
        if value is None or value() is not tensor:
            return fresh(tensor, GIVEN)
        with DisableTorchFunction():
            is_same = is_same_layout(value.layout, layout_of(tensor))
        return value if is_same else fresh(tensor, value.producer)  # changed unseen

    def note(item: Any) -> Any:
        nonlocal room
        kind = type(item)
        if kind in PLAIN:
            return item
        try:
            if issubclass(kind, TENSORS):
                return leaf(item)
            if issubclass(kind, ModuleType):
                return Word(item.__name__)
            if issubclass(kind, CONTAINERS):
                leaves = _leaves(item, room)
                if leaves > room:
                    return Word(f"{kind.__name__}, len {len(item)}")
                room -= leaves
            return outline(item, leaf) if issubclass(kind, (*CONTAINERS, *ATOMS)) else weakref.ref(item)
        except Exception:  # it cannot be referred to weakly, or is an object of the user with a will of its own
            return Opaque(kind.__name__)

    return note


def _leaves(item: Any, most: int, depth: int = 0) -> int:
    """How many things are in a container; more than `most` as soon as that is clear, and where it is too deep or long.

    >>> _leaves([1, (2, 3)], 200), _leaves([[[[1]]]], 200), _leaves([[0] * 30] * 30, 200)
    (3, 201, 201)
    """
    parts = _parts(item)
    if parts is None:
        return 1
    if depth == MOST_DEPTH or len(parts) > min(most, MOST_ITEMS):
        return most + 1
    found = 0
    for part in parts:
        found += _leaves(part, most - found, depth + 1)
        if found > most:
            return most + 1
    return found


def _parts(item: Any) -> Collection[Any] | None:
    """The items of a container, or the fields of a dataclass, without running code of its class."""
    kind = type(item)
    if issubclass(kind, dict):
        return dict.values(item)
    base = next((base for base in CONTAINERS if issubclass(kind, base)), None)
    if base is not None:
        return item if kind is base else list(base.__iter__(item))
    return list(getattr(item, "__dict__", {}).values()) if dataclasses.is_dataclass(kind) else None


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
    for part in (PARAMETERS, BUFFERS, MODULES):
        if isinstance(owner, nn.Module) and name in scope.get(part, {}):
            return note(scope[part][name])
    return None
