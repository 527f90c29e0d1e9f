"""A graph that torch.compile captured, with the kernels that compute it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

Direction = Literal["forward", "backward"]
BEFORE_SESSION = "compiled before this session: its graph is not known"


@dataclass(frozen=True, slots=True)
class GraphLine:
    """A line of the program, as the graph remembers it."""

    file: str
    line: int
    function: str
    text: str


@dataclass(frozen=True, slots=True)
class GraphInput:
    """An input of a graph: its name, and its facts as torch prints them, `f32[5, 16][16, 1]cpu`."""

    name: str
    facts: str


@dataclass(frozen=True, slots=True)
class GraphNode:
    """A call in a graph: the name of its result, the expression, the facts of the result, and where it comes from.

    `module` is the path of the module in which the call was captured, and `module_type` its class; both are empty where
    the graph does not say it.
    """

    name: str
    code: str
    facts: str = ""
    source: GraphLine | None = None
    module: str = ""
    module_type: str = ""


@dataclass(frozen=True, slots=True)
class KernelOutput:
    """An output of a kernel: the position of the argument that it is written to, and the call that it is the result of.

    The position is None for the argument `out`, or for what the kernel returns.
    """

    position: int | None
    node: str


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel of a graph in the order in which they run, and the calls of the graph that it computes.

    `nodes` is empty where that is not known. `is_fused` is False for a kernel of a library, such as a matrix product.
    """

    name: str
    nodes: tuple[str, ...] = ()
    outputs: tuple[KernelOutput, ...] = ()
    is_fused: bool = True


@dataclass(frozen=True, slots=True)
class GraphBreak:
    """Why a graph ends before the function does, and at which line."""

    reason: str
    source: GraphLine | None = None


@dataclass(frozen=True, slots=True)
class CompiledGraph:
    """A graph that torch.compile captured.

    `name` is the name of its calls in the trace, `inductor.graph_0`; `compile_id` is torch's number for it, `0/1`, or
    empty if it was compiled before the session; `direction` says whether it computes results or gradients.
    `recompiled` is the reason why the function was compiled again, `ends_with` the graph break at its end.
    """

    name: str
    backend: str
    direction: Direction = "forward"
    compile_id: str = ""
    inputs: tuple[GraphInput, ...] = ()
    nodes: tuple[GraphNode, ...] = ()
    outputs: tuple[str, ...] = ()
    kernels: tuple[Kernel, ...] = ()
    recompiled: str = ""
    ends_with: GraphBreak | None = None

    def node(self, name: str) -> GraphNode | None:
        """The call with this name; None for an input."""
        return next((node for node in self.nodes if node.name == name), None)

    def sources(self, kernel: Kernel) -> tuple[GraphLine, ...]:
        """The lines of the program that a kernel computes, in the order of the graph."""
        wanted = set(kernel.nodes)
        found = [node.source for node in self.nodes if node.name in wanted and node.source is not None]
        return tuple(dict.fromkeys(found))

    def with_kernels(self, kernels: Iterable[Kernel]) -> CompiledGraph:
        """The same graph with these kernels."""
        return replace(self, kernels=tuple(kernels))

    def plain(self) -> dict[str, Any]:
        """The same as plain data, for files."""
        return asdict(self)


def graph_of(plain: Any) -> CompiledGraph | None:
    """The inverse of `plain()`; None for any other data, which a file may hold.

    >>> graph = CompiledGraph("inductor.graph_0", "inductor", nodes=(GraphNode("relu", "torch.ops.aten.relu(x)"),))
    >>> graph_of(graph.plain()) == graph, graph_of({"name": 3})
    (True, None)
    """
    try:
        fields = dict(plain)
        fields["inputs"] = tuple([GraphInput(**item) for item in fields["inputs"]])
        fields["nodes"] = tuple([_node(item) for item in fields["nodes"]])
        fields["outputs"] = tuple(fields["outputs"])
        fields["kernels"] = tuple([_kernel(item) for item in fields["kernels"]])
        fields["ends_with"] = _break(fields["ends_with"])
        return CompiledGraph(**fields)
    except (TypeError, KeyError, ValueError, AttributeError):
        return None


def graphs_of(plain: Any) -> dict[str, CompiledGraph] | None:
    """All graphs of a trace by their names; None if it does not say what was compiled."""
    if not isinstance(plain, (list, tuple)):
        return None
    found = [graph for graph in map(graph_of, plain) if graph is not None]
    return {graph.name: graph for graph in found}


def _node(plain: dict[str, Any]) -> GraphNode:
    return GraphNode(**{**plain, "source": _source(plain["source"])})


def _source(plain: dict[str, Any] | None) -> GraphLine | None:
    if plain is None:
        return None
    return GraphLine(**plain)


def _kernel(plain: dict[str, Any]) -> Kernel:
    outputs = tuple([KernelOutput(**item) for item in plain["outputs"]])
    return Kernel(**{**plain, "nodes": tuple(plain["nodes"]), "outputs": outputs})


def _break(plain: dict[str, Any] | None) -> GraphBreak | None:
    if plain is None:
        return None
    return GraphBreak(plain["reason"], _source(plain["source"]))
