"""What a session brings over from its devices once a step, instead of at each call.

To read a number of an accelerator waits until the accelerator has done all its work. So the statistics and the values
of tensors on accelerators stay there for a while: `PendingStats`, `PendingTensor` and `PendingContent` are what the
program notes instead, and whoever needs the numbers settles them. The environment can ask for the same on the CPU.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor

from insitu.capture.contents import parts_of
from insitu.capture.device_numbers import FingerprintWeights, statistics_row, stats_of_row
from insitu.capture.finite import floats, is_readable
from insitu.capture.isolation import run_isolated
from insitu.capture.ledger import Cells, Ledger, widest
from insitu.capture.statistics import ELEMENTS, INTEGERS, MOST_EXACT, flat_floats
from insitu.capture.tensor_memory import has_values
from insitu.capture.torch_internals import version_counter
from insitu.capture.transfer import Shipment, Transfer, transfer_for
from insitu.errors import ChoiceError
from insitu.trace.event import Stats

VARIABLE = "INSITU_DEFERRED"
Choice = Literal["accelerators", "always", "never"]
CHOICES: dict[str, Choice] = {"": "accelerators", "1": "always", "0": "never"}
# Tensors of these devices are read directly: the memory of this process, and tensors without values.
DIRECT = frozenset({"cpu", "meta"})


@dataclass(frozen=True, slots=True)
class PendingStats:
    """Statistics whose numbers are on a device."""

    cells: Cells
    count: int
    is_brief: bool = False  # whether the standard deviation of finite values is left out
    has_whole_ends: bool = False  # whether the least and the largest value are integers

    def settle(self) -> Stats:
        """The statistics."""
        stats = stats_of_row(self.cells.read(), self.count)
        if self.is_brief and not stats.nan and not stats.inf:
            return replace(stats, std=None)
        return stats


@dataclass(frozen=True, slots=True)
class PendingNumber:
    """One number of pending statistics, by its name."""

    stats: PendingStats
    name: str

    def settle(self) -> Any:
        """The number; the least and the largest integer are integers."""
        number = getattr(self.stats.settle(), self.name)
        is_whole = self.stats.has_whole_ends and self.name in ELEMENTS
        if is_whole and abs(number) <= MOST_EXACT:
            return int(number)
        return number


@dataclass(frozen=True, slots=True)
class PendingTensor:
    """A copy of a tensor that is on its way; `finish` turns it into what is kept of it."""

    shipment: Shipment
    finish: Callable[[Tensor], Any]

    @property
    def nbytes(self) -> int:
        """The bytes of the copy."""
        return self.shipment.nbytes

    def settle(self) -> Any:
        """What is kept of the tensor."""
        copy = self.shipment.receive()
        return run_isolated(lambda: self.finish(copy))

    def peek(self) -> Any:
        """The same without waiting for a device that may have failed."""
        copy = self.shipment.peek()
        return run_isolated(lambda: self.finish(copy))


@dataclass(frozen=True, slots=True)
class PendingContent:
    """The fingerprint of a tensor, on its device; `version` counts the changes that torch knows of.

    `period` is the part of the program in which it was taken: none is longer than a step.
    """

    cells: Cells
    version: int
    period: int

    def is_same(self, other: Any) -> bool:
        """Whether another fingerprint is equal."""
        if not isinstance(other, PendingContent):
            return False
        return bool((self.cells.read() == other.cells.read()).all())


PENDING = (PendingStats, PendingNumber, PendingTensor)


def settle(item: Any) -> Any:
    """An item without anything pending in it."""
    if isinstance(item, PENDING):
        return item.settle()
    if type(item) is list:
        return [settle(part) for part in item]
    if type(item) is dict:
        return {name: settle(part) for name, part in item.items()}
    return item


class Deferral:
    """The ledgers and transfers of one session, by device."""

    def __init__(self, *, is_always: bool) -> None:
        self._is_always = is_always
        self._ledgers: dict[torch.device, Ledger] = {}
        self._transfers: dict[torch.device, Transfer] = {}
        self._weights: dict[torch.device, FingerprintWeights] = {}
        self._step: object = None  # what ends a step
        self._period = 0

    def begin_period(self) -> None:
        """An optimizer may change the parameters from now on, and torch does not always count that."""
        self._period += 1

    def ends_step(self, callee: object) -> bool:
        """Whether an outermost call of this callee ends a step: that of the first callee does."""
        self._step = self._step or callee
        return callee is self._step

    def applies_to(self, tensor: Any) -> bool:
        """Whether the numbers of a tensor wait; an array of NumPy is read directly."""
        if not isinstance(tensor, Tensor):
            return False
        return self._is_always or tensor.device.type not in DIRECT

    def ledger(self, device: torch.device) -> Ledger:
        """The ledger of a device."""
        known = self._ledgers.get(device)
        if known is None:
            known = self._ledgers[device] = Ledger(device)
        return known

    def _transfer(self, device: torch.device) -> Transfer:
        known = self._transfers.get(device)
        if known is None:
            known = self._transfers[device] = transfer_for(device)
        return known

    def statistics(self, tensor: Tensor, *, bins: bool = True, is_brief: bool = False) -> PendingStats | Stats | None:
        """The statistics of a tensor, pending; None if torch cannot read the dtype, or a graph is being captured."""
        if not is_readable():
            return None
        try:
            values = flat_floats(tensor).resolve_neg()
        except NotImplementedError:  # types of less than a byte
            return None
        count = values.numel()
        if count == 0:
            return Stats(count=0)
        ledger = self.ledger(values.device)
        row = statistics_row(values, ledger.dtype, bins=bins)
        return PendingStats(ledger.write_row(row), count, is_brief, tensor.dtype in INTEGERS)

    def send(self, tensor: Tensor, finish: Callable[[Tensor], Any]) -> PendingTensor:
        """A copy of a dense tensor, pending."""
        return PendingTensor(self._transfer(tensor.device).send(tensor), finish)

    def content(self, tensor: Tensor) -> PendingContent | None:
        """The fingerprint of a tensor, pending; None where its values cannot be read."""
        try:
            return run_isolated(lambda: self._content(tensor))
        except Exception:  # a type that cannot be read
            return None

    def _content(self, tensor: Tensor) -> PendingContent | None:
        if not has_values(tensor) or not is_readable():
            return None
        numbers = [number for part in parts_of(Tensor.detach(tensor)) for number in self._fingerprint(part)]
        return PendingContent(self.ledger(tensor.device).write(numbers), version_of(tensor), self._period)

    def _fingerprint(self, part: Tensor) -> list[Tensor]:
        weights = self._weights.get(part.device)
        if weights is None:
            weights = self._weights[part.device] = FingerprintWeights(part.device)
        return weights.fingerprint(part)

    def number(self, number: Tensor) -> Cells:
        """One number, pending."""
        return run_isolated(lambda: self.ledger(number.device).write([number]))

    def totals(self, tensors: list[Tensor]) -> list[float]:
        """The sums of some tensors, which come over together; zero where there is nothing to sum."""
        return [0.0 if cells is None else float(cells.read()[0]) for cells in list(map(self._total, tensors))]

    def _total(self, tensor: Tensor) -> Cells | None:
        values = run_isolated(lambda: floats(tensor)) if is_readable() else None
        if values is None:
            return None
        return run_isolated(lambda: self.ledger(values.device).write([values.sum(dtype=widest(values.device))]))

    def is_current(self, content: PendingContent, tensor: Tensor) -> bool:
        """Whether a fingerprint is of this part of the program, and torch knows of no change of the tensor since."""
        return content.period == self._period and content.version == version_of(tensor)

    def fetch(self) -> None:
        """Bring over what is pending in the ledgers: one copy for each device."""
        self.begin_period()
        for ledger in list(self._ledgers.values()):
            ledger.fetch()

    @property
    def is_used(self) -> bool:
        """Whether anything of this session has waited on a device."""
        return bool(self._ledgers or self._transfers)

    @property
    def copies(self) -> int:
        """How often numbers came over from a device."""
        return sum(ledger.copies for ledger in self._ledgers.values())


def version_of(tensor: Tensor) -> int:
    """How often torch knows that a tensor was changed; a tensor of inference mode does not count."""
    if tensor.is_inference():
        return 0
    return version_counter(tensor)


def deferral_choice() -> Choice:
    """What the environment asks for."""
    text = os.environ.get(VARIABLE, "")
    if text not in CHOICES:
        raise ChoiceError(f"{VARIABLE}={text!r} is neither '1' (always) nor '0' (never): without it, accelerators only")
    return CHOICES[text]


def new_deferral() -> Deferral | None:
    """The deferral of a new session; None if no tensor of it can need one."""
    choice = deferral_choice()
    if choice == "never":
        return None
    if choice == "always":
        return Deferral(is_always=True)
    return Deferral(is_always=False) if has_accelerator() else None


def has_accelerator() -> bool:
    """Whether torch finds an accelerator here."""
    return torch.accelerator.is_available()
