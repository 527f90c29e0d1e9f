"""A point of a slice: an expression in one call of a function, and the part of its value that is asked for."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from insitu.trace.explain.explanation import ExpressionSite
from insitu.trace.explain.expressions import segment
from insitu.trace.explain.slices.user_file import Function

# A part of a value: an index, the key of a dict, or None for any item.
Key = int | str | None
Keys = tuple[Key, ...]
ANY: Key = None


@dataclass(slots=True, frozen=True, eq=False)
class ClassPlace:
    """A class of the user, and its file."""

    file: str
    node: ast.ClassDef


@dataclass(slots=True, frozen=True, eq=False)
class Instance:
    """An object of a class of the user; `origin` is the call that constructed it, if that is known."""

    owner: ClassPlace
    origin: Point | None = None


@dataclass(slots=True, frozen=True, eq=False)
class CallScope:
    """One call of a function; without a function, a module.

    `call` is the expression that called it, `receiver` the expression of the object whose method it is, `instance`
    that object if it is known already. `bound` has names whose values come from elsewhere: parameters that a library
    passes, and the names of comprehensions. `outer` is the scope around a function that is defined in another.
    """

    file: str
    function: Function | None = None
    owner: ClassPlace | None = None
    call: Point | None = None
    receiver: Point | None = None
    instance: Instance | None = None
    bound: Mapping[str, Point] = field(default_factory=dict)
    outer: CallScope | None = None
    depth: int = 0

    @property
    def name(self) -> str:
        """The name of the function."""
        return str(getattr(self.function, "name", ""))


@dataclass(slots=True, frozen=True, eq=False)
class Point:
    """An expression in a scope; `keys` lead to the part of its value that is asked for, the outermost first."""

    scope: CallScope
    node: ast.expr
    keys: Keys = ()

    @property
    def identity(self) -> tuple[object, ...]:
        """What is equal for the same question."""
        call = self.scope.call
        return id(self.node), self.keys, id(call.node) if call is not None else 0

    @property
    def site(self) -> ExpressionSite:
        """The place in the source."""
        return replace(self.place, text=segment(self.scope.file, self.node))

    @property
    def place(self) -> ExpressionSite:
        """The place in the source, without the text."""
        return ExpressionSite(self.scope.file, self.node.lineno, self.scope.name)

    def at(self, node: ast.expr, *keys: Key) -> Point:
        """Another expression in the same scope; the keys come before those that are asked for."""
        return replace(self, node=node, keys=(*keys, *self.keys))

    def part(self, node: ast.expr) -> Point:
        """Another expression in the same scope, as a whole."""
        return replace(self, node=node, keys=())

    def parts(self, nodes: Iterable[ast.expr]) -> tuple[Point, ...]:
        """Other expressions in the same scope, as wholes."""
        return tuple(map(self.part, nodes))


class SourceSteps(Protocol):
    """What the parts of the resolver ask each other."""

    def behind(self, point: Point) -> list[Point] | None:
        """The expressions that a point only refers to; None if it computes its value itself."""

    def ends(self, point: Point) -> list[Point]:
        """The expressions that compute the value of a point, behind all names."""

    def instances(self, point: Point) -> list[Instance]:
        """The objects of the user's classes that a point may refer to."""

    def item(self, point: Point) -> list[Point] | None:
        """The items of an object that is iterated or indexed, with the keys of the point."""
