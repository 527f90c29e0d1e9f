"""`torch.utils.swap_tensors` while tensors have values: it refuses a tensor with a weak reference, and a value is one.

`module.to()` swaps parameters that are tensor subclasses, and all parameters if the user has asked torch for it. As
long as there are values, torch does not see our weak references, and the values of swapped tensors are swapped as well.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Protocol

import torch

from insitu.capture.modules import get_ident, patch
from insitu.capture.tensors import GIVEN, TensorRef, guarded
from insitu.capture.torch_internals import replace_tensor_swap, tensor_swap
from insitu.operating_system import at_fork

if TYPE_CHECKING:
    from insitu.capture.probe import Probe


class RefOwner(Protocol):
    """Makes weak references to tensors, and has probes whose values are swapped with the tensors, if any."""

    @property
    def probes(self) -> Iterable[Probe]:
        """The probes with values."""


def others(item: Any) -> list[Any]:
    """The weak references to an object, less our own."""
    return [each for each in weakref.getweakrefs(item) if not isinstance(each, TensorRef)]


class TensorSwaps:
    """What is put into torch as long as someone is there who makes weak references to tensors."""

    def __init__(self) -> None:
        self._owners: weakref.WeakSet[RefOwner] = weakref.WeakSet()
        self._lock = threading.RLock()
        self._weakref = SimpleNamespace(getweakrefs=others)
        self._original = tensor_swap()

    def abandon(self) -> None:
        """This process is the child of a fork, and whoever held the lock is not here."""
        self._lock = threading.RLock()

    def hold(self, owner: RefOwner) -> None:
        """This one makes weak references to tensors from now on."""
        with self._lock:
            if owner in self._owners:
                return
            self._owners.add(owner)
            weakref.finalize(owner, self._install).atexit = False
            self._install()

    def _install(self) -> None:
        with self._lock:
            is_needed = any(True for _ in self._owners)
            utils: Any = torch.utils
            if getattr(utils, "weakref", None) in (weakref, self._weakref):  # what others put there is left alone
                utils.weakref = self._weakref if is_needed else weakref
            if tensor_swap() in (self._original, self._swap):
                replace_tensor_swap(self._swap if is_needed else self._original)

    def _swap(self, one: Any, other: Any) -> None:
        """Swap two tensors, and the values that all probes have of them."""
        self._original(one, other)
        here = patch.probes.get(get_ident(), ())
        with self._lock:
            owners = list(self._owners)
        for probe in [probe for owner in owners for probe in owner.probes]:
            try:
                swap_values(probe, one, other, is_here=probe in here)
            except Exception as error:
                probe.trouble("recording swapped tensors", error)


def swap_values(probe: Probe, one: Any, other: Any, *, is_here: bool) -> None:
    """Exchange the values of two tensors. In another thread, which may run, both values are only forgotten."""
    producer, other_producer = take_producer(probe, one), take_producer(probe, other)
    is_known = producer != GIVEN or other_producer != GIVEN
    if is_here and is_known and not probe.over:
        fresh = guarded(probe.values).fresh
        fresh(one, other_producer)
        fresh(other, producer)


def take_producer(probe: Probe, tensor: Any) -> int:
    """Forget the value of a tensor; returns the call that produced it."""
    value = probe.table.pop(id(tensor), None)
    if value is None or value() is not tensor:
        return GIVEN
    return value.producer


swaps = TensorSwaps()
at_fork(after_in_child=swaps.abandon)
