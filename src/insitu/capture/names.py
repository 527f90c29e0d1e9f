"""The names of modules: clean paths, through the wrappers that training puts around a model."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from torch import nn

from insitu.capture.atoms import atom
from insitu.capture.fused import FUSED
from insitu.capture.torch_internals import WRAPPERS as TORCH_WRAPPERS
from insitu.capture.torch_internals import DisableTorchFunction, own_buffers, own_parameters
from insitu.trace.event import ModuleFacts

# Modules that only wrap another one, by module and class, and the attribute that holds it. Users call children
# `module` too, so the name of the attribute alone says nothing.
WRAPPERS = {
    **TORCH_WRAPPERS,
    "deepspeed.runtime.engine.DeepSpeedEngine": "module",
    "megatron.core.distributed.data_parallel_base._BaseDataParallel": "module",
    "megatron.core.distributed.distributed_data_parallel.DistributedDataParallel": "module",
    "megatron.core.transformer.module.Float16Module": "module",
    "megatron.legacy.model.module.Float16Module": "module",
    "megatron.model.module.Float16Module": "module",
    "torchrec.distributed.model_parallel.DistributedModelParallel": "_dmp_wrapped_module",
    "lightning.fabric.wrappers._FabricModule": "_forward_module",
    "lightning_fabric.wrappers._FabricModule": "_forward_module",
    "opacus.grad_sample.grad_sample_module.GradSampleModule": "_module",
}

CONTAINERS = (nn.ModuleList, nn.ModuleDict, nn.Sequential)

# Settings that torch's own modules have without declaring them.
MORE_SETTINGS = ("embed_dim", "num_heads")


class ModuleCallee:
    """A module that is, or may be, called: its path, and what the hot path must know of it.

    The path is that of the `anchor` and `own`; without an anchor it is one of the outermost modules of a session.
    """

    __slots__ = (
        *("__weakref__", "anchor", "called", "facts", "fused", "in_place", "kind"),
        *("own", "path", "ref", "subject", "transparent", "wanted"),
    )

    kind: Literal["module"]
    path: str

    def __init__(self, module: nn.Module, anchor: ModuleCallee | None, own: str, *, subject: bool) -> None:
        self.kind = "module"
        self.ref = weakref.ref(module)
        self.anchor, self.own = anchor, own
        self.path = self._path()
        self.wanted = False
        self.called = False
        self.subject = subject
        self.transparent = wrapped_name(module) is not None
        self.fused = isinstance(module, FUSED)
        self.in_place = module.__dict__.get("inplace") is True
        self.facts = ModuleFacts(self.path, type(module).__name__)

    def is_inside(self, other: ModuleCallee) -> bool:
        """Whether the path follows from that of another module."""
        if self.anchor is None or self is other:
            return self is other
        return self.anchor.is_inside(other)

    def move(self) -> None:
        """Take the path that follows from the anchor, which may have moved."""
        if self.anchor is not None:
            self.anchor.move()
        self.path = self.facts.path = self._path()

    def _path(self) -> str:
        """The path that follows from the anchor."""
        if self.anchor is None:
            return self.own
        return join(self.anchor.path, self.own)


class ModuleNames:
    """The callees of all modules of a session, found by id.

    Without a subject, no module is known before it is called, and which of them is the model is known at the end only:
    the one outermost module that has parameters. Its path is empty. Where there are several, none of them has the empty
    path, so the paths in one do not depend on which one is called first.
    """

    def __init__(self, subject: nn.Module | None, wanted: Callable[[str], bool]) -> None:
        self.callees: dict[int, ModuleCallee] = {}
        self.has_subject = subject is not None
        self._wanted = wanted
        self._counts: dict[str, tuple[int, int]] = {}
        self._shared: dict[Any, Any] = {}
        self._all: weakref.WeakSet[ModuleCallee] = weakref.WeakSet()
        self._roots: list[Root] = []
        if subject is not None:
            self._add_tree(subject, None, "", subject=True)

    def learn(self, module: nn.Module, caller: ModuleCallee | None, call: int) -> ModuleCallee | None:
        """The callee of a module that is called for the first time, while `caller` runs; None if it is not recorded.

        `call` tells the calls of `caller` from each other.
        """
        if caller is not None:
            return self._learn_inside(module, caller, call)
        if self.has_subject:
            return None
        name, weight = self._free_name(type(module).__name__, "", 0), weight_of(module)
        is_first = weight > 0 and not any(root.weight > 0 for root in self._roots)
        callee = self._add_tree(module, None, "" if is_first else name, subject=False)
        self._roots.append(Root(callee, name, weight))
        return callee

    def _learn_inside(self, module: nn.Module, caller: ModuleCallee, call: int) -> ModuleCallee:
        """The callee of a module that was not in the model before: it was assigned since, or is outside of it."""
        own = attribute_path(caller.ref(), module)
        if own is None:
            own = self._free_name(type(module).__name__, caller.path, call)
        return self._add_tree(module, caller, own, subject=False)

    def assign_paths(self) -> None:
        """Give all modules the paths that follow from the outermost modules that are known now."""
        if self.has_subject:
            return
        roots = [root for root in self._roots if root.callee.anchor is None]
        for root in roots:
            root.callee.own = root.name
        most = max((root.weight for root in roots), default=0)
        models = [root for root in roots if root.weight == most]
        if len(models) == 1:
            models[0].callee.own = ""
        for callee in list(self._all):
            callee.move()

    def describe(self, callee: ModuleCallee, module: nn.Module) -> None:
        """Fill in, at the first call, what is needed to show the module: later it may be gone."""
        callee.called = True
        with DisableTorchFunction():  # modes of others are not to see this
            describe(module, callee.facts, self._shared)

    def _free_name(self, name: str, path: str, call: int) -> str:
        """A name that no other module had in this call of the module at the path: each call counts anew."""
        key = join(path, name)
        latest, number = self._counts.get(key, (call, 0))
        if latest != call:
            number = 0
        self._counts[key] = (call, number + 1)
        if number == 0:
            return name
        return f"{name}#{number + 1}"

    def _add_tree(self, root: nn.Module, anchor: ModuleCallee | None, own: str, *, subject: bool) -> ModuleCallee:
        top = self._add(root, anchor, own, subject)
        todo, added = [(root, "", subject)], []
        while todo:
            module, path, subject = todo.pop()
            callee = top if module is root else self._known(module)
            if callee is None:
                callee = self._add(module, top, path, subject)
            elif callee is not top:
                self._adopt(callee, top, path)
                continue
            inner = list(named_children(module, path, subject))
            todo += reversed(inner)
            added.append((module, callee.facts, [child for child, _, _ in inner]))
        with DisableTorchFunction():  # modes of others are not to see this
            count_parameters(added)
        return top

    def _add(self, module: nn.Module, anchor: ModuleCallee | None, own: str, subject: bool) -> ModuleCallee:
        callee = ModuleCallee(module, anchor, own, subject=subject)
        callee.wanted = self._wanted(callee.path)
        self.callees[id(module)] = callee
        self._all.add(callee)
        return callee

    def _known(self, module: nn.Module) -> ModuleCallee | None:
        callee = self.callees.get(id(module))
        if callee is not None and callee.ref() is module:
            return callee
        return None

    def _adopt(self, callee: ModuleCallee, top: ModuleCallee, path: str) -> None:
        """A module that was called as an outermost one is part of another; `assign_paths` gives it the path there."""
        is_root = any(root.callee is callee for root in self._roots)
        if is_root and callee.anchor is None and not top.is_inside(callee):
            callee.anchor, callee.own = top, path


@dataclass(slots=True)
class Root:
    """An outermost module of a session without a subject: its callee, its name, how likely it is the model."""

    callee: ModuleCallee
    name: str
    weight: int


def join(path: str, own: str) -> str:
    """A path in another one."""
    if path and own:
        return f"{path}.{own}"
    return path or own


def weight_of(module: nn.Module) -> int:
    """How likely a module is the model: 2 with parameters, 1 with parts; transforms, losses, activations have none."""
    try:
        has_parameters = next(iter(module.parameters()), None) is not None
    except Exception:
        has_parameters = False
    if has_parameters:
        return 2
    return int(bool(children(module)))


def attribute_path(owner: nn.Module | None, module: nn.Module) -> str | None:
    """The attribute of a module that holds another one, be it in a container; None if there is none."""
    if owner is None:
        return None
    for name, child in children(owner):
        if child is module:
            return name
        if not isinstance(child, CONTAINERS):
            continue
        inner = attribute_path(child, module)
        if inner is not None:
            return join(name, inner)
    return None


def named_children(module: nn.Module, path: str, subject: bool) -> Iterator[tuple[nn.Module, str, bool]]:
    """Each child with its path; what a wrapper wraps has the path, and the rank, of the wrapper."""
    inner = wrapped_name(module)
    for name, child in children(module):
        if name == inner:
            yield child, path, subject
        else:
            yield child, join(path, name), False


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


def innermost_module(module: nn.Module) -> nn.Module:
    """The module inside all wrappers."""
    return wrapping(module)[-1]


def wrapping(module: nn.Module) -> list[nn.Module]:
    """A module, what it wraps, what that wraps, and so on to the model itself."""
    found = [module]
    while (name := wrapped_name(module)) is not None and isinstance(getattr(module, name, None), nn.Module):
        module = getattr(module, name)
        found.append(module)
    return found


def tensor_names(model: nn.Module) -> dict[str, list[str]]:
    """The paths of all modules, in the order of the model, and the names of the parameters and buffers of each.

    >>> tensor_names(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
    {'': [], '0': ['weight', 'bias'], '1': []}
    """
    callees = ModuleNames(model, lambda path: True).callees.values()
    modules = [(callee.path, callee.ref()) for callee in callees if not callee.transparent]
    return {path: own_tensor_names(module) for path, module in modules if module is not None}


def own_tensor_names(module: nn.Module) -> list[str]:
    """The names of the parameters and buffers of a module, without those that are None."""
    own = {**own_parameters(module), **own_buffers(module)}
    return [name for name, tensor in own.items() if tensor is not None]


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
        own = sizes(module.parameters(recurse=False))
        found = dict(own)
        for child in inner:
            if id(child) not in known:
                known[id(child)] = sizes(child.parameters())
            found |= known[id(child)]
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
            found[name] = tuple(part if type(part) in PLAIN_SETTINGS else atom(part) for part in value)
    return found


PLAIN_SETTINGS = frozenset({int, float, bool, str})


def count(parameter: nn.Parameter) -> int:
    """How many numbers a parameter holds; none yet for a lazy one."""
    try:
        with DisableTorchFunction():  # modes of others are not to see this
            return int(parameter.numel())
    except Exception:
        return 0


def sizes(parameters: Iterable[nn.Parameter]) -> dict[int, int]:
    """How many numbers each parameter holds, by its id; below zero if it does not train."""
    return {id(each): count(each) if each.requires_grad else -count(each) for each in parameters}
