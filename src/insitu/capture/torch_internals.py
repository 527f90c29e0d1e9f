"""The private parts of torch that insitu uses; no other file names one.

Each part is looked up once, when this file is imported, and gets a public name here. The table in `INTERNALS` says what
the part is needed for, which torch is known to have it, and what is switched off without it. A missing part never
breaks an import: a stand-in takes its place, and the first session warns once (`report_missing`). Where an earlier
torch had another part for the same work, that part is used there, and nobody is warned.

The names are the objects of torch themselves, not functions around them: most are used for each call that is recorded.

To support a new torch: run the tests of this file. They fail for each part that is gone.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from importlib import import_module
from operator import attrgetter, methodcaller
from types import CodeType, FrameType, ModuleType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from insitu.capture.torch_parts import INTERNALS, Internal, enter_part, has, lookup, report_part
from insitu.capture.torch_parts import find_part as _part
from insitu.capture.torch_versions import OLDEST

# What is switched off without a part, where several parts share the consequence.
NO_FUNCTIONS = "torch functions are not recorded"
NO_OPERATORS = "ATen operators are not recorded"
NO_MODULES = "calls of modules are not recorded"
NO_LINEAGE = "operators of a backward pass are not connected to their forward calls"
NO_HIDING = "operators that insitu runs may appear in profiles and traces of others"
NO_COMPILED = "compiled regions are not recorded as one call"
NO_SKIPPING = "dynamo may compile functions of insitu together with yours"
NO_STATES = "insitu does not notice torch.func transforms and torch.jit.trace, and may disturb them"
COARSE_NAMES = "some functions and operators appear under internal names"


class _Absent:
    """Stands in for a class that torch does not have: nothing is an instance of it."""


def _nothing(*_: Any) -> None:
    """Stands in for a function that changes or reports a state which this torch does not have."""


def _zero(*_: Any) -> int:
    """Stands in for a function that counts."""
    return 0


def _no(*_: Any) -> bool:
    """Stands in for a function that answers a question."""
    return False


# --- Overriding functions and operators -------------------------------------------------------------------------------

DisableTorchFunction: Any = _part(
    "torch._C.DisableTorchFunction",
    nullcontext,
    why="reads facts of tensors without calling function modes; the public form costs a Python call",
    without=NO_FUNCTIONS,
)
DisableTorchDispatch: Any = _part(
    "torch._C._DisableTorchDispatch",
    nullcontext,
    why="computes statistics without calling dispatch modes",
    without=NO_OPERATORS,
)
TorchDispatchMode: Any = _part(
    "torch.utils._python_dispatch.TorchDispatchMode",
    object,
    why="receives each ATen operator; torch documents it but keeps it in a private module",
    without=NO_OPERATORS,
)
NO_DISPATCH: Any = _part(
    "torch._C._disabled_torch_dispatch_impl",
    object(),
    why="is the __torch_dispatch__ of classes that do not dispatch in Python",
    without="subclasses of Tensor have no statistics",
)
# The stacks of modes: sessions may end in any order, and torch's own __exit__ only removes the innermost mode.
function_stack_length: Callable[[], int] = _part(
    "torch._C._len_torch_function_stack", _zero, why="counts the function modes", without=NO_FUNCTIONS
)
function_mode_at: Callable[[int], Any] = _part(
    "torch._C._get_function_stack_at", _nothing, why="finds a function mode", without=NO_FUNCTIONS
)
push_function_mode: Callable[[Any], None] = _part(
    "torch._C._push_on_torch_function_stack", _nothing, why="adds a function mode", without=NO_FUNCTIONS
)
pop_function_mode: Callable[[], Any] = _part(
    "torch._C._pop_torch_function_stack", _nothing, why="removes a function mode", without=NO_FUNCTIONS
)
dispatch_stack_length: Callable[[], int] = _part(
    "torch._C._len_torch_dispatch_stack", _zero, why="counts the dispatch modes", without=NO_OPERATORS
)
dispatch_mode_at: Callable[[int], Any] = _part(
    "torch._C._get_dispatch_stack_at", _nothing, why="finds a dispatch mode", without=NO_OPERATORS
)
push_dispatch_mode: Callable[[Any], None] = _part(
    "torch._C._push_on_torch_dispatch_stack", _nothing, why="adds a dispatch mode", without=NO_OPERATORS
)
pop_dispatch_mode: Callable[[Any], Any] = _part(
    "torch._C._pop_torch_dispatch_stack", _nothing, why="removes a dispatch mode", without=NO_OPERATORS
)
is_function_mode_enabled: Callable[[], bool] = _part(
    "torch._C._is_torch_function_mode_enabled",
    lambda: True,
    why="tells whether function modes are on, for functions that do not ask themselves",
    without="calls of torch.autograd.backward are recorded even where torch has switched off function modes",
)

HAS_FUNCTION_MODES = has(
    "torch._C.DisableTorchFunction",
    "torch._C._len_torch_function_stack",
    "torch._C._get_function_stack_at",
    "torch._C._push_on_torch_function_stack",
    "torch._C._pop_torch_function_stack",
)
HAS_DISPATCH_MODES = HAS_FUNCTION_MODES and has(
    "torch._C._DisableTorchDispatch",
    "torch.utils._python_dispatch.TorchDispatchMode",
    "torch._C._len_torch_dispatch_stack",
    "torch._C._get_dispatch_stack_at",
    "torch._C._push_on_torch_dispatch_stack",
    "torch._C._pop_torch_dispatch_stack",
)


class DispatchMode(TorchDispatchMode):  # type: ignore[misc]
    """A dispatch mode that leaves torch.compile alone.

    torch asks a mode for two private class methods. `ignore_compile_internals` exists since 2.9: before that, dynamo
    compiles nothing under a dispatch mode, and the mode is off in compiled regions (`LIFTS_DISPATCH_MODES`).
    `_should_skip_dynamo` would make torch disable dynamo around the handler at each operator; insitu marks its handlers
    once instead (`skip_frame`).
    """

    supports_higher_order_operators = True

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Compiled regions stay compiled."""
        return True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False


