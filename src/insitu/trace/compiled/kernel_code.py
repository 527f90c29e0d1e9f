"""Reads the program that inductor generates for a graph: which kernels it runs, on which buffers.

cpp_fused_relu_0 = async_compile.cpp_pybinding(['const float*', 'float*'], ...)

def call(args):
    arg0_1, = args
    buf0 = empty_strided_cpu((2, 3), (3, 1), torch.float32)
    cpp_fused_relu_0(arg0_1, buf0)
    return (buf0, )
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from insitu.trace.compiled.expression import dotted

# What the program calls besides kernels: it makes buffers, checks inputs and chooses a device.
_NOT_KERNELS = ("assert_", "del", "empty_strided", "args.clear", "torch.cuda", "run_intermediate_hooks", "AsyncCompile")
_VIEW, _ALLOCATE = "reinterpret_tensor", "empty_strided"
_LIBRARIES = ("extern_kernels.", "aten.", "torch.ops.", "inductor_ops.", "mkldnn.", "_quantized.")
_SIGNATURE = re.compile(r"def (?P<name>triton_\w+)\((?P<arguments>[^)]*)\)")


@dataclass(frozen=True, slots=True)
class Buffer:
    """A buffer that the program allocates: its shape as it is written, and its dtype as torch spells it."""

    shape: str
    dtype: str


@dataclass(frozen=True, slots=True)
class KernelCall:
    """A call of a kernel: its name, the buffer at each position (None for a number), and what it writes.

    `written` are positions; `out` is the buffer that it is given as `out`, or that it returns. `overwritten` are
    buffers whose memory it writes to under a new name: it may read them before.
    """

    name: str
    buffers: tuple[str | None, ...]
    written: tuple[int, ...] = ()
    out: str | None = None
    overwritten: tuple[str, ...] = ()

    @property
    def is_fused(self) -> bool:
        """Whether inductor generated it; the others are those of libraries."""
        return not self.name.startswith(_LIBRARIES)

    @property
    def outputs(self) -> tuple[tuple[int | None, str], ...]:
        """The positions and names of the buffers that it writes; None for `out`."""
        found: list[tuple[int | None, str]] = []
        for position in self.written:
            name = self.buffers[position] if position < len(self.buffers) else None
            if name is not None:
                found.append((position, name))
        if self.out is not None:
            found.append((None, self.out))
        return tuple(found)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The buffers that it reads and does not write."""
        written = {name for _, name in self.outputs}
        return tuple([name for name in self.buffers if name is not None and name not in written])


@dataclass(slots=True)
class KernelCode:
    """The calls of kernels in the order in which they run, the buffers, and what the program returns, by position."""

    calls: list[KernelCall] = field(default_factory=list)
    allocated: dict[str, Buffer] = field(default_factory=dict)
    returned: tuple[str | None, ...] = ()


def read_kernels(source: str) -> KernelCode | None:
    """The kernels of a program; None if it is not one that inductor generates in Python.

    >>> program = '''
    ... cpp_fused_relu_0 = async_compile.cpp_pybinding(['const float*', 'float*'], "")
    ... def call(args):
    ...     arg0_1, = args
    ...     buf0 = empty_strided_cpu((2, 3), (3, 1), torch.float32)
    ...     cpp_fused_relu_0(arg0_1, buf0)
    ...     return (buf0, )
    ... '''
    >>> code = read_kernels(program)
    >>> code.calls[0].name, code.calls[0].inputs, code.calls[0].outputs, code.returned
    ('cpp_fused_relu_0', ('arg0_1',), ((1, 'buf0'),), ('buf0',))
    """
    try:
        module = ast.parse(source)
    except (SyntaxError, ValueError):
        return None
    functions = [item for item in ast.walk(module) if isinstance(item, ast.FunctionDef) and item.name == "call"]
    if not functions:
        return None
    reader = _ProgramReader(dict(_written_positions(module)))
    reader.read(functions[0].body)
    return reader.code


