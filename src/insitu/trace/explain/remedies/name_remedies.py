"""Remedies for plain Python: functions without a result, tuples of names, names that do not exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from difflib import get_close_matches

from insitu.trace.advice import Advice, Certainty, certain, likely
from insitu.trace.explain.bindings import nodes_around, nodes_of, scope_of
from insitu.trace.explain.checks import unpacking
from insitu.trace.explain.edits import new_line
from insitu.trace.explain.expressions import Expression, tree_of
from insitu.trace.explain.remedies.call_parts import method_in, with_keyword
from insitu.trace.explain.remedies.situation import Remedies, Situation
from insitu.trace.explain.remedies.source_part import SourcePart, first_advice, needed, only, require

REMEDIES = Remedies()
RECURRENT = ("LSTM", "GRU", "RNN")
NEARNESS = 0.75  # of two names, from 0 to 1, that may be one name and its misspelling
NO_ATTRIBUTE = re.compile(r"'(\w+)' object has no attribute '(\w+)'")
NO_NAME = re.compile(r"name '(\w+)' is not defined")


@REMEDIES.add(unpacking.value_is_none)
def missing_return(situation: Situation) -> Advice:
    """Return the value of the last statement of a function that returns nothing."""
    missing = needed(next(iter(situation.case.missing), None))
    file = needed(missing.site).file
    function = _function(file, missing.returned_by)
    require(not nodes_of(function, ast.Return))
    last = function.body[-1]
    require(isinstance(last, ast.Assign | ast.Expr))
    part = SourcePart(Expression(file, last, last), last)
    fix = part.with_text(f"return {part.text_of(last.value)}")  # type: ignore[attr-defined]
    return likely(fix, f"{missing.returned_by} may be meant to return something else")


def _function(file: str, name: str) -> ast.FunctionDef:
    """The function of a file by its qualified name: `FeedForward.forward`."""
    node: ast.AST = needed(tree_of(file))
    for part in name.split("."):
        body = getattr(node, "body", [])
        node = needed(next((each for each in body if getattr(each, "name", "") == part), None))
    require(isinstance(node, ast.FunctionDef))
    assert isinstance(node, ast.FunctionDef)
    return node


def _names_in(situation: Situation) -> list[str]:
    """The names that the failed statement unpacks a value to."""
    require(isinstance(situation.part.node, ast.Tuple))
    return [ast.unparse(each) for each in situation.part.node.elts]  # type: ignore[attr-defined]


@REMEDIES.add(unpacking.too_few_values)
def one_name(situation: Situation) -> Advice:
    """Give one tensor one name."""
    first, *others = _names_in(situation)
    require(situation.misfit.rows)
    if _are_read(situation, others):
        words = f"give the value one name, {first}, and change what reads {', '.join(others)}"
        return Advice(Certainty.POSSIBLE, words=words)
    return likely(situation.part.with_text(first), f"the tensor may lack a dimension: {first} is all of it")


def _are_read(situation: Situation, names: Iterable[str]) -> bool:
    """Whether the function that failed reads some names."""
    scope = scope_of(needed(tree_of(situation.part.file)), situation.part.expression.position[0])
    loads = {node.id for node in nodes_of(scope, ast.Name) if isinstance(node.ctx, ast.Load)}
    return not loads.isdisjoint(names)


@REMEDIES.add(unpacking.too_many_values)
def more_names(situation: Situation) -> Advice:
    """Name each value of a list or tuple, the last ones `_`."""
    names, values, text = _names_in(situation), situation.case.unpacked, situation.part.text
    require(isinstance(values, (list, tuple)), not text.endswith(")"))
    fix = situation.part.with_text(text + ", _" * (len(values) - len(names)))
    return likely(fix, "other values than the first ones may be meant")


def nearest_name(situation: Situation) -> Advice:
    """The name that is written nearly the same, for a name, an attribute or a key that does not exist."""
    return first_advice(situation, _nearest_attribute, _nearest_variable, _nearest_key)


def _nearest(name: str, names: Iterable[object]) -> str:
    known = [each for each in names if isinstance(each, str)]
    return needed(next(iter(get_close_matches(name, known, 1, NEARNESS)), None))


def _nearest_attribute(situation: Situation) -> Advice:
    require(situation.case.error == "AttributeError")
    owner, name = needed(NO_ATTRIBUTE.search(situation.case.message)).groups()
    nearest = _nearest(name, _attributes_of(situation.part.file, owner))
    node = only(each for each in nodes_of(situation.part.node, ast.Attribute) if each.attr == name)
    fix = situation.part.inner(node).with_text(f"{situation.part.text_of(node.value)}.{nearest}")
    return likely(fix, f"{owner} may lack {name} by mistake")


def _attributes_of(file: str, name: str) -> set[str]:
    """The attributes that a class of the file sets, and its methods."""
    statements = getattr(tree_of(file), "body", ())
    scope = only(node for node in statements if isinstance(node, ast.ClassDef) and node.name == name)
    stored = {node.attr for node in nodes_of(scope, ast.Attribute) if isinstance(node.ctx, ast.Store)}
    return stored | {node.name for node in nodes_of(scope, ast.FunctionDef)}


def _nearest_variable(situation: Situation) -> Advice:
    require(situation.case.error == "NameError")
    name = needed(NO_NAME.search(situation.case.message))[1]
    nearest = _nearest(name, situation.failure.own.names)
    node = only(each for each in nodes_of(situation.part.node, ast.Name) if each.id == name)
    return likely(situation.part.inner(node).with_text(nearest), f"{name} may lack its assignment")


def _nearest_key(situation: Situation) -> Advice:
    node = situation.part.node
    require(situation.case.error == "KeyError", isinstance(node, ast.Subscript))
    assert isinstance(node, ast.Subscript)
    owner, key = situation.line.frame.value(node.value), situation.line.frame.value(node.slice)
    require(isinstance(owner, dict), isinstance(key, str))
    fix = situation.part.inner(node.slice).with_text(repr(_nearest(key, owner)))
    return likely(fix, f"{key!r} may be missing by mistake")


def setting_that_torch_names(situation: Situation) -> Advice:
    """The setting that the message of torch asks for, where it leaves no choice."""
    require("enforce_sorted=False" in situation.case.message)
    return certain(with_keyword(situation.part, "enforce_sorted", "False"))


def constructor_first(situation: Situation) -> Advice:
    """A module must call `super().__init__()` before it gets modules and parameters."""
    require("before Module.__init__() call" in situation.case.message)
    tree, line = needed(tree_of(situation.part.file)), situation.site.line
    function = only(nodes_around(tree, line, ast.FunctionDef)[-1:])
    require(function.name == "__init__")
    calls = [node for node in nodes_of(function, ast.Call) if ast.unparse(node.func).endswith(".__init__")]
    if calls:
        words = f"move {ast.unparse(calls[0])} from line {calls[0].lineno} before line {line}"
        return Advice(Certainty.CERTAIN, words=words)
    first = next(each for each in function.body if not _is_docstring(each))
    return certain(needed(new_line(situation.part.file, first.lineno, "super().__init__()", "before")))


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def first_of_results(situation: Situation) -> Advice:
    """The output of a recurrent layer, without its states."""
    require("must be Tensor, not tuple" in situation.case.message)
    history = situation.failure.history
    tensors = [each for each in situation.line.tensors() if each.name.endswith("[0]")]
    first = needed(next(iter(tensors), None))
    made = needed(history.on_line(history.producer(first.tensor)))
    require(history.callee_facts(made).module_type in RECURRENT)
    name = first.name.removesuffix("[0]")
    return likely(situation.on_line(name).with_suffix("[0]"), "the last state may be meant instead of the output")


def booleans_to_invert(situation: Situation) -> Advice:
    """`~mask` of a mask of floats."""
    require("operator.invert" in situation.case.message)
    inverted = only(node for node in nodes_of(situation.part.node, ast.UnaryOp) if isinstance(node.op, ast.Invert))
    return likely(situation.part.inner(inverted.operand).with_suffix(".bool()"), "1 - mask may be meant")


def stacked_numbers(situation: Situation) -> Advice:
    """`cat` of tensors without dimensions."""
    require("zero-dimensional tensor" in situation.case.message)
    function = situation.part.inner(method_in(situation.part, "cat", "concat"))
    name = function.text.rpartition(".")[0]
    return likely(function.with_text(f"{name}.stack"), "the tensors may be meant to have a dimension")


# Remedies for failures that no check finds, by their messages.
BY_MESSAGE = (
    nearest_name,
    setting_that_torch_names,
    constructor_first,
    first_of_results,
    booleans_to_invert,
    stacked_numbers,
)