# Whether a dispatch mode must be off in a compiled region, so that dynamo compiles the region.
LIFTS_DISPATCH_MODES = not hasattr(TorchDispatchMode, "ignore_compile_internals")

# --- States of torch --------------------------------------------------------------------------------------------------

tracing_state: Callable[[], Any] = _part(
    "torch._C._get_tracing_state",
    _nothing,
    why="tells whether torch.jit.trace runs, which records each look at a tensor",
    without=NO_STATES,
)
transform_interpreter: Callable[[], Any] = _part(
    "torch._C._functorch.peek_interpreter_stack",
    _nothing,
    why="tells whether a transform of torch.func runs, inside which values cannot be read",
    without=NO_STATES,
)
is_functorch_wrapped: Callable[[Tensor], bool] = _part(
    "torch._C._functorch.is_functorch_wrapped_tensor",
    _no,
    why="tells whether a tensor belongs to a transform of torch.func",
    without=NO_STATES,
)
set_grad_enabled: Callable[[bool], Any] = _part(
    "torch._C._set_grad_enabled",
    torch.set_grad_enabled,
    why="switches gradients off for statistics; the public form makes an object and two Python calls",
    without="statistics take longer",
)
profiler_enabled: Callable[[], bool] = _part(
    "torch._C._autograd._profiler_enabled",
    _no,
    why="tells whether torch.profiler runs",
    without=NO_HIDING,
)
enable_record_function: Callable[[bool], None] = _part(
    "torch._C._autograd._enable_record_function",
    _nothing,
    why="hides operators of insitu from torch.profiler",
    without=NO_HIDING,
)

# --- Autograd ---------------------------------------------------------------------------------------------------------

