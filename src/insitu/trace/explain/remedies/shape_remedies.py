"""Remedies for shapes: layers of another size, dimensions that are missing or in another order."""

from __future__ import annotations

import ast
from itertools import permutations

from insitu.trace.advice import Advice, Certainty, Fix, likely, possible
from insitu.trace.explain.assignments import COMPREHENSIONS, assignment_sites
from insitu.trace.explain.bindings import LOOPS, nodes_around, nodes_of, scope_of
from insitu.trace.explain.case import before_dot
from insitu.trace.explain.checks import joins, layers, shapes
from insitu.trace.explain.edits import statement_at
from insitu.trace.explain.explanation import OriginKind, ShapeRow
from insitu.trace.explain.expressions import Expression, called_name, tree_of
from insitu.trace.explain.remedies.call_parts import (
    NamedArgument,
    argument,
    call_in,
    keyword,
    method_in,
    sizes_in,
    torch_in,
)
from insitu.trace.explain.remedies.situation import Remedies, Situation
from insitu.trace.explain.remedies.source_part import SourcePart, first_advice, needed, only, part_at, require
from insitu.trace.explain.remedies.working_layers import has_worked

REMEDIES = Remedies()
FEATURES = NamedArgument(0, "in_features", ("Linear",))
CHANNELS = NamedArgument(0, "in_channels", ("Conv1d", "Conv2d", "Conv3d"))
NORM = NamedArgument(0, "num_features", ("BatchNorm1d", "BatchNorm2d", "BatchNorm3d"))
FACTORIES = ("zeros", "ones", "randn", "rand", "empty")
MOST_LETTERS = 6  # of a term of einsum whose orders are tried


@REMEDIES.add(joins.matrix_product)
def transposed_operand(situation: Situation) -> Advice:
    """Transpose the right operand if its rows then fit."""
    left, right = situation.row("left"), situation.row("right")
    size = left.shape[-1]
    require(right.shape[-1] == size, right.shape[-2] != size)
    operand, part = situation.operand(right.name), _right_of(situation, right.name)
    fix = _transposed(part, operand.facts.type, len(right.shape))
    return likely(fix, f"{left.name or 'left'} may have the wrong order of dimensions instead")


def _transposed(part: SourcePart, kind: str, dimensions: int) -> Fix:
    if kind != "ndarray":
        return part.with_suffix(".transpose(-2, -1)")
    if dimensions == 2:
        return part.with_suffix(".T")
    return part.with_text(f"np.swapaxes({part.text}, -2, -1)")


def _right_of(situation: Situation, name: str) -> SourcePart:
    """The right side of `@`; else the operand on the line."""
    node = situation.part.node
    if isinstance(node, ast.BinOp):
        return situation.part.inner(node.right)
    return situation.on_line(name)


@REMEDIES.add(joins.features_of_linear)
def features(situation: Situation) -> Advice:
    """Make the layer for the features that it gets."""
    weight = situation.row("weight")
    require(len(weight.shape) == 2)
    return _layer_for(situation, FEATURES, weight.shape[-1], situation.row("input").shape[-1])


@REMEDIES.add(layers.convolution)
def channels(situation: Situation) -> Advice:
    """Move the channels to where a convolution expects them; else make the layer for the channels that it gets."""
    return first_advice(situation, _channels_first, _layer_of_channels)


def _sides(situation: Situation) -> int:
    """The dimensions of an image, if its channels do not fit."""
    sides = len(situation.row("weight").shape) - 2
    require(situation.misfit.dimension == -sides - 1)
    return sides


def _channels_first(situation: Situation) -> Advice:
    given, weight = situation.row("input"), situation.row("weight")
    order = needed(layers.channels_first(given.shape, _sides(situation), int(weight.shape[1])))
    fix = situation.source_of(given.name).with_suffix(f".permute{order}")
    return likely(fix, "the data may be read wrongly")


def _layer_of_channels(situation: Situation) -> Advice:
    has = situation.row("input").shape[-_sides(situation) - 1]
    return _layer_for(situation, CHANNELS, situation.row("weight").shape[1], has)


