"""What is known of an operation by its name alone: its other spellings, and what it does to values."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from insitu.trace.event import Kind

_SPELLINGS = {
    **{"true_divide": "div", "divide": "div", "truediv": "div", "multiply": "mul", "subtract": "sub"},
    **{"absolute": "abs", "negative": "neg", "invert": "bitwise_not", "floordiv": "floor_divide"},
    **{"greater": "gt", "less": "lt", "greater_equal": "ge", "less_equal": "le", "not_equal": "ne", "mod": "remainder"},
    **{"mm": "matmul", "bmm": "matmul", "clip": "clamp", "concat": "cat", "concatenate": "cat"},
    **{"swapaxes": "transpose", "swapdims": "transpose", "moveaxis": "movedim"},
    **{"view": "reshape", "_unsafe_view": "reshape", "_to_copy": "to", "type": "to", "type_as": "to"},
    **dict.fromkeys(("float", "double", "half", "bfloat16", "int", "long", "bool", "cpu", "cuda"), "to"),
    **{"requires_grad=": "requires_grad_"},
    **dict.fromkeys(("__float__", "__int__", "__bool__", "__index__", "_local_scalar_dense"), "item"),
}
# Calls whose result is their input, of which no more than dtype, device and layout can be another one.
UNCHANGING = frozenset({"contiguous", "detach", "clone", "to", "alias", "lift_fresh", "requires_grad_", "data"})
# Calls that put values in other places: their statistics stay the same, whatever the arguments.
MOVING = UNCHANGING | {
    *("reshape", "transpose", "permute", "movedim", "t", "T", "mT", "H", "mH", "flatten", "unflatten", "squeeze"),
    *("unsqueeze", "flip", "roll", "rot90", "view_as", "reshape_as", "chunk", "split", "unbind", "getitem", "select"),
    *("slice", "narrow", "expand", "expand_as", "repeat", "cat", "stack", "index_select", "gather", "as_strided"),
    *("repeat_interleave", "tile", "unfold", "sort", "shuffle", "split_with_sizes", "broadcast_to", "copy_"),
}
# Memory as it was found: nothing that can be compared.
UNINITIALISED = frozenset({"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"})
# Calls that fill a part of such memory, and leave the rest.
FILLING = frozenset({"setitem", "index_put_", "index_copy_", "index_fill_", "masked_fill_", "scatter_", "copy_"})
RANDOM = frozenset(
    {
        *("rand", "randn", "randint", "randperm", "rand_like", "randn_like", "randint_like", "normal", "normal_"),
        *("uniform_", "bernoulli", "bernoulli_", "multinomial", "poisson", "exponential_", "geometric_", "cauchy_"),
        *("log_normal_", "random_", "rrelu", "gumbel_softmax", "native_dropout", "dropout", "dropout1d", "dropout2d"),
        *("dropout3d", "alpha_dropout", "feature_alpha_dropout", "trunc_normal_", "kaiming_uniform_"),
    }
)
# Those of them whose statistics are the same, whatever is drawn.
SHUFFLING = frozenset({"randperm"})
# Those of them that draw nothing where `training` is False, or where the probability is zero.
REGULARIZING = frozenset(
    {*("rrelu", "dropout", "dropout1d", "dropout2d", "dropout3d"), *("alpha_dropout", "feature_alpha_dropout")}
)
# Calls that draw random numbers if they are given a probability to drop with.
DROPPING = frozenset({"scaled_dot_product_attention", "multi_head_attention_forward"})
# Calls that put new values where others, or none, were: what was there before does not go into them.
OVERWRITING = frozenset(
    {
        *("normal_", "uniform_", "exponential_", "geometric_", "cauchy_", "log_normal_"),
        *(
            "random_",
            "bernoulli_",
            "trunc_normal_",
            "fill_",
            "zero_",
            "copy_",
            "set_",
            "eye_",
            "constant_",
            "ones_",
            "zeros_",
        ),
        *(
            "kaiming_uniform_",
            "kaiming_normal_",
            "xavier_uniform_",
            "xavier_normal_",
            "orthogonal_",
            "sparse_",
            "dirac_",
        ),
    }
)
# Calls that only read what a tensor holds: what they give was made before, by whoever wrote it there.
READING = frozenset({"torch.Tensor.grad", "torch.Tensor._grad", "torch.Tensor.data"})
# Calls that decide by values: that the decision is the same does not say that the values were close.
DECIDING = frozenset(
    {
        *("argmax", "argmin", "argsort", "searchsorted", "bucketize", "multinomial", "sign", "round", "floor", "ceil"),
        *("trunc", "gt", "lt", "ge", "le", "eq", "ne", "isclose", "allclose", "equal", "nonzero", "heaviside"),
    }
)
# Calls that run a backward pass.
BACKWARD = frozenset({"torch.Tensor.backward", "torch.autograd.backward", "torch.autograd.grad"})
COMMUTING = frozenset({"add", "add_", "mul", "mul_", "eq", "ne", "maximum", "minimum", "logical_and", "logical_or"})
# What a call says of the object and not of its values.
BESIDE = frozenset({"__repr__", "__format__", "__hash__", "data_ptr", "untyped_storage", "storage", "_version"})

_NAMES = {
    **dict.fromkeys(("linear", "conv1d", "conv2d", "conv3d", "conv_transpose2d"), ("input", "weight", "bias")),
    **dict.fromkeys(("layer_norm", "group_norm"), ("input", "weight", "bias")),
    **dict.fromkeys(("embedding", "rms_norm", "prelu"), ("input", "weight")),
    "batch_norm": ("input", "running_mean", "running_var", "weight", "bias"),
    "scaled_dot_product_attention": ("query", "key", "value", "attn_mask"),
}

# What an argument is where it is not given; capture leaves out what is given at its default.
_DEFAULTS: dict[str, dict[str, Any]] = {
    "layer_norm": {"eps": 1e-5},
    "group_norm": {"eps": 1e-5},
    "rms_norm": {"eps": None},
    "batch_norm": {"training": False, "momentum": 0.1, "eps": 1e-5},
    "instance_norm": {"use_input_stats": True, "momentum": 0.1, "eps": 1e-5},
    "gelu": {"approximate": "none"},
    "leaky_relu": {"negative_slope": 0.01},
    "elu": {"alpha": 1.0},
    "rrelu": {"training": False},
    **{key: {"p": 0.5, "training": True} for key in ("dropout", "dropout1d", "dropout2d", "dropout3d")},
    **{key: {"p": 0.5, "training": False} for key in ("alpha_dropout", "feature_alpha_dropout")},
    "scaled_dot_product_attention": {"dropout_p": 0.0, "is_causal": False, "scale": None, "enable_gqa": False},
    **{key: {"reduction": "mean"} for key in ("mse_loss", "l1_loss", "kl_div", "huber_loss", "smooth_l1_loss")},
    **{key: {"reduction": "mean"} for key in ("binary_cross_entropy", "binary_cross_entropy_with_logits")},
    "cross_entropy": {"reduction": "mean", "ignore_index": -100, "label_smoothing": 0.0},
    "nll_loss": {"reduction": "mean", "ignore_index": -100},
    **{key: {"dim": None, "dtype": None} for key in ("softmax", "log_softmax")},
    **{key: {"dim": None, "keepdim": False} for key in ("sum", "mean", "argmax", "argmin")},
    **{key: {"stride": 1, "padding": 0, "dilation": 1, "groups": 1} for key in ("conv1d", "conv2d", "conv3d")},
    "interpolate": {"mode": "nearest", "align_corners": None},
    "normalize": {"p": 2.0, "dim": 1, "eps": 1e-12},
    "clamp": {"min": None, "max": None},
    "add": {"alpha": 1},
    "sub": {"alpha": 1},
}


def default_of(operation: str, argument: str) -> tuple[Any, ...]:
    """The default of an argument, in a tuple; an empty one where it is not known.

    >>> default_of("layer_norm", "eps"), default_of("layer_norm", "bias")
    ((1e-05,), ())
    """
    known = _DEFAULTS.get(operation, {})
    return (known[argument],) if argument in known else ()


@lru_cache(maxsize=4096)
def own_name(kind: Kind, name: str) -> str:
    """The last part of the name of a function or operator, without the name of an overload.

    >>> own_name("function", "torch.ops.aten.mean.dim"), own_name("aten", "aten.mean.dim")
    ('mean', 'mean')
    >>> own_name("function", "torch.nn.functional.linear"), own_name("function", "torch.Tensor.data=")
    ('linear', 'data=')
    """
    parts = name.removesuffix(".__get__").split(".")
    if kind == "aten":
        return parts[1] if len(parts) > 1 else parts[0]
    is_operator = name.startswith("torch.ops.") and len(parts) > 3
    return parts[3] if is_operator else parts[-1]


@lru_cache(maxsize=4096)
def operation(kind: Kind, name: str) -> str:
    """The one name of an operation, however it was spelled; in place is another one.

    >>> [operation("function", f"torch.{name}") for name in ("nn.functional.softmax", "Tensor.softmax", "mm", "relu_")]
    ['softmax', 'softmax', 'matmul', 'relu_']
    >>> operation("aten", "aten.add.Tensor"), operation("module", "Linear")
    ('add', 'Linear')
    """
    if kind in ("module", "python"):
        return name
    own = own_name(kind, name)
    bare = own.strip("_") if own.startswith("__") and own.endswith("__") else own
    if own in BESIDE:
        return own
    return _SPELLINGS.get(own) or _SPELLINGS.get(bare, bare)


def operand_name(operation: str, index: int, count: int) -> str:
    """What the argument at this place is called, or its number.

    >>> operand_name("linear", 1, 3), operand_name("matmul", 1, 2), operand_name("relu", 0, 1)
    ('weight', 'input 1', 'input')
    """
    names = _NAMES.get(operation, ())
    if index < len(names):
        return names[index]
    return f"input {index}" if count > 1 else "input"
