"""Where a program keeps what it looks up by name: the functions of a table, and the weights of a conversion.

All of it is read from the source, and nothing runs. A trace from another machine, or of a file that has changed since,
has no source here: then nothing is found.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeGuard

from insitu.trace.event import Call, Site
from insitu.trace.explain.bindings import FUNCTIONS, nodes_around, nodes_of, scope_of
from insitu.trace.explain.explanation import ExpressionSite
from insitu.trace.explain.expressions import called_name, segment, source_tree
from insitu.trace.explain.value_definitions import ValueDefinition, definition_of
from insitu.trace.operation import operation

MOST_STEPS = 6  # from a name to its value
MOST_SITES = 3
# The parameters that a layer has beside one.
_SIBLINGS = {"weight": frozenset(("bias",)), "bias": frozenset(("weight", "kernel"))}


NamedValue = tuple[object, ast.expr | None]


@dataclass(frozen=True, slots=True, eq=False)
class SourceExpression:
    """An expression in a file; `line` is where it is evaluated, which decides what its names mean."""

    file: str
    line: int
    node: ast.expr

    def with_node(self, node: ast.expr) -> SourceExpression:
        """Another expression that is evaluated here."""
        return SourceExpression(self.file, self.line, node)

    @property
    def tree(self) -> ast.AST:
        """The syntax tree of the file."""
        return source_tree(self.file)

    @property
    def site(self) -> ExpressionSite:
        """The place as people see it."""
        return ExpressionSite(self.file, self.node.lineno, "", segment(self.file, self.node))


@dataclass(frozen=True, slots=True, eq=False)
class TableLookup:
    """An expression that takes something out of a table by a key."""

    table: SourceExpression
    key: ast.expr


@dataclass(frozen=True, slots=True, eq=False)
class TableEntry:
    """What a table has under a key; None for a key that is computed."""

    key: object
    value: SourceExpression


def sites_of_function(call: Call) -> tuple[ExpressionSite, ...]:
    """The entries of a table from which a line has the function that it calls: those that can be this function."""
    for place in _calls_on_line(call.site):
        assert isinstance(place.node, ast.Call)
        lookup = _lookup(place.with_node(place.node.func))
        if lookup is not None:
            entries = [entry for entry in _entries(lookup.table) if _mentions(entry.value.node, call)]
            return _sites(_chosen(entries, _possible_keys(lookup)))
    return ()


def sites_of_weight(writer: Call, name: str) -> tuple[ExpressionSite, ...]:
    """The expressions that made a weight which `load_state_dict` has set, as a function of the program converts it."""
    for place in _calls_on_line(writer.site):
        assert isinstance(place.node, ast.Call)
        if called_name(place.node) == "load_state_dict" and place.node.args:
            stored = _of_parameter(_entries(place.with_node(place.node.args[0])), name)
            return _sites([source for entry in stored for source in _conversions(entry, name)])
    return ()


def _conversions(entry: TableEntry, name: str) -> list[TableEntry]:
    """What converts a value: the functions of a table, or what a function of the program returns; else the value."""
    value = entry.value.node
    if not isinstance(value, ast.Call):
        return [entry]
    returned = [TableEntry(entry.key, place) for place in _returned(entry.value, value)]
    lookup = _lookup(entry.value.with_node(value.func))
    if lookup is not None:
        returned = _of_parameter(_entries(lookup.table), name)
    return returned or [entry]


def _of_parameter(entries: list[TableEntry], name: str) -> list[TableEntry]:
    """The entries that can be of a parameter: those with its name, or else those without the name of another one."""
    own = [entry for entry in entries if _own_key(entry) == name]
    siblings = _SIBLINGS.get(name, frozenset())
    return own or [entry for entry in entries if _own_key(entry) not in siblings]


def _own_key(entry: TableEntry) -> str:
    """The last part of a key: weight, of layers.0.weight."""
    return str(entry.key).rpartition(".")[2]


def _sites(entries: list[TableEntry]) -> tuple[ExpressionSite, ...]:
    """The places of entries, each line once."""
    sites = {entry.value.site.line: entry.value.site for entry in entries}
    return tuple(sites.values())[:MOST_SITES]


def _calls_on_line(site: Site | None) -> list[SourceExpression]:
    """The calls on a line, if the source is still what it was."""
    if site is None or site.text.strip() not in linecache.getline(site.file, site.line):
        return []
    calls = nodes_around(source_tree(site.file), site.line, ast.Call)
    return [SourceExpression(site.file, site.line, call) for call in calls]


def _lookup(place: SourceExpression, steps: int = MOST_STEPS) -> TableLookup | None:
    """The lookup from which an expression has its value."""
    node = place.node
    if isinstance(node, ast.Subscript):
        return TableLookup(place.with_node(node.value), node.slice)
    if isinstance(node, ast.Call):
        return _lookup_by_call(place, node, steps)
    definition = _definition(place)
    if definition is None or not steps:
        return None
    return _lookup(definition, steps - 1)


def _lookup_by_call(place: SourceExpression, node: ast.Call, steps: int) -> TableLookup | None:
    """A lookup by `table.get(key)`, or of a class that is called at once, as in `TABLE[key]()`."""
    if called_name(node) == "get" and isinstance(node.func, ast.Attribute) and node.args:
        return TableLookup(place.with_node(node.func.value), node.args[0])
    if isinstance(node.func, ast.Subscript):
        return _lookup(place.with_node(node.func), steps)
    return None


def _definition(place: SourceExpression) -> SourceExpression | None:
    """The expression that gave a name or an attribute its value."""
    if not isinstance(place.node, (ast.Name, ast.Attribute)):
        return None
    own = _values_in_class(place)
    if len(own) == 1:
        return own[0]
    found = definition_of(place.tree, place.line, ast.unparse(place.node))
    if not isinstance(found, ValueDefinition):
        return None
    return SourceExpression(place.file, found.line, found.value)


def _values_in_class(place: SourceExpression) -> list[SourceExpression]:
    """What the class around a line assigns to an attribute: `self.act = ...`."""
    classes = nodes_around(place.tree, place.line, ast.ClassDef)
    if not classes or not isinstance(place.node, ast.Attribute):
        return []
    assignments = [node for node in ast.walk(classes[-1]) if isinstance(node, ast.Assign)]
    name = ast.unparse(place.node)
    own = [node for node in assignments if name in map(ast.unparse, node.targets)]
    return [SourceExpression(place.file, node.lineno, node.value) for node in own]


def _entries(table: SourceExpression, steps: int = MOST_STEPS) -> list[TableEntry]:
    """What a table has: of a literal, of a comprehension, of what a function returns, of what is stored in it."""
    if not steps:
        return []
    read = _READERS.get(type(table.node), _entries_of_nothing)
    return read(table, table.node, steps - 1)


def _entries_of_nothing(table: SourceExpression, node: Any, steps: int) -> list[TableEntry]:
    return []


def _entries_of_literal(table: SourceExpression, node: ast.Dict, steps: int) -> list[TableEntry]:
    return [TableEntry(getattr(key, "value", None), table.with_node(value)) for key, value in _items(node)]


def _entries_of_comprehension(table: SourceExpression, node: ast.DictComp, steps: int) -> list[TableEntry]:
    return [TableEntry(None, table.with_node(node.value))]


def _entries_of_call(table: SourceExpression, node: ast.Call, steps: int) -> list[TableEntry]:
    """What the tables have that a function of the file returns."""
    return [entry for value in _returned(table, node) for entry in _entries(value, steps)]


def _entries_of_name(table: SourceExpression, node: ast.expr, steps: int) -> list[TableEntry]:
    """What a table with a name has from the start, and what is stored in it."""
    stored = _stored(table)
    definition = _definition(table)
    if definition is None:
        return stored
    return _entries(definition, steps) + stored


_READERS: dict[type[ast.expr], Callable[[SourceExpression, Any, int], list[TableEntry]]] = {
    ast.Dict: _entries_of_literal,
    ast.DictComp: _entries_of_comprehension,
    ast.Call: _entries_of_call,
    ast.Name: _entries_of_name,
    ast.Attribute: _entries_of_name,
}


def _items(node: ast.Dict) -> list[tuple[ast.expr | None, ast.expr]]:
    return list(zip(node.keys, node.values, strict=True))


def _returned(place: SourceExpression, call: ast.Call) -> list[SourceExpression]:
    """What a function of the file returns."""
    functions = [node for node in nodes_of(place.tree, *FUNCTIONS) if getattr(node, "name", "") == called_name(call)]
    returns = [node for function in functions for node in ast.walk(function) if isinstance(node, ast.Return)]
    return [SourceExpression(place.file, node.lineno, node.value) for node in returns if node.value is not None]


def _stored(table: SourceExpression) -> list[TableEntry]:
    """What the function around a table stores in it: `table[key] = value`."""
    name = ast.unparse(table.node)
    nodes = ast.walk(scope_of(table.tree, table.line))
    return [_stored_entry(table.file, node) for node in nodes if _stores_in(node, name)]


def _stores_in(node: ast.AST, name: str) -> TypeGuard[ast.Assign]:
    """Whether a statement stores something in the table of a name."""
    if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Subscript):
        return False
    return ast.unparse(node.targets[0].value) == name


def _stored_entry(file: str, node: ast.Assign) -> TableEntry:
    target = node.targets[0]
    assert isinstance(target, ast.Subscript)
    value = SourceExpression(file, node.lineno, node.value)
    if isinstance(target.slice, ast.Constant):
        return TableEntry(target.slice.value, value)
    return TableEntry(None, value)


def _mentions(node: ast.AST, call: Call) -> bool:
    """Whether an expression names the function that was called, or the class of that name."""
    name = _plain_name(operation(call.kind, call.name).base)
    return any(_plain_name(part) == name for part in _name_parts(node))


def _name_parts(node: ast.AST) -> Iterator[str]:
    for part in ast.walk(node):
        yield str(getattr(part, "attr", getattr(part, "id", "")))


def _plain_name(name: str) -> str:
    """The name that `nn.LeakyReLU` and `leaky_relu` share."""
    return name.replace("_", "").lower()


def _chosen(entries: list[TableEntry], keys: set[str]) -> list[TableEntry]:
    """The entry of the only key that is possible; all if several are."""
    found = [entry for entry in entries if entry.key in keys]
    if len(found) == 1:
        return found
    return entries


def _possible_keys(lookup: TableLookup) -> set[str]:
    """The texts that the program gives to the name by which it looks something up."""
    key = lookup.key
    if isinstance(key, ast.Constant):
        return {str(key.value)}
    return _given_texts(lookup.table.tree, _setting_name(key))


def _setting_name(key: ast.expr) -> str:
    """The name of a setting: activation, of `config["activation"]`, `config.activation` and `activation`."""
    if isinstance(key, ast.Subscript):
        return str(getattr(key.slice, "value", ""))
    return str(getattr(key, "attr", getattr(key, "id", "")))


def _given_texts(tree: ast.AST, name: str) -> set[str]:
    """The texts that a file gives to a name: in a dictionary, as an argument, by an assignment."""
    pairs = [*_arguments(tree), *_dictionary_items(tree), *_assignments(tree)]
    values = [value for given, value in pairs if given == name]
    return {value.value for value in values if isinstance(value, ast.Constant) and isinstance(value.value, str)}


def _arguments(tree: ast.AST) -> list[NamedValue]:
    return [(keyword.arg, keyword.value) for keyword in nodes_of(tree, ast.keyword)]


def _dictionary_items(tree: ast.AST) -> list[NamedValue]:
    items = chain.from_iterable(map(_items, nodes_of(tree, ast.Dict)))
    return [(getattr(key, "value", None), value) for key, value in items]


def _assignments(tree: ast.AST) -> list[NamedValue]:
    plain = [(_setting_name(node.targets[0]), node.value) for node in nodes_of(tree, ast.Assign)]
    return plain + [(_setting_name(node.target), node.value) for node in nodes_of(tree, ast.AnnAssign)]
