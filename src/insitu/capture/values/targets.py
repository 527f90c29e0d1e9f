"""What path patterns name in a model: outputs, variables of methods, parameters, gradients, buffers.

A path is `<module path>.<method>.<variable>.<item>`: `encoder.1` is the output of a module, `forward` that of the
model, `encoder.1.forward.h` a variable, `encoder.1.weight.grad` a gradient, `scale.x` a variable of a function that the
model calls. If `forward` has no variable `logits`, `forward.logits` is an item of the output. `*` matches one segment
and `**` any number. As the last segment, they match submodules, or the parameters and buffers of a module without
submodules.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple

from torch import nn

from insitu.capture.containers import leaves
from insitu.capture.names import ModuleNames, innermost_module
from insitu.capture.torch_internals import own_buffers, own_modules, own_parameters
from insitu.capture.variables.follow.callees import callees
from insitu.capture.variables.follow.definitions import nested_codes
from insitu.capture.variables.follow.rewrite import bound_names, known_names
from insitu.capture.variables.reach import original_of
from insitu.errors import PatternError
from insitu.trace.path import Pattern, Segments, fits, is_wild, suggestion

if TYPE_CHECKING:
    from insitu.capture.values.loop_targets import LoopTarget

GRADIENT = ("grad",)


@dataclass
class MethodTarget:
    """A function whose variables or result are recorded, for one module, or for none in particular."""

    function: FunctionType
    path: str
    name: str = ""
    owner: Any = None  # the class that defines it; None for a function that is not a method
    variables: dict[str, set[Segments]] = field(default_factory=dict)
    result: set[Segments] = field(default_factory=set)  # the parts of its result that are wanted

    @cached_property
    def is_free(self) -> bool:
        """Whether it is called without the module that it runs for."""
        return self.owner is None or isinstance(vars(self.owner)[self.name], staticmethod)

    def add_variables(self, segments: Segments) -> None:
        """Add the variables that the first segment names, and what the other segments name inside of them."""
        rest = shortest(segments if segments[0] == "**" else segments[1:])
        for name in variables_of(self.function, segments[0]):
            self.variables.setdefault(name, set()).add(rest)


class TensorTarget(NamedTuple):
    """A parameter or buffer, or the gradient of a parameter."""

    module: nn.Module
    name: str
    path: str


@dataclass(slots=True)
class Targets:
    """All that patterns name in a model. Outputs and methods are found by the id of the module."""

    # By path (the output of a module has two paths), the parts that are wanted; the rest `()` is the whole.
    outputs: dict[int, dict[str, set[Segments]]] = field(default_factory=dict)
    methods: dict[tuple[int, str], MethodTarget] = field(default_factory=dict)
    functions: dict[str, MethodTarget] = field(default_factory=dict)
    parameters: list[TensorTarget] = field(default_factory=list)
    gradients: list[TensorTarget] = field(default_factory=list)
    # Code outside of the model, by its file and name.
    loops: dict[tuple[str, str], LoopTarget] = field(default_factory=dict)

    def extend(self, other: Targets) -> None:
        """Add the targets of another model."""
        self.outputs.update(other.outputs)
        self.methods.update(other.methods)
        self.functions.update(other.functions)
        self.parameters += other.parameters
        self.gradients += other.gradients

    def __len__(self) -> int:
        found = len(self.outputs) + len(self.methods) + len(self.functions) + len(self.loops)
        return found + len(self.parameters) + len(self.gradients)


def targets(model: nn.Module, patterns: Iterable[str]) -> Targets:
    """What the patterns name in a model; a PatternError, with the nearest paths, if one can never match."""
    search = TargetSearch(model)
    for pattern in patterns:
        if not search.add(pattern):
            raise search.nothing(pattern)
    return search.found


class TargetSearch:
    """Looks patterns up in one model; `base` is the path of the model, if it is one of several."""

    def __init__(self, model: nn.Module, base: str = "") -> None:
        self._model = innermost_module(model)
        self.found = Targets()
        callees = [
            callee for callee in ModuleNames(model, lambda path: True).callees.values() if not callee.transparent
        ]
        modules = [(join(base, callee.path), callee.ref()) for callee in callees]
        code = ModelCode({type(module) for _, module in modules if module is not None})
        self._modules = [ModuleSearch(path, each, code, self.found) for path, each in modules if each is not None]

    def add(self, pattern: str) -> bool:
        """Add what a pattern names; False if it names nothing."""
        parsed = Pattern.of(pattern)
        found = [module.add(rest) for module in self._modules for rest in parsed.rests(module.path)]
        return any(found) or (len(parsed.segments) > 1 and self._add_functions(parsed.segments))

    def _add_functions(self, segments: Segments) -> bool:
        """Variables of functions that the model calls, by the name of the function."""
        name, variable = segments[:2]
        found = [function for function in callees(type(self._model).forward, self._model) if function.__name__ == name]
        found = [function for function in found if variables_of(function, variable)]
        for function in found:
            target = self.found.functions.setdefault(name, MethodTarget(function, name, name))
            target.add_variables(segments[1:])
        return bool(found)

    def paths(self) -> Iterator[str]:
        """Paths in the model, to suggest one."""
        for module in self._modules:
            yield from module.paths()

    def nothing(self, pattern: str) -> PatternError:
        """The error for a pattern that names nothing in the model."""
        return PatternError(f"nothing in the model has the path {pattern!r}{suggestion(pattern, self.paths())}")

    def begins(self, pattern: str) -> bool:
        """Whether something in the model has the first segment of a pattern as its path, or may have it."""
        first = Pattern.of(pattern).segments[0]
        is_module = any(module.path.partition(".")[0] == first for module in self._modules)
        return is_wild(first) or is_module or any(module.has(first) for module in self._modules if not module.path)


class ModelCode:
    """The functions that the classes of a model define, and the names that their code spells out."""

    def __init__(self, kinds: Iterable[type[nn.Module]]) -> None:
        self.methods = {kind: methods_of(kind) for kind in kinds}

    def may_return(self, item: str) -> bool:
        """Whether what a method returns may have such an item: a number, or a name that the code spells out."""
        return item.isdigit() or item in self._words

    @cached_property
    def _words(self) -> set[str]:
        """Names that may be keys of dicts and fields of dataclasses: constants and keywords in all methods."""
        functions = (function for methods in self.methods.values() for function in methods.values())
        return {word for function in functions for word in words(function.__code__)}


class ModuleSearch:
    """Looks the rests of patterns up in one module, and adds what they name to the targets that were found."""

    def __init__(self, path: str, module: nn.Module, code: ModelCode, found: Targets) -> None:
        self.path, self._module, self._code, self._found = path, module, code, found
        self._methods = code.methods[type(module)]

    def add(self, rest: Segments) -> bool:
        """Add what the rest of a pattern names in the module; False if it names nothing."""
        if set(rest) <= {"**"}:
            return self._add_whole(rest)
        first, deeper = rest[0], rest[1:]
        if first == "**" and not is_wild(deeper[0]):
            return self._add_anywhere(deeper)
        if self._add_tensors(first, deeper):
            return True
        if first in self._methods:
            return self._add_method(first, deeper)
        return self._may_be_item(first) and self._add_output(self.path, rest)

    def _add_whole(self, rest: Segments) -> bool:
        """The output of the module. `**` does not mean that of the model, which has a name of its own: `forward`."""
        if rest and not self.path:
            return False
        return self._add_output(self.path or "forward", ())

    def _add_anywhere(self, deeper: Segments) -> bool:
        """A variable of any method, or an item of the output of the model, or all gradients."""
        names = [name for name in self._methods if self._is_reached(name, deeper[0])]
        found = [self._add_method(name, deeper) for name in names]
        if deeper == GRADIENT:
            found.append(self._add_tensors("*", deeper))
        return any(found)

    def _is_reached(self, name: str, variable: str) -> bool:
        """Whether `**` leads to a variable: in code of torch only to the arguments of `forward`."""
        is_forward, function = name == "forward", self._methods[name]
        if is_forward and not self.path:
            return True
        if is_torch(function):
            return is_forward and variable in arguments_of(function)
        return bool(variables_of(function, variable))

    def _may_be_item(self, name: str) -> bool:
        """Whether a name may be an item of the output of the module; a number is rather a submodule."""
        if not self.path or "forward" not in self._methods:
            return False
        is_submodule = name.isdigit() and bool(own_modules(self._module))
        return not is_submodule and self._code.may_return(name)

    def _add_tensors(self, name: str, deeper: Segments) -> bool:
        """Parameters and buffers, or gradients of parameters."""
        if deeper == GRADIENT:
            return self._extend(self._found.gradients, own_parameters(self._module), name, deeper)
        means_submodules = is_wild(name) and bool(own_modules(self._module))
        if deeper or means_submodules:
            return False
        own = {**own_parameters(self._module), **own_buffers(self._module)}
        return self._extend(self._found.parameters, own, name, deeper)

    def _extend(self, found: list[TensorTarget], own: dict[str, Any], name: str, deeper: Segments) -> bool:
        names = [each for each, tensor in own.items() if tensor is not None and fits(name, each)]
        targets = [TensorTarget(self._module, each, join(self.path, each, *deeper)) for each in names]
        found += [target for target in targets if target not in found]
        return bool(targets)

    def _add_method(self, name: str, deeper: Segments) -> bool:
        """A variable of a method, what the method returns, or an item of that."""
        path, function = join(self.path, name), self._methods[name]
        if deeper and variables_of(function, deeper[0]):
            self._method(name).add_variables(deeper)
            return True
        if deeper and not self._code.may_return(deeper[0]):
            return False
        if name == "forward":
            return self._add_output(path, deeper)
        self._method(name).result.add(shortest(deeper))
        return True

    def _method(self, name: str) -> MethodTarget:
        owner = next(base for base in type(self._module).__mro__ if name in vars(base))
        new = MethodTarget(self._methods[name], join(self.path, name), name, owner)
        return self._found.methods.setdefault((id(self._module), name), new)

    def _add_output(self, path: str, rest: Segments) -> bool:
        """The output of the module, or an item of it; the whole output is recorded under one path only."""
        wanted = self._found.outputs.setdefault(id(self._module), {})
        is_known = any(() in rests for rests in wanted.values())
        if rest or not is_known:
            wanted.setdefault(path, set()).add(shortest(rest))
        return True

    def has(self, name: str) -> bool:
        """Whether the module has a method, a parameter or a buffer of this name."""
        return any(name in names for names in (self._methods, own_parameters(self._module), own_buffers(self._module)))

    def paths(self) -> Iterator[str]:
        """The paths in the module, to suggest one."""
        parameters, buffers = own_parameters(self._module), own_buffers(self._module)
        names = [*parameters, *buffers, *(join(name, *GRADIENT) for name in parameters)]
        for name, function in self._methods.items():
            names += [join(name, each) for each in names_in_method(name, function)]
        yield from (join(self.path, name) for name in ["", *names] if self.path or name)


def methods_of(kind: type[nn.Module]) -> dict[str, FunctionType]:
    """The functions that a class and its bases define, without decorators; those of `nn.Module` are left out."""
    bases = kind.__mro__[: kind.__mro__.index(nn.Module)]
    members = {name: member for base in reversed(bases) for name, member in vars(base).items()}
    functions = {name: getattr(member, "__func__", member) for name, member in members.items()}
    found = {name: original_of(each) for name, each in functions.items() if isinstance(each, FunctionType)}
    return {name: original for name, original in found.items() if original is not None}


def variables_of(function: FunctionType, pattern: str) -> list[str]:
    """The variables that a segment names; a wildcard names those that the function binds, without `self`."""
    code = function.__code__
    if not is_wild(pattern):
        if pattern in known_names(code):
            return [pattern]
        return []
    first = code.co_varnames[: code.co_argcount][:1]
    names = [name for name in bound_names(code) if name not in first and not name.startswith("_")]
    return sorted(name for name in names if fits(pattern, name))


def names_in_method(name: str, function: FunctionType) -> frozenset[str]:
    """The names that may come after that of a method, and none; of a method of torch, the arguments of `forward`."""
    if not is_torch(function):
        return frozenset({"", *known_names(function.__code__), *words(function.__code__)})
    if name == "forward":
        return arguments_of(function) | {""}
    return frozenset()


def is_torch(function: FunctionType) -> bool:
    """Whether a function is part of torch."""
    return function.__module__.partition(".")[0] == "torch"


def arguments_of(function: FunctionType) -> frozenset[str]:
    """The names of the parameters of a method, without `self`."""
    code = function.__code__
    return frozenset(code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount])


def shortest(rest: Segments) -> Segments:
    """The rest without `**` at its end: a value is recorded with everything in it."""
    while rest[-1:] == ("**",):
        rest = rest[:-1]
    return rest


@lru_cache(maxsize=4096)
def words(code: CodeType) -> frozenset[str]:
    """The names that code spells out: as keys, `{"logits": x}`, and keywords, `Output(logits=x)`.

    >>> sorted(words((lambda x: ({"logits": x, "loss": 0}, dict(mask=x))).__code__))
    ['logits', 'loss', 'mask']
    """
    constants = [constant for each in (code, *nested_codes(code)) for constant in each.co_consts]
    return frozenset(leaf for leaf in leaves(constants) if type(leaf) is str and leaf.isidentifier())


def join(*parts: str) -> str:
    """The parts as a path; empty parts are left out."""
    return ".".join(filter(None, parts))