def _layer_for(situation: Situation, which: NamedArgument, old: int | str, new: int | str) -> Advice:
    """The constructor of a layer with another size."""
    weight = situation.row("weight").name
    layer = situation.constructor(weight)
    require(not has_worked(situation, weight, layer))
    size = argument(layer, which)
    fix = size.with_text(_size(size, int(old), int(new)))
    if _is_repeated(layer):
        return possible(fix, f"this line makes several layers; and the {new} may be wrong instead")
    return likely(fix, f"the {new} may be wrong instead")


def _size(part: SourcePart, old: int, new: int) -> str:
    """A size as the program would write it: a multiple of a name, else the number."""
    if isinstance(part.node, ast.Name | ast.Attribute) and new % old == 0:
        return f"{new // old} * {part.text}"
    return str(new)


def _scope(part: SourcePart) -> ast.AST:
    """The function around a part of the source."""
    return scope_of(needed(tree_of(part.file)), part.expression.position[0])


def _is_repeated(part: SourcePart) -> bool:
    """Whether a loop or a comprehension runs an expression."""
    return bool(nodes_around(_scope(part), part.expression.position[0], *LOOPS, *COMPREHENSIONS))


@REMEDIES.add(layers.channels_of_batch_norm)
def channels_of_norm(situation: Situation) -> Advice:
    """Make the layer for the channels that it gets."""
    has = situation.row("input").shape[1]
    mean = next(each.name for each in situation.case.operands if each.name.endswith("running_mean"))
    layer = situation.constructor(mean)
    require(not has_worked(situation, mean, layer))
    count = argument(layer, NORM)
    return likely(count.with_text(str(has)), f"the {has} channels may be wrong instead")


@REMEDIES.add(layers.normalized_shape)
def normalized_last(situation: Situation) -> Advice:
    """Normalize with the dimension that fits at the end, and move it back."""
    row, part = situation.row("input"), situation.part
    size = layers.normalized_size(situation.case)
    require(row.shape.count(needed(size)) == 1, part.text.count(row.name) == 1)
    require(situation.on_line(row.name).node in call_in(part).args)
    dimension = row.shape.index(needed(size)) - len(row.shape)
    move = f".transpose({dimension}, -1)"
    moved = part.text.replace(row.name, f"{before_dot(row.name)}{move}")
    return likely(part.with_text(f"{moved}{move}"), f"{size} is dimension {dimension}; another one may be meant")


@REMEDIES.add(layers.recurrent_states)
def state_of_batch(situation: Situation) -> Advice:
    """Make the state for the batch that comes."""
    wanted, given = layers.sizes_of_state(situation.case)
    index = only(index for index, pair in enumerate(zip(wanted, given, strict=True)) if pair[0] != pair[1])
    if len(wanted) == 3 and index == 0:
        return _state_of_layers(situation, wanted[0])
    part = only(part for part in situation.parts() if called_name(part.node) in FACTORIES)
    size = part.inner(sizes_in(part)[index])
    return likely(size.with_text(_size_of(situation, size)), "the batch may be wrong instead")


def _state_of_layers(situation: Situation, layers_and_directions: int) -> Advice:
    """Make each state on a line for all layers and directions."""
    site = needed(situation.origin(OriginKind.PRODUCED).site)
    statement = needed(statement_at(site.file, site.line))
    line = SourcePart(Expression(site.file, statement, statement), statement)
    calls = [node for node in nodes_of(statement, ast.Call) if called_name(node) in FACTORIES]
    sizes = [sizes_in(line.inner(node))[0] for node in calls]
    old = only({line.text_of(size) for size in sizes})
    require(old.isdecimal())
    fix = line.with_texts(dict.fromkeys(sizes, str(layers_and_directions)))
    return likely(fix, f"the layer may be meant to have {old} instead")


