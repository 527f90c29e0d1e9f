"""The calls behind a tensor as `trace.origin` reads them: the tape of a probe, and the tensors that are still alive."""

from __future__ import annotations

from typing import TYPE_CHECKING

from insitu.capture.calls import FunctionCallee
from insitu.capture.explain.reading import Reading
from insitu.capture.finite import is_finite
from insitu.capture.guard.facts import input_values
from insitu.capture.guard.risk import can_produce
from insitu.capture.tensors import Value
from insitu.trace.operation import operation
from insitu.trace.origin import FINITE, Passage, literals

if TYPE_CHECKING:
    from insitu.capture.guard.check import ProbeChecks


class TapeHistory:
    """A `CallHistory` whose tensors are values of a tape."""

    def __init__(self, check: ProbeChecks) -> None:
        self._check = check
        self._reading = Reading(check.probe.tape)

    def producer(self, tensor: Value) -> int:
        """The call that produced a tensor; negative if none is known."""
        return tensor.producer

    def inputs(self, call: int) -> list[Value]:
        """The tensors that went into a call."""
        return input_values(self._reading, call)

    def is_unchecked(self, call: int) -> bool:
        """Whether nobody looked at the outputs of a call when it returned."""
        return not self._check.is_checked(call)

    def can_produce(self, call: int) -> bool:
        """Whether a call does more than to pass on what it gets."""
        return can_produce(self._reading.callee(call))

    def is_suspect(self, tensor: Value) -> bool:
        """Whether a tensor is not finite or, where it is gone, was not checked."""
        there = tensor()
        if there is None:
            return self._check.is_suspect(tensor.producer)
        return not is_finite(there)

    def is_bad(self, tensor: Value) -> bool:
        """Whether a tensor is known not to be finite."""
        there = tensor()
        if there is None:
            return tensor.producer in self._check.nonfinite or self.is_literal(tensor)
        if self._is_overwritten(tensor):
            return tensor.producer in self._check.nonfinite
        return not is_finite(there)

    def is_unknown(self, tensor: Value) -> bool:
        """Whether nobody has looked at a tensor, and nobody can any more."""
        if tensor() is None:
            return tensor.producer in self._check.unchecked
        return self._is_overwritten(tensor)

    def is_literal(self, tensor: Value) -> bool:
        """Whether a call made a tensor of nothing but a number that is not finite, as `torch.full` does."""
        if tensor.producer < 0:
            return False
        passage = self.entry(tensor.producer)
        return passage is not None and not passage.inputs and not passage.literals.is_finite

    def entry(self, call: int) -> Passage | None:
        """A call of a function with its literals; None for other calls. The inputs are not read."""
        callee = self._reading.callee(call)
        if not isinstance(callee, FunctionCallee):
            return None
        written = literals((self._reading.args(call), self._reading.kwargs(call)))
        inputs = tuple(FINITE for _ in self.inputs(call))
        return Passage(operation(callee.kind, callee.name), inputs, literals=written)

    def _is_overwritten(self, tensor: Value) -> bool:
        """Whether a call has changed a tensor in place since."""
        return self._check.probe.table.get(id(tensor())) is not tensor
