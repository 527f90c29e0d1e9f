"""Where the graph between a loss and its parameters is cut: a call that takes a gradient and whose result has none."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from itertools import islice

from insitu.capture.explain.reading import Reading, values
from insitu.capture.guard.facts import input_values
from insitu.capture.tensors import ParameterValue, Value
from insitu.trace.event import Call

SHAPES = frozenset({"size", "shape", "dim", "numel", "stride", "device", "dtype"})
EXITS = frozenset({"numpy", "detach", "data", "item", "tolist", "__array__", "__float__", "argmax"})
MOST_CALLS = 1 << 12  # that are looked at where no call leads to the losses


def cut_before(reading: Reading, losses: Iterable[Value], missing: Container[int]) -> Call | None:
    """The call nearest to the losses behind which parameters get no gradient; None where no call on the tape cuts.

    `missing` holds the ids of those parameters. Where no such call leads to the losses, the values have left torch and
    came back, as NumPy arrays or numbers: then it is the first call that takes them out.
    """
    search = ParameterSearch(reading, missing)
    for at in cuts_behind(reading, losses):
        if search.is_behind(with_gradient(input_values(reading, at))):
            return reading.call(at)
    for at in islice(reading.before(len(reading.tape)), MOST_CALLS):
        if is_exit(reading, at) and search.is_behind(with_gradient(input_values(reading, at))):
            return reading.call(at)
    return None


def cuts_behind(reading: Reading, found: Iterable[Value]) -> Iterator[int]:
    """The calls behind some values, the nearest first, that took a gradient for a result that has none: the numbers of
    `detach`, the indices of `topk`. What only takes a shape, as `zeros_like`, does not depend on the values."""
    waiting, met = list(filter(is_result, found)), set[int]()
    for value in waiting:  # it grows meanwhile
        at = reading.producer(value)
        if at is None or id(value) in met or takes_shape_only(reading, at):
            continue
        met.add(id(value))
        inputs = input_values(reading, at)
        waiting += filter(is_result, inputs)
        if not value.requires_grad and with_gradient(inputs):
            yield at


def is_result(value: Value) -> bool:
    """Whether a value is not a weight: who wrote the first values of a weight cuts nothing."""
    return not isinstance(value, ParameterValue)


def takes_shape_only(reading: Reading, at: int) -> bool:
    """Whether a call takes nothing but the shape, dtype and device of a tensor."""
    own = reading.operation(at).own
    return own.endswith("_like") or (own.startswith("new_") and own != "new_tensor") or own in SHAPES


def is_cut(reading: Reading, at: int) -> bool:
    """Whether a call takes a tensor that requires a gradient, and its result does not."""
    return bool(with_gradient(input_values(reading, at))) and not with_gradient(values(reading.result(at)))


def is_exit(reading: Reading, at: int) -> bool:
    """Whether a call in a module takes what was computed there out of torch; a parameter may be read by anybody."""
    if reading.operation(at).own not in EXITS or not is_cut(reading, at):
        return False
    has_parameter = any(isinstance(value, ParameterValue) for value in input_values(reading, at))
    return not has_parameter and bool(reading.modules(at))


def with_gradient(found: Iterable[Value]) -> list[Value]:
    """The values that require a gradient."""
    return [value for value in found if value.requires_grad]


def producers(reading: Reading, found: Iterable[Value], met: set[int]) -> Iterator[int]:
    """The calls that some values come from, over any distance, the nearest first. `met` are those to pass over, and
    grows meanwhile."""
    waiting = list(found)
    for value in waiting:  # it grows meanwhile
        at = reading.producer(value)
        if at is not None and at not in met:
            met.add(at)
            waiting += input_values(reading, at)
            yield at


class ParameterSearch:
    """Looks for wanted parameters that gradients of values would reach, until it finds one; remembers the calls that do
    not lead to them."""

    def __init__(self, reading: Reading, wanted: Container[int]) -> None:
        self._reading, self._wanted = reading, wanted
        self._unrelated: set[int] = set()

    def is_behind(self, found: list[Value]) -> bool:
        """Whether a wanted parameter is among some values, or a gradient of theirs would reach it."""
        waiting = with_gradient(found)
        for value in waiting:  # it grows meanwhile
            if id(value()) in self._wanted:
                return True
            at = self._reading.producer(value)
            if at is not None and at not in self._unrelated:
                self._unrelated.add(at)
                waiting += with_gradient(input_values(self._reading, at))
        return False
