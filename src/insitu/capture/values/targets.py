"""What path patterns name in a model: outputs, variables of methods, parameters, gradients, buffers.

A path is `<module path>.<method>.<variable>.<item>`: `encoder.1` is the output of a module, `forward` that of the
model, `encoder.1.forward.h` a variable, `encoder.1.weight.grad` a gradient, `scale.x` a variable of a function that the
model calls. Where there is no such variable, `forward.logits` is an item of the output. `*` stands for one segment and
`**` for any number; where they stand last for a name that is not written out, they mean submodules, or the parameters
and buffers of a module that has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from torch import nn

from insitu.capture.containers import WILD, Rest
from insitu.capture.names import ModuleCallee, Names, unwrapped
from insitu.capture.torch_internals import own_buffers, own_modules, own_parameters
from insitu.capture.variables.follow.callees import callees
from insitu.capture.variables.follow.definitions import nested_codes
from insitu.capture.variables.follow.rewrite import bound_names, known_names
from insitu.capture.variables.reach import original_of
from insitu.errors import PatternError
from insitu.trace.path import compiled, suggestion

GRADIENT = ("grad",)


@dataclass
class MethodTarget:
    """A function whose variables or result are recorded, for one module, or for none in particular."""

    function: FunctionType
    path: str
    name: str = ""
    owner: Any = None  # the class that defines it; None for a function that is no method
    variables: dict[str, set[Rest]] = field(default_factory=dict)
    result: set[Rest] = field(default_factory=set)  # what is wanted of what it returns

    @cached_property
    def is_free(self) -> bool:
        """Whether it is called without the module that it runs for."""
        return self.owner is None or isinstance(vars(self.owner)[self.name], staticmethod)


class TensorTarget(NamedTuple):
    """A parameter or buffer, or the gradient of a parameter."""

    module: nn.Module
    name: str
    path: str


@dataclass(slots=True)
class Targets:
    """All that patterns name in a model. Modules and methods are found by the id of the module."""

    # By path, for the output of a module has two, what is wanted of it; the rest `()` is all.
    outputs: dict[int, dict[str, set[Rest]]] = field(default_factory=dict)
    methods: dict[tuple[int, str], MethodTarget] = field(default_factory=dict)
    functions: dict[str, MethodTarget] = field(default_factory=dict)
    parameters: list[TensorTarget] = field(default_factory=list)
    gradients: list[TensorTarget] = field(default_factory=list)

    def __len__(self) -> int:
        found = len(self.outputs) + len(self.methods) + len(self.functions)
        return found + len(self.parameters) + len(self.gradients)


def targets(model: nn.Module, patterns: Iterable[str]) -> Targets:
    """What the patterns name; one that can never match is a PatternError that names the nearest paths."""
    search = TargetSearch(model)
    for pattern in patterns:
        compiled(pattern)
        if not search.add(pattern):
            raise PatternError(f"nothing in the model has the path {pattern!r}{suggestion(pattern, search.paths())}")
    return search.found


class TargetSearch:
    """Looks patterns up in one model."""

    def __init__(self, model: nn.Module) -> None:
        self.model = unwrapped(model)
        names = Names(model, lambda path: True)
        self.callees = [callee for callee in names.callees.values() if not callee.transparent]
        self.found = Targets()
        self._members: dict[type, dict[str, FunctionType]] = {}

    def add(self, pattern: str) -> bool:
        """Take what a pattern names; whether there is any."""
        segments = tuple(pattern.split("."))
        named = False
        for callee in self.callees:
            module = callee.ref()
            own = tuple(callee.path.split(".")) if callee.path else ()
            for rest in rests(segments, own):
                named |= module is not None and self._in_module(callee, module, rest)
        return named or (len(segments) > 1 and self._in_functions(segments))

    def _in_module(self, callee: ModuleCallee, module: nn.Module, rest: Rest) -> bool:
        if not rest or set(rest) == {"**"}:
            if not callee.path and rest:
                return False  # the output of the model has a name of its own
            return self._in_output(module, callee.path or "forward", ())
        first, deeper = rest[0], rest[1:]
        if first == "**" and WILD.isdisjoint(deeper[0]):
            is_gradient = deeper == GRADIENT and self._in_parameters(callee, module, "*", deeper)
            return self._in_methods(callee, module, deeper) or is_gradient
        if self._in_parameters(callee, module, first, deeper):
            return True
        members = self.members(type(module))
        if first in members:
            return self._in_method(callee, module, first, members[first], deeper)
        is_item = "forward" in members and self._may_hold(first) and not (first.isdigit() and own_modules(module))
        return bool(callee.path) and is_item and self._in_output(module, callee.path, rest)

    def _in_parameters(self, callee: ModuleCallee, module: nn.Module, name: str, deeper: Rest) -> bool:
        if deeper not in ((), GRADIENT) or (not deeper and own_modules(module) and not WILD.isdisjoint(name)):
            return False
        found = self.found.gradients if deeper else self.found.parameters
        own = own_parameters(module) if deeper else {**own_parameters(module), **own_buffers(module)}
        names = [each for each in own if own[each] is not None and fnmatchcase(each, name)]
        for each in names:
            item = TensorTarget(module, each, join(callee.path, each, *deeper))
            if item not in found:
                found.append(item)
        return bool(names)

    def _in_method(
        self, callee: ModuleCallee, module: nn.Module, name: str, function: FunctionType, deeper: Rest
    ) -> bool:
        """What a method returns, an item of that, or a variable of it."""
        path = join(callee.path, name)
        is_variable = bool(deeper and self._variables(function, deeper[0]))
        if deeper and not is_variable and not self._may_hold(deeper[0]):
            return False
        if name == "forward" and not is_variable:
            return self._in_output(module, path, deeper)
        owner = next(base for base in type(module).__mro__ if name in vars(base))
        method = self.found.methods.setdefault((id(module), name), MethodTarget(function, path, name, owner))
        if is_variable:
            self._add_variables(method, deeper)
        else:
            method.result.add(shortest(deeper))
        return True

    def _in_output(self, module: nn.Module, path: str, rest: Rest) -> bool:
        wanted = self.found.outputs.setdefault(id(module), {})
        if rest or not any(() in rests for rests in wanted.values()):  # all of it under one name is enough
            wanted.setdefault(path, set()).add(shortest(rest))
        return True

    def _may_hold(self, item: str) -> bool:
        """Whether what a method returns may have such an item: a number, or what the code of the model spells out."""
        return item.isdigit() or item in self._words

    @cached_property
    def _words(self) -> set[str]:
        """What may be keys of dicts and fields of dataclasses: constants and keywords in the methods of all modules."""
        kinds = {type(module) for callee in self.callees if (module := callee.ref()) is not None}
        functions = (function for kind in kinds for function in self.members(kind).values())
        return {word for function in functions for word in words(function.__code__)}

    def _in_methods(self, callee: ModuleCallee, module: nn.Module, deeper: Rest) -> bool:
        """A variable of any method, or an item of the output of the model; those of modules have a shorter path."""
        found = [
            self._in_method(callee, module, name, function, deeper)
            for name, function in self.members(type(module)).items()
            if self._is_reached(name, function, deeper[0]) or (name == "forward" and not callee.path)
        ]
        return any(found)

    def _is_reached(self, name: str, function: FunctionType, variable: str) -> bool:
        """Whether `**` leads to a variable: of torch's own code only to the arguments of `forward`."""
        if is_torch(function):
            return name == "forward" and variable in arguments_of(function)
        return bool(self._variables(function, variable))

    def _in_functions(self, segments: Rest) -> bool:
        """Variables of functions that the model calls, by the name of the function."""
        name, variable = segments[:2]
        found = [function for function in callees(type(self.model).forward, self.model) if function.__name__ == name]
        found = [function for function in found if self._variables(function, variable)]
        for function in found:
            method = self.found.functions.setdefault(name, MethodTarget(function, name, name))
            self._add_variables(method, segments[1:])
        return bool(found)

    @staticmethod
    def _variables(function: FunctionType, pattern: str) -> list[str]:
        """The variables that a segment names; by a wildcard only those that the function binds, less its own object."""
        code = function.__code__
        if WILD.isdisjoint(pattern):
            return [pattern] if pattern in known_names(code) else []
        first = code.co_varnames[: code.co_argcount][:1]
        names = [name for name in bound_names(code) if name not in first and not name.startswith("_")]
        return sorted(name for name in names if fnmatchcase(name, pattern) or pattern == "**")

    def _add_variables(self, method: MethodTarget, deeper: Rest) -> None:
        rest = shortest(deeper[1:] if deeper[0] != "**" else deeper)
        for name in self._variables(method.function, deeper[0]):
            method.variables.setdefault(name, set()).add(rest)

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
        for callee in self.callees:
            module = callee.ref()
            if module is None:
                continue
            if callee.path:
                yield callee.path
            yield from (join(callee.path, name) for name in (*own_parameters(module), *own_buffers(module)))
            yield from (join(callee.path, name, *GRADIENT) for name in own_parameters(module))
            for name, function in self.members(type(module)).items():
                yield from (join(callee.path, name, each) for each in inside(name, function))


