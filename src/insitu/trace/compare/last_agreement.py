"""Where two runs that compute a tensor by other calls agree for the last time.

A tensor differs, and the runs do not make the same calls before it. Each run is walked back from this tensor, as long
as the other run has no tensor with the same numbers. The calls on this way are those that can be wrong.
"""

from __future__ import annotations

from collections.abc import Container

from insitu.trace.compare.moves import Moves, is_parameter
from insitu.trace.compare.stops import inputs
from insitu.trace.compare.tensor_contents import TensorContents
from insitu.trace.event import Call, TensorFacts
from insitu.trace.operation import operation

MOST_CALLS = 64  # on one way


class LastAgreement:
    """Walks back in one run.

    `other` are the tensors of the other run, and `agreed` are the calls that return the same in the other run.
    """

    def __init__(self, run: Moves, other: TensorContents, agreed: Container[int]) -> None:
        self._run, self._other, self._agreed = run, other, agreed

    def calls_since(self, facts: TensorFacts) -> tuple[Call, ...]:
        """The calls that led from what the other run has too, to a tensor that it does not have: the first one first.

        If the other run has the numbers of the tensor, they are in the wrong order or place: the call that put them
        there.
        """
        way: list[Call] = []
        tensor: TensorFacts | None = facts
        while tensor is not None and len(way) < MOST_CALLS:
            call = self._run.maker(tensor)
            if call is None:
                break
            way.append(call)
            tensor = self._unknown_input(call, has_numbers=self._other.have(tensor))
        way.reverse()
        return tuple(way)

    def _unknown_input(self, call: Call, *, has_numbers: bool) -> TensorFacts | None:
        """The input of a call with which to go on; None if the call itself is where the runs part."""
        if has_numbers:
            return self._input_of_copy(call)
        unknown = [facts for facts in inputs(call) if not self._is_known(facts)]
        unknown.sort(key=is_parameter)
        return next((facts for facts in unknown if self._run.maker(facts) is not None), None)

    def _is_known(self, facts: TensorFacts) -> bool:
        """Whether the other run has the same tensor: the same call made it, or it holds the same numbers."""
        maker = self._run.maker(facts)
        if maker is not None and maker.id in self._agreed:
            return True
        return self._other.have(facts)

    def _input_of_copy(self, call: Call) -> TensorFacts | None:
        """The input of a call that leaves values in their order."""
        operands = inputs(call)
        if operands and operation(call.kind, call.name).is_copy:
            return operands[0]
        return None
