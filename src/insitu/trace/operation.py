"""What is known about a torch function or operator by its name alone: one row of `_TABLE` for each.

To teach the tool something about a function, change or add its row; every other file asks `operation(kind, name)`.
A name that is not in the table gets the cautious answers of `Operation()`.

>>> add = operation("function", "torch.Tensor.__iadd__")
>>> add.name, add.is_in_place, add.commutes, add.risk
('add_', True, True, 'overflow')
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal

from insitu.trace.event import Kind

Family = Literal[
    "copy",  # the same values: at most the device, the layout or the graph changes
    "conversion",  # the same values in another dtype
    "rearrangement",  # all of the values, each once, in another order or in parts
    "selection",  # some of the values
    "repetition",  # all of the values, some of them several times
    "join",  # the values of several tensors
    "lookup",  # rows of a table
    "write",  # values are written into a tensor in place
    "elementwise",
    "comparison",
    "rounding",
    "reduction",
    "product",  # sums of products: matmul, linear, convolutions
    "normalization",
    "activation",
    "attention",
    "loss",
    "factory",  # new values that do not depend on a tensor
    "allocation",  # memory as it was found
    "random",
    "number",  # a Python number
    "query",  # something about the object, not about its values
    "gradient",  # `.grad`: values that a backward pass computed
    "backward",
    "collective",  # values of several processes
    "profiler",
    "other",
]
# How a function can produce NaN or Inf from finite inputs.
#   none: never, forward or backward: it moves values, or the result and the slope are bounded
#   backward: only in the backward pass, where gradients are added up and can overflow
#   overflow: only if the result is too large for its dtype
#   division: as overflow if the divisor is a plain number, else also by a division by zero
#   any: it can have a pole, or nothing is known
Risk = Literal["none", "backward", "overflow", "division", "any"]
# When a function draws random numbers; "order" means that whatever it draws, the statistics are the same.
Draws = Literal["never", "always", "order", "in training", "if dropout_p"]

_MOVES = frozenset(("copy", "conversion", "rearrangement", "selection", "repetition", "join"))
# What programs use to replace NaN and Inf, to leave them out, and to look for them.
_REPAIRS = frozenset(
    (
        *("nan_to_num", "clamp", "where", "masked_fill", "masked_select", "setitem", "index_put", "maximum", "minimum"),
        *("isfinite", "isnan", "isinf", "isposinf", "isneginf", "nansum", "nanmean", "nanmedian", "nanquantile"),
    )
)
_RISKS: dict[Family, Risk] = {
    **{"copy": "none", "rearrangement": "none", "rounding": "none", "gradient": "none", "allocation": "none"},
    **{"selection": "backward", "repetition": "backward", "join": "backward", "lookup": "backward"},
    "product": "overflow",
}


@dataclass(frozen=True, slots=True)
class Operation:
    """A torch function or operator.

    `own` is the name as it was called (`__iadd__`), `name` the one name for all spellings (`add_`), and `base` the
    one for all forms (`add`).
    """

    family: Family = "other"
    own: str = ""
    name: str = ""
    base: str = ""
    is_in_place: bool = False
    is_attribute: bool = False  # an attribute of a tensor whose values were computed earlier, by another call
    is_reflected: bool = False  # the first argument is on the right: `1 - x` calls x.__rsub__(1)
    same_as: str = ""  # the usual spelling of this name
    arithmetic: str = ""  # the simpler operation that it computes with, by which an overflow is explained
    risk: Risk = "any"
    hides: bool = True  # the result can be finite although an input is not
    draws: Draws = "never"
    decides: bool = False  # the result is a choice: equal choices do not show that the inputs were close
    commutes: bool = False
    broadcasts: bool = False  # elementwise on several tensors, whose shapes must fit from the right
    needs_one_dtype: bool = False
    counts_from_zero: bool = False  # its indices do not count from the end
    fills: bool = False  # writes a part of a tensor and leaves the rest
    overwrites: bool = False  # in place: nothing of the former values goes into the result
    inputs: tuple[str, ...] = ()  # what the first tensors are called
    defaults: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_move(self) -> bool:
        """Whether the result holds values of the inputs and nothing else."""
        return self.family in _MOVES

    @property
    def repairs(self) -> bool:
        """Whether programs use it to replace NaN or Inf, to leave them out, or to look for them."""
        return self.base in _REPAIRS

    @property
    def passes_on(self) -> bool:
        """Whether the numbers of the result were computed by an earlier call: it moves them, or is `1 - x`."""
        return self.is_move or self.name == "rsub"

    @property
    def is_copy(self) -> bool:
        """Whether the result is the input; only dtype, device and layout can differ."""
        return self.family in ("copy", "conversion")

    @property
    def is_uninitialized(self) -> bool:
        """Whether the result is memory as it was found: nothing that can be compared."""
        return self.family == "allocation"

    @property
    def is_random(self) -> bool:
        """Whether it draws random numbers, at least in training."""
        return self.draws in ("always", "order", "in training")

    @property
    def is_initial(self) -> bool:
        """Whether it can give a parameter its first values."""
        return self.overwrites or self.family in ("factory", "random")

    @property
    def reads_attribute(self) -> bool:
        """Whether it gets, and does not set, `.grad` or `.data`."""
        return self.is_attribute and not self.own.endswith("=")

    @property
    def is_incidental(self) -> bool:
        """Whether views leave it out: it computes nothing, and the user did not write a call."""
        return self.family == "profiler" or (self.is_attribute and self.own != "data=")

    @property
    def runs_backward(self) -> bool:
        """Whether it runs a backward pass."""
        return self.family == "backward"

    def default(self, argument: str) -> tuple[Any, ...]:
        """The default of an argument, in a tuple; an empty one where it is not known.

        >>> norm = operation("function", "torch.nn.functional.layer_norm")
        >>> norm.default("eps"), norm.default("bias")
        ((1e-05,), ())
        """
        if argument in self.defaults:
            return (self.defaults[argument],)
        return ()

    def input_name(self, index: int, count: int) -> str:
        """The name of the tensor at this place, of `count` tensors, or its number.

        >>> linear, relu = operation("function", "torch.nn.functional.linear"), operation("function", "torch.relu")
        >>> linear.input_name(1, 3), linear.input_name(5, 6), relu.input_name(0, 1)
        ('weight', 'input 5', 'input')
        """
        if index < len(self.inputs):
            return self.inputs[index]
        if count > 1:
            return f"input {index}"
        return "input"


UNKNOWN = Operation()


def _rows(family: Family, names: str, **known: Any) -> dict[str, Operation]:
    """Rows that say the same about several names."""
    known.setdefault("risk", _RISKS.get(family, "any"))
    known.setdefault("hides", known["risk"] == "any" or family == "selection")
    return {name: Operation(family, **known) for name in names.split()}


_WEIGHT = ("input", "weight")
_WEIGHT_AND_BIAS = ("input", "weight", "bias")
_LAYER: dict[str, Any] = {"inputs": _WEIGHT_AND_BIAS, "needs_one_dtype": True}
_CONVOLUTION = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1}
_PAIR: dict[str, Any] = {"broadcasts": True}
_BOUNDED: dict[str, Any] = {"risk": "none", "hides": False}
_LIMITED: dict[str, Any] = {"risk": "none", "hides": True}
_OVERFLOW: dict[str, Any] = {"risk": "overflow", "hides": False}
_ALPHA_DROPOUT: dict[str, Any] = {"draws": "in training", "defaults": {"p": 0.5, "training": False}}
_MEAN = {"reduction": "mean"}
_WRITTEN: dict[str, Any] = {"draws": "always", "overwrites": True}

_GROUPS: tuple[dict[str, Operation], ...] = (
    # The same values.
    _rows("copy", "contiguous detach clone alias lift_fresh requires_grad pin_memory"),
    _rows("copy", "data", is_attribute=True),
    _rows("copy", "cpu cuda", same_as="to"),
    _rows("copy", "requires_grad=", same_as="requires_grad_"),
    _rows("gradient", "grad _grad", is_attribute=True),
    _rows("conversion", "to", arithmetic="to", hides=True),
    # The same values in other places.
    _rows("rearrangement", "reshape transpose permute movedim t T mT H mH adjoint flatten unflatten ravel"),
    _rows("rearrangement", "squeeze unsqueeze view_as reshape_as flip fliplr flipud roll rot90 shuffle sort"),
    _rows("rearrangement", "chunk split split_with_sizes tensor_split hsplit vsplit dsplit unbind"),
    _rows("selection", "getitem select slice narrow take take_along_dim unfold as_strided diagonal"),
    _rows("selection", "masked_select"),
    _rows("selection", "index_select gather", counts_from_zero=True),
    _rows("repetition", "expand expand_as broadcast_to repeat repeat_interleave tile meshgrid"),
    _rows("repetition", "broadcast_tensors", broadcasts=True),
    _rows("repetition", "copy", risk="any", hides=True, broadcasts=True, overwrites=True, fills=True),
    _rows("join", "cat stack hstack vstack dstack pad_sequence"),
    _rows("lookup", "embedding", inputs=_WEIGHT, counts_from_zero=True),
    _rows("elementwise", "triu tril", risk="backward", hides=True),
    # Writing in place.
    _rows("write", "setitem", is_in_place=True, fills=True),
    _rows("write", "index_put", fills=True, needs_one_dtype=True),
    _rows("write", "index_copy", fills=True, needs_one_dtype=True, counts_from_zero=True),
    _rows("write", "index_fill", fills=True, counts_from_zero=True),
    _rows("write", "masked_fill", fills=True, broadcasts=True),
    _rows("write", "scatter", fills=True, needs_one_dtype=True, counts_from_zero=True),
    _rows("write", "scatter_add scatter_reduce index_add", counts_from_zero=True),
    _rows("write", "fill zero constant dirac", overwrites=True),
    _rows("write", "resize resize_as", risk="none", hides=False),
    _rows("write", "set", risk="none", hides=False, overwrites=True),
    # Elementwise.
    _rows("elementwise", "add", commutes=True, defaults={"alpha": 1}, **_PAIR, **_OVERFLOW),
    _rows("elementwise", "sub", arithmetic="add", defaults={"alpha": 1}, **_PAIR, **_OVERFLOW),
    _rows("elementwise", "mul", commutes=True, **_PAIR, **_OVERFLOW),
    _rows("elementwise", "div", risk="division", **_PAIR),
    _rows("elementwise", "floor_divide remainder fmod pow where atan2 hypot addcmul addcdiv dist", **_PAIR),
    _rows("elementwise", "lerp", needs_one_dtype=True, **_PAIR),
    _rows("elementwise", "bitwise_and bitwise_or bitwise_xor", commutes=True, **_PAIR),
    _rows("elementwise", "logical_and logical_or logical_xor", commutes=True, **_PAIR),
    _rows("elementwise", "maximum minimum", commutes=True, **_PAIR, **_LIMITED),
    _rows("elementwise", "neg abs sin cos", **_BOUNDED),
    _rows("elementwise", "bitwise_not bitwise_left_shift bitwise_right_shift"),
    _rows("elementwise", "clamp", defaults={"min": None, "max": None}, **_LIMITED),
    _rows("elementwise", "float_power", arithmetic="pow"),
    _rows("elementwise", "log2 log10", arithmetic="log"),
    _rows("elementwise", "sinh", arithmetic="cosh"),
    _rows("elementwise", "arccos arcsin asin", arithmetic="acos"),
    _rows("elementwise", "special_logit", arithmetic="logit"),
    _rows("rounding", "round floor ceil trunc", decides=True),
    _rows("rounding", "sign", decides=True, hides=True),
    _rows("comparison", "eq ne", commutes=True, decides=True, **_PAIR),
    _rows("comparison", "gt lt ge le", decides=True, **_PAIR),
    _rows("comparison", "isclose allclose equal nonzero heaviside searchsorted bucketize", decides=True),
    # Reductions.
    _rows("reduction", "sum mean", arithmetic="sum", defaults={"dim": None, "keepdim": False}, **_OVERFLOW),
    _rows("reduction", "max min amax amin", **_LIMITED),
    _rows("reduction", "argmax argmin", decides=True, defaults={"dim": None, "keepdim": False}),
    _rows("reduction", "argsort", decides=True),
    _rows("reduction", "cumsum nansum", arithmetic="sum"),
    _rows("reduction", "cumprod", arithmetic="prod"),
    _rows("reduction", "var std_mean var_mean", arithmetic="std"),
    _rows("reduction", "vector_norm pairwise_distance", arithmetic="norm"),
    _rows("reduction", "cdist", arithmetic="norm", needs_one_dtype=True),
    # Sums of products.
    _rows("product", "matmul", needs_one_dtype=True),
    _rows("product", "addmm baddbmm einsum", arithmetic="matmul", needs_one_dtype=True),
    _rows("product", "dot mv", arithmetic="matmul", risk="any", needs_one_dtype=True),
    _rows("product", "inner outer", arithmetic="matmul", risk="any"),
    _rows("product", "bilinear", needs_one_dtype=True),
    _rows("product", "linear", **_LAYER, arithmetic="matmul"),
    _rows("product", "conv1d conv2d conv3d", **_LAYER, arithmetic="matmul", defaults=_CONVOLUTION),
    _rows("product", "conv_transpose1d conv_transpose2d conv_transpose3d", **_LAYER),
    _rows("other", "lstm gru", needs_one_dtype=True),
    _rows("other", "interpolate", defaults={"mode": "nearest", "align_corners": None}),
    # Normalizations.
    _rows("normalization", "layer_norm", **_LAYER, defaults={"eps": 1e-5}, **_OVERFLOW),
    _rows("normalization", "group_norm", inputs=_WEIGHT_AND_BIAS, defaults={"eps": 1e-5}, **_OVERFLOW),
    _rows("normalization", "rms_norm", inputs=_WEIGHT, defaults={"eps": None}, **_OVERFLOW),
    _rows(
        "normalization",
        "batch_norm",
        inputs=("input", "running_mean", "running_var", "weight", "bias"),
        defaults={"training": False, "momentum": 0.1, "eps": 1e-5},
        **_OVERFLOW,
    ),
    _rows("normalization", "instance_norm", defaults={"use_input_stats": True, "momentum": 0.1, "eps": 1e-5}),
    _rows("normalization", "normalize", defaults={"p": 2.0, "dim": 1, "eps": 1e-12}),
    # Activations.
    _rows("activation", "relu relu6 hardtanh sigmoid tanh", **_LIMITED),
    _rows("activation", "gelu", defaults={"approximate": "none"}, **_OVERFLOW),
    _rows("activation", "silu", **_OVERFLOW),
    _rows("activation", "leaky_relu", defaults={"negative_slope": 0.01}),
    _rows("activation", "elu", defaults={"alpha": 1.0}),
    _rows("activation", "prelu", inputs=_WEIGHT),
    _rows("activation", "rrelu", draws="in training", defaults={"training": False}),
    _rows("activation", "softmax log_softmax", arithmetic="softmax", defaults={"dim": None, "dtype": None}),
    _rows("activation", "softmin", arithmetic="softmax"),
    _rows("activation", "gumbel_softmax", draws="always"),
    _rows("activation", "dropout", draws="in training", defaults={"p": 0.5, "training": True}, **_BOUNDED),
    _rows("activation", "dropout1d dropout2d dropout3d", draws="in training", defaults={"p": 0.5, "training": True}),
    _rows("activation", "alpha_dropout feature_alpha_dropout", **_ALPHA_DROPOUT),
    _rows("activation", "native_dropout", draws="always"),
    _rows(
        "attention",
        "scaled_dot_product_attention",
        draws="if dropout_p",
        needs_one_dtype=True,
        inputs=("query", "key", "value", "attn_mask"),
        defaults={"dropout_p": 0.0, "is_causal": False, "scale": None, "enable_gqa": False},
    ),
    _rows("attention", "multi_head_attention_forward", draws="if dropout_p"),
    # Losses.
    _rows("loss", "mse_loss l1_loss smooth_l1_loss huber_loss kl_div", defaults=_MEAN, **_PAIR),
    _rows("loss", "binary_cross_entropy binary_cross_entropy_with_logits", defaults=_MEAN, **_PAIR),
    _rows("loss", "nll_loss", defaults={"reduction": "mean", "ignore_index": -100}),
    _rows("loss", "cross_entropy", defaults={**_MEAN, "ignore_index": -100, "label_smoothing": 0.0}),
    # New tensors.
    _rows("allocation", "empty empty_like empty_strided empty_permuted new_empty new_empty_strided"),
    _rows("factory", "zeros ones eye", overwrites=True),
    _rows("factory", "tensor as_tensor full full_like arange linspace new_zeros new_ones new_full"),
    _rows("factory", "zeros_like ones_like", **_BOUNDED),
    _rows("random", "rand randn randint rand_like randn_like randint_like poisson", draws="always"),
    _rows("random", "multinomial", draws="always", decides=True),
    _rows("random", "randperm", draws="order"),
    _rows("random", "normal uniform bernoulli exponential geometric cauchy log_normal random", **_WRITTEN),
    _rows(
        "random",
        "trunc_normal kaiming_uniform kaiming_normal xavier_uniform xavier_normal orthogonal sparse",
        **_WRITTEN,
    ),
    # Numbers and everything that does not depend on values.
    _rows("number", "item"),
    _rows("query", "__repr__ __format__ __hash__ data_ptr untyped_storage storage _version"),
    _rows("backward", "backward autograd.backward autograd.grad", hides=False),
)
# Other names of the same function.
_SPELLINGS = {
    "sub": "subtract",
    "mul": "multiply",
    "div": "true_divide divide truediv",
    "floor_divide": "floordiv",
    "remainder": "mod",
    "bitwise_and": "and",
    "bitwise_or": "or",
    "bitwise_xor": "xor",
    "bitwise_not": "invert",
    "bitwise_left_shift": "lshift",
    "bitwise_right_shift": "rshift",
    "abs": "absolute",
    "neg": "negative",
    "gt": "greater",
    "lt": "less",
    "ge": "greater_equal",
    "le": "less_equal",
    "ne": "not_equal",
    "clamp": "clip",
    "matmul": "mm bmm",
    "cat": "concat concatenate",
    "transpose": "swapaxes swapdims",
    "movedim": "moveaxis",
    "reshape": "view _unsafe_view",
    "to": "_to_copy type type_as float double half bfloat16 int long bool",
    "item": "__float__ __int__ __bool__ __index__ _local_scalar_dense",
}
# Python's operators, of which a reflected form (`__radd__`) and one in place (`__iadd__`) exist.
_PYTHON_OPERATORS = ("add", "sub", "mul", "matmul", "truediv", "div", "floordiv", "mod", "pow", "lshift", "rshift")
_REVERSIBLE = frozenset((*_PYTHON_OPERATORS, "and", "or", "xor"))


def _table() -> dict[str, Operation]:
    table = {name: row for group in _GROUPS for name, row in group.items()}
    for usual, names in _SPELLINGS.items():
        table |= dict.fromkeys(names.split(), replace(table[usual], same_as=usual))
    table["rsub"] = replace(table["sub"], is_reflected=True)
    return table


_TABLE = _table()


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
        if len(parts) > 1:
            return parts[1]
        return parts[0]
    is_operator = name.startswith("torch.ops.") and len(parts) > 3
    if is_operator:
        return parts[3]
    return parts[-1]


# Operators of these libraries return before their results are there.
_PENDING_SPACES = ("c10d.", "_c10d_functional.", "torch.ops.c10d.", "torch.ops._c10d_functional.")
_COLLECTIVE_SPACES = (*_PENDING_SPACES, "torch.distributed.")
_COLLECTIVE_NAMES = frozenset(
    (
        *("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce", "gather", "scatter"),
        *("send", "recv", "barrier", "wait"),
    )
)
# The usual names of collectives that have others.
_COLLECTIVES = {
    **dict.fromkeys(("allreduce", "allreduce_coalesced", "all_reduce_coalesced"), "all_reduce"),
    **dict.fromkeys(("allgather", "allgather_base", "allgather_coalesced", "all_gather_single"), "all_gather"),
    **dict.fromkeys(("all_gather_into_tensor", "all_gather_into_tensor_out", "all_gather_coalesced"), "all_gather"),
    **dict.fromkeys(("all_gather_into_tensor_coalesced", "allgather_into_tensor_coalesced"), "all_gather"),
    **dict.fromkeys(("reduce_scatter_base", "reduce_scatter_single", "reduce_scatter_tensor"), "reduce_scatter"),
    **dict.fromkeys(("reduce_scatter_tensor_coalesced", "reduce_scatter_tensor_out"), "reduce_scatter"),
    **dict.fromkeys(("alltoall", "alltoall_base", "all_to_all_single"), "all_to_all"),
    **{"isend": "send", "irecv": "recv", "recv_any_source": "recv"},
    **{"monitored_barrier": "barrier", "wait_tensor": "wait"},
}


@lru_cache(maxsize=4096)
def operation(kind: Kind, name: str) -> Operation:
    """What is known about a torch function or operator; nothing is known about modules and Python functions.

    >>> names = ("nn.functional.softmax", "Tensor.softmax", "mm", "relu_", "Tensor.__radd__", "Tensor.__rsub__")
    >>> [operation("function", f"torch.{name}").name for name in names]
    ['softmax', 'softmax', 'matmul', 'relu_', 'add', 'rsub']
    >>> operation("aten", "aten.add.Tensor").name, operation("module", "Linear").name
    ('add', 'Linear')
    """
    if kind in ("module", "python"):
        return Operation(own=name, name=name, base=name)
    own = own_name(kind, name)
    if name.startswith("profiler."):
        return Operation("profiler", own=own, name=own, base=own)
    if is_distributed(name):
        return _collective(own)
    if name.startswith("torch.autograd."):
        return _named(_TABLE.get(f"autograd.{own}", UNKNOWN), own, own, own)
    return _operation(own)


def is_distributed(name: str) -> bool:
    """Whether a function or operator is one of `torch.distributed`: its name has a meaning of its own.

    >>> [is_distributed(name) for name in ("torch.distributed.gather", "c10d.allreduce_", "torch.gather")]
    [True, True, False]
    """
    return name.startswith(_COLLECTIVE_SPACES)


def is_pending(name: str) -> bool:
    """Whether the result of an operator is not there yet when the operator returns: a wait follows.

    >>> is_pending("c10d.allreduce_"), is_pending("_c10d_functional.wait_tensor"), is_pending("aten.add.Tensor")
    (True, False, False)
    """
    return name.startswith(_PENDING_SPACES) and not name.endswith("wait_tensor")


def _collective(own: str) -> Operation:
    """A collective by the one name for all spellings: `allreduce_`, `all_reduce_coalesced` and `all_reduce`."""
    bare = own.strip("_")
    usual = _COLLECTIVES.get(bare, bare)
    if usual not in _COLLECTIVE_NAMES:
        return _named(UNKNOWN, own, own, own)
    return _named(Operation("collective", risk="overflow", hides=False), own, usual, usual)


def _operation(own: str) -> Operation:
    if own in _TABLE:
        row = _TABLE[own]
        usual = row.same_as or own
        return _named(row, own, usual, usual.rstrip("_"))
    if own.startswith("__") and own.endswith("__"):
        return _python_operator(own, own.strip("_"))
    plain = own.rstrip("_=")
    row = _TABLE.get(plain) or _TABLE.get(plain.strip("_"), UNKNOWN)
    base = row.same_as or plain
    return _named(row, own, base + own[len(plain) :], base, is_in_place=own.endswith("_"))


def _python_operator(own: str, bare: str) -> Operation:
    """`__add__`, `__radd__` and `__iadd__`: the reflected `1 + x` is the same as `x + 1`, but `1 - x` is not."""
    form = bare[:1] if bare[1:] in _REVERSIBLE else ""
    plain = bare[len(form) :]
    row = _TABLE.get(plain, UNKNOWN)
    base = row.same_as or plain
    if form == "i":
        return _named(row, own, f"{base}_", base, is_in_place=True)
    if form == "r":
        return replace(_named(row, own, base if row.commutes else f"r{base}", base), is_reflected=True)
    return _named(row, own, base, base, is_in_place=row.is_in_place)


def _named(row: Operation, own: str, name: str, base: str, is_in_place: bool = False) -> Operation:
    return replace(
        row,
        own=own,
        name=name,
        base=base,
        arithmetic=row.arithmetic or base,
        is_in_place=is_in_place,
        overwrites=row.overwrites and is_in_place,
    )