next_node_number: Callable[[], int] = _part(
    "torch._C._autograd._get_sequence_nr",
    _zero,
    why="is the number of the next autograd node of this thread: which nodes a call has made",
    without=NO_LINEAGE,
)
node_number: Callable[[Any], int] = _part(
    "torch._C._FunctionBase._sequence_nr",
    _zero,
    why="is the number of an autograd node: which call has made it",
    without=NO_LINEAGE,
    use=methodcaller("_sequence_nr"),  # each class of nodes has this method itself
)
current_node: Callable[[], Any] = _part(
    "torch._C._current_autograd_node",
    _nothing,
    why="is the autograd node that runs",
    without=NO_LINEAGE,
)
graph_task_id: Callable[[], int] = _part(
    "torch._C._current_graph_task_id",
    lambda: -1,
    why="tells which backward pass runs in this thread, if one does",
    without="calls of a backward pass are not told from those of a forward pass",
)
_engine: Any = _part(
    "torch.autograd.graph._engine_run_backward",
    None,
    why="is the innermost Python function while the engine runs operators of its own",
    without="operators of a backward pass have the stack of the call of backward()",
)
ENGINE_CODE: CodeType | None = getattr(_engine, "__code__", None)
VMAP_CODE: CodeType | None = _part(
    "torch._functorch.vmap._flat_vmap.__code__",
    None,
    why="is the code of the Python function that runs the function given to torch.vmap",
    without="calls inside torch.vmap are not marked",
)
backward_hooks: Callable[[Any], Any] = _part(
    "torch.Tensor._backward_hooks",
    _nothing,
    why="holds the hooks of a tensor, which guard checks one by one",
    without="guard does not name the hook that produced a NaN",
    use=attrgetter("_backward_hooks"),
)
version_counter: Callable[[Any], int] = _part(
    "torch.Tensor._version",
    _zero,
    why="counts the changes of a tensor in place, without reading its values",
    without="changes in place of followed tensors are missed",
    use=attrgetter("_version"),
)

# Attributes of autograd nodes: `_raw_saved_self` is the packed form of `_saved_self`.
SAVED = "_saved_"
_RAW = "_raw"
_RAW_SAVED = "_raw_saved"
# The class that a user derived from torch.autograd.Function, as an attribute of the class of its nodes.
FORWARD_CLASS = "_forward_cls"


def saved_names(node: Any) -> list[str]:
    """The attributes of an autograd node that unpack what it has saved."""
    return [name for name in dir(node) if name.startswith(SAVED)]


def packed_names(node: Any) -> Iterator[tuple[str, str]]:
    """The attributes of an autograd node that hold what it has saved, each with the attribute that unpacks it."""
    for name in dir(node):
        if name == f"{_RAW_SAVED}_tensors":
            yield name, "saved_tensors"
        elif name.startswith(_RAW_SAVED):
            yield name, name.removeprefix(_RAW)


UNPACK_HOOK = "torch._C._autograd.SavedTensor.unpack_hook"
_part(
    UNPACK_HOOK,
    None,
    why="tells whether a hook has packed a saved tensor: to unpack it could run code of the user",
    without="errors about tensors that were changed in place do not name the call that changed them",
    since="2.10",
    is_rare=True,
)
packed_data: Callable[[Any], Any] = attrgetter("data")


def is_packed_by_hook(saved: Any) -> bool:
    """Whether a hook has packed a saved tensor, or may have: torch before 2.10 does not say."""
    report_part(INTERNALS[UNPACK_HOOK])
    return getattr(saved, "unpack_hook", True) is not None


# Raised by checkpoint(use_reentrant=False) when all that the backward pass needs is computed again.
STOP_RECOMPUTATION = ("torch.utils.checkpoint", "_StopRecomputationError")

# --- Tensors ----------------------------------------------------------------------------------------------------------

