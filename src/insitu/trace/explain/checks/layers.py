"""Mistakes with layers: channels and kernels of convolutions, shapes of normalizations, states, masks, checkpoints."""

from __future__ import annotations

import re
from dataclasses import replace
from operator import attrgetter
from typing import Any

from insitu.trace.dtype import dtype_named
from insitu.trace.event import TensorFacts
from insitu.trace.explain.case import Case, before_dot
from insitu.trace.explain.checks.broadcasting import Shape, fits_into, sizes_at
from insitu.trace.explain.checks.registry import Checks, listing
from insitu.trace.explain.explanation import Misfit, ShapeRow

CHECKS = Checks()
# The sides of an image are at least this many times its channels: if not, equal sizes may be a coincidence.
LEAST_SIDE = 4


@CHECKS.add("conv1d conv2d conv3d Conv1d Conv2d Conv3d", tensors="input weight")
def convolution(case: Case, given: TensorFacts, weight: TensorFacts) -> Misfit | None:
    """The dimensions and the channels of a convolution, and its kernel."""
    sides = int(case.name[-2])
    rows = case.rows(input=given, weight=weight)
    if len(weight.shape) != sides + 2:
        return Misfit(f"the weight has {len(weight.shape)} of the {sides + 2} dimensions that {case.name} takes", rows)
    if len(given.shape) not in (sides + 1, sides + 2):
        text = f"the input has {len(given.shape)} dimensions, {case.name} takes {sides + 2} (with the batch)"
        return Misfit(text, rows)
    return _channels(case, given, weight, sides) or _kernel(case, given, weight, sides)


def _channels(case: Case, given: TensorFacts, weight: TensorFacts, sides: int) -> Misfit | None:
    """The channels of the input of a convolution, and those that it takes."""
    takes = int(weight.shape[1]) * int(case.argument(6, "groups", 1))
    has = given.shape[-sides - 1]
    if has == takes:
        return None
    text = f"the input has {has} channels, the layer takes {takes}"
    rows = case.rows(input=given, weight=weight)
    return Misfit(text, rows, -sides - 1, _move_channels(given.shape, sides, takes))


def _move_channels(shape: Shape, sides: int, takes: int) -> str:
    """The permutation to use if the channels come last; empty if the last size is equal by coincidence."""
    order = channels_first(shape, sides, takes)
    if order is None:
        return ""
    return f"the channels come last: .permute{order}"


def channels_first(shape: Shape, sides: int, takes: int) -> tuple[int, ...] | None:
    """The order of dimensions with the channels before the sides; None if they do not come last."""
    others = shape[-sides - 1 : -1]
    if shape[-1] != takes or min(map(int, others)) < LEAST_SIDE * takes:
        return None
    last = len(shape) - 1
    return (*range(last - sides), last, *range(last - sides, last))


def _kernel(case: Case, given: TensorFacts, weight: TensorFacts, sides: int) -> Misfit | None:
    """A kernel that is larger than the input with its padding."""
    paddings = _for_each_side(case.argument(4, "padding", 0), sides)
    dilations = _for_each_side(case.argument(5, "dilation", 1), sides)
    for dim, padding, dilation in zip(range(-sides, 0), paddings, dilations, strict=False):
        room = given.shape[dim]
        kernel = (int(weight.shape[dim]) - 1) * dilation + 1
        if isinstance(room, int) and room + 2 * padding < kernel:
            text = f"the kernel takes {kernel}, the input has {room} with a padding of {padding}"
            return Misfit(text, case.rows(input=given, weight=weight), dim)
    return None


def _for_each_side(setting: Any, sides: int) -> tuple[int, ...]:
    """A setting of a convolution for each side; empty where it is not a number (`padding="same"`)."""
    if isinstance(setting, int):
        return (setting,) * sides
    if isinstance(setting, (tuple, list)) and len(setting) == sides:
        return tuple(setting)
    return ()


