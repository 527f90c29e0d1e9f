"""The scene of an exception: the frames as they were when it passed, and the modules around them.

Nothing is kept alive: see `snapshots.py`.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from types import FrameType, TracebackType
from typing import Any

from torch import nn

from insitu.capture.explain.raising import entries
from insitu.capture.explain.snapshots import ValueSnapshots
from insitu.capture.sites import is_hidden
from insitu.capture.tensors import Table
from insitu.capture.torch_internals import MODULE_CALL
from insitu.trace.explain.failure import LIBRARIES, NO_FRAME, FrameSnapshot
from insitu.trace.explain.failure_history import Instruction
from insitu.tracebacks import is_own

OPTIMIZED = 0x1  # flag of code whose locals are slots: before Python 3.13, its f_locals is a copy that the frame keeps
COPIES = sys.version_info < (3, 13)
# The user may have that copy through one of these: to read it again would change it.
LOCALS_READERS = frozenset({"locals", "vars", "eval", "exec", "f_locals", "_getframe", "currentframe", "stack"})


@dataclass(slots=True, frozen=True)
class Scene:
    """What an exception left: the innermost frame that is the user's, the innermost of all, the modules around.

    `own` is NO_FRAME where only torch ran, and the same as `inner` where no code of torch was called further in.
    `contents` are the digests of small tensors, by the ids of their values. `callers` are the frames of the user
    outside of `own`, the innermost first.
    """

    own: FrameSnapshot = NO_FRAME
    inner: FrameSnapshot = NO_FRAME
    modules: tuple[weakref.ref[nn.Module], ...] = ()
    contents: dict[int, Any] = field(default_factory=dict)
    callers: tuple[Instruction, ...] = ()


def take_scene(traceback: TracebackType | None, table: Table, until: TracebackType | None = None) -> Scene:
    """The scene of a traceback, up to one of its entries; empty if it has no frames but those of this tool."""
    passed = list(entries(traceback, until))
    inner = next((entry for entry in reversed(passed) if not is_own(entry)), None)
    if inner is None:
        return Scene()
    snapshots = ValueSnapshots(table)
    own = _own_entry(passed)
    inner_frame = _snapshot(inner, snapshots)
    own_frame = inner_frame if own is inner else _snapshot(own, snapshots)
    contents = dict(snapshots.contents)  # attributes that are read later have no digest: they are not of this moment
    return Scene(own_frame, inner_frame, tuple(map(weakref.ref, _modules(passed))), contents, _callers(passed, own))


def _callers(passed: list[TracebackType], own: TracebackType | None) -> tuple[Instruction, ...]:
    """The frames that are shown outside of an entry, the innermost first."""
    outside = list(takewhile(lambda entry: entry is not own, passed))
    shown = [entry for entry in reversed(outside) if not is_hidden(entry.tb_frame.f_code.co_filename)]
    return tuple((entry.tb_frame.f_code, entry.tb_lasti) for entry in shown)


def _own_entry(passed: list[TracebackType]) -> TracebackType | None:
    """The innermost entry of the user's own code, else the innermost one of any library but torch."""
    shown = [entry for entry in passed if not is_hidden(entry.tb_frame.f_code.co_filename)]
    own = [entry for entry in shown if _is_users(entry.tb_frame)]
    return next(reversed(own or shown), None)


def _is_users(frame: FrameType) -> bool:
    """Whether the user wrote a frame's code: a model may be part of a library, too."""
    return not frame.f_code.co_filename.startswith(LIBRARIES) or _module_of(frame) is not None


def _modules(passed: list[TracebackType]) -> list[nn.Module]:
    """The modules whose methods run, the outermost first."""
    found: list[nn.Module] = []
    for entry in passed:
        module = _module_of(entry.tb_frame)
        is_repeated = bool(found) and found[-1] is module
        if module is not None and not is_repeated:
            found.append(module)
    return found


def _module_of(frame: FrameType) -> nn.Module | None:
    """The module whose method a frame runs."""
    names = frame.f_code.co_varnames
    if names[:1] != ("self",) or frame.f_code.co_name == MODULE_CALL:
        return None
    owner = _locals(frame).get("self")
    if isinstance(owner, nn.Module):
        return owner
    return None


def _snapshot(traceback: TracebackType | None, snapshots: ValueSnapshots) -> FrameSnapshot:
    """The frame of a traceback, with the names that its code uses."""
    if traceback is None:
        return NO_FRAME
    frame = traceback.tb_frame
    scope, around = _locals(frame), frame.f_globals
    used = frame.f_code.co_names if scope is around else (*frame.f_code.co_names, *scope)
    names: dict[str, Any] = {}
    for name in used:
        owner = scope if name in scope else around
        if name in owner:
            names[name] = snapshots.take(owner[name])
    return FrameSnapshot(frame.f_code, traceback.tb_lasti, names, is_hidden(frame.f_code.co_filename))


def _locals(frame: FrameType) -> Mapping[str, Any]:
    """The local names of a frame, unless the user may see that they were read."""
    if not COPIES or not frame.f_code.co_flags & OPTIMIZED:
        return frame.f_locals
    if not LOCALS_READERS.isdisjoint(frame.f_code.co_names):
        return {}
    copy = frame.f_locals
    found = dict(copy)
    if sys.getrefcount(copy) <= 3:  # of the frame, of this function, of the question: it would keep tensors alive
        copy.clear()
    return found