FakeTensor: Any = _part(
    "torch._subclasses.fake_tensor.FakeTensor",
    _Absent,
    why="has facts but no values",
    without="tensors of FakeTensorMode appear as unreadable",
)
is_zero_tensor: Callable[[Tensor], bool] = _part(
    "torch.Tensor._is_zerotensor",
    _no,
    why="tells a tensor of zeros that has no memory",
    without="gradients of zeros without memory appear as unreadable",
)
nested_sizes: Callable[[Any], Tensor] = _part(
    "torch.Tensor._nested_tensor_size",
    lambda tensor: torch.tensor([list(part.shape) for part in tensor.unbind()]),
    why="is the shape of each part of a nested tensor",
    without="reading the shape of a nested tensor takes longer",
)
sparse_indices: Callable[[Any], Tensor] = _part(
    "torch.Tensor._indices",
    lambda tensor: tensor.coalesce().indices(),
    why="is the indices of a sparse tensor as they are; the public form wants a coalesced tensor",
    without="indices of sparse tensors are those after coalesce()",
)
sparse_values: Callable[[Any], Tensor] = _part(
    "torch.Tensor._values",
    lambda tensor: tensor.coalesce().values(),
    why="is the values of a sparse tensor as they are; the public form wants a coalesced tensor",
    without="values of sparse tensors are those after coalesce()",
)
_ROWS: dict[str, Callable[[Any], Tensor]] = {
    "crow_indices": Tensor.crow_indices,
    "col_indices": Tensor.col_indices,
    "values": Tensor.values,
}
_COLUMNS: dict[str, Callable[[Any], Tensor]] = {
    "ccol_indices": Tensor.ccol_indices,
    "row_indices": Tensor.row_indices,
    "values": Tensor.values,
}
# The dense tensors that hold a sparse one, by its layout: their names, and the functions that read them.
SPARSE_PARTS: dict[torch.layout, dict[str, Callable[[Any], Tensor]]] = {
    torch.sparse_coo: {"indices": sparse_indices, "values": sparse_values},
    torch.sparse_csr: _ROWS,
    torch.sparse_bsr: _ROWS,
    torch.sparse_csc: _COLUMNS,
    torch.sparse_bsc: _COLUMNS,
}
MKLDNN: Any = _part(
    "torch._mkldnn",
    None,
    why="is the layout of tensors of oneDNN",
    without="tensors of oneDNN are not checked",
)
foreach_norm: Callable[[list[Tensor]], Any] = _part(
    "torch._foreach_norm",
    lambda tensors: [torch.linalg.vector_norm(tensor) for tensor in tensors],
    why="computes the norms of all gradients at once",
    without="the norms of gradients are computed one by one",
)
storage_identity: Callable[[Any], int] = _part(
    "torch.UntypedStorage._cdata",
    methodcaller("data_ptr"),
    why="is the identity of a storage, even of an empty one",
    without="writes through views of empty storages are confused",
    use=attrgetter("_cdata"),
)
LOCAL_TENSOR = "_local_tensor"  # the local part of a DTensor, as an attribute; gathering it would wait for other ranks
COLLECTIVES = "torch.distributed._functional_collectives"  # a module; where it is not imported nobody uses it
_swap: Any = _part(
    "torch._C._swap_tensor_impl",
    None,
    why="exchanges two tensors: the values that were recorded of them are exchanged as well",
    without="torch.utils.swap_tensors refuses tensors that are recorded",
)


def tensor_swap() -> Any:
    """The function by which torch exchanges two tensors, as it is now; None if there is none."""
    return getattr(torch._C, "_swap_tensor_impl", None)


def replace_tensor_swap(function: Any) -> None:
    """Put another function in its place."""
    if _swap is not None:
        core: Any = torch._C
        core._swap_tensor_impl = function


class Jagged(NamedTuple):
    """The parts of a jagged nested tensor: component `i` starts at `offsets[i]` along the dimension of `values`."""

    values: Tensor
    offsets: list[int]
    lengths: list[int] | None
    dimension: int


def jagged_parts(tensor: Any) -> Jagged:
    """The parts of a jagged nested tensor, which torch 2.5 and later keep as attributes of these names."""
    lengths = tensor._lengths.tolist() if tensor._lengths is not None else None
    return Jagged(tensor._values.detach(), tensor._offsets.tolist(), lengths, tensor._ragged_idx - 1)


# --- Modules ----------------------------------------------------------------------------------------------------------

