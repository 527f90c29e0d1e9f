"""What can be called, noted once and looked up at each call: torch functions, ATen operators, watched functions.

A note says what the hot path must know of a callable without looking at it again; its name is made when decoding.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import CO_VARARGS, CO_VARKEYWORDS
from types import CodeType, FunctionType
from typing import Any, Literal

# Getters and setters of tensors that make or change a tensor; the others only tell facts.
TENSOR_ATTRIBUTES = frozenset({"T", "mT", "H", "mH", "real", "imag", "data", "grad"})

# Functions that only tell facts of a tensor, or change facts that are no values.
_FACTS = """
    size dim ndimension numel nelement stride storage_offset element_size data_ptr dim_order get_device storage
    untyped_storage is_contiguous is_complex is_conj is_coalesced is_distributed is_floating_point is_inference is_neg
    is_pinned is_same_size is_set_to is_shared is_signed is_storage is_tensor sparse_dim dense_dim qscheme q_scale
    q_zero_point q_per_channel_axis result_type __len__ __hash__ __dir__ __dlpack_device__ _is_view _is_zerotensor
    register_hook register_post_accumulate_grad_hook retain_grad requires_grad_ device _set_grad_enabled
"""
FACTS = frozenset(_FACTS.split())
_IN_PLACE = "setitem iadd isub imul imatmul itruediv ifloordiv imod ipow ilshift irshift iand ior ixor"
IN_PLACE_OPERATORS = frozenset(f"__{name}__" for name in _IN_PLACE.split())


class FunctionNote:
    """A torch function: whether it is worth an event, and whether it changes its first argument."""

    __slots__ = ("defaults", "in_place", "kind", "name", "runs_backward", "silent")

    kind: Literal["function"]

    def __init__(self, function: Callable[..., Any]) -> None:
        self.kind = "function"
        self.name = function_name(function)
        self.defaults = plain_defaults(function)
        last = self.name.rpartition(".")[2]
        self.silent = is_silent(function, last) or self.name.startswith("torch.ops.profiler.")
        self.in_place = changes_first(last)
        self.runs_backward = self.name in ("torch.Tensor.backward", "torch.autograd.backward", "torch.autograd.grad")


class PythonNote:
    """A Python function that is watched; `code` is None for one that is written in C."""

    __slots__ = ("code", "kind", "name")

    kind: Literal["python"]

    def __init__(self, name: str, code: CodeType | None) -> None:
        self.kind = "python"
        self.name = name
        self.code = code

    def named(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments of a call by the names of the parameters; what was not given is left out.

        >>> def area(width, *more, **options): ...
        >>> PythonNote("area", area.__code__).named((1, 2, 3), {"unit": "m"})
        {'width': 1, 'more': (2, 3), 'options': {'unit': 'm'}}
        """
        code = self.code
        if code is None:
            return {**{str(index): item for index, item in enumerate(args)}, **kwargs}
        named = code.co_argcount + code.co_kwonlyargcount
        found = dict(zip(code.co_varnames[: code.co_argcount], args, strict=False))
        if code.co_flags & CO_VARARGS and len(args) > code.co_argcount:
            found[code.co_varnames[named]] = args[code.co_argcount :]
        by_name = code.co_varnames[code.co_posonlyargcount : named]
        found.update((name, item) for name, item in kwargs.items() if name in by_name)
        rest = {name: item for name, item in kwargs.items() if name not in by_name}
        if rest:
            last = named + bool(code.co_flags & CO_VARARGS)
            found[code.co_varnames[last] if code.co_flags & CO_VARKEYWORDS else "**"] = rest
        return found


