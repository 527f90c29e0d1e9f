"""Whether a loss depends on what goes into the model: the walk from the loss back to parameters, data and constants.

Only a lineage that is complete shows that a loss does not depend on something: numbers that leave torch inside of the
model, writes into other tensors, and tensors that no recorded call made there end the walk without an answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from insitu.capture.explain.reading import Reading, values
from insitu.capture.guard.cut import takes_shape_only
from insitu.capture.guard.sampling import is_due
from insitu.capture.names import ModuleCallee
from insitu.capture.tensors import ParameterValue, Value
from insitu.trace.step_health import UnrelatedLoss

# What makes a tensor of numbers that are in the program, or drawn: no data gets in.
CONSTANTS = frozenset(
    (
        *("zeros", "ones", "full", "eye", "arange", "linspace", "rand", "randn", "randint", "randperm"),
        *("zeros_like", "ones_like", "full_like", "rand_like", "randn_like", "new_zeros", "new_ones", "new_full"),
    )
)
LABELLED = ("elementwise", "loss")  # the families of calls that compare predictions with labels


class LossDependence:
    """Looks at backward passes until the loss of one depends on the inputs, or its lineage is not complete."""

    def __init__(self) -> None:
        self._passes = self._samples = 0
        self.is_settled = False  # whether a pass has shown that there is nothing to find
        self._first: UnrelatedLoss | None = None

    @property
    def is_due(self) -> bool:
        """Whether to look at the next pass."""
        return not self.is_settled and is_due(self._passes)

    def end_backward(self) -> None:
        """A backward pass has ended."""
        self._passes += 1

    def look(self, reading: Reading, at: int, constants: set[int]) -> None:
        """Look at a backward pass; `constants` are the ids of the parameters and buffers of modules."""
        found = unrelated_loss(reading, at, constants)
        if found is None:
            self.is_settled, self._first = True, None
            return
        self._samples += 1
        self._first = self._first or found

    def history(self) -> UnrelatedLoss | None:
        """The first loss, and how many were looked at, if none of them depends on the inputs."""
        if self._first is None:
            return None
        return replace(self._first, samples=self._samples)


class UnknownLineage(Exception):
    """The lineage is not complete, or reaches the inputs: nothing is to be said."""


def unrelated_loss(reading: Reading, at: int, constants: set[int]) -> UnrelatedLoss | None:
    """What is known about a loss that does not depend on the inputs of a model; None if it does, or may."""
    models = [call for call in reading.before(at) if is_model_call(reading, call)]
    trained = [call for call in models if has_gradient(reading, call)]
    inputs = [value for call in models for value in data_of(reading, call)]
    if not trained or not list(data_of(reading, trained[-1])):
        return None
    walk = LossWalk(reading, Tensors.of(inputs), constants)
    try:
        walk.follow(reading.inputs(at))
        require_followed(reading, at)
    except UnknownLineage:
        return None
    begin = first_with_gradient(reading, (call for call in walk.calls if call > trained[-1]))
    if begin is None:
        return None
    return UnrelatedLoss(reading.call(trained[-1]), reading.call(begin), reading.call(at))


def has_gradient(reading: Reading, at: int) -> bool:
    """Whether a result of a call requires a gradient."""
    return any(value.requires_grad for value in values(reading.result(at)))


def first_with_gradient(reading: Reading, calls: Iterable[int]) -> int | None:
    """The first of some calls whose result requires a gradient, or the call around it that is in the user's source."""
    for at in sorted(calls):
        if has_gradient(reading, at):
            return reading.on_line(at)
    return None


def is_model_call(reading: Reading, at: int) -> bool:
    """Whether a call is an outermost call of a module that has parameters; a loss function has none."""
    is_module = isinstance(reading.callee(at), ModuleCallee)
    return is_module and len(reading.modules(at)) == 1 and is_in_model(reading, at)


def is_in_model(reading: Reading, at: int) -> bool:
    """Whether a call is one of a module that has parameters, or made in it."""
    for callee in reading.modules(at)[:1]:
        module = callee.ref()
        return module is not None and any(True for _ in module.parameters())
    return False


def data_of(reading: Reading, at: int) -> Iterator[Value]:
    """The tensors that went into a call of a module, without parameters."""
    return (value for value in reading.inputs(at) if not isinstance(value, ParameterValue))


def require_followed(reading: Reading, end: int) -> None:
    """Raise UnknownLineage if data leaves the lineage in a model: as a number, or written into another tensor."""
    for at in reading.before(end):
        is_lost = leaves_torch(reading, at) or writes_elsewhere(reading, at)
        if is_lost and is_in_model(reading, at):
            raise UnknownLineage


def leaves_torch(reading: Reading, at: int) -> bool:
    """Whether a call takes tensors and returns something else."""
    has_tensor = any(not reading.is_array(value) for value in values(reading.result(at)))
    return not has_tensor and any(data_of(reading, at))


def writes_elsewhere(reading: Reading, at: int) -> bool:
    """Whether a call writes what it computes from one tensor into another one, which may be a view."""
    if "out" in reading.kwargs(at):
        return True
    return reading.callee_facts(at).in_place and len(list(data_of(reading, at))) > 1


@dataclass(frozen=True, slots=True)
class Tensors:
    """Some tensors, known by their values and by themselves: who writes into a tensor renews its value."""

    values: frozenset[int]
    tensors: frozenset[int]

    @classmethod
    def of(cls, found: Iterable[Value]) -> Tensors:
        """The tensors of some values."""
        kept = list(found)
        alive = (tensor for value in kept if (tensor := value()) is not None)
        return cls(frozenset(map(id, kept)), frozenset(map(id, alive)))

    def holds(self, value: Value) -> bool:
        """Whether a value is one of them."""
        tensor = value()
        return id(value) in self.values or (tensor is not None and id(tensor) in self.tensors)


@dataclass(slots=True)
class LossWalk:
    """Walks back from a loss; `calls` are those that compute the predictions, without those of the labels.

    A tensor without a gradient that a loss, or arithmetic outside of the model, combines with a prediction is a label.
    """

    reading: Reading
    inputs: Tensors
    constants: set[int]
    calls: set[int] = field(default_factory=set)

    def follow(self, losses: Iterable[Value]) -> None:
        """Walk to all ends; UnknownLineage if the inputs of the model are reached, or an end is not known."""
        waiting = list(losses)
        for value in waiting:  # it grows meanwhile
            at = self._producer(value)
            if at is not None and at not in self.calls:
                self.calls.add(at)
                waiting += self._predictions(at)

    def _producer(self, value: Value) -> int | None:
        """The call that made a value; None for a parameter, a buffer or a constant."""
        if self.inputs.holds(value) or self.reading.is_array(value):
            raise UnknownLineage
        if isinstance(value, ParameterValue) or id(value()) in self.constants:
            return None
        at = self.reading.producer(value)
        if at is None:
            raise UnknownLineage
        return at

    def _predictions(self, at: int) -> list[Value]:
        """The inputs of a call, without labels."""
        reading = self.reading
        if takes_shape_only(reading, at) and reading.operation(at).base in CONSTANTS:
            return []
        inputs = reading.inputs(at)
        if not inputs and reading.operation(at).base not in CONSTANTS:
            raise UnknownLineage
        can_have_labels = reading.operation(at).family in LABELLED and not is_in_model(reading, at)
        if not can_have_labels or not any(value.requires_grad for value in inputs):
            return inputs
        return [value for value in inputs if value.requires_grad]
