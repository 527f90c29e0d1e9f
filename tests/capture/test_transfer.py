"""What every transfer promises: the copy is that of the moment it was sent, whatever happens to the tensor later.

`TransferByStream` runs here with the streams of the CPU, which do nothing: no accelerator is here.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from insitu.capture.transfer import Transfer, TransferByClone, TransferByStream, transfer_for

CPU = torch.device("cpu")
TRANSFERS: dict[str, Callable[[], Transfer]] = {
    "by clone": TransferByClone,
    "by stream": lambda: TransferByStream(CPU),
}
TENSORS: dict[str, Callable[[], Tensor]] = {
    "float32": lambda: torch.arange(6.0).view(2, 3),
    "bfloat16": lambda: torch.arange(6.0).bfloat16(),
    "int64": lambda: torch.arange(2**40, 2**40 + 3),
    "bool": lambda: torch.tensor([True, False]),
    "complex, conjugate": lambda: torch.tensor([1 + 2j, 3 - 1j]).conj(),
    "transposed": lambda: torch.arange(6.0).view(2, 3).t(),
    "expanded": lambda: torch.tensor([1.0, 2.0]).expand(3, 2),
    "without dimensions": lambda: torch.tensor(3.0),
    "empty": lambda: torch.empty(0, 4),
    "with a gradient": lambda: torch.ones(3, requires_grad=True),
}


@pytest.fixture(params=TRANSFERS)
def transfer(request: pytest.FixtureRequest) -> Transfer:
    return TRANSFERS[request.param]()


@pytest.mark.parametrize("name", TENSORS)
def test_a_copy_has_the_values_the_dtype_and_the_shape(transfer: Transfer, name: str) -> None:
    tensor = TENSORS[name]()
    shipment = transfer.send(tensor)
    copy = shipment.receive()
    assert copy.device == CPU and not copy.requires_grad and copy.is_contiguous()
    assert copy.dtype is tensor.dtype and copy.shape == tensor.shape and torch.equal(copy, tensor)
    assert shipment.nbytes == copy.nbytes


def test_a_later_change_of_the_tensor_does_not_change_the_copy(transfer: Transfer) -> None:
    tensor = torch.ones(4)
    shipment = transfer.send(tensor)
    tensor.zero_()
    assert shipment.receive().tolist() == [1.0] * 4
    assert shipment.receive() is shipment.receive()


def test_copies_are_independent_of_each_other(transfer: Transfer) -> None:
    tensor = torch.zeros(2)
    shipments = [transfer.send(tensor.add_(1)) for _ in range(3)]
    assert [shipment.receive().tolist() for shipment in shipments] == [[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]


def test_a_shipment_can_be_looked_at_without_waiting(transfer: Transfer) -> None:
    assert transfer.send(torch.tensor([3, 4])).peek().tolist() == [3, 4]


def test_a_transfer_is_hidden_from_autograd_and_modes(transfer: Transfer) -> None:
    from torch.utils._python_dispatch import TorchDispatchMode

    class Refuse(TorchDispatchMode):
        def __torch_dispatch__(self, func: object, types: object, args: object = (), kwargs: object = None) -> object:
            raise AssertionError(func)

    tensor = torch.ones(3, requires_grad=True)
    with Refuse():
        shipment = transfer.send(tensor)
    assert not shipment.receive().requires_grad


def test_tensors_of_the_cpu_are_cloned() -> None:
    assert isinstance(transfer_for(CPU), TransferByClone)