_part(
    "torch.nn.Module._call_impl",
    None,
    why="runs a module: replaced while a session runs. Hooks cost more, miss Ctrl-C, and make torch.compile recompile",
    without=NO_MODULES,
)
MODULE_CALL = "_call_impl"
# The dictionaries of a module, as attributes; the public methods may be overridden, and would run code of the user.
PARAMETERS, BUFFERS, MODULES = "_parameters", "_buffers", "_modules"
own_parameters: Callable[[nn.Module], dict[str, Any]] = attrgetter(PARAMETERS)
own_buffers: Callable[[nn.Module], dict[str, Any]] = attrgetter(BUFFERS)
own_modules: Callable[[nn.Module], dict[str, Any]] = attrgetter(MODULES)


def module_call() -> Callable[..., Any]:
    """The function that runs a module, as it is now."""
    return getattr(nn.Module, MODULE_CALL, nn.Module.__call__)


def replace_module_call(function: Callable[..., Any]) -> None:
    """Put another function in its place."""
    if has(f"torch.nn.Module.{MODULE_CALL}"):
        setattr(nn.Module, MODULE_CALL, function)


# Modules of torch that only wrap another one, by module and class, and the attribute that holds it.
WRAPPERS = {
    "torch.nn.parallel.distributed.DistributedDataParallel": "module",
    "torch.nn.parallel.data_parallel.DataParallel": "module",
    "torch.optim.swa_utils.AveragedModel": "module",
    "torch.distributed.fsdp.fully_sharded_data_parallel.FullyShardedDataParallel": "_fsdp_wrapped_module",
    "torch._dynamo.eval_frame.OptimizedModule": "_orig_mod",
    "torch.distributed.algorithms._checkpoint.checkpoint_wrapper.CheckpointWrapper": "_checkpoint_wrapped_module",
    "torch.distributed.algorithms._checkpoint.checkpoint_wrapper.OffloadWrapper": "_checkpoint_wrapped_module",
}

# --- Names of functions and operators ---------------------------------------------------------------------------------

OpOverload: Any = _part(
    "torch._ops.OpOverload", _Absent, why="is an ATen operator: one overload of a packet", without=COARSE_NAMES
)
OpOverloadPacket: Any = _part(
    "torch._ops.OpOverloadPacket", _Absent, why="is all overloads of an ATen operator", without=COARSE_NAMES
)
# Functions that only tell facts of a tensor, or change what no call depends on: they are not recorded.
FACT_FUNCTIONS = frozenset({"_is_view", "_is_zerotensor", "_set_grad_enabled"})
C_MODULE = "torch._C"
# The operator by which torch's counter of operations knows attention; its form for CPUs has the name and `_for_cpu`.
FLASH_ATTENTION = "_scaled_dot_product_flash_attention"
# Modules whose functions users know from another one; a prefix is not part of the public name.
PUBLIC_MODULES = {
    "torch._C._nn": ("torch.nn.functional", ""),
    "torch.functional": ("torch", ""),
    C_MODULE: ("torch", ""),
    "torch._VF": ("torch", ""),
    "torch._C._linalg": ("torch.linalg", "linalg_"),
    "torch._C._fft": ("torch.fft", "fft_"),
    "torch._C._special": ("torch.special", "special_"),
    "torch._C._sparse": ("torch.sparse", "sparse_"),
    "torch._C._nested": ("torch.nested", "nested_"),
}


def packet_name(packet: Any) -> str:
    """The name of an operator without its overload: `aten::add`."""
    return str(packet._qualified_op_name)


def overload_names(operator: Any) -> tuple[str, str]:
    """The name of an operator and of its overload: `add`, `Tensor`."""
    return operator._opname, operator._overloadname


def operator_call(operator: Any) -> Any:
    """The C function of an operator, which costs less to call than the operator."""
    return getattr(operator, "_op", operator)


def schemas(operator: Any) -> list[Any]:
    """The schemas of an operator, or of all overloads of a packet; none for a higher-order operator."""
    if hasattr(operator, "_schema"):
        return [operator._schema]
    return list(getattr(operator, "_schemas", {}).values())


# --- torch.compile ----------------------------------------------------------------------------------------------------

