"""Which calls of a graph each kernel computes.

The program of inductor names buffers and the graph names results. Inputs have the same names in both, outputs are at
the same positions, and a kernel of a library is one call of the graph. From there the calls of a fused kernel follow:
all between the results that it writes and the buffers that it reads. Where that is not certain, nothing is said.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import prod

from insitu.trace.compiled.compiled_graph import GraphNode, Kernel, KernelOutput
from insitu.trace.compiled.expression import VIEWS, graph_call, tensor_facts
from insitu.trace.compiled.graph_text import GraphText
from insitu.trace.compiled.kernel_code import Buffer, KernelCall, KernelCode
from insitu.trace.dtype import dtype_named

# Kernels of libraries under another name than the operator.
_NAMES = {"bias_addmm": "addmm", "randint": "inductor_seeds"}


def kernels_of(graph: GraphText, code: KernelCode) -> tuple[Kernel, ...]:
    """The kernels of a graph in the order in which they run."""
    return tuple(_Fusion(graph, code).kernels())


class _Fusion:
    """The search for the calls of each kernel."""

    def __init__(self, graph: GraphText, code: KernelCode) -> None:
        self._graph, self._code = graph, code
        self._nodes = {node.name: node for node in graph.nodes}
        self._facts = {item.name: item.facts for item in graph.nodes}
        self._uses = {node.name: graph_call(node.code).references for node in graph.nodes}
        # Which result of the graph is in each buffer.
        self._content: dict[str, str] = {item.name: item.name for item in graph.inputs}
        self._library: dict[int, str] = {}
        self._match_outputs()
        self._match_library_calls()
        self._match_between()
        self._reads = [self._read_by(call) for call in code.calls]

    def kernels(self) -> Iterator[Kernel]:
        """The kernels; one of which nothing is certain has no calls."""
        for at, call in enumerate(self._code.calls):
            nodes = self._computed(at, call)
            outputs = [KernelOutput(place, self._content[name]) for place, name in call.outputs if self._is_call(name)]
            if nodes or call.is_fused:
                yield Kernel(call.name, nodes, tuple(outputs), call.is_fused)

    def _is_call(self, buffer: str) -> bool:
        return self._content.get(buffer) in self._nodes

    def _match_outputs(self) -> None:
        """What the program returns is what the graph returns, at the same positions."""
        if len(self._code.returned) != len(self._graph.outputs):
            return
        for buffer, name in zip(self._code.returned, self._graph.outputs, strict=True):
            if buffer is not None and name in self._nodes:
                self._content.setdefault(buffer, self._root(name))

    def _root(self, name: str) -> str:
        """The call whose result a view reads."""
        while name in self._nodes and graph_call(self._nodes[name].code).operator in VIEWS:
            name = self._uses[name][0]
        return name

    def _match_library_calls(self) -> None:
        """A kernel of a library is the next call of that operator that fits; its inputs are then known as well."""
        used: set[str] = set()
        for at, call in enumerate(self._code.calls):
            if call.is_fused:
                continue
            node = next((node for node in self._graph.nodes if node.name not in used and self._fits(call, node)), None)
            if node is None:
                continue
            used.add(node.name)
            self._library[at] = node.name
            if call.out is not None:
                self._content.setdefault(call.out, node.name)
            self._learn_inputs(call, node)

    def _fits(self, call: KernelCall, node: GraphNode) -> bool:
        """Whether a kernel of a library can be a call of the graph."""
        if graph_call(node.code).operator != _library_operator(call.name):
            return False
        if call.out is not None and self._content.get(call.out, node.name) != node.name:
            return False
        return not any(
            buffer in self._content and self._content[buffer] != self._root(name)
            for buffer, name in self._operands(call, node)
        )

    def _operands(self, call: KernelCall, node: GraphNode) -> Iterator[tuple[str, str]]:
        """The buffers that a kernel of a library reads, beside the operands of the call, if they are as many."""
        buffers = [buffer for buffer in call.buffers if buffer is not None]
        names = self._uses[node.name]
        if len(buffers) == len(names):
            yield from zip(buffers, names, strict=True)

    def _learn_inputs(self, call: KernelCall, node: GraphNode) -> None:
        for buffer, name in self._operands(call, node):
            self._content.setdefault(buffer, self._root(name))

    def _match_between(self) -> None:
        """Find what is in a buffer that only fused kernels use: the one call that fits, from the last kernel back."""
        for call in reversed(self._code.calls):
            results = self._results(call)
            if not call.is_fused or not results:
                continue
            unknown = [name for name in call.inputs if name not in self._content]
            if len(unknown) == 1:
                self._match_buffer(call, results, unknown[0])
            elif not unknown:
                self._match_overwritten(call, results)

    def _match_overwritten(self, call: KernelCall, results: list[str]) -> None:
        """A kernel that lacks an input reads one of the buffers that it overwrites."""
        for buffer in call.overwritten:
            if self._is_whole(call, results, self._known(call)):
                return
            if buffer not in self._content:
                self._match_buffer(call, results, buffer)

    def _match_buffer(self, reader: KernelCall, results: list[str], buffer: str) -> None:
        writer = next((call for call in self._code.calls if buffer in dict(call.outputs).values()), None)
        allocated = self._code.allocated.get(buffer)
        if writer is None or allocated is None:
            return
        fitting = [
            name
            for name in self._between(results, self._known(reader))
            if name not in results
            and self._has_size(name, allocated)
            and self._is_whole(reader, results, {*self._known(reader), name})
            and self._is_possible(writer, [name])
        ]
        roots = {self._root(name) for name in fitting}
        if len(roots) == 1:
            self._content[buffer] = roots.pop()

    def _is_whole(self, call: KernelCall, results: Sequence[str], known: set[str]) -> bool:
        """Whether a kernel that writes these results, and can read what is known, needs its inputs and no others."""
        inside = self._between(results, known)
        used = {name for node in inside for name in self._uses[node]}
        return self._has_inputs(call, inside) and used.issuperset(self._contents(call.inputs))

    def _is_possible(self, call: KernelCall, results: Sequence[str]) -> bool:
        """Whether a kernel can write these results, as far as what it reads is known."""
        if not self._knows_all((*call.inputs, *call.overwritten)):
            return True
        return self._has_inputs(call, self._between(results, self._known(call)))

    def _has_inputs(self, call: KernelCall, inside: Sequence[str]) -> bool:
        """Whether a kernel has what it needs to compute calls: inputs of the graph, and no call of a library."""
        used = {name for node in inside for name in self._uses[node] if name not in self._nodes}
        return used.issubset(filter(None, call.buffers)) and not set(inside).intersection(self._library.values())

    def _has_size(self, name: str, buffer: Buffer) -> bool:
        facts = tensor_facts(self._facts.get(name, ""), 0, None)
        if facts is None or facts.dtype != dtype_named(buffer.dtype).short:
            return False
        shape = [part.strip() for part in buffer.shape.strip("()").split(",") if part.strip()]
        sizes = [size for size in facts.shape if isinstance(size, int)]
        if len(sizes) < len(facts.shape) or not all(part.isdecimal() for part in shape):
            return False
        return prod(sizes) == prod(map(int, shape))

    def _computed(self, at: int, call: KernelCall) -> tuple[str, ...]:
        """The calls that a kernel computes."""
        if not call.is_fused:
            return (self._library[at],) if at in self._library else ()
        results = self._results(call)
        passed_on = [name for _, name in call.outputs if self._is_read_after(at, name)]
        if not results or not self._knows_all((*call.inputs, *passed_on)):
            return ()
        inside = self._between(results, self._known(call))
        if not self._has_inputs(call, inside):
            return ()
        return inside

    def _is_read_after(self, at: int, buffer: str) -> bool:
        return any(buffer in self._reads[later] for later in range(at + 1, len(self._reads)))

    def _read_by(self, call: KernelCall) -> tuple[str, ...]:
        """The buffers that a kernel reads, or may read."""
        is_explained = call.is_fused and self._is_whole(call, self._results(call), self._known(call))
        if is_explained:
            return call.inputs
        return (*call.inputs, *call.overwritten)

    def _known(self, call: KernelCall) -> set[str]:
        """The results of other kernels that a kernel can read."""
        return set(self._contents((*call.inputs, *call.overwritten)))

    def _results(self, call: KernelCall) -> list[str]:
        return [self._content[name] for _, name in call.outputs if self._is_call(name)]

    def _contents(self, buffers: Iterable[str]) -> list[str]:
        return [self._content[name] for name in buffers if name in self._content]

    def _knows_all(self, buffers: Iterable[str]) -> bool:
        return all(name in self._content for name in buffers)

    def _between(self, results: Sequence[str], known: set[str]) -> tuple[str, ...]:
        """All calls from which results are computed, back to those that are known, in the order of the graph."""
        found: set[str] = set()
        waiting = list(results)
        while waiting:
            name = waiting.pop()
            is_inside = name in self._nodes and name not in found and (name not in known or name in results)
            if is_inside:
                found.add(name)
                waiting += self._uses[name]
        return tuple([node.name for node in self._graph.nodes if node.name in found])


def _library_operator(kernel: str) -> str:
    """The operator that a kernel of a library computes: `mm` for `extern_kernels.mm`, `add` for `aten.add.out`."""
    parts = kernel.removeprefix("torch.ops.").split(".")
    name = parts[min(1, len(parts) - 1)]
    return _NAMES.get(name, name)
