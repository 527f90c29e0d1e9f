"""What path patterns name in a model: outputs, variables of methods, parameters, gradients, buffers.

A path is `<module path>.<method>.<variable>.<item>`: `encoder.1` is the output of a module, `forward` that of the
model, `encoder.1.forward.h` a variable, `encoder.1.weight.grad` a gradient, `scale.x` a variable of a function that the
model calls. `*` stands for one segment and `**` for any number; where they stand last for a name that is not written
out, they mean submodules, or the parameters and buffers of a module that has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from types import FunctionType
from typing import Any

from torch import nn

from insitu.capture.following import original_of
from insitu.capture.names import ModuleNote, Names, unwrapped
from insitu.errors import PatternError
from insitu.follow.callees import callees
from insitu.follow.rewrite import bound_names, known_names
from insitu.trace.path import compiled, suggestion

Rest = tuple[str, ...]
WILD = frozenset("*?")


@dataclass(slots=True)
class Method:
    """A function whose variables or result are recorded, for one module, or for none in particular."""

    function: FunctionType
    path: str
    name: str = ""
    owner: Any = None  # the class that defines it; None for a function that is no method
    variables: dict[str, set[Rest]] = field(default_factory=dict)
    result: bool = False

    @property
    def is_free(self) -> bool:
        """Whether it is called without the module that it runs for."""
        return self.owner is None or isinstance(vars(self.owner)[self.name], staticmethod)


@dataclass(slots=True)
class Targets:
    """All that patterns name in a model. Modules and methods are found by the id of the module."""

    outputs: dict[int, str] = field(default_factory=dict)
    methods: dict[tuple[int, str], Method] = field(default_factory=dict)
    functions: dict[str, Method] = field(default_factory=dict)
    # The module, the name in it, and the path.
    parameters: list[tuple[nn.Module, str, str]] = field(default_factory=list)
    gradients: list[tuple[nn.Module, str, str]] = field(default_factory=list)

    def __len__(self) -> int:
        found = len(self.outputs) + len(self.methods) + len(self.functions)
        return found + len(self.parameters) + len(self.gradients)


def targets(model: nn.Module, patterns: Iterable[str]) -> Targets:
    """What the patterns name; one that can never match is a PatternError that names the nearest paths."""
    search = Search(model)
    for pattern in patterns:
        compiled(pattern)
        if not search.add(pattern):
            raise PatternError(f"nothing in the model has the path {pattern!r}{suggestion(pattern, search.paths())}")
    return search.found


class Search:
    """Looks patterns up in one model."""

    def __init__(self, model: nn.Module) -> None:
        self.model = unwrapped(model)
        names = Names(model, lambda path: True)
        self.notes = [note for note in names.notes.values() if not note.transparent]
        self.found = Targets()
        self._members: dict[type, dict[str, FunctionType]] = {}

    def add(self, pattern: str) -> bool:
        """Take what a pattern names; whether there is any."""
        segments = tuple(pattern.split("."))
        named = False
        for note in self.notes:
            module = note.ref()
            own = tuple(note.path.split(".")) if note.path else ()
            for rest in rests(segments, own):
                named |= module is not None and self._in_module(note, module, rest)
        return named or (len(segments) > 1 and self._in_functions(segments))

    def _in_module(self, note: ModuleNote, module: nn.Module, rest: Rest) -> bool:
        if not rest or set(rest) == {"**"}:
            if not note.path and rest:
                return False  # the output of the model has a name of its own
            self.found.outputs.setdefault(id(module), note.path or "forward")
            return True
        first, deeper = rest[0], rest[1:]
        if first == "**" and WILD.isdisjoint(deeper[0]):
            return self._in_methods(note, module, deeper)
        if self._in_parameters(note, module, first, deeper):
            return True
        function = self.members(type(module)).get(first)
        return function is not None and self._in_method(note, module, first, function, deeper)

    def _in_parameters(self, note: ModuleNote, module: nn.Module, name: str, deeper: Rest) -> bool:
        wild = not WILD.isdisjoint(name)
        if wild and module._modules:
            return False
        own = {**module._parameters, **module._buffers}
        names = [each for each in own if own[each] is not None and fnmatchcase(each, name)]
        for each in names:
            item = (module, each, join(note.path, each, *deeper))
            if deeper == ("grad",) and each in module._parameters:
                self.found.gradients += [item] if item not in self.found.gradients else []
            elif not deeper:
                self.found.parameters += [item] if item not in self.found.parameters else []
            else:
                return False
        return bool(names)

    def _in_method(self, note: ModuleNote, module: nn.Module, name: str, function: FunctionType, deeper: Rest) -> bool:
        if not deeper and name == "forward":
            self.found.outputs.setdefault(id(module), join(note.path, "forward"))
            return True
        if deeper and not self._variables(function, deeper[0]):
            return False
        key, path = (id(module), name), join(note.path, name)
        owner = next(base for base in type(module).__mro__ if name in vars(base))
        method = self.found.methods.setdefault(key, Method(function, path, name, owner))
        self._add_variables(method, deeper)
        return True

    def _in_methods(self, note: ModuleNote, module: nn.Module, deeper: Rest) -> bool:
        """A variable of any method."""
        methods = self.members(type(module)).items()
        found = [self._in_method(note, module, name, function, deeper) for name, function in methods]
        return any(found)

    def _in_functions(self, segments: Rest) -> bool:
        """Variables of functions that the model calls, by the name of the function."""
        named = False
        for function in callees(type(self.model).forward, self.model):
            name = function.__name__
            if (
                fnmatchcase(name, segments[0])
                and self._variables(function, segments[1])
                and WILD.isdisjoint(segments[0])
            ):
                self._add_variables(self.found.functions.setdefault(name, Method(function, name, name)), segments[1:])
                named = True
        return named

    @staticmethod
    def _variables(function: FunctionType, pattern: str) -> list[str]:
        """The variables that a segment names; by a wildcard only those that the function binds, less its own object."""
        code = function.__code__
        if WILD.isdisjoint(pattern):
            return [pattern] if pattern in known_names(code) else []
        first = code.co_varnames[: code.co_argcount][:1]
        names = [name for name in bound_names(code) if name not in first and not name.startswith("_")]
        return sorted(name for name in names if fnmatchcase(name, pattern) or pattern == "**")

    def _add_variables(self, method: Method, deeper: Rest) -> None:
        if not deeper:
            method.result = True
            return
        for name in self._variables(method.function, deeper[0]):
            method.variables.setdefault(name, set()).add(deeper[1:] if deeper[0] != "**" else deeper)

    def members(self, kind: type) -> dict[str, FunctionType]:
        """The functions that a class and its bases define, those of `nn.Module` left out."""
        if kind not in self._members:
            found: dict[str, FunctionType] = {}
            for base in reversed(kind.__mro__[: kind.__mro__.index(nn.Module)]):
                for name, member in vars(base).items():
                    function = getattr(member, "__func__", member)
                    original = original_of(function) if isinstance(function, FunctionType) else None
                    if original is not None:  # under whatever decorators
                        found[name] = original
            self._members[kind] = found
        return self._members[kind]

    def paths(self) -> Iterator[str]:
        """Paths there are, to suggest one."""
        for note in self.notes:
            module = note.ref()
            if module is None:
                continue
            if note.path:
                yield note.path
            for name in (*module._parameters, *module._buffers):
                yield join(note.path, name)
                yield join(note.path, name, "grad")
            for name, function in self.members(type(module)).items():
                yield join(note.path, name)
                yield from (join(note.path, name, variable) for variable in known_names(function.__code__))


def join(*parts: str) -> str:
    """A path of parts, those left out that are empty."""
    return ".".join(filter(None, parts))


def rests(pattern: Rest, path: Rest) -> set[Rest]:
    """What is left of a pattern once it has named all of a path, in every way in which it can.

    >>> sorted(rests(("encoder", "*", "forward", "h"), ("encoder", "0")))
    [('forward', 'h')]
    >>> sorted(rests(("**", "weight"), ("a", "b")))
    [('**', 'weight'), ('weight',)]
    """
    if not path:
        return {pattern} | (rests(pattern[1:], path) if pattern[:1] == ("**",) else set())
    if not pattern:
        return set()
    if pattern[0] == "**":
        return rests(pattern[1:], path) | rests(pattern, path[1:])
    return rests(pattern[1:], path[1:]) if fnmatchcase(path[0], pattern[0]) else set()