def inside(name: str, function: FunctionType) -> frozenset[str]:
    """What may be named in a method, and the method itself: ``; of torch's own methods, the arguments of `forward`."""
    if not is_torch(function):
        return frozenset({"", *known_names(function.__code__), *words(function.__code__)})
    return arguments_of(function) | {""} if name == "forward" else frozenset()


def is_torch(function: FunctionType) -> bool:
    """Whether a function is torch's own code."""
    return function.__module__.partition(".")[0] == "torch"


def arguments_of(function: FunctionType) -> frozenset[str]:
    """The names of the parameters of a method, less its own object."""
    code = function.__code__
    return frozenset(code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount])


def shortest(rest: Rest) -> Rest:
    """The rest without `**` at its end: all that is in a value is taken with it."""
    while rest[-1:] == ("**",):
        rest = rest[:-1]
    return rest


@lru_cache(maxsize=4096)
def words(code: CodeType) -> frozenset[str]:
    """The names that code spells out: as keys, `{"logits": x}`, and keywords, `Output(logits=x)`.

    >>> sorted(words((lambda x: ({"logits": x, "loss": 0}, dict(mask=x))).__code__))
    ['logits', 'loss', 'mask']
    """
    found: set[str] = set()
    for each in (code, *nested_codes(code)):
        constants = [
            part for constant in each.co_consts for part in (constant if type(constant) is tuple else [constant])
        ]
        found.update(part for part in constants if type(part) is str and part.isidentifier())
    return frozenset(found)


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
