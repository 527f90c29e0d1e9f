"""What does not fit a layer: channels and kernels of convolutions, the shape of a normalisation, states, masks."""

from __future__ import annotations

import re
from typing import Any

from insitu.trace.dtype import dtype_named
from insitu.trace.event import TensorFacts
from insitu.trace.explain.case import Case, before_dot
from insitu.trace.explain.explanation import Misfit

CONVOLUTIONS = {f"conv{n}d": n for n in (1, 2, 3)} | {f"Conv{n}d": n for n in (1, 2, 3)}

IMAGE = 4  # times as large as the number of channels are the sides of an image, at least


def channels(case: Case) -> Misfit | None:
    """The channels that go into a convolution, and those it takes."""
    given, weight = case.argument(0, "input"), case.argument(1, "weight")
    if case.name not in CONVOLUTIONS or not isinstance(given, TensorFacts) or not isinstance(weight, TensorFacts):
        return None
    spatial = CONVOLUTIONS[case.name]
    rows = (case.row("input", given), case.row("weight", weight))
    if len(weight.shape) != spatial + 2:
        return Misfit(
            f"the weight has {len(weight.shape)} of the {spatial + 2} dimensions that {case.name} takes", rows
        )
    if len(given.shape) not in (spatial + 1, spatial + 2):
        return Misfit(
            f"the input has {len(given.shape)} dimensions, {case.name} takes {spatial + 2} (with the batch)", rows
        )
    groups = case.argument(6, "groups", 1)
    takes = int(weight.shape[1]) * (groups if isinstance(groups, int) else 1)
    has = given.shape[-spatial - 1]
    if has != takes:
        advice = _channels_last(given.shape, spatial, takes)
        return Misfit(f"the input has {has} channels, the layer takes {takes}", rows, -spatial - 1, advice)
    return _kernel(case, given, weight, spatial)


def _channels_last(shape: tuple[Any, ...], spatial: int, takes: int) -> str:
    others = shape[-spatial - 1 : -1]
    if shape[-1] != takes or any(size < IMAGE * takes for size in others):
        return ""  # it may have that size by chance
    order = (0, spatial + 1, *range(1, spatial + 1)) if len(shape) == spatial + 2 else (spatial, *range(spatial))
    return f"the channels come last: .permute{order}"


def _kernel(case: Case, given: TensorFacts, weight: TensorFacts, spatial: int) -> Misfit | None:
    """A kernel that is larger than what it slides over."""
    padding = case.argument(4, "padding", 0)
    dilation = case.argument(5, "dilation", 1)
    for dim in range(-spatial, 0):
        room = given.shape[dim]
        kernel = (int(weight.shape[dim]) - 1) * _at(dilation, dim, 1) + 1
        if (
            isinstance(room, int)
            and isinstance(padding, (int, tuple, list))
            and room + 2 * _at(padding, dim, 0) < kernel
        ):
            rows = (case.row("input", given), case.row("weight", weight))
            return Misfit(
                f"the kernel takes {kernel}, the input has {room} with a padding of {_at(padding, dim, 0)}", rows, dim
            )
    return None


def _at(item: Any, dim: int, default: int) -> int:
    if isinstance(item, int):
        return item
    return item[dim] if isinstance(item, (tuple, list)) and len(item) >= -dim else default


def normalized(case: Case) -> Misfit | None:
    """The dimensions that a layer normalises."""
    given, shape = case.argument(0, "input"), case.argument(1, "normalized_shape")
    if case.name not in ("layer_norm", "rms_norm") or not isinstance(given, TensorFacts):
        return None
    wanted = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    if given.shape[len(given.shape) - len(wanted) :] == wanted:
        return None
    text = f"the last {len(wanted)} dimensions" if len(wanted) > 1 else "the last dimension"
    sizes = ", ".join(map(str, wanted))
    found = [place - len(given.shape) for place, size in enumerate(given.shape) if (size,) == wanted]
    advice = f"{sizes} is dimension {found[0]}: transpose it to the end" if found else ""
    return Misfit(f"{text} must be {sizes}", (case.row("input", given),), -1, advice)


def batch_normalized(case: Case) -> Misfit | None:
    """The channels of a batch normalisation, and how many values each has."""
    given, mean = case.argument(0, "input"), case.argument(1, "running_mean")
    if case.name != "batch_norm" or not isinstance(given, TensorFacts) or len(given.shape) < 2:
        return None
    if isinstance(mean, TensorFacts) and mean.shape and given.shape[1] != mean.shape[0]:
        text = f"the input has {given.shape[1]} channels, the layer takes {mean.shape[0]}"
        return Misfit(text, (case.row("input", given),), 1 - len(given.shape))
    if "more than 1 value per channel" in case.message:
        text = "one value for each channel has no deviation: training needs a batch of two or more"
        advice = "leave the last small batch out (drop_last=True), or call .eval()"
        return Misfit(text, (case.row("input", given),), -len(given.shape), advice)
    return None


