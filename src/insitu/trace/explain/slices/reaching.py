"""Which values a name can have on a line of a function: all assignments that reach it, through branches and loops."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from insitu.trace.explain.bindings import FUNCTIONS, covers
from insitu.trace.explain.slices.points import ANY, Key, Keys

# Methods of containers that put their last argument into them, and those that add all items of it.
APPENDING = frozenset(("append", "appendleft", "add", "insert", "push", "put"))
EXTENDING = frozenset(("extend", "update", "extendleft"))


@dataclass(slots=True, frozen=True)
class ReachingValue:
    """A value that a name may have. `keys` lead to the part of it that the name gets: 1 for b in `a, b = x`.

    `fills` is the key under which a container gets the value as an item, if `is_filling`.
    """

    value: ast.expr
    keys: Keys = ()
    is_filling: bool = False
    fills: Key = ANY


Values = tuple[ReachingValue, ...]
# The value that a parameter has when the function begins.
ARGUMENT = ReachingValue(ast.Name("argument", ast.Load()))


def reaching_values(body: list[ast.stmt], line: int, name: str, initial: Values = ()) -> Values:
    """The values that a name can have on a line of a function; `initial` are those at its beginning.

    >>> source = "a = 1\\nif x:\\n    a = f(a)\\nfor b, c in pairs:\\n    use(a, c)"
    >>> body = ast.parse(source).body
    >>> [ast.unparse(each.value) for each in reaching_values(body, 5, "a")]
    ['f(a)', '1']
    >>> [(ast.unparse(each.value), each.keys) for each in reaching_values(body, 5, "c")]
    [('pairs', (None, 1))]
    """
    return _Reach(name, line).through(body, initial).values


def final_values(body: list[ast.stmt], name: str) -> Values:
    """The values that a name can have at the end of a function, or of a module."""
    return _Reach(name, -1).through(body, ()).values


@dataclass(slots=True, frozen=True)
class _Outcome:
    """The values after some statements; `is_there` if the line is among them: then those before the line."""

    values: Values
    is_there: bool = False


class _Reach:
    """Follows one name through the statements of a function, up to a line."""

    def __init__(self, name: str, line: int) -> None:
        self.name, self.line = name, line
        self._compound: dict[type[ast.AST], Callable[[Any, Values], _Outcome]] = {
            ast.If: self._branches,
            ast.Try: self._try,
            ast.Match: self._match,
            **dict.fromkeys((ast.For, ast.AsyncFor, ast.While), self._loop),
            **dict.fromkeys((ast.With, ast.AsyncWith), self._with),
        }

    def through(self, body: list[ast.stmt], values: Values) -> _Outcome:
        """The values after a block."""
        for statement in body:
            outcome = self._statement(statement, values)
            if outcome.is_there:
                return outcome
            values = outcome.values
        return _Outcome(values)

    def _statement(self, statement: ast.stmt, values: Values) -> _Outcome:
        compound = self._compound.get(type(statement))
        if compound is not None:
            return compound(statement, values)
        is_there = covers(statement, self.line) and not isinstance(statement, (*FUNCTIONS, ast.ClassDef))
        if is_there:
            return _Outcome(_merged(values, tuple(self._walrus(statement))), True)
        return _Outcome(self._after(statement, values))

    def _after(self, statement: ast.stmt, values: Values) -> Values:
        """The values after a simple statement."""
        changes = tuple(values_given(statement, self.name))
        assigned = tuple(each for each in changes if not each.is_filling)
        if assigned:
            return tuple(each for each in changes)
        return _merged(values, changes, tuple(self._walrus(statement)))

    def _walrus(self, statement: ast.AST) -> Iterator[ReachingValue]:
        for node in _own_expressions(statement):
            if isinstance(node, ast.NamedExpr) and node.target.id == self.name:
                yield ReachingValue(node.value)

    def _branches(self, node: ast.If, values: Values) -> _Outcome:
        values = _merged(values, tuple(self._walrus_in(node.test)))
        if covers(node.test, self.line):
            return _Outcome(values, True)
        return self._either(values, node.body, node.orelse)

    def _walrus_in(self, expression: ast.expr) -> Iterator[ReachingValue]:
        return self._walrus(ast.Expr(expression))

    def _either(self, values: Values, *blocks: list[ast.stmt]) -> _Outcome:
        outcomes = [self.through(block, values) for block in blocks]
        there = next((each for each in outcomes if each.is_there), None)
        if there is not None:
            return there
        return _Outcome(_merged(*(each.values for each in outcomes)))

    def _try(self, node: ast.Try, values: Values) -> _Outcome:
        inside = self.through([*node.body, *node.orelse], values)
        if inside.is_there:
            return inside
        after = self._either(_merged(values, inside.values), [], *(each.body for each in node.handlers))
        if after.is_there:
            return after
        return self.through(node.finalbody, _merged(inside.values, after.values) if node.handlers else inside.values)

    def _match(self, node: ast.Match, values: Values) -> _Outcome:
        return self._either(values, [], *(case.body for case in node.cases))

    def _loop(self, node: ast.For | ast.While, values: Values) -> _Outcome:
        head: ast.expr = node.iter if isinstance(node, (ast.For, ast.AsyncFor)) else node.test
        if covers(head, self.line) and not covers(node.body[0], self.line):
            return _Outcome(values, True)
        own = tuple(_loop_values(node, self.name))
        first = self._pass(node.body, own or values)
        inside = self._pass(node.body, own or _merged(values, first.values))
        if inside.is_there:
            return inside
        return self.through(node.orelse, _merged(values, own, inside.values))

    def _pass(self, body: list[ast.stmt], values: Values) -> _Outcome:
        """One pass of a loop. The values at its end reach its beginning, even if the line is inside of the loop."""
        outcome = self.through(body, values)
        if not outcome.is_there:
            return outcome
        at_end = _Reach(self.name, -1).through(body, values).values
        is_given_by_loop = any(each.keys[:1] == (ANY,) for each in values)
        if is_given_by_loop:
            return outcome
        again = self.through(body, _merged(values, at_end))
        return _Outcome(_merged(outcome.values, again.values), True)

    def _with(self, node: ast.With, values: Values) -> _Outcome:
        for item in node.items:
            if item.optional_vars is not None:
                keys = keys_in(item.optional_vars, self.name)
                if keys is not None:
                    values = (ReachingValue(item.context_expr, keys),)
        is_in_head = any(covers(item.context_expr, self.line) for item in node.items)
        if is_in_head and not covers(node.body[0], self.line):
            return _Outcome(values, True)
        return self.through(node.body, values)


def _merged(*groups: Values) -> Values:
    """Each value once, the first first."""
    found = {(id(each.value), each.keys): each for group in groups for each in group}
    return tuple(found.values())


def _loop_values(node: ast.AST, name: str) -> Iterator[ReachingValue]:
    if isinstance(node, (ast.For, ast.AsyncFor)):
        keys = keys_in(node.target, name)
        if keys is not None:
            yield ReachingValue(node.iter, (ANY, *keys))


def keys_in(target: ast.expr, name: str) -> Keys | None:
    """Where a name is in a target: () for the target itself, (1,) for b in `a, b`; None if it is not there."""
    if is_target(target, name):
        return ()
    if isinstance(target, ast.Starred):
        return (ANY,) if is_target(target.value, name) else None
    for index, part in enumerate(getattr(target, "elts", ())):
        inner = keys_in(part, name)
        if inner is not None:
            return inner if isinstance(part, ast.Starred) else (index, *inner)
    return None


def is_target(node: ast.AST, name: str) -> bool:
    """Whether an expression is a name, or a dotted name: `ids`, `self.ids`."""
    if isinstance(node, ast.Name):
        return node.id == name
    if isinstance(node, ast.Attribute):
        owner, _, attribute = name.rpartition(".")
        return bool(owner) and node.attr == attribute and is_target(node.value, owner)
    return False


def values_given(statement: ast.AST, name: str) -> Iterator[ReachingValue]:
    """The values that a simple statement gives to a name, or puts into the container of that name."""
    if isinstance(statement, ast.Assign):
        for target in statement.targets:
            yield from _assigned(target, statement.value, name)
    elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
        yield from _assigned(statement.target, statement.value, name)
    elif isinstance(statement, ast.AugAssign):
        yield from _augmented(statement, name)
    elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        yield from _filled(statement.value, name)


def _assigned(target: ast.expr, value: ast.expr, name: str) -> Iterator[ReachingValue]:
    keys = keys_in(target, name)
    if keys is not None:
        yield ReachingValue(value, keys)
        return
    for index, part in enumerate(getattr(target, "elts", (target,))):
        if isinstance(part, ast.Subscript) and is_target(part.value, name):
            place = (index,) if part is not target else ()
            yield ReachingValue(value, place, is_filling=True, fills=constant_key(part.slice))


def constant_key(node: ast.expr) -> Key:
    """The index or key that an expression is; ANY if it is not written as a constant."""
    if isinstance(node, ast.Constant) and type(node.value) in (int, str):
        return node.value  # type: ignore[return-value]
    is_negative = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)
    if is_negative and isinstance(node.operand, ast.Constant) and type(node.operand.value) is int:  # type: ignore[attr-defined]
        return -node.operand.value  # type: ignore[attr-defined]
    return ANY


def _augmented(statement: ast.AugAssign, name: str) -> Iterator[ReachingValue]:
    """`n += 1` as the sum that it computes: the position is that of the statement."""
    target: ast.expr = statement.target
    is_item = isinstance(target, ast.Subscript) and is_target(target.value, name)
    if not is_item and not is_target(target, name):
        return
    total = _total(statement)
    fills = constant_key(target.slice) if is_item else ANY  # type: ignore[attr-defined]
    yield ReachingValue(total, (), is_item, fills)


@lru_cache(maxsize=1024)
def _total(statement: ast.AugAssign) -> ast.BinOp:
    """The sum that a statement computes: one node for each statement, so that a walk sees it once."""
    return ast.copy_location(ast.BinOp(statement.target, statement.op, statement.value), statement)


def _filled(call: ast.Call, name: str) -> Iterator[ReachingValue]:
    function = call.func
    if not isinstance(function, ast.Attribute) or not is_target(function.value, name):
        return
    if function.attr in APPENDING and call.args:
        yield ReachingValue(call.args[-1], (), is_filling=True)
    elif function.attr in EXTENDING and call.args:
        yield ReachingValue(call.args[0], (ANY,), is_filling=True)
    elif function.attr == "setdefault" and len(call.args) == 2:
        yield ReachingValue(call.args[1], (), is_filling=True, fills=constant_key(call.args[0]))


def _own_expressions(statement: ast.AST) -> Iterator[ast.AST]:
    """The expressions of a statement, without those of the functions in it."""
    for node in ast.iter_child_nodes(statement):
        if isinstance(node, (ast.Lambda, ast.stmt)):
            continue
        yield node
        yield from _own_expressions(node)
