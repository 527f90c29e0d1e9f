"""Remedies for autograd: graphs that are cut or freed, tensors that are changed in place."""

from __future__ import annotations

import ast
import re
from dataclasses import replace

from insitu.trace.advice import Advice, Certainty, Fix, likely, possible
from insitu.trace.explain.bindings import LOOPS, nodes_around, nodes_of, scope_of
from insitu.trace.explain.case import before_dot
from insitu.trace.explain.checks import autograd
from insitu.trace.explain.edits import new_line, statement_at
from insitu.trace.explain.explanation import ExpressionSite, Origin, OriginKind
from insitu.trace.explain.expressions import Expression, called_name, tree_of
from insitu.trace.explain.messages import INVALID_GRADIENT
from insitu.trace.explain.remedies.call_parts import (
    call_in,
    method_in,
    receiver,
    torch_in,
    with_keyword,
)
from insitu.trace.explain.remedies.situation import PRODUCING, Remedies, Situation
from insitu.trace.explain.remedies.source_part import SourcePart, first_advice, needed, only, part_at, require

REMEDIES = Remedies()
SYMBOLS: dict[type[ast.operator], str] = {
    **{ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"},
    **{ast.MatMult: "@", ast.Mod: "%", ast.Pow: "**"},
}
# Expressions that keep their meaning behind any operator.
FIRM = (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.Constant)
FROM_ARRAYS = ("from_numpy", "tensor", "as_tensor", "Tensor", "FloatTensor")
ALIASES = "other names of the same tensor do not see the change then"


@REMEDIES.add(autograd.loss_is_not_a_scalar)
def reduced_loss(situation: Situation) -> Advice:
    """Reduce the loss: in the function that makes it, else on the line that failed."""
    name = needed(situation.case.first).name
    origin = situation.find_origin(*PRODUCING, name=name)
    if origin is not None and not situation.is_in_function(origin):
        return _mean_of(part_at(origin.site))
    return _mean_of(situation.on_line(name))


def _mean_of(part: SourcePart) -> Advice:
    return likely(part.with_suffix(".mean()"), ".sum() may be meant")


@REMEDIES.add(autograd.array_of_gradient)
def detached_array(situation: Situation) -> Advice:
    """Detach what becomes an array."""
    part = situation.on_line(situation.misfit.names[0])
    fix = part.with_suffix(".detach()")
    if _becomes_a_tensor_again(situation.part):
        words = "compute with torch instead of NumPy: the array becomes a tensor again, which has no gradient then"
        return Advice(Certainty.POSSIBLE, words=words)
    return situation.certain(part, f"{before_dot(part.text)}.detach()", fix)


def _becomes_a_tensor_again(part: SourcePart) -> bool:
    """Whether an array, or the name that gets it, goes into a tensor in the same function."""
    statement = part.expression.statement
    names = {ast.unparse(target) for target in getattr(statement, "targets", ())}
    scope = scope_of(needed(tree_of(part.file)), part.expression.position[0])
    tensors = [node for node in nodes_of(scope, ast.Call) if called_name(node) in FROM_ARRAYS]
    inside = [each for node in tensors for each in ast.walk(node)]
    return part.node in inside or not names.isdisjoint(each.id for each in inside if isinstance(each, ast.Name))


@REMEDIES.add(autograd.leaf_changed_in_place)
def change_without_gradient(situation: Situation) -> Advice:
    """Change the leaf while gradients are off."""
    part = situation.part.inner(situation.part.expression.statement)
    require(isinstance(part.node, ast.Assign | ast.AugAssign | ast.Expr))
    fix = part.with_text(f"with {torch_in(part.file)}.no_grad(): {part.text}")
    return likely(fix, "if the change needs a gradient, change a copy (.clone()) instead")


@REMEDIES.add(autograd.loss_without_graph)
def graph_not_cut(situation: Situation) -> Advice:
    """Leave out what cuts the graph."""
    return first_advice(situation, _switched_on, _not_lost, _not_a_number)


def _switched_on(situation: Situation) -> Advice:
    return connected(situation.origin_part(OriginKind.GRADIENT_OFF))


def _not_lost(situation: Situation) -> Advice:
    return connected(situation.origin_part(OriginKind.GRADIENT_LOST))


def _not_a_number(situation: Situation) -> Advice:
    return _stacked(situation.origin_part(OriginKind.NO_GRADIENT_PRODUCED))


def connected(part: SourcePart) -> Advice:
    """Leave out what cuts the graph at a place."""
    return first_advice(part, _without_detach, _not_reentrant, _with_gradient)


def _without_detach(part: SourcePart) -> Advice:
    method_in(part, "detach")
    fix = part.with_text(part.text.removesuffix(".detach()"))
    doubt = "the result may be meant to have no gradient"
    if getattr(part.expression.statement, "value", None) is part.node:
        return likely(fix, doubt)
    return possible(fix, doubt)


def _not_reentrant(part: SourcePart) -> Advice:
    """A checkpoint that needs an input with a gradient."""
    require(called_name(part.node) == "checkpoint")
    return likely(
        with_keyword(part, "use_reentrant", "False"), "the input of the block may be meant to have a gradient"
    )


def _with_gradient(part: SourcePart) -> Advice:
    """A statement in a block of torch.no_grad."""
    statement, torch = part.inner(part.expression.statement), torch_in(part.file)
    require(isinstance(statement.node, ast.Assign))
    line = part.expression.position[0]
    blocks = nodes_around(needed(tree_of(part.file)), line, ast.With)
    managers = [ast.unparse(item.context_expr) for node in blocks for item in node.items]
    require(f"{torch}.no_grad()" in managers)
    fix = statement.with_text(f"with {torch}.enable_grad(): {statement.text}")
    return likely(fix, f"it is clearer to move the line out of the block of {torch}.no_grad()")


def _stacked(part: SourcePart) -> Advice:
    """`torch.tensor([x.item() for x in losses])` as `torch.stack([x for x in losses])`."""
    tensor = only(node for node in ast.walk(part.node) if called_name(node) == "tensor")
    item = only(node for node in ast.walk(tensor) if called_name(node) == "item")
    function = part.inner(call_in(part.inner(tensor)).func)
    new = {
        function.node: f"{function.text.removesuffix('tensor')}stack",
        item: part.text_of(item).removesuffix(".item()"),
    }
    return likely(part.with_texts(new), "the numbers may be meant to have no gradient")


@REMEDIES.add(autograd.second_backward)
def one_graph_for_each_backward(situation: Situation) -> Advice:
    """Keep the graph for a second backward pass of one step; else cut it where a tensor is carried to the next step."""
    return first_advice(
        situation, _other_optimizer, _kept_graph, _computed_again, _detached_where_stored, _detached_later, _detached
    )


def _other_optimizer(situation: Situation) -> Advice:
    """The first backward pass is for another optimizer: it needs no gradient of what both losses read."""
    freed, name = part_at(situation.origin(OriginKind.GRAPH_FREED).site), situation.origin(OriginKind.CARRIED).name
    scope = scope_of(needed(tree_of(freed.file)), freed.expression.position[0])
    steps = {ast.unparse(call.func) for call in nodes_of(scope, ast.Call) if called_name(call) == "step"}
    require(len(steps) > 1, name.isidentifier(), situation.find_origin(OriginKind.READ_LATER))
    loss = receiver(freed).text
    made = only(each for each in nodes_of(scope, ast.Assign) if loss in map(ast.unparse, each.targets))
    reads = [each for each in nodes_of(made.value, ast.Name) if each.id == name]
    part = SourcePart(Expression(freed.file, made.value, made), only(reads))
    return likely(part.with_suffix(".detach()"), f"{loss} may be meant to train what makes {name}, too")


def _kept_graph(situation: Situation) -> Advice:
    freed = situation.origin(OriginKind.GRAPH_FREED)
    require(freed.site != situation.site)
    fix = with_keyword(part_at(freed.site), "retain_graph", "True", 2)
    return likely(fix, "one backward pass of the sum of both losses may do")


def _computed_again(situation: Situation) -> Advice:
    """A value that the constructor computes from parameters: it is computed where it is read."""
    carried = situation.origin(OriginKind.CARRIED)
    made = part_at(carried.site)
    require(_function_around(carried) == "__init__")
    names = {node.id for node in nodes_of(made.node, ast.Name)}
    require(names <= {"self", "torch", "F"})
    fix = _read_later(situation).with_value(made.text)
    return likely(fix, "the value may be meant to stay the same")


def _function_around(origin: Origin) -> str:
    site = needed(origin.site)
    return getattr(scope_of(needed(tree_of(site.file)), site.line), "name", "")


def _read_later(situation: Situation) -> SourcePart:
    """The expression that reads the tensor that is carried over."""
    name = situation.origin(OriginKind.CARRIED).name
    part = situation.origin_part(OriginKind.READ_LATER)
    return part.inner(only(node for node in nodes_of(part.node, ast.expr) if part.text_of(node) == name))


CARRIED_DOUBT = "the gradient may be meant to go through earlier steps"


def _detached_where_stored(situation: Situation) -> Advice:
    """Cut the graph where the name that is read later gets its value."""
    carried = situation.origin(OriginKind.CARRIED)
    part = part_at(carried.site)
    statement = part.expression.statement
    require(isinstance(statement, ast.Assign), getattr(statement, "value", None) is part.node)
    require([ast.unparse(target) for target in getattr(statement, "targets", ())] == [carried.name])
    require(carried.name != needed(situation.case.first).name)  # what is differentiated needs its graph
    return likely(part.with_suffix(".detach()"), CARRIED_DOUBT)


def _detached_later(situation: Situation) -> Advice:
    """Cut the graph after the backward pass, if its loop assigns the name that is carried over."""
    name, site = situation.origin(OriginKind.CARRIED).name, situation.site
    require(name.isidentifier(), _is_assigned_in_loop(site, name))
    return likely(_line(site.file, site.line, f"{name} = {name}.detach()", "after"), CARRIED_DOUBT)


def _is_assigned_in_loop(site: ExpressionSite, name: str) -> bool:
    """Whether a loop around a line of the source assigns a variable of this name."""
    scope = scope_of(needed(tree_of(site.file)), site.line)
    loops = nodes_around(scope, site.line, *LOOPS)
    names = [node for loop in loops for node in nodes_of(loop, ast.Name)]
    return name in {node.id for node in names if isinstance(node.ctx, ast.Store)}


def _detached(situation: Situation) -> Advice:
    """Cut the graph where the tensor is read."""
    return likely(_read_later(situation).with_suffix(".detach()"), CARRIED_DOUBT)


def _line(file: str, line: int, code: str, action: str) -> Fix:
    return needed(new_line(file, line, code, action))


@REMEDIES.add(autograd.changed_in_place)
def changed_copy(situation: Situation) -> Advice:
    """Make a new tensor instead of a change in place."""
    advice = first_advice(situation, _later_step, _new_tensor, _changed_clone, _without_underscore)
    shared = situation.find_origin(OriginKind.HANDED_OUT)
    if shared is None or shared.site is None or situation.case.update is not None:
        return advice
    return replace(advice, doubt=f"a copy in line {shared.site.line} does as well: {shared.site.text}.clone()")


def _statement_of_change(situation: Situation) -> SourcePart:
    require(situation.case.update is None)
    site = needed(situation.origin(OriginKind.CHANGED_IN_PLACE).site)
    statement = needed(statement_at(site.file, site.line))
    return SourcePart(Expression(site.file, statement, statement), statement)


def _new_tensor(situation: Situation) -> Advice:
    """`x += y` as `x = x + y`."""
    part = _statement_of_change(situation)
    node = part.node
    require(isinstance(node, ast.AugAssign))
    assert isinstance(node, ast.AugAssign)
    require(not isinstance(node.target, ast.Subscript))
    name, value = part.text_of(node.target), part.text_of(node.value)
    if not isinstance(node.value, FIRM):
        value = f"({value})"
    return likely(part.with_text(f"{name} = {name} {needed(SYMBOLS.get(type(node.op)))} {value}"), ALIASES)


def _changed_clone(situation: Situation) -> Advice:
    """`x[0] = y` changes a copy."""
    part = _statement_of_change(situation)
    require(isinstance(part.node, ast.Assign | ast.AugAssign))
    target = next(iter(getattr(part.node, "targets", ())), getattr(part.node, "target", None))
    require(isinstance(target, ast.Subscript))
    name = part.text_of(target.value)  # type: ignore[union-attr]
    return likely(_line(part.file, part.expression.position[0], f"{name} = {name}.clone()", "before"), ALIASES)


def _without_underscore(situation: Situation) -> Advice:
    """`x.relu_()` as `x = x.relu()`, `y = x.relu_()` as `y = x.relu()`."""
    require(situation.case.update is None)
    part = situation.origin_part(OriginKind.CHANGED_IN_PLACE)
    function = part.text_of(method_in(part))
    require(function.endswith("_"))
    text = part.text.replace(function, function.removesuffix("_"), 1)
    if isinstance(part.expression.statement, ast.Expr):
        text = f"{receiver(part).text} = {text}"
    return likely(part.with_text(text), ALIASES)


def _later_step(situation: Situation) -> Advice:
    """The step of an optimizer goes behind the backward pass that needs the old parameters."""
    step, site = needed(situation.case.update).step, situation.site
    origin = situation.origin(OriginKind.CHANGED_IN_PLACE)
    require(step, situation.is_in_function(origin))
    words = f"move {step} from line {needed(origin.site).line} behind line {site.line}"
    return Advice(Certainty.POSSIBLE, words=words, doubt="the forward pass may be meant to run again after it")


@REMEDIES.add(autograd.wrong_shape_of_gradient)
def transposed_gradient(situation: Situation) -> Advice:
    """Transpose the gradient if it then has the shape of its input."""
    found = needed(INVALID_GRADIENT.search(situation.case.message))
    shape, expected = (list(map(int, re.findall(r"\d+", found[key]))) for key in ("shape", "expected"))
    part = situation.origin_part(OriginKind.CUSTOM_GRADIENT)
    require(len(shape) == 2, shape[::-1] == expected, not isinstance(part.node, ast.Tuple))
    return likely(part.with_suffix(".t()"), "the formula of the gradient may be wrong")