def _size_of(situation: Situation, part: SourcePart) -> str:
    """The size of the batch in the names at a place: of the tensor that it reads already, or of the input."""
    data = situation.row("input")
    is_second = len(data.shape) == 3 and not situation.case.setting("batch_first")
    dimension = int(is_second)
    owner, dot, _ = part.text.partition(".shape[")
    if dot:
        return f"{owner}.shape[{dimension}]"
    is_argument = data.name in {node.arg for node in nodes_of(_scope(part), ast.arg)}
    require(data.name.isidentifier(), is_argument or _is_in_loop_of(part, data.name))
    return f"{data.name}.shape[{dimension}]"


def _is_in_loop_of(part: SourcePart, name: str) -> bool:
    """Whether a loop around a part of the source gives a name its values."""
    loops = nodes_around(_scope(part), part.expression.position[0], ast.For)
    return any(name in map(ast.unparse, nodes_of(loop.target, ast.Name)) for loop in loops)


@REMEDIES.add(layers.shape_of_attention_mask)
def mask_of_tokens(situation: Situation) -> Advice:
    """Pass a mask of tokens as one."""
    word = situation.part.inner(needed(keyword(situation.part.node, "attn_mask")))
    fix = word.with_text(word.text.replace("attn_mask", "key_padding_mask", 1))
    return likely(fix, "another mask may be meant: attn_mask is [queries, keys]")


@REMEDIES.add(layers.checkpoint_of_another_model)
def model_of_checkpoint(situation: Situation) -> Advice:
    """Make the model of the size that the checkpoint has, if one number of the program is the size."""
    stored, own = needed(layers.sizes_of_checkpoint(situation.case))
    name = situation.part.text_of(method_in(situation.part).value)
    model = part_at(next(iter(assignment_sites(situation.site, name)), None))
    number = only(node for node in nodes_of(model.node, ast.Constant) if node.value == own)
    return likely(model.inner(number).with_text(str(stored)), "another checkpoint may be meant")


@REMEDIES.add(shapes.samples_and_targets)
def classes_second(situation: Situation) -> Advice:
    """Move the classes behind the samples, if they come last."""
    scores, target = situation.row("scores"), situation.row("target")
    require(len(scores.shape) > 2, target.shape == scores.shape[:-1])
    fix = situation.on_line(scores.name).with_suffix(".movedim(-1, 1)")
    return likely(fix, "the targets may have the wrong shape instead")


@REMEDIES.add(joins.joined_shapes)
def joined(situation: Situation) -> Advice:
    """Keep the dimension of the batch; else pad what has different lengths."""
    return first_advice(situation, _kept_batch, _padded_batch, _expanded)


def _kept_batch(situation: Situation) -> Advice:
    """`.squeeze()` removes a batch of one, too."""
    require(situation.misfit.dimension is None)
    part = only(part for part in situation.parts() if part.text.endswith(".squeeze()"))
    fix = part.with_text(f"{part.text.removesuffix('.squeeze()')}.flatten(1)")
    return likely(fix, "another dimension than the first may be the one to keep")


def _expanded(situation: Situation) -> Advice:
    """Expand a tensor that is the same for the whole batch: a token of the class, in front of the others."""
    rows = situation.misfit.rows
    require(called_name(situation.part.node) == "cat", len(rows) == 2, situation.misfit.dimension is not None)
    single = only(row for row in rows if row.shape[0] == 1)
    other = only(row for row in rows if row is not single)
    require(len(single.shape) == len(other.shape) > 1, other.name.isidentifier())
    require(situation.misfit.dimension == -len(other.shape))
    rest = ", -1" * (len(single.shape) - 1)
    fix = situation.on_line(single.name).with_suffix(f".expand({other.name}.shape[0]{rest})")
    return likely(fix, f"{single.name} may be meant to have a batch")


def _padded_batch(situation: Situation) -> Advice:
    """Pad sequences of different lengths before they are stacked."""
    part, node = situation.part, call_in(situation.part)
    require(called_name(node) == "stack", len(node.args) == 1)
    require({word.arg: part.text_of(word.value) for word in node.keywords} in ({}, {"dim": "0"}))
    require(situation.misfit.dimension == -len(situation.misfit.rows[0].shape))
    rows = part.text_of(node.args[0])
    fix = part.with_text(f"{torch_in(part.file)}.nn.utils.rnn.pad_sequence({rows}, batch_first=True)")
    return likely(fix, "the sizes may be meant to be the same")