class OperatorNote:
    """An operator of ATen or of a library: how to call it, and the arguments that it changes but does not return."""

    __slots__ = ("call", "function", "kind", "name", "writes")

    kind: Literal["aten"]

    def __init__(self, function: Any) -> None:
        self.kind = "aten"
        self.function = function
        self.name = operator_name(function)
        self.call = getattr(function, "_op", function)
        self.writes = unreturned_writes(function)

    def written(self, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> list[Any]:
        """The arguments of a call that it has changed but not returned."""
        if not self.writes:
            return []
        named = kwargs or {}
        return [args[index] if index < len(args) else named.get(name) for index, name in self.writes]


def function_name(function: Callable[..., Any]) -> str:
    """The name under which users know a torch function: `torch.Tensor.view`, `torch.nn.functional.softmax`."""
    owner = getattr(function, "__self__", None)
    if type(function).__name__ == "method-wrapper":  # the getter or setter of a tensor attribute
        return f"torch.Tensor.{getattr(owner, '__name__', '?')}{'=' if function.__name__ == '__set__' else ''}"
    name = getattr(function, "__name__", type(function).__name__)
    qualified = getattr(function, "__qualname__", name)
    if qualified.startswith(("TensorBase.", "Tensor.")):
        return f"torch.Tensor.{name}"
    module = getattr(function, "__module__", None) or getattr(owner, "__name__", None) or "torch"
    if module.startswith("torch._ops."):
        called = qualified.partition("::")[2].removesuffix(".default") or name
        return f"torch.ops.{module.removeprefix('torch._ops.')}.{called}"
    return f"{PUBLIC_MODULES.get(module, module)}.{public_name(module, name)}"


PUBLIC_MODULES = {
    "torch._C._nn": "torch.nn.functional",
    "torch.functional": "torch",
    "torch._C": "torch",
    "torch._VF": "torch",
    "torch._C._linalg": "torch.linalg",
    "torch._C._fft": "torch.fft",
    "torch._C._special": "torch.special",
    "torch._C._sparse": "torch.sparse",
    "torch._C._nested": "torch.nested",
}


def public_name(module: str, name: str) -> str:
    """`linalg_inv` of `torch._C._linalg` is `inv` to its users."""
    return name.removeprefix(module.rpartition("._")[2] + "_") if module.startswith("torch._C._") else name


def plain_defaults(function: Callable[..., Any]) -> dict[str, Any]:
    """The defaults of a function written in Python, as far as they are plain."""
    if not isinstance(function, FunctionType):
        return {}
    code, values = function.__code__, function.__defaults__ or ()
    names = code.co_varnames[code.co_argcount - len(values) : code.co_argcount]
    pairs = [*zip(names, values, strict=True), *(function.__kwdefaults__ or {}).items()]
    return {name: value for name, value in pairs if value is None or isinstance(value, (int, float, str))}


def is_silent(function: Callable[..., Any], last: str) -> bool:
    """Whether a call only tells facts and makes no tensor."""
    if type(function).__name__ == "method-wrapper":
        return last.rstrip("=") not in TENSOR_ATTRIBUTES
    return last in FACTS


def changes_first(last: str) -> bool:
    """Whether a function changes its first argument, by torch's naming."""
    if last.startswith("__"):
        return last in IN_PLACE_OPERATORS
    return last.endswith(("_", "=")) and last != "grad="


def operator_name(function: Any) -> str:
    """`aten.mul.Tensor`, `aten.embedding`, `mylib.op`; the default overload is not named."""
    qualified = getattr(function, "__qualname__", None)
    if not isinstance(qualified, str) or "::" not in qualified:  # a higher-order operator
        return f"higher_order.{getattr(function, '__name__', type(function).__name__)}"
    return qualified.replace("::", ".").removesuffix(".default")


def unreturned_writes(function: Any) -> list[tuple[int, str]]:
    """Index and name of the arguments that an operator changes without returning them, as `_foreach_add_` does."""
    schema = getattr(function, "_schema", None)
    if schema is None or len(schema.returns):
        return []
    arguments = enumerate(schema.arguments)
    return [(i, argument.name) for i, argument in arguments if argument.alias_info and argument.alias_info.is_write]


# Notes of torch's own callables live as long as torch does; those of others are made again at each call.
FUNCTION_NOTES: dict[Any, FunctionNote] = {}
OPERATOR_NOTES: dict[int, OperatorNote] = {}


def function_note(function: Callable[..., Any]) -> FunctionNote:
    """The note of a function that has none yet."""
    note = FunctionNote(function)
    if note.name.startswith("torch.") and type(function).__hash__ is not None:
        FUNCTION_NOTES[function] = note
    return note


def operator_note(function: Any) -> OperatorNote:
    """The note of an operator that has none yet. It is found again by id, so it holds the operator."""
    note = OPERATOR_NOTES[id(function)] = OperatorNote(function)
    return note
