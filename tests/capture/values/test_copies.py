"""Tensors of every kind are recorded as what they hold, or named as missing; none takes its neighbours with it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch._subclasses import FakeTensorMode
from torch.utils._pytree import tree_map

import insitu
from insitu.capture.torch_versions import release

pytestmark = pytest.mark.filterwarnings(
    *("ignore:The PyTorch API of nested tensors", "ignore:Sparse .* tensor support", "ignore:torch.quantize_per_tensor")
)


class Wrapper(torch.Tensor):
    """A tensor whose values are in another one."""

    inner: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor) -> Wrapper:
        made: Wrapper = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)  # type: ignore[attr-defined]
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args, kwargs = tree_map(lambda item: item.inner if isinstance(item, Wrapper) else item, (args, kwargs or {}))
        return func(*args, **kwargs)


class Flat(Wrapper):
    """One that says where its values are."""

    def __tensor_flatten__(self) -> tuple[list[str], Any]:
        return ["inner"], None


class Owner(torch.Tensor):
    """One that dispatches in Python and has its own memory."""

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise AssertionError("the tool must not call it")


class Given(nn.Module):
    """Returns what is made, between two plain tensors."""

    def __init__(self, make: Callable[[], Any]) -> None:
        super().__init__()
        self._make = make

    def forward(self, x: Tensor) -> dict[str, Any]:
        """One pass."""
        return {"first": x, "odd": self._make(), "last": x + 1}


def per_channel() -> Tensor:
    scales, points = torch.tensor([0.5, 0.25]), torch.tensor([0, 1])
    return torch.quantize_per_channel(torch.ones(2, 3), scales, points, 0, torch.qint8)


STORED: dict[str, tuple[Callable[[], Any], dict[str, Any]]] = {
    "coo": (
        lambda: torch.tensor([[0.0, 2.0]]).to_sparse(),
        {"odd.indices": [[0], [1]], "odd.values": [2.0]},
    ),
    "csr": (
        lambda: torch.tensor([[0.0, 2.0]]).to_sparse_csr(),
        {"odd.crow_indices": [0, 1], "odd.col_indices": [1], "odd.values": [2.0]},
    ),
    "jagged": (
        lambda: torch.nested.nested_tensor([torch.ones(2), torch.zeros(3)], layout=torch.jagged),
        {"odd.0": [1, 1], "odd.1": [0, 0, 0]},
    ),
    "nested": (
        lambda: torch.nested.nested_tensor([torch.ones(2), torch.zeros(3)]),
        {"odd.0": [1, 1], "odd.1": [0, 0, 0]},
    ),
    "wrapper that says what it holds": (lambda: Flat(torch.ones(2)), {"odd.inner": [1, 1]}),
    "wrapper of a sparse one": (
        lambda: Flat(torch.tensor([0.0, 2.0]).to_sparse()),
        {"odd.inner.indices": [[1]], "odd.inner.values": [2.0]},
    ),
    "own memory": (lambda: torch.Tensor._make_subclass(Owner, torch.ones(2)), {"odd": [1, 1]}),  # type: ignore[attr-defined]
    "less than a byte": (lambda: torch.tensor([3, 1], dtype=torch.uint8).view(torch.int4), {"odd": [3, 1]}),
    "zero tensor": (lambda: torch._efficientzerotensor((2,)), {"odd": [0, 0]}),
    "per channel": (per_channel, {"odd": [[2] * 3, [5] * 3], "odd.scale": [0.5, 0.25], "odd.zero_point": [0, 1]}),
}


@pytest.mark.parametrize("kind", STORED)
def test_tensors_of_every_kind_are_stored_with_their_values(kind: str, tmp_path: Path) -> None:
    if kind == "less than a byte" and release(torch.__version__) < (2, 7):
        pytest.skip("torch 2.6 cannot copy such a tensor: the run says that its values are missing")
    make, expected = STORED[kind]
    model = Given(make)
    with insitu.record_run(model, only="forward", keep="values", to=tmp_path / "run.h5"):
        for _ in range(2):
            model(torch.ones(2))
    with insitu.load(tmp_path / "run.h5") as run:
        assert run.complete, run.missing
        assert set(run) == {f"forward.{name}" for name in ("first", "last", *expected)}
        for name, values in expected.items():
            assert np.asarray(run[f"forward.{name}"].values).tolist() == [values] * 2


def deep() -> Any:
    found: Any = torch.ones(1)
    for _ in range(12):
        found = [found]
    return found


LEFT_OUT: dict[str, tuple[Callable[[], Any], str]] = {
    "wrapper": (lambda: Wrapper(torch.ones(2)), "a Wrapper has no values that can be read"),
    "meta": (lambda: torch.ones(2, device="meta"), "tensors on the meta device have no values"),
    "fake": (lambda: FakeTensorMode().from_tensor(torch.ones(2)), "a FakeTensor has no values"),
    "objects": (lambda: np.array(["a", None], dtype=object), "cannot be stored"),
    "deep": (deep, "more than 8 levels deep"),
    "many components": (
        lambda: torch.nested.nested_tensor([torch.ones(1)] * 1001, layout=torch.jagged),
        "1,001 components, and only the first 1,000",
    ),
}


@pytest.mark.parametrize("kind", LEFT_OUT)
def test_tensor_without_values_is_named_and_the_others_are_stored(kind: str, tmp_path: Path) -> None:
    make, reason = LEFT_OUT[kind]
    model = Given(make)
    told = pytest.warns(insitu.InsituWarning, match=r"not all of 'forward\.odd")
    with told, insitu.record_run(model, only="forward", keep="values", to=tmp_path / "run.h5") as recorded:
        for _ in range(2):
            model(torch.ones(2))
        during = recorded.run  # as one finds it that was killed now
        assert any("forward.odd" in text and reason in text for text in during.missing)
    with insitu.load(tmp_path / "run.h5") as run:
        assert not run.complete and len(run.missing) == 1
        assert "rank 0: not all of 'forward.odd" in run.missing[0] and reason in run.missing[0]
        assert "first at step 0" in run.missing[0]
        assert run["forward.first"].steps.tolist() == [0, 1]
        assert run["forward.last"].steps.tolist() == [0, 1]


def test_statistics_of_unusual_tensors_are_recorded_or_named() -> None:
    for kind, is_there in {"jagged": True, "coo": True, "own memory": True, "less than a byte": False}.items():
        model = Given(STORED[kind][0])
        quiet, session = (
            warnings.catch_warnings(record=True),
            insitu.record_run(model, only="forward", keep={"**": "stats"}),
        )
        with quiet, session as recorded:
            model(torch.ones(2))
        run = recorded.run
        assert ("forward.odd.max" in run, run.complete, "forward.last.max" in run) == (is_there, is_there, True), kind


def test_gradients_of_a_sparse_embedding_are_recorded() -> None:
    model = nn.Embedding(5, 2, sparse=True)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with insitu.record_run(model, only=["weight.grad", "weight"], keep="values") as recorded:
        for _ in range(2):
            optimizer.zero_grad()
            model(torch.tensor([1, 2])).sum().backward()
            optimizer.step()
    assert recorded["weight.grad.indices"].values.tolist() == [[[1, 2]]] * 2
    assert recorded["weight.grad.values"].values.tolist() == [[[1, 1], [1, 1]]] * 2
    assert recorded["weight.grad.values"].facts["dense_shape"] == [5, 2]
    assert recorded.run.complete
