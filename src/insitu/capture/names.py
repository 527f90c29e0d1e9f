"""The names of modules: clean paths, through the wrappers that training puts around a model."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal

from torch import nn
from torch._C import DisableTorchFunction

from insitu.capture.arguments import stranger
from insitu.capture.fused import FUSED
from insitu.trace.event import ModuleFacts

# Modules that only wrap another one, by module and class, and the attribute that holds it. Users call children
# `module` too, so the name of the attribute alone says nothing.
WRAPPERS = {
    "torch.nn.parallel.distributed.DistributedDataParallel": "module",
    "torch.nn.parallel.data_parallel.DataParallel": "module",
    "torch.optim.swa_utils.AveragedModel": "module",
    "torch.distributed.fsdp.fully_sharded_data_parallel.FullyShardedDataParallel": "_fsdp_wrapped_module",
    "torch._dynamo.eval_frame.OptimizedModule": "_orig_mod",
    "torch.distributed.algorithms._checkpoint.checkpoint_wrapper.CheckpointWrapper": "_checkpoint_wrapped_module",
    "torch.distributed.algorithms._checkpoint.checkpoint_wrapper.OffloadWrapper": "_checkpoint_wrapped_module",
    "deepspeed.runtime.engine.DeepSpeedEngine": "module",
    "megatron.core.distributed.distributed_data_parallel.DistributedDataParallel": "module",
    "torchrec.distributed.model_parallel.DistributedModelParallel": "_dmp_wrapped_module",
    "lightning.fabric.wrappers._FabricModule": "_forward_module",
    "opacus.grad_sample.grad_sample_module.GradSampleModule": "_module",
}

# Settings that torch's own modules have without declaring them.
MORE_SETTINGS = ("embed_dim", "num_heads")


class ModuleNote:
    """A module that is, or may be, called: its path, and what the hot path must know of it."""

    __slots__ = ("called", "facts", "fused", "in_place", "kind", "path", "ref", "subject", "transparent", "wanted")

    kind: Literal["module"]

    def __init__(self, module: nn.Module, path: str, *, wanted: bool, subject: bool) -> None:
        self.kind = "module"
        self.ref = weakref.ref(module)
        self.path = path
        self.wanted = wanted
        self.called = False
        self.subject = subject
        self.transparent = wrapped_name(module) is not None
        self.fused = isinstance(module, FUSED)
        self.in_place = module.__dict__.get("inplace") is True
        self.facts = ModuleFacts(path, type(module).__name__)


class Names:
    """The notes of all modules of a session, found by id."""

    def __init__(self, subject: nn.Module | None, wanted: Callable[[str], bool]) -> None:
        self.notes: dict[int, ModuleNote] = {}
        self.has_subject = subject is not None
        self._wanted = wanted
        self._taken: dict[str, int] = {}
        self._shared: dict[Any, Any] = {}
        if subject is not None:
            self._taken[""] = 1
            self._add_tree(subject, "", subject=True)

    def learn(self, module: nn.Module, caller: ModuleNote | None) -> ModuleNote | None:
        """The note of a module that has none yet, called while `caller` runs; None if it is not to be traced."""
        if caller is None and self.has_subject:
            return None
        path = self._free_path(type(module).__name__ if self._taken or caller else "", caller)
        self._add_tree(module, path, subject=False)
        return self.notes[id(module)]

    def describe(self, note: ModuleNote, module: nn.Module) -> None:
        """Fill in, at the first call, what is needed to show the module: later it may be gone."""
        note.called = True
        with DisableTorchFunction():  # modes of others are not to see this
            describe(module, note.facts, self._shared)

    def _free_path(self, name: str, caller: ModuleNote | None) -> str:
        path = ".".join(filter(None, (caller.path if caller else "", name)))
        self._taken[path] = count = self._taken.get(path, 0) + 1
        return path if count == 1 else f"{path}#{count}"

    def _add_tree(self, root: nn.Module, path: str, *, subject: bool) -> None:
        todo, added = [(root, path, subject)], []
        while todo:
            module, path, subject = todo.pop()
            note = self.notes.get(id(module))
            if note is not None and note.ref() is module:
                continue
            note = ModuleNote(module, path, wanted=self._wanted(path), subject=subject)
            self.notes[id(module)] = note
            inner = list(named_children(module, path, subject))
            todo += reversed(inner)
            added.append((module, note.facts, [child for child, _, _ in inner]))
        with DisableTorchFunction():  # modes of others are not to see this
            count_parameters(added)


def named_children(module: nn.Module, path: str, subject: bool) -> Iterator[tuple[nn.Module, str, bool]]:
    """Each child with its path; what a wrapper wraps has the path, and the rank, of the wrapper."""
    inner = wrapped_name(module)
    for name, child in children(module):
        if name == inner:
            yield child, path, subject
        else:
            yield child, f"{path}.{name}" if path else name, False


def children(module: nn.Module) -> list[tuple[str, nn.Module]]:
    """The children of a module; none if it does not let itself be asked."""
    try:
        return list(module.named_children())
    except Exception:
        return []


def wrapped_name(module: nn.Module) -> str | None:
    """The attribute that holds the wrapped module, if this one is only a wrapper."""
    for base in type(module).__mro__:
        name = WRAPPERS.get(f"{base.__module__}.{base.__qualname__}")
        if name is not None:
            return name
    return None


def unwrapped(module: nn.Module) -> nn.Module:
    """The module inside all wrappers."""
    return wrapping(module)[-1]


def wrapping(module: nn.Module) -> list[nn.Module]:
    """A module, what it wraps, what that wraps, and so on to the model itself."""
    found = [module]
    while (name := wrapped_name(module)) is not None and isinstance(getattr(module, name, None), nn.Module):
        module = getattr(module, name)
        found.append(module)
    return found


def describe(module: nn.Module, facts: ModuleFacts, shared: dict[Any, Any]) -> None:
    """Fill in the facts of a module; what many modules have in common is one object for all."""
    kind = type(module)
    if kind not in shared:
        shared[kind] = tuple(base.__name__ for base in kind.__mro__[:-1])
    facts.bases = shared[kind]
    facts.settings = settings(module)
    facts.settings = shared.setdefault((kind, *facts.settings.items()), facts.settings)


def count_parameters(modules: Sequence[tuple[nn.Module, ModuleFacts, list[nn.Module]]]) -> None:
    """Fill in how many parameters modules have, given with their children, parents first; one that several have in
    them is counted once."""
    known: dict[int, dict[int, int]] = {}  # the sizes of the parameters in a module, below zero if they do not train
    for module, facts, inner in reversed(modules):
        found = own = sizes(module.parameters(recurse=False))
        if inner:
            found = dict(own)
            for child in inner:
                within = known.get(id(child))
                found |= within if within is not None else sizes(child.parameters())
        known[id(module)] = found
        facts.leaf = not inner
        facts.own_parameters = sum(map(abs, own.values()))
        facts.parameters = sum(map(abs, found.values()))
        facts.trainable = sum(size for size in found.values() if size > 0)


def settings(module: nn.Module) -> dict[str, Any]:
    """The attributes that a module class declares as its constants, as plain data."""
    found: dict[str, Any] = {}
    for name in (*getattr(type(module), "__constants__", ()), *MORE_SETTINGS):
        value = module.__dict__.get(name)
        if type(value) in PLAIN_SETTINGS:
            found[name] = value
        elif isinstance(value, tuple):
            found[name] = tuple(part if type(part) in PLAIN_SETTINGS else stranger(part) for part in value)
    return found


PLAIN_SETTINGS = frozenset({int, float, bool, str})


def count(parameter: nn.Parameter) -> int:
    """How many numbers a parameter holds; none yet for a lazy one."""
    try:
        return int(parameter.numel())
    except Exception:
        return 0


def sizes(parameters: Iterable[nn.Parameter]) -> dict[int, int]:
    """How many numbers each parameter holds, by its id; below zero if it does not train."""
    return {id(each): count(each) if each.requires_grad else -count(each) for each in parameters}
