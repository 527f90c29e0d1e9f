"""Callees that are known once and looked up at each call: torch functions, ATen operators, watched functions.

A callee says what the hot path must know of a callable without looking at it again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from inspect import CO_VARARGS, CO_VARKEYWORDS
from types import BuiltinFunctionType, CodeType, FunctionType, MethodWrapperType
from typing import Any, Literal

from torch import Tensor

from insitu.capture.torch_internals import (
    C_MODULE,
    FACT_FUNCTIONS,
    PUBLIC_MODULES,
    OpOverload,
    OpOverloadPacket,
    operator_call,
    overload_names,
    packet_name,
    schemas,
)
from insitu.trace.index_use import INDEX_USES
from insitu.trace.operation import is_pending, operation

KNOWN_MODULES = {**PUBLIC_MODULES, "torch.distributed.distributed_c10d": ("torch.distributed", "")}
# Attributes of tensors whose getter makes a tensor; the other getters only tell facts.
TENSOR_GETTERS = frozenset({"T", "mT", "H", "mH", "real", "imag", "data", "grad"})
# Attributes of tensors whose setter is recorded.
TENSOR_SETTERS = frozenset({"real", "imag", "data", "grad", "requires_grad"})

# Functions, methods and operators of torch that only tell facts of a tensor, or change what no call depends on.
_FACTS = """
    size dim ndimension numel nelement stride storage_offset element_size data_ptr dim_order get_device storage
    untyped_storage is_contiguous is_complex is_conj is_coalesced is_distributed is_floating_point is_inference is_neg
    is_pinned is_same_size is_set_to is_shared is_signed is_storage is_tensor sparse_dim dense_dim qscheme q_scale
    q_zero_point q_per_channel_axis result_type __len__ __hash__ __dir__ __dlpack_device__
    register_hook register_post_accumulate_grad_hook retain_grad device
    sym_size sym_numel sym_stride sym_storage_offset
"""
FACTS = FACT_FUNCTIONS.union(_FACTS.split())
FACTS_OWNERS = frozenset({"torch", C_MODULE, "torch.Tensor", "torch.ops.aten"})


class FunctionCallee:
    """A torch function: whether it is worth an event, and whether it changes its first argument."""

    __slots__ = ("defaults", "in_place", "is_pending", "kind", "name", "runs_backward", "silent", "takes_indices")

    kind: Literal["function"]

    def __init__(self, function: Callable[..., Any]) -> None:
        name = name_of(function)
        self.kind = "function"
        self.name = name.text
        self.defaults = plain_defaults(function)
        self.silent = is_silent(name)
        self.in_place = changes_first(function, name)
        self.is_pending = is_pending(self.name)
        self.runs_backward = self.name.startswith("torch.") and operation("function", self.name).runs_backward
        self.takes_indices = self.name in INDEX_USES


class PythonCallee:
    """A Python function that is watched; `code` is None for one that is written in C."""

    __slots__ = ("code", "kind", "name", "parameters")

    kind: Literal["python"]
    parameters: ParameterNames | None

    def __init__(self, name: str, code: CodeType | None) -> None:
        self.kind = "python"
        self.name = name
        self.code = code
        self.parameters = ParameterNames(code) if code is not None else None

    def by_name(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments of a call by the names of the parameters; what was not given is left out.

        >>> def area(width, *more, **options): ...
        >>> PythonCallee("area", area.__code__).by_name((1, 2, 3), {"unit": "m"})
        {'width': 1, 'more': (2, 3), 'options': {'unit': 'm'}}
        """
        names = self.parameters
        if names is None:
            return {**dict(zip(map(str, range(len(args))), args, strict=True)), **kwargs}
        found = dict(zip(names.positional, args, strict=False))
        more = args[len(names.positional) :]
        if more and names.more:
            found[names.more] = more
        rest = dict(kwargs)
        for name in filter(names.by_keyword.__contains__, kwargs):
            found[name] = rest.pop(name)
        if rest:
            found[names.rest] = rest
        return found


