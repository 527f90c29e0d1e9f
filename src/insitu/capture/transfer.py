"""How the values of tensors come to the memory of this process without making the program wait.

A transfer copies a tensor as it is now: whatever changes it later does not change the copy. `TransferByClone` serves
tensors of the CPU. `TransferByStream` serves those of an accelerator: it copies into pinned memory, on a stream of its
own, while the program goes on. Nobody has run `TransferByStream` on an accelerator: its tests run it on the CPU, whose
streams do nothing.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor

from insitu.capture.isolation import run_isolated

FEW = 16  # elements of a copy that reads as zeros until it arrives
CONTIGUOUS = torch.contiguous_format


class Shipment(Protocol):
    """A copy on its way."""

    nbytes: int

    def receive(self) -> Tensor:
        """The copy, in the memory of this process; waits for it if it has not arrived."""

    def peek(self) -> Tensor:
        """The copy as it is now, of a device that may have failed: zeros where a small one has not arrived."""


class Transfer(Protocol):
    """Copies the tensors of one device."""

    def send(self, tensor: Tensor) -> Shipment:
        """Begin to copy a dense tensor as it is now; returns at once."""


class ArrivedShipment:
    """A copy that is here already."""

    def __init__(self, copy: Tensor) -> None:
        self._copy, self.nbytes = copy, copy.nbytes

    def receive(self) -> Tensor:
        """The copy."""
        return self._copy

    peek = receive


class TransferByClone:
    """Copies tensors of the CPU at once."""

    def send(self, tensor: Tensor) -> ArrivedShipment:
        """Copy a tensor."""
        return ArrivedShipment(run_isolated(lambda: dense_clone(tensor)))


class StreamShipment:
    """A copy that a stream makes; the clone on the device is kept until the copy is complete."""

    def __init__(self, clone: Tensor, copy: Tensor, arrival: Any) -> None:
        self._clone: Tensor | None = clone
        self._copy, self._arrival, self.nbytes = copy, arrival, copy.nbytes

    def receive(self) -> Tensor:
        """The copy; waits for the stream."""
        if self._clone is not None:
            self._arrival.synchronize()
            self._clone = None
        return self._copy

    def peek(self) -> Tensor:
        """The copy as it is now."""
        return self._copy


class TransferByStream:
    """Copies tensors of an accelerator into pinned memory, on a stream of its own."""

    def __init__(self, device: torch.device) -> None:
        self._runtime: Any = torch.get_device_module(device)
        self._device = device
        self._stream: Any = self._new_stream()
        self._is_pinned = device.type != "cpu"

    def _new_stream(self) -> Any:
        if self._device.type == "cpu":
            return self._runtime.Stream()
        return self._runtime.Stream(device=self._device)

    def send(self, tensor: Tensor) -> StreamShipment:
        """Clone a tensor in the order of the program, and let the stream copy the clone."""
        return run_isolated(lambda: self._send(tensor))

    def _send(self, tensor: Tensor) -> StreamShipment:
        clone = dense_clone(tensor)
        copy = torch.empty(clone.shape, dtype=clone.dtype, device="cpu", pin_memory=self._is_pinned)
        if copy.numel() <= FEW:
            copy.zero_()
        self._stream.wait_stream(self._runtime.current_stream(self._device))
        with self._runtime.stream(self._stream):
            copy.copy_(clone, non_blocking=True)
            arrival = self._runtime.Event()
            arrival.record(self._stream)
        return StreamShipment(clone, copy, arrival)


def dense_clone(tensor: Tensor) -> Tensor:
    """A copy of a dense tensor on its device; one whose elements are smaller than a byte is copied by its bytes."""
    tensor = tensor.detach()
    try:
        return tensor.clone(memory_format=CONTIGUOUS).resolve_conj().resolve_neg()
    except NotImplementedError:
        return tensor.view(torch.uint8).clone(memory_format=CONTIGUOUS).view(tensor.dtype)


def transfer_for(device: torch.device) -> Transfer:
    """The transfer for the tensors of a device."""
    if device.type == "cpu":
        return TransferByClone()
    return TransferByStream(device)