def recurrent(case: Case) -> Misfit | None:
    """The features and the states of LSTM, GRU and RNN."""
    if case.call is None or case.name not in ("LSTM", "GRU", "RNN", "LSTMCell", "GRUCell", "RNNCell"):
        return None
    rows = tuple(
        case.row(role, operand.facts) for role, operand in zip(("input", "state", "cell"), case.operands, strict=False)
    )
    expected = re.search(r"[Ee]xpected (.*?), got (.*)", case.message)
    text = f"{case.name} expects {expected[1]}, not {expected[2]}" if expected else case.message.partition("\n")[0]
    module = case.call.module
    first = module is not None and module.settings.get("batch_first")
    advice = "a state is [layers, batch, features], also with batch_first" if "hidden" in case.message and first else ""
    return Misfit(text, rows, advice=advice)


def attention(case: Case) -> Misfit | None:
    """Queries, keys, values and the mask of an attention."""
    if case.name == "scaled_dot_product_attention":
        return _attention(case)
    mask = re.search(
        r"shape of the (?:2D |3D )?(attn_mask|key_padding_mask) is (.*?), but should be (.*?)\.?$", case.message
    )
    if mask is None:
        return None
    advice = "a mask of tokens goes to key_padding_mask" if mask[1] == "attn_mask" else ""
    return Misfit(f"{mask[1]} is {_sizes(mask[2])} and should be {_sizes(mask[3])}", advice=advice)


def _sizes(text: str) -> str:
    sizes = re.findall(r"-?\d+", text)
    return f"[{', '.join(sizes)}]" if re.fullmatch(r"(torch\.Size)?[(\[, \d\-)\]]*", text) else text


def _attention(case: Case) -> Misfit | None:
    query, key, value = (case.argument(index, name) for index, name in enumerate(("query", "key", "value")))
    if not all(isinstance(facts, TensorFacts) and len(facts.shape) > 1 for facts in (query, key, value)):
        return None
    rows = (case.row("query", query), case.row("key", key), case.row("value", value))
    if query.shape[-1] != key.shape[-1]:
        return Misfit(f"query has {query.shape[-1]} features, key {key.shape[-1]}", rows, -1)
    if key.shape[-2] != value.shape[-2]:
        return Misfit(f"there are {key.shape[-2]} keys and {value.shape[-2]} values", rows, -2)
    return _batches(case, query, key, value) or _mask(case, query, key)


def _batches(case: Case, query: TensorFacts, key: TensorFacts, value: TensorFacts) -> Misfit | None:
    """The dimensions before the last two: they must be the same, or 1; with `enable_gqa` keys have fewer heads."""
    rows = (case.row("query", query), case.row("key", key), case.row("value", value))
    grouped = bool(case.argument(7, "enable_gqa", False))
    for index in range(3, max(len(row.shape) for row in rows) + 1):
        sizes = {row.role: row.shape[-index] for row in rows if len(row.shape) >= index and row.shape[-index] != 1}
        if len(set(sizes.values())) < 2 or (grouped and index == 3):
            continue
        what = "heads: " if index == 3 and max(len(row.shape) for row in rows) == 4 else ""
        told = ", ".join(f"{role} has {size}" for role, size in sizes.items())
        return Misfit(f"dimension {-index}, {what}{told}", rows, -index)
    return None


def _mask(case: Case, query: TensorFacts, key: TensorFacts) -> Misfit | None:
    mask = case.argument(3, "attn_mask")
    if not isinstance(mask, TensorFacts):
        return None
    rows = (case.row("query", query), case.row("key", key), case.row("attn_mask", mask))
    if "attn_mask dtype" in case.message:
        text = f"attn_mask is {mask.dtype}: it must be b8, or a float as query is"
        name = before_dot(case.name_of(mask) or "attn_mask")
        return Misfit(text, rows, advice=f"{name}.bool()" if dtype_named(mask.dtype).is_integer else "")
    wanted = (*query.shape[:-1], key.shape[-2])
    fits = all(size in (1, room) for size, room in zip(reversed(mask.shape), reversed(wanted), strict=False))
    if fits and len(mask.shape) <= len(wanted):
        return None
    return Misfit(f"attn_mask must broadcast to {', '.join(map(str, wanted))} (query, key)", rows)


def state_dict(case: Case) -> Misfit | None:
    """A checkpoint of another model: the message names each entry; one of them is told."""
    found = re.search(
        r"size mismatch for (\S+): copying a param with shape (.*?) from checkpoint, .* is (.*?)\.?$",
        case.message,
        re.M,
    )
    if "loading state_dict" not in case.message or found is None:
        return None
    return Misfit(f"{found[1]} is {_sizes(found[2])} in the checkpoint and {_sizes(found[3])} in the model")


CHECKS = (channels, normalized, batch_normalized, recurrent, attention, state_dict)