class ParameterNames:
    """The names of the parameters of a function: by position, by keyword, and those of `*args` and `**kwargs`."""

    __slots__ = ("by_keyword", "more", "positional", "rest")

    def __init__(self, code: CodeType) -> None:
        named = code.co_argcount + code.co_kwonlyargcount
        self.positional = code.co_varnames[: code.co_argcount]
        self.by_keyword = frozenset(code.co_varnames[code.co_posonlyargcount : named])
        self.more, self.rest = "", "**"
        if code.co_flags & CO_VARARGS:
            self.more = code.co_varnames[named]
            named += 1
        if code.co_flags & CO_VARKEYWORDS:
            self.rest = code.co_varnames[named]


class OperatorCallee:
    """An operator of ATen or of a library: how to call it, and the arguments that it changes but does not return."""

    __slots__ = ("call", "function", "is_pending", "kind", "name", "writes")

    kind: Literal["aten"]

    def __init__(self, function: Any) -> None:
        self.kind = "aten"
        self.function = function
        self.name = operator_name(function)
        self.is_pending = is_pending(self.name)
        self.call = operator_call(function)
        self.writes = unreturned_writes(function)

    def write_targets(self, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> list[Any]:
        """The arguments of a call that it has changed but not returned."""
        if not self.writes:
            return []
        named = kwargs or {}
        return [args[index] if index < len(args) else named.get(name) for index, name in self.writes]


@dataclass(frozen=True, slots=True)
class Name:
    """The name of a torch function in parts: `torch.ops.aten`, `mean`, `dim`; the last one is that of an overload."""

    owner: str
    own: str
    overload: str = ""
    access: Literal["call", "get", "set"] = "call"

    @property
    def text(self) -> str:
        """The whole name; what it names can be looked up, the setter of an attribute has a `=` at the end."""
        whole = ".".join(filter(None, (self.owner, self.own, self.overload)))
        if self.access == "set":
            return f"{whole}="
        return whole


def name_of(function: Callable[..., Any]) -> Name:
    """The name under which users know a function that torch calls a mode with, by what kind of callable it is.

    >>> import torch
    >>> name_of(torch.ops.aten.mean.dim)
    Name(owner='torch.ops.aten', own='mean', overload='dim', access='call')
    >>> name_of(torch.Tensor.data.__set__).text, name_of(torch.nn.functional.logsigmoid).text
    ('torch.Tensor.data=', 'torch.nn.functional.logsigmoid')
    """
    if isinstance(function, (OpOverload, OpOverloadPacket)):
        return operator_parts(function)
    if isinstance(function, MethodWrapperType) and function.__name__ in ("__get__", "__set__"):
        return Name("torch.Tensor", attribute_name(function.__self__), access=ACCESS[function.__name__])
    own = getattr(function, "__name__", type(function).__name__)
    if is_tensor_method(function):
        return Name("torch.Tensor", own)
    if isinstance(function, FunctionType) and "<locals>" not in function.__qualname__:
        own = function.__qualname__
    return public_name(function, module_of(function), own)


def operator_parts(operator: Any) -> Name:
    """The name of an operator, or of one of its overloads; the default overload is not named."""
    if isinstance(operator, OpOverloadPacket):
        space, _, own = packet_name(operator).partition("::")
        return Name(f"torch.ops.{space}", own)
    own, overload = overload_names(operator)
    return Name(f"torch.ops.{operator.namespace}", own, overload if overload != "default" else "")


def module_of(function: Callable[..., Any]) -> str:
    """The module that a function says it is of."""
    owner = getattr(function, "__self__", None)
    return getattr(function, "__module__", None) or getattr(owner, "__name__", None) or "torch"


ACCESS: dict[str, Literal["get", "set"]] = {"__get__": "get", "__set__": "set"}


def attribute_name(descriptor: Any) -> str:
    """The name of an attribute, from what gets and sets it."""
    function = descriptor.fget if isinstance(descriptor, property) else descriptor
    return getattr(function, "__name__", "?")


def is_tensor_method(function: Callable[..., Any]) -> bool:
    """Whether a function is a method of torch's own tensors."""
    if not isinstance(function, FunctionType):
        return getattr(function, "__objclass__", None) in Tensor.__mro__
    is_of_torch = (function.__module__ or "torch").partition(".")[0] == "torch"
    return is_of_torch and function.__qualname__.startswith(("TensorBase.", "Tensor."))


def public_name(function: Callable[..., Any], module: str, own: str) -> Name:
    """`linalg_inv` of a private module is `torch.linalg.inv` to its users; what has no public name has its own."""
    if module not in KNOWN_MODULES:
        return Name(module, own)
    public, prefix = KNOWN_MODULES[module]
    bare = own.removeprefix(prefix)
    if hasattr(import_module(public), bare):
        return Name(public, bare)
    alias = public_aliases(public).get(function)
    if alias is not None:
        return Name(public, alias)
    return Name(module, own)


@cache
def public_aliases(module: str) -> dict[Any, str]:
    """The public names of the functions written in C in a module: `F.logsigmoid` is called `log_sigmoid` there."""
    names = vars(import_module(module)).items()
    return {item: name for name, item in names if isinstance(item, BuiltinFunctionType) and not name.startswith("_")}


def plain_defaults(function: Callable[..., Any]) -> dict[str, Any]:
    """The defaults of a function written in Python, as far as they are plain."""
    if not isinstance(function, FunctionType):
        return {}
    code, values = function.__code__, function.__defaults__ or ()
    names = code.co_varnames[code.co_argcount - len(values) : code.co_argcount]
    pairs = [*zip(names, values, strict=True), *(function.__kwdefaults__ or {}).items()]
    return {name: value for name, value in pairs if value is None or isinstance(value, (int, float, str))}


def is_silent(name: Name) -> bool:
    """Whether a call only tells facts and makes no tensor."""
    if name.access == "get":
        return name.own not in TENSOR_GETTERS
    if name.access == "set":
        return name.own not in TENSOR_SETTERS
    is_fact = name.own in FACTS and name.owner in FACTS_OWNERS
    return is_fact or name.owner == "torch.ops.profiler"


def changes_first(function: Callable[..., Any], name: Name) -> bool:
    """Whether a function changes its first argument: an operator's schema says so, the others are named for it."""
    if isinstance(function, (OpOverload, OpOverloadPacket)):
        return any(map(writes_first, schemas(function)))
    if name.access != "call":
        return name.access == "set" and name.own != "grad"
    return operation("function", name.text).is_in_place


def writes_first(schema: Any) -> bool:
    """Whether an operator with this schema changes its first argument."""
    return any(map(is_written, schema.arguments[:1]))


def is_written(argument: Any) -> bool:
    """Whether an operator changes an argument."""
    return argument.alias_info is not None and argument.alias_info.is_write


def operator_name(function: Any) -> str:
    """`aten.mul.Tensor`, `aten.embedding`, `mylib.op`; the default overload is not named."""
    qualified = getattr(function, "__qualname__", None)
    if not isinstance(qualified, str) or "::" not in qualified:  # a higher-order operator
        return f"higher_order.{getattr(function, '__name__', type(function).__name__)}"
    return qualified.replace("::", ".").removesuffix(".default")


def unreturned_writes(function: Any) -> list[tuple[int, str]]:
    """Index and name of the arguments that an operator changes without returning them, as `_foreach_add_` does."""
    found = schemas(function)
    if not found or found[0].returns:
        return []
    return [(index, argument.name) for index, argument in enumerate(found[0].arguments) if is_written(argument)]


# Callees of torch's own functions live as long as torch does; those of other functions are made again at each call.
FUNCTION_CALLEES: dict[Any, FunctionCallee] = {}
OPERATOR_CALLEES: dict[int, OperatorCallee] = {}


def function_callee(function: Callable[..., Any]) -> FunctionCallee:
    """The callee of a function that is called for the first time."""
    callee = FunctionCallee(function)
    if callee.name.startswith("torch.") and type(function).__hash__ is not None:
        FUNCTION_CALLEES[function] = callee
    return callee


def operator_callee(function: Any) -> OperatorCallee:
    """The callee of an operator that is called for the first time. It is found by id, so it holds the operator."""
    callee = OPERATOR_CALLEES[id(function)] = OperatorCallee(function)
    return callee
