"""Where the graph between a loss and its parameters is cut: a call that takes a gradient and whose result has none."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from itertools import islice

from insitu.capture.explain.reading import Reading, values
from insitu.capture.guard.facts import input_values
from insitu.capture.tensors import ParameterValue, Value
from insitu.trace.event import Call
from insitu.trace.operation import operation

EXITS = frozenset({"numpy", "detach", "data", "item", "tolist", "__array__", "__float__", "argmax"})
MOST_CALLS = 1 << 12  # that are looked at where no call leads to the losses


def cut_before(reading: Reading, losses: Iterable[Value], missing: Container[int]) -> Call | None:
    """The call nearest to the losses behind which parameters get no gradient; None where no call on the tape cuts.

    `missing` holds the ids of those parameters. Where no such call leads to the losses, the values have left torch and
    came back, as NumPy arrays or numbers: then it is the first call that takes them out.
    """
    search = ParameterSearch(reading, missing)
    for at in producers(reading, losses, set()):
        if is_cut(reading, at) and search.is_behind(with_gradient(input_values(reading, at))):
            return reading.call(at)
    for at in islice(reading.before(len(reading.tape)), MOST_CALLS):
        if is_exit(reading, at) and search.is_behind(with_gradient(input_values(reading, at))):
            return reading.call(at)
    return None


def is_cut(reading: Reading, at: int) -> bool:
    """Whether a call takes a tensor that requires a gradient, and its result does not."""
    return bool(with_gradient(input_values(reading, at))) and not with_gradient(values(reading.result(at)))


def is_exit(reading: Reading, at: int) -> bool:
    """Whether a call in a module takes what was computed there out of torch; a parameter may be read by anybody."""
    callee = reading.callee_facts(at)
    if operation(callee.kind, callee.name).own not in EXITS or not is_cut(reading, at):
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
    """Looks for wanted parameters behind values until it finds one; remembers the calls that do not lead to them."""

    def __init__(self, reading: Reading, wanted: Container[int]) -> None:
        self._reading, self._wanted = reading, wanted
        self._unrelated: set[int] = set()

    def is_behind(self, found: list[Value]) -> bool:
        """Whether a wanted parameter is among some values, or is where they come from."""
        if self._has_wanted(found):
            return True
        earlier = producers(self._reading, found, self._unrelated)
        return any(self._has_wanted(input_values(self._reading, at)) for at in earlier)

    def _has_wanted(self, found: list[Value]) -> bool:
        return any(id(value()) in self._wanted for value in found)
