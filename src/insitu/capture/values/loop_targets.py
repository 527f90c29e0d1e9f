"""Variables outside of the model: those of the function, block or script that is recorded, and of what it calls.

`loss` is a variable of the function, block or script itself; `train.loss` one of a function that it calls by name, and
`Trainer.run.self.loss` one of a method. The names of functions are written out; those of variables may be patterns.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import CodeType, FrameType, FunctionType
from typing import Any

from insitu.capture.values.function_search import FunctionSearch, functions_of, is_code, modules_of_program
from insitu.capture.values.leaves import parts
from insitu.capture.values.targets import join, shortest
from insitu.capture.variables.follow.callees import callees
from insitu.capture.variables.follow.definitions import nested_codes
from insitu.capture.variables.follow.instructions import global_names, stored_globals, stored_names
from insitu.capture.variables.follow.line_meanings import line_meanings
from insitu.capture.variables.follow.lookup import MISSING, attributes_of, contents
from insitu.capture.variables.follow.rewrite import bound_names, known_names
from insitu.capture.variables.patterns import is_passed_over
from insitu.errors import PatternError
from insitu.trace.path import Pattern, Segments, fits, is_wild, suggestion

MODULE = "<module>"
TRAINING = frozenset({"backward", "step"})  # what code that trains calls

CodePlace = tuple[str, str]  # the file and the qualified name of a function, as its reports have them


@dataclass
class LoopTarget:
    """Code whose variables are recorded; without a function, it is that of a block or script that runs once."""

    code: CodeType
    function: FunctionType | None
    # By name, the paths of a variable, and the parts that are wanted at each; the rest `()` is the whole.
    variables: dict[str, dict[str, set[Segments]]] = field(default_factory=dict)
    # Whether steps end while it runs. Until one has, the names in the code give a hint.
    has_end: bool = False

    def __post_init__(self) -> None:
        self.has_end = any(not TRAINING.isdisjoint(each.co_names) for each in (self.code, *nested_codes(self.code)))

    @property
    def place(self) -> CodePlace:
        """Where the code is."""
        return self.code.co_filename, self.code.co_qualname

    @functools.cached_property
    def has_loops(self) -> bool:
        """Whether the variables change in loops, whose passes are reported; if not, a call is a pass."""
        return bool(line_meanings(self.code, self.variables.__contains__).loops)

    def add(self, prefix: Segments, segments: Segments) -> set[str]:
        """Add the variables that the first segment names, and what the others name in them; their paths.

        A variable that is recorded as a whole under another path already stays there.
        """
        rest = shortest(segments if segments[0] == "**" else segments[1:])
        paths = set()
        for name in variables_in(self.code, segments[0]):
            wanted = self.variables.setdefault(name, {})
            whole = next((path for path, rests in wanted.items() if () in rests), None)
            path = whole or join(*prefix, name)
            wanted.setdefault(path, set()).add(rest)
            paths.add(path)
        return paths

    def values(self, name: str, value: Any) -> Iterable[tuple[str, Any]]:
        """What is recorded of a variable, by path: mostly the whole, under one path."""
        wanted = self.variables[name]
        if len(wanted) == 1:
            ((path, rests),) = wanted.items()
            if () in rests:
                return ((path, value),)
        return [found for path, rests in wanted.items() for found in parts(path, value, rests).items()]


def variables_in(code: CodeType, pattern: str) -> list[str]:
    """The variables that a segment names; a wildcard names those that the code binds, without `self`."""
    names = own_names(code)
    if not is_wild(pattern):
        return [pattern] if pattern in names else []
    bound = names if code.co_name == MODULE else names & bound_names(code)
    return sorted(name for name in bound if fits(pattern, name) and not is_passed_over(name, pattern))


def own_names(code: CodeType) -> frozenset[str]:
    """The variables of a function, with the globals that it uses; or those that a module, or a function in it, binds.

    Variables of functions that are nested in the code belong to these.
    """
    if code.co_name == MODULE:
        inner = map(stored_globals, nested_codes(code))
        return stored_names(code).union(*inner)
    own = {*code.co_varnames, *code.co_cellvars, *code.co_freevars, *global_names(code)}
    return known_names(code) & own


@dataclass(frozen=True)
class LoopScope:
    """A function, block or script: its code, the names that it can use, and the function itself if there is one."""

    code: CodeType
    namespace: Mapping[str, Any]
    function: FunctionType | None

    @classmethod
    def of_frame(cls, frame: FrameType) -> LoopScope:
        """The scope of a block in a frame."""
        return cls(frame.f_code, {**frame.f_globals, **frame.f_locals}, None)

    @classmethod
    def of_function(cls, function: FunctionType) -> LoopScope:
        """The scope of a decorated function."""
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        enclosed = {name: value for name, cell in cells if (value := contents(cell)) is not MISSING}
        return cls(function.__code__, {**function.__globals__, **enclosed}, function)

    @property
    def name(self) -> str:
        """How to call it in a message."""
        if self.code.co_name == MODULE:
            return os.path.basename(self.code.co_filename)
        return self.code.co_qualname

    @functools.cached_property
    def callees(self) -> list[FunctionType]:
        """The functions that it can call, as far as names lead to them."""
        if self.function is not None:
            return callees(self.function)
        if self.code.co_freevars:
            return []
        arguments = {name: self.namespace[name] for name in self.code.co_varnames if name in self.namespace}
        receiver = next(iter(arguments.values()), None)
        return callees(FunctionType(self.code, dict(self.namespace)), receiver, arguments=arguments)


class LoopSearch:
    """Looks patterns up in a scope, and in the functions that it can call; `found` are the targets, by place.

    `paths` says for each pattern where its values are recorded.
    """

    def __init__(self, scope: LoopScope) -> None:
        self._scope = scope
        self._own = LoopTarget(scope.code, scope.function)
        self.found: dict[CodePlace, LoopTarget] = {}
        self.paths: dict[str, set[str]] = {}

    @functools.cached_property
    def _functions(self) -> FunctionSearch:
        """The functions of the program by name; made for the first pattern that needs it."""
        spaces = [self._scope.namespace, *map(attributes_of, modules_of_program())]
        return FunctionSearch(spaces, lambda: self._scope.callees)

    def add(self, pattern: str) -> bool:
        """Add what a pattern names; False if it names nothing."""
        segments = Pattern.of(pattern).segments
        paths = self._add_own(segments) or self._add_function(segments)
        if paths:
            self.paths[pattern] = paths
        return bool(paths)

    def _add_own(self, segments: Segments) -> set[str]:
        """Variables of the scope itself: by their names, or after the name of its function."""
        paths: set[str] = set()
        for name in self._own_prefixes(segments):
            paths = paths or self._own.add(name, segments[len(name) :])
        if paths:
            self.found[self._own.place] = self._own
        return paths

    def _own_prefixes(self, segments: Segments) -> Iterator[Segments]:
        """The names that may be before a variable of the scope: none, `run`, or `Trainer.run`."""
        if not is_code(self._scope.namespace.get(segments[0])):
            yield ()
        qualified = Pattern.of(self._scope.code.co_qualname.rpartition("<locals>.")[2]).segments
        for name in (qualified[-1:], qualified):
            is_named = segments[: len(name)] == name and len(segments) > len(name)
            if is_named:
                yield name

    def _add_function(self, segments: Segments) -> set[str]:
        """Variables of a function, by its name; of several functions with one name, the nearest has the variable."""
        for length in range(1, len(segments)):
            name, rest = segments[:length], segments[length:]
            for function in self._functions.named(name):
                new = LoopTarget(function.__code__, function)
                target = self.found.get(new.place, new)
                paths = target.add(name, rest)
                if paths:
                    self.found[target.place] = target
                    return paths
        return set()

    def require(self, pattern: str, paths_in_model: Callable[[], list[str]]) -> None:
        """Add what a pattern names; a PatternError, with the nearest of all paths there are, if it names nothing."""
        if self.add(pattern):
            return
        in_model = paths_in_model()
        near = suggestion(pattern, [*in_model, *self.names()])
        model = "the model, in " if in_model else ""
        raise PatternError(f"nothing in {model}{self._scope.name}, or in what it calls, has the path {pattern!r}{near}")

    def names(self) -> Iterator[str]:
        """The paths of variables, to suggest one."""
        yield from own_names(self._scope.code)
        near = [function for value in list(self._scope.namespace.values()) for function in functions_of(value)]
        for function in near:
            yield from (join(function.__name__, name) for name in own_names(function.__code__))
