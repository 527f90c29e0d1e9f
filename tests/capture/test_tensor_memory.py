"""Which tensors have values in memory that can be read."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from insitu.capture.tensor_memory import extent, has_values, is_dense, local_part


def freed() -> Tensor:
    """A tensor whose storage was freed, as FSDP does."""
    tensor = torch.ones(3)
    tensor.untyped_storage().resize_(0)
    return tensor


@pytest.mark.parametrize("make", [lambda: torch.ones(3), lambda: torch.ones(0), lambda: torch.ones(3, 4).T[1:, ::2]])
def test_plain_tensor_has_values(make: Callable[[], Tensor]) -> None:
    assert has_values(make())


@pytest.mark.parametrize("make", [lambda: torch.ones(3, device="meta"), freed])
def test_tensor_without_memory_has_no_values(make: Callable[[], Tensor]) -> None:
    assert not has_values(make())


def test_tensor_inside_a_transform_has_no_values() -> None:
    found: list[bool] = []

    def look(tensor: Tensor) -> Tensor:
        found.append(has_values(tensor))
        return tensor

    torch.func.vmap(look)(torch.ones(2, 3))
    assert found == [False]


@pytest.mark.parametrize(
    ("tensor", "expected"),
    [(torch.ones(6), 6), (torch.ones(3, 4)[:, :2], 10), (torch.ones(1).expand(5), 1)],
    ids=["contiguous", "strided", "expanded"],
)
def test_extent_counts_elements_from_the_first_to_the_last(tensor: Tensor, expected: int) -> None:
    assert extent(tensor) == expected


def test_sparse_tensor_is_not_dense() -> None:
    assert is_dense(torch.eye(2)) and not is_dense(torch.eye(2).to_sparse())


def test_local_part_of_a_plain_tensor_is_the_tensor() -> None:
    tensor = torch.ones(2)
    assert local_part(tensor) is tensor
