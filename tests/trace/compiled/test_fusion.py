"""Graphs and programs of inductor as text: what is read of them, and which calls a kernel fuses."""

from __future__ import annotations

from insitu.trace.compiled.compiled_graph import GraphLine, GraphNode
from insitu.trace.compiled.fusion import kernels_of
from insitu.trace.compiled.graph_text import GraphText, read_graph
from insitu.trace.compiled.kernel_code import KernelCode, read_kernels
from insitu.trace.compiled.source_lines import with_lines_of_program

GRAPH = """
class <lambda>(torch.nn.Module):
    def forward(self, x: "f32[4, 8][8, 1]cpu", w: "f32[8, 8][8, 1]cpu"):
        # File: net.py:3 in forward, code: h = x.relu()
        relu: "f32[4, 8][8, 1]cpu" = torch.ops.aten.relu.default(x);  x = None

        # File: net.py:4 in forward, code: h = (h @ w).exp()
        mm: "f32[4, 8][8, 1]cpu" = torch.ops.aten.mm.default(relu, w);  relu = w = None
        exp: "f32[4, 8][8, 1]cpu" = torch.ops.aten.exp.default(mm);  mm = None

        # No stacktrace found for following nodes
        sum_1: "f32[4][1]cpu" = torch.ops.aten.sum.dim_IntList(exp, [1])
        return (sum_1, exp)
"""
PROGRAM = """
cpp_fused_relu_0 = async_compile.cpp_pybinding(['const float*', 'float*'], 'x')
cpp_fused_exp_sum_1 = async_compile.cpp_pybinding(['float*', 'float*'], 'x')

class Runner:
    def call(self, args):
        x, w = args
        args.clear()
        assert_size_stride(x, (4, 8), (8, 1), 'input')
        buf0 = empty_strided_cpu((4, 8), (8, 1), torch.float32)
        cpp_fused_relu_0(x, buf0)
        buf1 = empty_strided_cpu((4, 8), (8, 1), torch.float32)
        extern_kernels.mm(buf0, w, out=buf1)
        del w
        buf2 = buf1; del buf1  # reuse
        buf3 = reinterpret_tensor(buf0, (4,), (1,), 0); del buf0  # reuse
        cpp_fused_exp_sum_1(buf2, buf3)
        return (buf3, buf2, )
"""


def parts() -> tuple[GraphText, KernelCode]:
    code = read_kernels(PROGRAM)
    assert code is not None
    return read_graph(GRAPH), code


def test_a_graph_has_calls_lines_and_facts() -> None:
    graph, _ = parts()
    assert [item.name for item in graph.inputs] == ["x", "w"]
    assert [node.name for node in graph.nodes] == ["relu", "mm", "exp", "sum_1"]
    assert [node.source.line if node.source else None for node in graph.nodes] == [3, 4, 4, None]
    assert graph.nodes[0].facts == "f32[4, 8][8, 1]cpu"
    assert graph.outputs == ("sum_1", "exp")


def test_kernels_fuse_the_calls_between_their_buffers() -> None:
    kernels = kernels_of(*parts())
    assert [(kernel.name, kernel.nodes) for kernel in kernels] == [
        ("cpp_fused_relu_0", ("relu",)),
        ("extern_kernels.mm", ("mm",)),
        ("cpp_fused_exp_sum_1", ("exp", "sum_1")),
    ]
    assert [[output.node for output in kernel.outputs] for kernel in kernels] == [["relu"], ["mm"], ["exp", "sum_1"]]


def test_a_kernel_without_a_known_output_fuses_nothing_that_is_known() -> None:
    graph, code = parts()
    code.returned = ()
    kernels = kernels_of(GraphText(graph.inputs, graph.nodes, ()), code)
    assert kernels[-1].nodes == ()


def test_a_text_that_is_not_a_graph_is_an_empty_one() -> None:
    assert read_graph("nothing").nodes == ()
    assert read_kernels("def (") is None
    assert read_kernels("x = 1") is None


def test_lines_of_a_cached_graph_are_those_of_this_program() -> None:
    cached = [
        GraphNode("a", "f(x)", source=GraphLine("old.py", number, "forward", text))
        for number, text in ((3, "x = x + 1"), (4, "x = x * 2"), (9, "x = x + 1"))
    ]
    here = [
        GraphNode("b", "f(x)", source=GraphLine("new.py", number, "forward", text))
        for number, text in ((7, "x = x + 1"), (8, "y = x * 2"), (12, "x = x + 1"))
    ]
    found = with_lines_of_program(cached, here)
    assert [node.source and (node.source.file, node.source.line) for node in found] == [
        ("new.py", 7),
        None,
        ("new.py", 12),
    ]