@REMEDIES.add(joins.einsum_letters)
def letters_in_order(situation: Situation) -> Advice:
    """Put the letters of a term in the one order that fits."""
    equation, rows = situation.part.inner(call_in(situation.part).args[0]), situation.misfit.rows
    require(isinstance(equation.node, ast.Constant))
    wrong = [row for row in rows if len(_orders(row, rows)) == 1]
    row = wrong[-1]  # torch takes the sizes of the first term for the letters of the others
    require(equation.text.count(row.role) == 1)
    fix = equation.with_text(equation.text.replace(row.role, _orders(row, rows)[0]))
    doubt = f"{row.name or 'the tensor'} may have the wrong order of dimensions instead"
    if len(wrong) > 1:
        return possible(fix, f"the letters of {wrong[0].role} may be in the wrong order instead")
    return likely(fix, doubt)


def _orders(row: ShapeRow, rows: tuple[ShapeRow, ...]) -> list[str]:
    """The orders of the letters of a term in which each letter has the size that it has in the other terms."""
    require(len(row.role) == len(row.shape), len(row.role) <= MOST_LETTERS)
    others = [other for other in rows if other is not row]
    sizes = {letter: size for other in others for letter, size in zip(other.role, other.shape, strict=True)}
    orders = {"".join(order) for order in permutations(row.role)}
    return [order for order in sorted(orders) if _has_sizes(order, row, sizes)]


def _has_sizes(order: str, row: ShapeRow, sizes: dict[str, int | str]) -> bool:
    return all(sizes.get(letter, size) == size for letter, size in zip(order, row.shape, strict=True))


@REMEDIES.add(shapes.view_of_strided)
def reshaped(situation: Situation) -> Advice:
    """`reshape` copies where `view` cannot."""
    function = situation.part.inner(method_in(situation.part, "view"))
    text = f"{function.text.removesuffix('view')}reshape"
    name = _name_of_result(situation.part)
    if name and _is_written_in_place(_scope(situation.part), name):
        words = f"change the tensor itself: no view of it has this shape, and .reshape() makes {name} a copy"
        return Advice(Certainty.POSSIBLE, words=words)
    return situation.certain(function, text, function.with_text(text))


def _name_of_result(part: SourcePart) -> str:
    """The name that gets the value of an expression."""
    statement = part.expression.statement
    if isinstance(statement, ast.Assign) and statement.value is part.node:
        return ast.unparse(statement.targets[0])
    return ""


def _is_written_in_place(scope: ast.AST, name: str) -> bool:
    """Whether a function writes into a tensor: `x[0] = 1`, `x += 1`, `x.add_(1)`, `f(x, out=x)`."""
    stores = [node.value for node in nodes_of(scope, ast.Subscript) if isinstance(node.ctx, ast.Store)]
    updates = [node.target for node in nodes_of(scope, ast.AugAssign)]
    methods = [node.value for node in nodes_of(scope, ast.Attribute) if node.attr.endswith("_")]
    return name in map(ast.unparse, (*stores, *updates, *methods))


@REMEDIES.add(shapes.number_of_elements)
def one_size_left_open(situation: Situation) -> Advice:
    """Name the number that does not divide another; else let torch compute the one size that would fit."""
    return first_advice(situation, _indivisible, _open_size)


def _indivisible(situation: Situation) -> Advice:
    """`x.view(n, heads, C // heads)` where heads does not divide C."""
    part, numbers = situation.part, shapes.requested_sizes(situation.case)
    texts = list(map(part.text_of, sizes_in(part)))
    division = only(node for node in sizes_in(part) if _is_floor_division(node))
    name, count = part.text_of(division.left), part.text_of(division.right)  # type: ignore[attr-defined]
    quotient, divisor = numbers[texts.index(f"{name} // {count}")], numbers[texts.index(count)]
    wholes = {int(size) for size in situation.row("input").shape if int(size) // divisor == quotient}
    whole = only(size for size in wholes if size % divisor)
    words = f"choose {count} so that it divides {name}: {count} is {divisor}, {name} is {whole}"
    return Advice(Certainty.POSSIBLE, words=words)


def _is_floor_division(node: ast.expr) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv)


