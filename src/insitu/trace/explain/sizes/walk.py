"""The walk: from a dimension that does not fit back to the call that introduced its size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from insitu.trace.event import TensorFacts, tensors
from insitu.trace.explain.failure_history import FailureHistory, TensorToken
from insitu.trace.explain.sizes.operator_call import OperatorCall, PassedOn
from insitu.trace.explain.sizes.rules import rule_for
from insitu.trace.explain.sizes.size_changes import changed_from

MOST_CALLS = 300
MOST_CHANGES = 8  # that one size is followed through


@dataclass(slots=True, frozen=True)
class FollowedDimension:
    """A dimension of a tensor; `dim` counts from the left."""

    tensor: TensorToken
    facts: TensorFacts
    dim: int

    @property
    def size(self) -> int | str:
        """The size of the dimension."""
        return self.facts.shape[self.dim]


@dataclass(slots=True, frozen=True)
class SizeOrigin:
    """The dimension where a size began: `call` introduced it, or it came from outside if that is None.

    `before` are the facts of the first tensor that went into the call. `calls` counts those that passed the size on.
    `receiver` is the first of them. `earlier` is the dimension that the call computed the size from, if there is one.
    """

    start: FollowedDimension
    call: int | None
    before: TensorFacts | None = None
    calls: int = 0
    receiver: int | None = None
    earlier: FollowedDimension | None = None

    @property
    def is_change(self) -> bool:
        """Whether the call computed the size from another one."""
        return self.earlier is not None


def find_sizes(history: FailureHistory, tensor: TensorToken, dim: int) -> Iterator[SizeOrigin]:
    """Where the size of a dimension comes from, and where the size that it was computed from does, and so on."""
    found = find_size(history, tensor, dim)
    for _ in range(MOST_CHANGES):
        if found is None:
            return
        yield found
        if found.earlier is None:
            return
        found = find_size(history, found.earlier.tensor, found.earlier.dim)


def find_size(history: FailureHistory, tensor: TensorToken, dim: int) -> SizeOrigin | None:
    """Where the size of a dimension comes from; None if a call on the way is not known well enough to say."""
    now = FollowedDimension(tensor, history.plain(tensor), dim)
    receiver: int | None = None
    for calls in range(MOST_CALLS):
        at = history.producer(now.tensor)
        if at is None:
            return SizeOrigin(now, None, calls=calls, receiver=receiver)
        call = _operator_call(history, at, now)
        rule = rule_for(call)
        if rule is None:
            return None
        source = rule(call, now.dim)
        if source is None:
            earlier = _changed_dimension(history, at, call, now)
            before = earlier.facts if earlier is not None else next(iter(call.inputs), None)
            return SizeOrigin(now, at, before, calls, receiver, earlier)
        if not _fits(source, call, now):
            return None
        token = history.inputs(at)[source.input]
        now = FollowedDimension(token, call.inputs[source.input], source.dim)
        receiver = at
    return None


def _changed_dimension(
    history: FailureHistory, at: int, call: OperatorCall, now: FollowedDimension
) -> FollowedDimension | None:
    """The dimension of an input that a call computed a size from."""
    source = changed_from(call, now.dim)
    if source is None or not 0 <= source.input < len(call.inputs):
        return None
    return FollowedDimension(history.inputs(at)[source.input], call.inputs[source.input], source.dim)


def _operator_call(history: FailureHistory, at: int, now: FollowedDimension) -> OperatorCall:
    args = tuple(history.plain(history.args(at)))
    kwargs = dict(history.plain(history.kwargs(at)))
    inputs = tuple(tensors((args, kwargs)))
    return OperatorCall(history.operation(at), args, kwargs, inputs, now.facts.shape)


def _fits(source: PassedOn, call: OperatorCall, now: FollowedDimension) -> bool:
    """Whether the input has this dimension, with the same size; a rule that does not fit its call proves nothing."""
    if not 0 <= source.input < len(call.inputs):
        return False
    shape = call.inputs[source.input].shape
    return source.dim < len(shape) and shape[source.dim] == now.size