@CHECKS.add("layer_norm rms_norm", tensors="input")
def normalized_shape(case: Case, given: TensorFacts) -> Misfit | None:
    """The dimensions that a layer normalizes."""
    wanted = _normalized(case)
    count = len(wanted)
    if given.shape[-count:] == wanted:
        return None
    rows = case.rows(input=given)
    if count > 1:
        return Misfit(f"the last {count} dimensions must be {listing(wanted)}", rows, -1)
    return Misfit(f"the last dimension must be {wanted[0]}", rows, -1, _transposition(given.shape, wanted[0]))


def _normalized(case: Case) -> tuple[Any, ...]:
    """The sizes that a layer normalizes."""
    shape = case.argument(1, "normalized_shape")
    if isinstance(shape, (tuple, list)):
        return tuple(shape)
    return (shape,)


def normalized_size(case: Case) -> int | None:
    """The one size that a layer normalizes; None if there are several."""
    sizes = _normalized(case)
    if len(sizes) == 1:
        return int(sizes[0])
    return None


def _transposition(shape: Shape, size: Any) -> str:
    """The words to move the dimension of this size to the end; empty if there is none."""
    if size not in shape:
        return ""
    return f"{size} is dimension {shape.index(size) - len(shape)}: transpose it to the end"


@CHECKS.add("batch_norm", tensors="input running_mean")
def channels_of_batch_norm(case: Case, given: TensorFacts, mean: TensorFacts) -> Misfit | None:
    """The channels of a batch normalization."""
    if len(given.shape) < 2 or not mean.shape or given.shape[1] == mean.shape[0]:
        return None
    text = f"the input has {given.shape[1]} channels, the layer takes {mean.shape[0]}"
    return Misfit(text, case.rows(input=given), 1 - len(given.shape))


@CHECKS.add("batch_norm", says="more than 1 value per channel", tensors="input")
def batch_of_one(case: Case, match: re.Match[str], given: TensorFacts) -> Misfit:
    """A batch normalization in training that gets one value for each channel."""
    text = "one value for each channel has no deviation: training needs a batch of two or more"
    way_out = "leave the last small batch out (drop_last=True), or call .eval()"
    return Misfit(text, case.rows(input=given), -len(given.shape), way_out)


@CHECKS.add("LSTM GRU RNN LSTMCell GRUCell RNNCell lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell")
def recurrent_states(case: Case) -> Misfit:
    """The features and the states of LSTM, GRU and RNN."""
    rows = tuple(map(case.row, ("input", "state", "cell"), map(attrgetter("facts"), case.operands)))
    expected = re.search(r"[Ee]xpected (.*?), got (.*)", case.message)
    if expected is None:
        fact = "dtype" if "dtype" in case.message else ""
        return Misfit(case.message.partition("\n")[0], rows, fact=fact)
    text = f"{case.name} expects {expected[1]}, not {expected[2]}"
    return Misfit(text, rows, way_out=_order_of_state(case))


def sizes_of_state(case: Case) -> tuple[list[int], list[int]]:
    """The sizes that a layer expects of its state, and those that the state has; empty if the message names none."""
    found = re.search(r"[Ee]xpected hidden\S* size [(\[]([\d, ]+)[)\]], got [(\[]([\d, ]+)[)\]]", case.message)
    if found is None:
        return [], []
    wanted, given = (list(map(int, re.findall(r"\d+", part))) for part in found.groups())
    return wanted, given


def _order_of_state(case: Case) -> str:
    if not case.setting("batch_first") or "hidden" not in case.message:
        return ""
    return "a state is [layers, batch, features], even with batch_first"


@CHECKS.add(says=r"shape of the (?:2D |3D )?(attn_mask|key_padding_mask) is (.*?), but should be (.*?)\.?$")
def shape_of_attention_mask(case: Case, match: re.Match[str]) -> Misfit:
    """A mask of nn.MultiheadAttention."""
    text = f"{match[1]} is {_sizes_in(match[2])} and should be {_sizes_in(match[3])}"
    if match[1] == "attn_mask":
        return Misfit(text, way_out="a mask of tokens goes to key_padding_mask")
    return Misfit(text)


