"""The kernels of inductor are put back, whatever runs at the same time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from insitu.capture.compiled_graphs.kernel_outputs import KernelOutputs
from insitu.trace.compiled.compiled_graph import CompiledGraph, Kernel


def test_two_runs_that_overlap_put_the_kernels_back() -> None:
    kernels = (Kernel("cpp_fused_0"), Kernel("extern_kernels.mm"))
    graph = CompiledGraph("graph", "inductor", kernels=kernels)
    names: dict[str, Any] = {"cpp_fused_0": lambda: None, "extern_kernels": SimpleNamespace(mm=lambda: None)}
    originals = dict(names)
    one, other = KernelOutputs(graph, names), KernelOutputs(graph, names)
    one.__enter__()
    other.__enter__()
    one.__exit__(None, None, None)
    other.__exit__(None, None, None)
    assert names == originals
