"""What a call communicates, from calls made by hand."""

from __future__ import annotations

from typing import Any

import pytest

from insitu.trace.collective import ProcessGroup, collective_of
from insitu.trace.event import Call, Fields, Kind, Opaque, TensorFacts, Word

WHOLE, PART = TensorFacts(0, (8, 4), "bf16", "cpu"), TensorFacts(1, (2, 4), "bf16", "cpu")
GROUP = Fields("ProcessGroup", {"name": "7", "size": 4, "ranks": [0, 1, 2, 3]})
BOXED = Opaque("ScriptObject")


@pytest.mark.parametrize(
    ("kind", "name", "args", "usual", "size"),
    [
        ("function", "torch.distributed.all_gather_into_tensor", (WHOLE, PART), "all_gather", 16),
        ("function", "torch.distributed.all_gather", ([PART] * 4, PART), "all_gather", 16),
        ("function", "torch.distributed.reduce_scatter_tensor", (PART, WHOLE), "reduce_scatter", 64),
        ("function", "torch.distributed.all_to_all", ([PART] * 4, [PART] * 4), "all_to_all", 64),
        ("function", "torch.distributed.all_reduce_coalesced", ([PART, PART],), "all_reduce", 32),
        ("function", "torch.distributed.irecv", (PART, 1), "recv", 16),
        ("aten", "c10d._allgather_base_", (WHOLE, PART, GROUP, False), "all_gather", 16),
        ("aten", "c10d._reduce_scatter_base_", (PART, WHOLE, GROUP, BOXED), "reduce_scatter", 64),
        ("aten", "c10d.allreduce_", ([WHOLE], GROUP, BOXED, None), "all_reduce", 64),
        ("aten", "_c10d_functional.all_gather_into_tensor", (PART, 4, "7"), "all_gather", 16),
        ("aten", "_c10d_functional.reduce_scatter_tensor", (WHOLE, "avg", 4, "7"), "reduce_scatter", 64),
    ],
)
def test_size_is_what_the_rank_puts_in(kind: Kind, name: str, args: Any, usual: str, size: int) -> None:
    found = collective_of(Call(0, None, kind, name, args=args))
    assert found is not None and (found.name, found.bytes) == (usual, size)
    if kind == "aten":
        assert found.group.name == "7" and found.is_pending


def test_group_and_reduction_are_those_of_the_arguments() -> None:
    kwargs = {"op": Word("AVG"), "group": GROUP, "async_op": True}
    found = collective_of(Call(0, None, "function", "torch.distributed.all_reduce", args=(PART,), kwargs=kwargs))
    assert found is not None and found.group == ProcessGroup("7", 4, (0, 1, 2, 3))
    assert found.reduction == "avg" and found.is_pending


def test_symbolic_size_is_not_known() -> None:
    symbolic = TensorFacts(0, ("s0", 4), "f32", "cpu")
    found = collective_of(Call(0, None, "aten", "_c10d_functional.all_reduce", args=(symbolic, "sum", "0")))
    assert found is not None and found.bytes is None


@pytest.mark.parametrize("name", ["torch.gather", "torch.Tensor.scatter", "torch.distributed.get_rank"])
def test_other_functions_do_not_communicate(name: str) -> None:
    assert collective_of(Call(0, None, "function", name, args=(PART,))) is None
