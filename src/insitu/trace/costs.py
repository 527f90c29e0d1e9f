"""What calls cost: their own time and that of all that lies in them, the bytes they return, their operations."""

from __future__ import annotations

from dataclasses import dataclass

from insitu.trace.dtype import dtype_named
from insitu.trace.event import Call, TensorFacts


@dataclass(slots=True)
class Costs:
    """Of a call, or of several: times in nanoseconds, `memory` the bytes of the outputs.

    `own` is the time less that of the calls in it, for a module less that of the modules in it; `flops` are those of
    the forward pass; `backward` is the time of the backward operators that belong to it, where they are added.
    `is_launch` says that a time among them is a launch time: an accelerator does the work.
    """

    time: int = 0
    own: int = 0
    memory: int = 0
    flops: int = 0
    backward: int = 0
    is_launch: bool = False

    def add(self, other: Costs) -> None:
        """Add those of another call."""
        self.time += other.time
        self.own += other.own
        self.memory += other.memory
        self.flops += other.flops
        self.backward += other.backward
        self.is_launch = self.is_launch or other.is_launch


@dataclass(slots=True)
class _Inside:
    """What lies in a call that is not complete yet: the time of the calls and of the outermost modules, operations."""

    time: int = 0
    modules: int = 0
    flops: int = 0


class CostLedger:
    """Adds up costs while calls complete, those inside a call before the call itself.

    >>> ledger = CostLedger()
    >>> inner = ledger.add(Call(1, 0, "function", "f", duration=30, flops=8))
    >>> outer = ledger.add(Call(0, None, "function", "g", duration=100))
    >>> outer.time, outer.own, outer.flops
    (100, 70, 8)
    """

    def __init__(self) -> None:
        self._inside: dict[int, _Inside] = {}

    def add(self, call: Call) -> Costs:
        """The costs of a call that is complete."""
        inside = self._inside.pop(call.id, None) or _Inside()
        is_module, time = call.kind == "module", call.duration or 0
        # Operations are counted where they were counted closest to the hardware.
        flops = inside.flops or call.flops or 0
        if call.parent is not None:
            around = self._inside.get(call.parent)
            if around is None:
                around = self._inside[call.parent] = _Inside()
            around.time += time
            around.modules += time if is_module else inside.modules
            around.flops += flops if call.phase == "forward" else 0
        own = max(0, time - (inside.modules if is_module else inside.time))
        return Costs(time, own, memory(call), flops, is_launch=call.has_launch_time)


def memory(call: Call) -> int:
    """The bytes of all tensors that a call returned."""
    out = call.result
    if type(out) is TensorFacts:
        return size(out)
    return sum([size(facts) for facts in call.outputs])


def size(facts: TensorFacts) -> int:
    """The bytes of a tensor's elements; a size that is only a symbol counts as nothing."""
    total = dtype_named(facts.dtype).size
    for length in facts.shape:
        total *= length if isinstance(length, int) else 0
    return total
