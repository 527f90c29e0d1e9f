"""What the compiler said about its graphs, as it said it; read when somebody asks for the graphs of a trace."""

from __future__ import annotations

import linecache
import re
import sys
import weakref
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from insitu.capture.torch_compiler_internals import inductor_program, inductor_text, recompilation_reason
from insitu.capture.torch_internals import PUBLIC_MODULES
from insitu.trace.compiled.compiled_graph import CompiledGraph, Direction, GraphBreak, GraphLine, GraphNode
from insitu.trace.compiled.fusion import kernels_of
from insitu.trace.compiled.graph_text import GraphText, read_graph
from insitu.trace.compiled.kernel_code import read_kernels
from insitu.trace.compiled.source_lines import with_lines_of_program

_SCOPE = re.compile(r"^(L|G)\[['\"][^'\"]*['\"]\]")
_ITEM = re.compile(r"(\._modules)?\[['\"]?([^'\"\]]+)['\"]?\]")


@dataclass(frozen=True, slots=True)
class ModuleName:
    """The path and the class of a module."""

    path: str
    type: str


@dataclass(slots=True)
class GraphPrint:
    """A graph as torch printed it, and the modules of its calls by their names."""

    text: str
    modules: dict[str, ModuleName] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Compilation:
    """One compilation of dynamo: the graph that it captured, the ATen graphs of it, and why it ended and was needed."""

    number: str
    captured: GraphPrint
    backend: str
    ends_with: GraphBreak | None = None
    recompiled: str = ""
    aten: dict[Direction, GraphPrint] = field(default_factory=dict)
    is_inductor: bool = False
    graph: Any = None  # the graph of dynamo itself, for a backend that runs no ATen operators

    def texts(self) -> list[str]:
        """The graphs that were captured in this process."""
        return [self.captured.text, *(aten.text for aten in self.aten.values())]


@dataclass(frozen=True, slots=True, eq=False)
class GraphSource:
    """A graph that can run: of which compilation it is, and what inductor generated for it, if inductor did."""

    direction: Direction
    compilation: Compilation | None = None
    text: str = ""
    program: str = ""

    @property
    def backend(self) -> str:
        """The name of the backend."""
        if self.compilation is not None:
            return self.compilation.backend
        return "inductor"

    def graph(self, name: str) -> CompiledGraph:
        """The graph as plain data."""
        compilation = self.compilation
        content = read_graph(self._print.text)
        graph = CompiledGraph(
            name=name,
            backend=self.backend,
            direction=self.direction,
            inputs=content.inputs,
            nodes=tuple(self._with_places(content.nodes)),
            outputs=content.outputs,
        )
        code = read_kernels(self.program) if self.program else None
        if code is not None:
            graph = graph.with_kernels(kernels_of(content, code))
        if compilation is None:
            return graph
        is_first = self.direction == "forward"
        return replace(
            graph,
            compile_id=compilation.number,
            recompiled=compilation.recompiled if is_first else "",
            ends_with=compilation.ends_with if is_first else None,
        )

    def backward(self) -> GraphSource | None:
        """The graph of the gradients, if it is seen only here; inductor reports its own when it runs."""
        compilation = self.compilation
        if compilation is None or compilation.is_inductor or "backward" not in compilation.aten:
            return None
        return GraphSource("backward", compilation)

    def learn_reason(self) -> None:
        """Ask why the function was compiled again; torch knows it once the compilation has ended."""
        compilation = self.compilation
        if compilation is not None and not compilation.recompiled:
            compilation.recompiled = recompilation_reason(compilation.number)

    def content(self) -> GraphText:
        """The inputs, calls and outputs of the graph."""
        return read_graph(self._print.text)

    @property
    def _print(self) -> GraphPrint:
        compilation = self.compilation
        if self.text:
            return GraphPrint(self.text)
        if compilation is None:
            return GraphPrint("")
        found = compilation.aten.get(self.direction)
        if found is not None:
            return found
        return compilation.captured if self.direction == "forward" else GraphPrint("")

    def _with_places(self, nodes: Iterable[GraphNode]) -> list[GraphNode]:
        """The calls with their modules, and with lines of this program even if the graph came from a cache."""
        if self.compilation is None:
            return [node if _is_loaded(node.source) else replace(node, source=None) for node in nodes]
        captured = [node for text in self.compilation.texts() for node in read_graph(text).nodes]
        return self._with_modules(with_lines_of_program(nodes, captured))

    def _with_modules(self, nodes: Iterable[GraphNode]) -> list[GraphNode]:
        assert self.compilation is not None
        aten = self.compilation.aten.get(self.direction)
        by_name = {**self._print.modules, **(aten.modules if aten is not None else {})}
        by_line = _modules_by_line(self.compilation.captured)
        found = []
        for node in nodes:
            module = by_name.get(node.name) or by_line.get(node.source)
            found.append(replace(node, module=module.path, module_type=module.type) if module is not None else node)
        return found


def _is_loaded(source: GraphLine | None) -> bool:
    """Whether a line is one of a module of this process, and has not changed: a cache may have it from elsewhere."""
    if source is None:
        return True
    files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    return source.file in files and linecache.getline(source.file, source.line).strip() == source.text


def _modules_by_line(captured: GraphPrint) -> dict[GraphLine | None, ModuleName]:
    """The modules of the lines on which all calls are those of one module."""
    found: dict[GraphLine, set[ModuleName | None]] = {}
    for node in read_graph(captured.text).nodes:
        if node.source is not None:
            found.setdefault(node.source, set()).add(captured.modules.get(node.name))
    single = {source: modules.pop() for source, modules in found.items() if len(modules) == 1}
    return {source: module for source, module in single.items() if module is not None}


def module_path(expression: str) -> str:
    """The path of a module from the expression by which dynamo knows it.

    >>> module_path("L['self'].h[0].attn"), module_path("L['self']._modules['h']._modules['0']"), module_path("L['m']")
    ('h.0.attn', 'h.0', '')
    """
    path = _SCOPE.sub("", expression)
    return _ITEM.sub(r".\2", path).strip(".")


def public_names(text: str) -> str:
    """A graph with the names of functions that users know: `torch.nn.functional.linear` for `torch._C._nn.linear`."""
    for private, (public, prefix) in PUBLIC_MODULES.items():
        text = text.replace(f"= {private}.{prefix}", f"= {public}.")
    return text


class GraphSources:
    """The graphs that inductor compiled, by the object that runs each; those that are gone are forgotten."""

    def __init__(self) -> None:
        self._found: dict[int, tuple[weakref.ref[Any], GraphSource]] = {}

    def add(self, compiled: Any, compilation: Compilation | None, direction: Direction) -> GraphSource:
        """Remember what is known of a graph of inductor."""
        source = GraphSource(direction, compilation, inductor_text(compiled), inductor_program(compiled))
        key = id(compiled)
        self._found[key] = (weakref.ref(compiled, lambda _: self._found.pop(key, None)), source)
        return source

    def get(self, compiled: Any) -> GraphSource | None:
        """What is known of a graph; None if it was compiled while no session ran."""
        known = self._found.get(id(compiled))
        if known is None or known[0]() is not compiled:
            return None
        return known[1]