def _sizes_in(text: str) -> str:
    """`torch.Size([3, 6])` and `(3, 6)` as `[3, 6]`; other text as it is."""
    if not re.fullmatch(r"(torch\.Size)?[(\[, \d\-)\]]*", text):
        return text
    sizes = re.findall(r"-?\d+", text)
    return f"[{listing(sizes)}]"


@CHECKS.add("scaled_dot_product_attention", tensors="query key value")
def attention(case: Case, query: TensorFacts, key: TensorFacts, value: TensorFacts) -> Misfit | None:
    """Queries, keys, values and the mask of an attention."""
    if min(len(query.shape), len(key.shape), len(value.shape)) < 2:
        return None
    rows = case.rows(query=query, key=key, value=value)
    if query.shape[-1] != key.shape[-1]:
        return Misfit(f"query has {query.shape[-1]} features, key {key.shape[-1]}", rows, -1)
    if key.shape[-2] != value.shape[-2]:
        return Misfit(f"there are {key.shape[-2]} keys and {value.shape[-2]} values", rows, -2)
    return _heads_and_batches(case, rows) or _mask(case, query, key)


def _heads_and_batches(case: Case, rows: tuple[ShapeRow, ...]) -> Misfit | None:
    """The dimensions before the last two: they must be the same, or 1; with `enable_gqa` keys have fewer heads."""
    shapes = list(map(attrgetter("shape"), rows))
    most = max(map(len, shapes))
    first = -4 if case.argument(7, "enable_gqa", False) else -3
    for dimension in range(first, -most - 1, -1):
        if len(sizes_at(shapes, dimension)) > 1:
            noun = "heads: " if (dimension, most) == (-3, 4) else ""
            return Misfit(f"dimension {dimension}, {noun}{_sizes_by_role(rows, dimension)}", rows, dimension)
    return None


def _sizes_by_role(rows: tuple[ShapeRow, ...], dimension: int) -> str:
    long = [row for row in rows if len(row.shape) >= -dimension]
    return listing(f"{row.role} has {row.shape[dimension]}" for row in long if row.shape[dimension] != 1)


def _mask(case: Case, query: TensorFacts, key: TensorFacts) -> Misfit | None:
    mask = case.tensor(3, "attn_mask")
    if mask is None:
        return None
    rows = case.rows(query=query, key=key, attn_mask=mask)
    if "attn_mask dtype" in case.message:
        return _dtype_of_mask(case, mask, rows)
    wanted = (*query.shape[:-1], key.shape[-2])
    if fits_into(mask.shape, wanted):
        return None
    return Misfit(f"attn_mask must broadcast to {listing(wanted)} (query, key)", rows)


def _dtype_of_mask(case: Case, mask: TensorFacts, rows: tuple[ShapeRow, ...]) -> Misfit:
    text = f"attn_mask is {mask.dtype}: it must be b8, or a float as query is"
    misfit = Misfit(text, rows, names=(case.name_of(mask),), fact="dtype")
    if not dtype_named(mask.dtype).is_integer:
        return misfit
    name = before_dot(case.name_of(mask) or "attn_mask")
    return replace(misfit, way_out=f"{name}.bool()")


OTHER_CHECKPOINT = r"size mismatch for (\S+): copying a param with shape (.*?) from checkpoint, .* is (.*?)\.?$"


@CHECKS.add(says=OTHER_CHECKPOINT)
def checkpoint_of_another_model(case: Case, match: re.Match[str]) -> Misfit:
    """A checkpoint of another model: the message names each entry; the first one is shown."""
    text = f"{match[1]} is {_sizes_in(match[2])} in the checkpoint and {_sizes_in(match[3])} in the model"
    return Misfit(text)


def sizes_of_checkpoint(case: Case) -> tuple[int, int] | None:
    """The one size of the first entry in which a checkpoint differs from the model, and the size of the model."""
    found = re.search(OTHER_CHECKPOINT, case.message, re.MULTILINE)
    if found is None:
        return None
    stored, own = (list(map(int, re.findall(r"\d+", found[group]))) for group in (2, 3))
    differences = [pair for pair in zip(stored, own, strict=False) if pair[0] != pair[1]]
    if len(stored) != len(own) or len(differences) != 1:
        return None
    return differences[0]
