"""What the tests compare a trace with: the bits of a result, and what torch's own modes see."""

from __future__ import annotations

import dataclasses
import gc
import inspect
import sys
import traceback
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses import FakeTensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from insitu.trace.event import Call
from insitu.trace.trace import Trace


class BareMode(TorchDispatchMode):
    """Notes the name of each operator, and does nothing else."""

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()
        self.ops: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not is_phantom(func, types):
            self.ops.append(operator_name(func))
        return func(*args, **(kwargs or {}))


def is_phantom(func: Any, types: Any) -> bool:
    """Whether autograd asks for a copy of a plain tensor, which it does only where a dispatch mode is active."""
    plain = [kind for kind in types if kind.__torch_dispatch__ is Tensor.__torch_dispatch__]
    return func is torch.ops.aten.detach.default and bool(plain)


class StackMode(TorchFunctionMode):
    """Notes where each torch function is called, by Python's own means."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, list[traceback.FrameSummary]]] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        frames = stack(sys._getframe(1))
        self.seen.append((getattr(func, "__name__", "?"), frames))
        return func(*args, **(kwargs or {}))


def stack(frame: FrameType | None) -> list[traceback.FrameSummary]:
    """The stack as `traceback` shows it, outermost first, and with the columns that it knows only of exceptions."""
    shown = []
    while frame is not None:
        where = inspect.getframeinfo(frame, context=1).positions
        columns = {"end_lineno": where.end_lineno, "colno": where.col_offset, "end_colno": where.end_col_offset}
        if not hidden(frame.f_code.co_filename):
            code = frame.f_code
            shown.append(traceback.FrameSummary(code.co_filename, frame.f_lineno, code.co_name, **columns))
        frame = frame.f_back
    return shown[::-1]


def hidden(filename: str) -> bool:
    """Whether a file is torch's, the tool's own, or frozen into the interpreter."""
    return "/site-packages/torch/" in filename or "/src/insitu/" in filename or filename.startswith("<frozen")


def operator_name(func: Any) -> str:
    """The name of an operator as a trace has it."""
    if isinstance(func, torch._ops.OpOverload):
        return str(func).removesuffix(".default")
    return f"higher_order.{func.__name__}"


def ops(trace: Trace) -> list[str]:
    """The operators of a trace, in order."""
    return [call.name for call in trace.find(kind="aten")]


def troubles(trace: Trace) -> list[str]:
    """What the tool says went wrong in itself."""
    return [mark.text for mark in trace.marks if mark.kind == "trouble"]


def lines(trace: Trace, **asked: Any) -> list[int]:
    """The source lines of the calls that fit."""
    return [call.site.line for call in trace.find(**asked) if call.site is not None]


def tree(trace: Trace) -> list[Any]:
    """The names of the calls as nested lists: [name, [child, ...], ...]."""

    def node(call: Any) -> Any:
        below = [node(child) for child in trace.children(call) if isinstance(child, Call)]
        name = call.path or call.name if call.kind == "module" else call.name
        return [name, *below] if below else name

    return [node(call) for call in trace.roots if isinstance(call, Call)]


def bits(value: Any) -> Any:
    """Anything as plain data that is equal only if every bit is."""
    if isinstance(value, Tensor):
        return tensor_bits(value)
    if isinstance(value, dict):
        return type(value).__name__, {str(key): bits(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [bits(item) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return type(value).__name__, {item.name: bits(getattr(value, item.name)) for item in dataclasses.fields(value)}
    if isinstance(value, torch.Size):
        return tuple(map(str, value))
    return value if isinstance(value, (int, float, str, bool, type(None), bytes)) else type(value).__name__


def tensor_bits(tensor: Tensor) -> Any:
    """The facts of a tensor and the bytes of its elements."""
    facts = (type(tensor).__name__, str(tensor.dtype), str(tensor.device), tensor.requires_grad, str(tensor.layout))
    inner = getattr(tensor, "inner", None)
    if isinstance(inner, Tensor):
        return *facts, tensor_bits(inner)
    if hasattr(tensor, "to_local"):
        tensor = tensor.to_local()
    tensor = tensor.detach()
    if tensor.is_quantized:
        return *facts, tensor_bits(tensor.int_repr()), tensor_bits(tensor.dequantize())
    if tensor.is_nested:
        return *facts, [tensor_bits(part) for part in tensor.unbind()]
    if tensor.layout is torch.sparse_coo:
        return *facts, tuple(tensor.shape), tensor_bits(tensor._indices()), tensor_bits(tensor._values())
    if tensor.layout is torch.sparse_csr:
        parts = (tensor.crow_indices(), tensor.col_indices(), tensor.values())
        return *facts, tuple(tensor.shape), [tensor_bits(part) for part in parts]
    # Where there is one element, its stride leads nowhere: under any dispatch mode torch may give a gradient another.
    strides = [stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size != 1]
    facts = (*facts, tuple(tensor.shape), strides)
    if tensor.device.type == "meta" or isinstance(tensor, FakeTensor):
        return facts
    flat = tensor.resolve_conj().resolve_neg().as_subclass(Tensor).contiguous().reshape(-1)
    if flat.dtype is torch.bool or flat.numel() == 0:
        return *facts, flat.tolist()
    return *facts, zlib.crc32(flat.view(torch.uint8).numpy().tobytes())


def gradients(module: nn.Module) -> dict[str, Tensor | None]:
    """The gradients of a module by name."""
    return {name: parameter.grad for name, parameter in module.named_parameters()}


def left_over() -> dict[str, Any]:
    """Everything global that a session may touch."""
    eval_frame = sys.modules.get("torch._dynamo.eval_frame")
    return {
        "function modes": torch._C._len_torch_function_stack(),
        "dispatch modes": torch._C._len_torch_dispatch_stack(),
        "_call_impl": nn.Module._call_impl,
        "__call__": nn.Module.__call__,
        "has_torch_function": torch.overrides.has_torch_function,
        "collector": (gc.get_threshold(), gc.isenabled()),
        "meta_path": list(sys.meta_path),
        "dynamo": getattr(eval_frame, "_maybe_set_eval_frame", None),
        "trace": (sys.gettrace(), sys.getprofile()),
        "grad": (torch.is_grad_enabled(), torch.is_inference_mode_enabled()),
    }


@contextmanager
def nothing_left() -> Iterator[None]:
    """What is global is afterwards as it was before, however the block ends."""

    before = left_over()
    try:
        yield
    finally:
        after = left_over()
        clean_up(before)
        changed = {name: (before[name], after[name]) for name in before if before[name] != after[name]}
        assert not changed, f"left as it was not before: {changed}"


def clean_up(before: dict[str, Any]) -> None:
    """Take away what a session has left, so that one failure is not a hundred."""
    while torch._C._len_torch_function_stack() > before["function modes"]:
        torch._C._pop_torch_function_stack()
    while torch._C._len_torch_dispatch_stack() > before["dispatch modes"]:
        torch._C._pop_torch_dispatch_stack(None)
    nn.Module._call_impl = before["_call_impl"]
    gc.set_threshold(*before["collector"][0])
