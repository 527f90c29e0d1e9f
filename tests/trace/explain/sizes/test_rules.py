"""Each rule says from which dimension a size comes: all sizes differ here, so that torch itself says which is right."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import insitu
from insitu.trace.event import TensorFacts, tensors
from insitu.trace.explain.sizes.operator_call import UNSURE, OperatorCall, PassedOn
from insitu.trace.explain.sizes.rules import rule_for
from insitu.trace.operation import operation

X = torch.ones(2, 3, 5, 7)
INDEX = torch.zeros(11, dtype=torch.long)

CALLS: dict[str, Callable[[], Tensor | tuple[Tensor, ...]]] = {
    "relu": lambda: X.relu(),
    "broadcast add": lambda: torch.ones(3, 1, 7) + torch.ones(5, 7),
    "double": lambda: X.double(),
    "permute": lambda: X.permute(3, 0, 2, 1),
    "permute of a tuple": lambda: torch.permute(X, (0, -1, 1, 2)),
    "transpose": lambda: X.transpose(1, -1),
    "mT": lambda: X.mT,
    "view": lambda: X.view(2, 3, 35),
    "flatten": lambda: X.flatten(2),
    "unflatten": lambda: torch.ones(2, 15, 7).unflatten(1, (3, 5)),
    "unsqueeze": lambda: X.unsqueeze(2),
    "squeeze": lambda: torch.ones(2, 1, 5).squeeze(1),
    "stack": lambda: torch.stack([X] * 13, dim=2),
    "cat": lambda: torch.cat([X, X], dim=-1),
    "chunk": lambda: X.chunk(3, dim=1),
    "split": lambda: X.split(4, dim=3),
    "unbind": lambda: X.unbind(1),
    "sum": lambda: X.sum(1),
    "mean over two": lambda: X.mean((0, -1)),
    "keepdim": lambda: X.amax(1, keepdim=True),
    "getitem": lambda: X[:, :, None, 1:, 0],
    "getitem by a tensor": lambda: X[:, INDEX],
    "index_select": lambda: X.index_select(2, INDEX.clamp(max=4)),
    "gather": lambda: X.gather(0, torch.zeros(1, 2, 4, 6, dtype=torch.long)),
    "embedding": lambda: F.embedding(torch.zeros(2, 3, dtype=torch.long), torch.ones(5, 7)),
    "linear": lambda: F.linear(X, torch.ones(11, 7)),
    "matmul": lambda: torch.ones(2, 3, 5) @ torch.ones(5, 7),
    "batched matmul": lambda: torch.ones(3, 5, 7) @ torch.ones(2, 1, 7, 11),
    "addmm": lambda: torch.addmm(torch.ones(7), torch.ones(2, 3), torch.ones(3, 7)),
    "conv2d": lambda: F.conv2d(X, torch.ones(11, 3, 3, 2), padding=(1, 0)),
    "conv_transpose1d": lambda: F.conv_transpose1d(torch.ones(2, 3, 5), torch.ones(3, 11, 4)),
    "einsum": lambda: torch.einsum("abc,cd->dab", torch.ones(2, 3, 5), torch.ones(5, 7)),
    "attention": lambda: F.scaled_dot_product_attention(
        torch.ones(2, 3, 5, 7), torch.ones(2, 3, 11, 7), torch.ones(2, 3, 11, 13)
    ),
    "layer_norm": lambda: F.layer_norm(X, (7,)),
    "pad": lambda: F.pad(X, (0, 4)),
    "max_pool2d": lambda: F.max_pool2d(torch.ones(2, 3, 10, 14), 2),
    "expand": lambda: torch.ones(3, 1).expand(2, 3, 5),
    "repeat": lambda: torch.ones(3, 5).repeat(1, 2),
    "zeros_like": lambda: torch.zeros_like(X),
    "zeros": lambda: torch.zeros(2, 3),
}


def recorded(run: Callable[[], Tensor | tuple[Tensor, ...]]) -> tuple[OperatorCall, TensorFacts]:
    with insitu.record(level="functions") as trace:
        run()
    call = trace.calls[-1]
    inputs = tuple(tensors((call.args, call.kwargs)))
    result = next(iter(tensors(call.result)))
    return OperatorCall(operation(call.kind, call.name), call.args, call.kwargs, inputs, result.shape), result


@pytest.mark.parametrize("name", CALLS)
def test_size_comes_from_the_dimension_that_has_it(name: str) -> None:
    call, result = recorded(CALLS[name])
    rule = rule_for(call)
    assert rule is not None
    for dim, size in enumerate(result.shape):
        found = rule(call, dim)
        is_anywhere = size != 1 and any(size in facts.shape for facts in call.inputs)
        if is_anywhere:
            assert isinstance(found, PassedOn) and found != UNSURE, f"dimension {dim} of {result.shape}"
            assert call.inputs[found.input].shape[found.dim] == size
        else:
            assert found is None or call.inputs[found.input].shape[found.dim] == size


@pytest.mark.parametrize("name", ["reshape", "pad", "cat", "getitem", "conv2d", "zeros", "repeat"])
def test_new_sizes_are_introduced_by_the_call(name: str) -> None:
    calls = {**CALLS, "reshape": lambda: X.reshape(6, 35)}
    call, result = recorded(calls[name])
    rule = rule_for(call)
    assert rule is not None
    known = {size for facts in call.inputs for size in facts.shape}
    new = [dim for dim, size in enumerate(result.shape) if size not in known]
    assert new and [rule(call, dim) for dim in new] == [None] * len(new)


def test_nothing_is_said_about_a_function_that_is_not_known() -> None:
    call, _ = recorded(lambda: torch.fft.rfft(torch.ones(2, 8)))
    assert rule_for(call) is None
