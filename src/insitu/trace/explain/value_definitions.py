"""What gave a name its value on a line, even if a loop changed it: an assignment, a loop, or the caller."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from insitu.trace.explain.assignments import COMPREHENSIONS, names_with_own_scope, value_for
from insitu.trace.explain.bindings import (
    FUNCTIONS,
    Assignment,
    binding_of,
    binds,
    covers,
    may_be_bound_elsewhere,
    nodes_around,
    nodes_of,
    only_one,
    own_nodes,
    own_nodes_of,
    parameters_of,
    scope_of,
    single_targets,
    targets,
)
from insitu.trace.explain.explanation import ExpressionSite
from insitu.trace.explain.expressions import loop_text, segment

Loop = ast.For | ast.AsyncFor
# Methods of containers that put their last argument into them.
FILLING = frozenset(("append", "appendleft", "add", "extend", "insert", "push", "put"))
# Methods of modules that give an attribute its value.
REGISTRATIONS = frozenset(("register_buffer", "register_parameter"))


@dataclass(slots=True, frozen=True)
class ValueDefinition:
    """A statement that gave a name its value. `value` is the expression of an assignment, or what a loop goes over.

    `register_buffer("name", value)` counts as an assignment.
    """

    statement: ast.stmt | ast.Call | ast.comprehension
    value: ast.expr

    @property
    def line(self) -> int:
        """The line of the statement."""
        return int(getattr(self.statement, "lineno", self.value.lineno))

    @property
    def is_plain(self) -> bool:
        """Whether the statement is an assignment that does not depend on the value that the name had before."""
        return isinstance(self.statement, (ast.Assign, ast.AnnAssign, ast.Call))

    def site(self, file: str) -> ExpressionSite:
        """The place of the statement."""
        node = self.statement
        text = segment(file, self.value)
        if isinstance(node, (ast.AugAssign, ast.Call)):
            text = segment(file, node)
        elif isinstance(node, Loop):
            text = loop_text(file, node)
        return ExpressionSite(file, self.line, "", text)


class Parameter:
    """The name is a parameter that the function does not change: the caller knows its value."""


PARAMETER = Parameter()


def definition_of(tree: ast.AST, line: int, name: str) -> ValueDefinition | Parameter | None:
    """What gave a name the value that it has on a line; None where the source leaves doubt.

    Other assignments of plain constants, as `shift = 0` before a loop, leave no doubt about what changed the name.

    >>> source = "shift = 0\\nfor links in graphs:\\n    use(links + shift)\\n    shift += len(links)"
    >>> definition_of(ast.parse(source), 3, "shift").statement.lineno
    4
    """
    if name in names_with_own_scope(tree, line):
        return _comprehension_definition(tree, line, name)
    binding = binding_of(tree, line, name)
    if binding is not None:
        return _definition(binding, name)
    if "." in name:
        return _attribute_definition(tree, name.rpartition(".")[2])
    return _local_definition(tree, line, name)


def _definition(node: ast.AST, name: str) -> ValueDefinition | None:
    if isinstance(node, Loop):
        return ValueDefinition(node, node.iter)
    if not isinstance(node, Assignment):
        return None
    value = value_for(node, name)
    if value is None:
        return None
    return ValueDefinition(node, value)


def _comprehension_definition(tree: ast.AST, line: int, name: str) -> ValueDefinition | None:
    """What the only comprehension on a line that has a name goes over."""
    around = nodes_around(tree, line, *COMPREHENSIONS)
    loops = [loop for node in around for loop in node.generators]
    found = only_one(loop for loop in loops if name in map(ast.unparse, single_targets(loop.target)))
    if found is None:
        return None
    return ValueDefinition(found, found.iter)


def _local_definition(tree: ast.AST, line: int, name: str) -> ValueDefinition | Parameter | None:
    scope = scope_of(tree, line)
    if isinstance(scope, ast.ClassDef) or may_be_bound_elsewhere(tree, scope, name):
        return None
    bindings = [node for node in own_nodes(scope) if binds(node, name)]
    if not bindings and isinstance(scope, FUNCTIONS):
        return _definition_outside(tree, scope, name)
    loop = _innermost_loop(bindings, line)
    if loop is not None:
        return _definition(loop, name)
    changes = [node for node in bindings if not _is_constant(node, name)]
    if len(changes) == 1 and name not in _own_parameters(scope):
        return _definition(changes[0], name)
    return None


def filling_of(tree: ast.AST, line: int, name: str) -> ValueDefinition | None:
    r"""The statement that fills the container of a name, if it is the only one in the function: `found.append(x)`.

    >>> source = "found = []\nfor x in xs:\n    found.append(x + 1)\nuse(found)"
    >>> ast.unparse(filling_of(ast.parse(source), 4, "found").value)
    'x + 1'
    """
    calls = own_nodes_of(scope_of(tree, line), ast.Call)
    found = only_one(call for call in calls if _fills(call, name))
    if found is None:
        return None
    return ValueDefinition(found, found.args[-1])


def _fills(call: ast.Call, name: str) -> bool:
    """Whether a call puts something into the container of a name."""
    if not fills_container(call) or not call.args:
        return False
    return ast.unparse(call.func.value) == name  # type: ignore[attr-defined]


def fills_container(call: ast.Call) -> bool:
    """Whether a call is one of a method that puts its last argument into a container: `found.append(x)`."""
    return isinstance(call.func, ast.Attribute) and call.func.attr in FILLING


def _definition_outside(tree: ast.AST, scope: ast.AST, name: str) -> ValueDefinition | Parameter | None:
    """What gave a name its value that its function does not set: the caller, or the module."""
    if name in parameters_of(scope):
        return PARAMETER
    return _global_definition(tree, name)


def _own_parameters(scope: ast.AST) -> set[str]:
    if isinstance(scope, FUNCTIONS):
        return parameters_of(scope)
    return set()


def _global_definition(tree: ast.AST, name: str) -> ValueDefinition | None:
    """The only assignment of a name in a module."""
    binding = only_one(node for node in own_nodes(tree) if binds(node, name))
    if binding is None:
        return None
    return _definition(binding, name)


def _innermost_loop(bindings: list[ast.AST], line: int) -> Loop | None:
    """The loop around a line that gives a name its value, if nothing in the loop changes it."""
    loops = [node for node in bindings if isinstance(node, Loop) and covers(node, line)]
    if not loops:
        return None
    inner = max(loops, key=lambda loop: loop.lineno)
    if any(node in bindings for node in own_nodes(inner)):
        return None
    return inner


def _is_constant(node: ast.AST, name: str) -> bool:
    """Whether an assignment gives a name a plain constant, such as `shift = 0`."""
    if not isinstance(node, (ast.Assign, ast.AnnAssign)):
        return False
    return isinstance(value_for(node, name), ast.Constant)


def _attribute_definition(tree: ast.AST, attribute: str) -> ValueDefinition | None:
    """The only assignment of an attribute in a file, besides plain constants."""
    found = _attribute_assignments(tree, attribute)
    return only_one(each for each in found if not isinstance(each.value, ast.Constant))


def _attribute_assignments(tree: ast.AST, attribute: str) -> Iterator[ValueDefinition]:
    for node in nodes_of(tree, ast.Assign, ast.AnnAssign, ast.AugAssign):
        for target in targets(node):
            if isinstance(target, ast.Attribute) and target.attr == attribute:
                found = _definition(node, ast.unparse(target))
                if found is not None:
                    yield found
    for call in nodes_of(tree, ast.Call):
        is_registration = getattr(call.func, "attr", "") in REGISTRATIONS and len(call.args) > 1
        if is_registration and getattr(call.args[0], "value", None) == attribute:
            yield ValueDefinition(call, call.args[1])
