"""The private parts of the compiler that insitu uses to see inside compiled regions.

Dynamo, AOTAutograd and inductor are imported with the first compilation. So these parts are looked up when their module
is imported, and not before. `GRAPH_PARTS` says what each is needed for, which torch is known to have it, and what is
off without it. A missing part is reported once, and everything else goes on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple

import torch

from insitu.errors import tell

OLDEST = "2.6"  # the oldest torch that insitu supports; the part may be older

NO_GRAPHS = "what is inside a compiled region is not shown"
NO_ATEN_GRAPHS = "graphs of compiled regions show no modules"


@dataclass(frozen=True, slots=True)
class GraphPart:
    """A function of the compiler that is replaced while a session runs: its module, the class that has it, its name."""

    module: str
    owner: str
    name: str
    why: str
    without: str
    since: str = OLDEST

    @property
    def full_name(self) -> str:
        """The name with all before it."""
        return ".".join(filter(None, (self.module, self.owner, self.name)))


BACKEND_CALL = GraphPart(
    "torch._dynamo.output_graph",
    "OutputGraph",
    "call_user_compiler",
    "receives each graph that dynamo captured, with the reason why it ends",
    NO_GRAPHS,
)
GLOBAL_INSTALLER = GraphPart(
    "torch._dynamo.output_graph",
    "OutputGraph",
    "install_global_unsafe",
    "receives the function that runs a graph, and the dictionary from which the compiled code takes it",
    NO_GRAPHS,
)
# `lazy_format_graph_code` is called with each graph of ATen operators, whether it is logged or not. The last two
# modules are those of torch up to 2.8; a module that torch does not have is never imported, and nothing is reported.
ATEN_PRINTERS = tuple(
    GraphPart(
        f"torch._functorch._aot_autograd.{module}",
        "",
        "lazy_format_graph_code",
        "receives each graph of ATen operators, forward and backward",
        NO_ATEN_GRAPHS,
        since,
    )
    for module, since in (
        ("graph_compile", "2.9"),
        ("graph_capture", "2.9"),
        ("jit_compile_runtime_wrappers", OLDEST),
        ("dispatch_and_compile_graph", OLDEST),
    )
)
INDUCTOR_LOADER = GraphPart(
    "torch._inductor.output_code",
    "CompiledFxGraph",
    "post_compile",
    "receives each graph that inductor compiled or took from its cache",
    NO_GRAPHS,
    "2.6",
)
INDUCTOR_CALL = GraphPart(
    "torch._inductor.output_code", "CompiledFxGraph", "__call__", "runs a graph of inductor", NO_GRAPHS, "2.6"
)
GRAPH_PARTS = (BACKEND_CALL, GLOBAL_INSTALLER, *ATEN_PRINTERS, INDUCTOR_LOADER, INDUCTOR_CALL)
COMPILED_FUNCTION = "__compiled_fn"  # the beginning of the names under which compiled code finds its graphs


_told: set[str] = set()


def graph_part_owner(part: GraphPart, module: ModuleType) -> Any:
    """The module or class that has a part; None, after a warning, if the part is missing."""
    owner = getattr(module, part.owner, None) if part.owner else module
    if getattr(owner, part.name, None) is not None:
        return owner
    if part.without not in _told:
        _told.add(part.without)
        tell(f"torch {torch.__version__} does not have {part.full_name}, so {part.without}")
    return None


def current_compilation() -> str:
    """The number of what is compiled now, `0/1`; empty if nothing is."""
    try:
        found = import_module("torch._guards").CompileContext.current_compile_id()
    except (ImportError, AttributeError):
        return ""
    return "" if found is None else str(found)


def recompilation_reason(compilation: str) -> str:
    """Why a function was compiled again; empty if it was not, or if torch does not say it (before 2.7)."""
    metrics: list[Any] = getattr(import_module("torch._dynamo.utils"), "get_compilation_metrics", list)()
    found = [getattr(item, "recompile_reason", None) for item in metrics if str(item.compile_id) == compilation]
    return next((str(reason) for reason in reversed(found) if reason), "")


class BreakReason(NamedTuple):
    """Why a graph ends before its function does, and where."""

    reason: str
    file: str
    line: int
    function: str
    text: str


def graph_break(graph: Any) -> BreakReason | None:
    """The graph break at the end of a graph of dynamo; None if the function ends there."""
    found = getattr(graph, "compile_subgraph_reason", None)
    if found is None or not getattr(found, "graph_break", False):
        return None
    places = list(getattr(found, "user_stack", ()))
    if not places:
        return BreakReason(str(found.reason), "", 0, "", "")
    last = places[-1]
    return BreakReason(str(found.reason), last.filename, last.lineno or 0, last.name, last.line or "")


def graph_text(graph: Any) -> str:
    """A graph as torch prints it."""
    return str(graph.print_readable(print_output=False, include_stride=True, include_device=True))


def inductor_text(compiled: Any) -> str:
    """The graph of a compilation of inductor as torch prints it; empty before torch 2.8."""
    return getattr(compiled, "inductor_post_grad_graph_str", None) or ""


def inductor_program(compiled: Any) -> str:
    """The program that inductor generated."""
    return getattr(compiled, "source_code", None) or ""


def inductor_globals(compiled: Any) -> dict[str, Any] | None:
    """The names that the program of inductor uses, which are its kernels; None where they are out of reach."""
    runner = getattr(compiled, "compiled_fn_runner", None)
    function = getattr(type(runner), "call", None) if runner is not None else None
    found = getattr(function or getattr(compiled, "current_callable", None), "__globals__", None)
    if isinstance(found, dict) and "extern_kernels" in found:
        return found
    return None


def is_backward_graph(compiled: Any, arguments: dict[str, Any]) -> bool:
    """Whether a compilation of inductor computes gradients."""
    settings = arguments.get("graph_kwargs") or getattr(compiled, "fx_kwargs", None) or {}
    return bool(settings.get("is_backward", False))


def module_stacks(graph: Any) -> Iterator[tuple[str, str, str]]:
    """The names of calls in a graph, the expression for the module around each as dynamo writes it, and its class."""
    for node in graph.graph.nodes:
        stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack")
        if stack:
            path, kind = list(stack.values())[-1]
            yield node.name, str(path), getattr(kind, "__name__", str(kind).rpartition(".")[2])