def _open_size(situation: Situation) -> Advice:
    index = needed(shapes.size_to_leave_open(situation.case))
    method_in(situation.part)
    sizes = sizes_in(situation.part)
    require(len(sizes) > 1)
    fix = situation.part.inner(sizes[index]).with_text("-1")
    return possible(fix, "the size of the tensor, or another size, may be wrong instead")


@REMEDIES.add(shapes.expanded_dimension)
def dimension_to_expand(situation: Situation) -> Advice:
    """Add the dimension that is expanded."""
    given, wanted = situation.row("input"), situation.row("wanted")
    dimension = needed(shapes.missing_dimension(given.shape, list(map(int, wanted.shape))))
    fix = situation.on_line(given.name).with_suffix(f".unsqueeze({dimension})")
    return likely(fix, "the sizes may be wrong instead")


@REMEDIES.add(shapes.permuted_dimensions)
def order_of_all(situation: Situation) -> Advice:
    """Name all dimensions, where the order moves the last one behind the first."""
    order, node = situation.row("order").shape, call_in(situation.part)
    count, last = len(order), len(situation.row("input").shape) - 1
    require(order == (0, count - 1, *range(1, count - 1)), len(node.args) == count)
    fix = situation.part.with_text(f"{situation.part.text_of(node.func)}{(0, last, *range(1, last))}")
    return likely(fix, "another order may be meant")


@REMEDIES.add(shapes.dimension_of_tensor)
def last_dimension(situation: Situation) -> Advice:
    """Name the last dimension as -1."""
    word = needed(keyword(situation.part.node, "dim"))
    return possible(situation.part.inner(word.value).with_text("-1"), "the tensor may lack a dimension instead")


@REMEDIES.add(shapes.matrix_is_not_square)
def pseudo_inverse(situation: Situation) -> Advice:
    """Take the inverse that every matrix has."""
    function = situation.part.inner(method_in(situation.part, "inv"))
    fix = function.with_text(f"{function.text.removesuffix('inv')}pinv")
    return likely(fix, "the matrix may be meant to be square")


@REMEDIES.add(shapes.dimensions_of_index)
def index_with_dimension(situation: Situation) -> Advice:
    """Add the dimension that the index lacks."""
    given, index = situation.row("input"), situation.row("index")
    require(len(given.shape) - len(index.shape) == 1)
    return likely(situation.on_line(index.name).with_suffix(".unsqueeze(-1)"), "the input may have one too many")


@REMEDIES.add(shapes.loss_without_broadcasting)
def target_of_scores(situation: Situation) -> Advice:
    """Give the targets the shape of the scores, where only a dimension of 1 differs."""
    given, target = situation.row("input"), situation.row("target")
    if given.shape == (*target.shape, 1):
        fix = situation.on_line(target.name).with_suffix(".unsqueeze(-1)")
    else:
        require(target.shape == (*given.shape, 1))
        fix = situation.on_line(target.name).with_suffix(".squeeze(-1)")
    return likely(fix, "the scores may have the wrong shape instead")


@REMEDIES.add(shapes.broadcast_shapes, shapes.broadcast_sizes)
def mask_with_dimension(situation: Situation) -> Advice:
    """Add the dimension that a mask lacks."""
    given, mask = situation.row("input"), situation.row("mask")
    require(len(mask.shape) == len(given.shape) - 1)
    dimension = needed(shapes.missing_dimension(mask.shape, list(map(int, given.shape))))
    fix = situation.on_line(mask.name).with_suffix(f".unsqueeze({dimension})")
    return likely(fix, "the mask may have the wrong sizes instead")