_EVAL_FRAME = "torch._C._dynamo.eval_frame"
_SKIP_CODE = f"{_EVAL_FRAME}.skip_code"  # up to 2.6
_set_strategy, _strategy, _action = (
    _part(
        f"{_EVAL_FRAME}.{name}",
        None,
        why="keeps dynamo from compiling functions of insitu",
        without=NO_SKIPPING,
        since="2.7",
        earlier=_SKIP_CODE,
    )
    for name in ("set_code_exec_strategy", "_FrameExecStrategy", "_FrameAction")
)
_HAS_STRATEGY = None not in (_set_strategy, _strategy, _action)
_skip_code: Any = lookup(_SKIP_CODE) or _nothing


def skip_frame(code: CodeType, *, with_callees: bool = False) -> None:
    """Keep dynamo from compiling this code, and on demand everything that it calls.

    Torch up to 2.6 cannot do the second: there dynamo passes over some files of insitu (`pass_over_files`).
    """
    if not _HAS_STRATEGY:
        _skip_code(code)
        return
    _set_strategy(code, _strategy(_action.SKIP, _action.SKIP if with_callees else _action.DEFAULT))


# Dynamo is a private module, imported with the first compilation. It switches itself on and off by this function,
# which the wrapper around everything compiled calls on entry and on exit.
DYNAMO = "torch._dynamo.eval_frame"
_SWITCH = "_maybe_set_eval_frame"
_CALLBACKS = "torch._dynamo.callback"
_FILE_RULES = "torch._dynamo.trace_rules"
# The function around everything compiled has the second name up to 2.7.
_WRAPPERS = frozenset({"compile_wrapper", "_fn"})
# Its variables: what it calls, and what that has returned. Up to 2.11 the second one does not exist.
_FUNCTION, _RESULT = "fn", "result"


class CompiledCall(NamedTuple):
    """What the wrapper around a compiled function was called with."""

    function: Any
    args: Any
    kwargs: Any


def frame_switch(dynamo: ModuleType) -> Any:
    """The function by which dynamo switches itself on and off; None if it has another one."""
    found = getattr(dynamo, _SWITCH, None)
    why = "tells when a compiled region begins and ends"
    enter_part(Internal(f"{DYNAMO}.{_SWITCH}", why, OLDEST, NO_COMPILED, is_missing=found is None))
    return found


def pass_over_files(modules: list[str]) -> None:
    """Keep dynamo from compiling the files of modules, where it cannot pass over what a function calls."""
    if not _HAS_STRATEGY:
        rules = import_module(_FILE_RULES)
        for name in modules:
            rules.add(name)


def replace_frame_switch(dynamo: ModuleType, function: Any) -> None:
    """Put another function in its place."""
    setattr(dynamo, _SWITCH, function)


def compilation_callbacks() -> Any:
    """What tells when dynamo begins and ends to compile something."""
    return import_module(_CALLBACKS).callback_handler


def is_compiled_wrapper(frame: FrameType) -> bool:
    """Whether a frame is that of the wrapper around a compiled function."""
    return frame.f_code.co_name in _WRAPPERS


def compiled_call(wrapper: FrameType) -> CompiledCall:
    """What the wrapper around a compiled function was called with."""
    scope = wrapper.f_locals
    return CompiledCall(scope.get(_FUNCTION), scope.get("args", ()), scope.get("kwargs", {}))


def keeps_compiled_result(wrapper: FrameType) -> bool:
    """Whether the wrapper around a compiled function has a variable for the result."""
    return _RESULT in wrapper.f_code.co_varnames


def compiled_result(wrapper: FrameType) -> tuple[bool, Any]:
    """Whether a compiled function has returned, and its result."""
    scope = wrapper.f_locals
    return _RESULT in scope, scope.get(_RESULT)


def replace_compiled_function(wrapper: FrameType, function: Any) -> None:
    """Make the wrapper around a compiled function call another function from now on."""
    scope = wrapper.f_locals
    scope[_FUNCTION] = function
    if sys.version_info < (3, 13):  # there the variables of a frame are a copy
        ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(wrapper), ctypes.c_int(0))
