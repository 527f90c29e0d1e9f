"""Numbers that stay on their device until somebody asks for them: one buffer for each device, read in one copy.

To read a number of an accelerator waits until the accelerator has done all its work. So nothing here reads one number:
they are written into the cells of a buffer, and all of them come over together, once a step.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from insitu.capture.isolation import run_isolated

FIRST_CELLS = 1 << 12
MOST_CELLS = 1 << 22  # a longer step comes over in several copies
# The widest type of a device, where that is not float64.
WIDEST = {"mps": torch.float32}


def widest(device: torch.device) -> torch.dtype:
    """The floating-point type with most digits that a device has."""
    return WIDEST.get(device.type, torch.float64)


class Page:
    """What was written into a ledger between two copies; `numbers` is None until the copy is made."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger: Ledger | None = ledger
        self.numbers: Any = None

    def read(self) -> Any:
        """The numbers, which come over now if they have not yet."""
        if self._ledger is not None:
            self._ledger.fetch()
        return self.numbers

    def close(self, numbers: Any) -> None:
        """The numbers have come over."""
        self.numbers, self._ledger = numbers, None


@dataclass(frozen=True, slots=True)
class Cells:
    """Some numbers of a page."""

    page: Page
    begin: int
    count: int

    def read(self) -> Any:
        """The numbers as an array of NumPy."""
        return self.page.read()[self.begin : self.begin + self.count]


class Ledger:
    """The buffer of one device."""

    def __init__(self, device: torch.device) -> None:
        self.device, self.dtype = device, widest(device)
        self.page = Page(self)
        self.copies = 0  # how often numbers came over
        self._used = 0
        self._lock = threading.RLock()
        self._buffer = self._new_buffer(FIRST_CELLS)

    def _new_buffer(self, count: int) -> Tensor:
        with torch.inference_mode(False):  # a tensor of inference mode cannot be written to outside of it
            return torch.empty(count, dtype=self.dtype, device=self.device)

    def write(self, numbers: list[Tensor]) -> Cells:
        """Write numbers, each a tensor without dimensions, into the next cells."""
        count = len(numbers)
        with self._lock:
            self._make_room(count)
            begin = self._used
            torch.stack([number.to(self.dtype) for number in numbers], out=self._buffer[begin : begin + count])
            self._used += count
            return Cells(self.page, begin, count)

    def write_row(self, numbers: Tensor) -> Cells:
        """Write the numbers of a tensor with one dimension into the next cells."""
        count = numbers.numel()
        with self._lock:
            self._make_room(count)
            begin = self._used
            self._buffer[begin : begin + count].copy_(numbers)
            self._used += count
            return Cells(self.page, begin, count)

    def _make_room(self, count: int) -> None:
        """Grow the buffer; one that is very long is read first."""
        if self._used + count > MOST_CELLS:
            self.fetch()
        if self._used + count <= self._buffer.numel():
            return
        larger = self._new_buffer(max(2 * self._buffer.numel(), count))
        larger[: self._used].copy_(self._buffer[: self._used])
        self._buffer = larger

    @property
    def is_empty(self) -> bool:
        """Whether nothing was written since the last copy."""
        return self._used == 0

    def fetch(self) -> None:
        """Bring all numbers over that are not here yet, in one copy."""
        with self._lock:
            if self.is_empty:
                return
            numbers = run_isolated(lambda: self._buffer[: self._used].to("cpu", copy=True).numpy())
            self.copies += 1
            self.page.close(numbers)
            self.page, self._used = Page(self), 0