def _written_positions(module: ast.Module) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The positions that each generated kernel writes to, by its name."""
    for statement in module.body:
        if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Call):
            continue
        target, call = statement.targets[0], statement.value
        if not isinstance(target, ast.Name) or not call.args:
            continue
        first = call.args[0]
        if isinstance(first, ast.List):
            yield target.id, _mutable_pointers(first)
        elif isinstance(first, ast.Constant) and len(call.args) > 1:
            yield target.id, _triton_outputs(call.args[1])


def _mutable_pointers(types: ast.List) -> tuple[int, ...]:
    texts = [item.value if isinstance(item, ast.Constant) else "" for item in types.elts]
    return tuple([at for at, text in enumerate(map(str, texts)) if "*" in text and not text.startswith("const")])


def _triton_outputs(source: ast.expr) -> tuple[int, ...]:
    found = _SIGNATURE.search(source.value) if isinstance(source, ast.Constant) and type(source.value) is str else None
    if found is None:
        return ()
    names = [name.strip() for name in found["arguments"].split(",")]
    return tuple([at for at, name in enumerate(names) if name.startswith(("out_ptr", "in_out_ptr"))])


def _deleted(statements: list[ast.stmt]) -> set[str]:
    """The names that a statement deletes."""
    targets = [target for item in statements if isinstance(item, ast.Delete) for target in item.targets]
    return {target.id for target in targets if isinstance(target, ast.Name)}


class _ProgramReader:
    """Goes through the statements of a program."""

    def __init__(self, written: dict[str, tuple[int, ...]]) -> None:
        self.code = KernelCode()
        self._written = written
        self._aliases: dict[str, str] = {}
        self._earlier: dict[str, str] = {}  # the buffer whose memory another one takes over
        self._filled: set[str] = set()  # the buffers to which a kernel has written

    def read(self, statements: list[ast.stmt]) -> None:
        """Read a block of statements."""
        for at, statement in enumerate(statements):
            if isinstance(statement, ast.With):
                self.read(statement.body)
            elif isinstance(statement, ast.Return):
                self._return(statement.value)
            elif isinstance(statement, ast.Assign):
                self._assign(statement.targets[0], statement.value, _deleted(statements[at + 1 : at + 2]))
            elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
                self._kernel(statement.value, None)

    def _return(self, value: ast.expr | None) -> None:
        items = value.elts if isinstance(value, (ast.Tuple, ast.List)) else []
        self.code.returned = tuple(map(self._buffer, items))

    def _assign(self, target: ast.expr, value: ast.expr, deleted: set[str]) -> None:
        if not isinstance(target, ast.Name):
            return
        source = self._buffer(value)
        if source is not None and deleted:
            self._reuse(target.id, source)
        elif source is not None:
            self._aliases[target.id] = source
        elif isinstance(value, ast.Call):
            self._call_result(target.id, value)

    def _reuse(self, name: str, source: str) -> None:
        """A buffer takes over the memory of one that is not needed any more."""
        self._earlier[name] = source
        if source in self.code.allocated:
            self.code.allocated[name] = self.code.allocated[source]

    def _call_result(self, name: str, call: ast.Call) -> None:
        function = dotted(call.func) or ""
        if function.startswith(_ALLOCATE):
            shape, _, dtype, *_ = [*map(ast.unparse, call.args), "", "", ""]
            self.code.allocated[name] = Buffer(shape, dtype.removeprefix("torch."))
        else:
            self._kernel(call, name)

    def _kernel(self, call: ast.Call, result: str | None) -> None:
        name = dotted(call.func)
        if name is None or name.startswith(_NOT_KERNELS):
            return
        name = name.removesuffix(".run")
        outs = [self._buffer(item.value) for item in call.keywords if item.arg == "out"]
        out = outs[0] if outs else result
        buffers = tuple(map(self._buffer, call.args))
        found = KernelCall(name, buffers, self._written.get(name, ()), out)
        earlier = [self._content_before(buffer) for _, buffer in found.outputs if buffer in self._earlier]
        self._filled.update(buffer for _, buffer in found.outputs)
        self.code.calls.append(replace(found, overwritten=tuple(earlier)))

    def _content_before(self, buffer: str) -> str:
        """The buffer whose content is in this memory before a kernel writes to it."""
        earlier = self._earlier[buffer]
        while earlier not in self._filled and earlier in self._earlier:
            earlier = self._earlier[earlier]
        return earlier

    def _buffer(self, expression: ast.expr) -> str | None:
        """The buffer that an expression is, or is a view of; None for a number or a call."""
        if isinstance(expression, ast.Name):
            return self._aliases.get(expression.id, expression.id)
        if isinstance(expression, ast.Subscript):
            return self._part(expression)
        if isinstance(expression, ast.Call) and dotted(expression.func) == _VIEW and expression.args:
            return self._buffer(expression.args[0])
        return None

    def _part(self, expression: ast.Subscript) -> str | None:
        """One of several results of a kernel, as a name of its own: `buf0[1]`."""
        owner = self._buffer(expression.value)
        if owner is None or not isinstance(expression.slice, ast.Constant):
            return None
        return f"{owner}[{expression.slice.value!r}]"
