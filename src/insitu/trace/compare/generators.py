"""Whether the random generators of two runs are still in the same state, or one has drawn more numbers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

from insitu.trace.compare.closeness import Closeness
from insitu.trace.compare.pairs import Pair
from insitu.trace.compare.stops import Stop
from insitu.trace.event import Call, TensorFacts
from insitu.trace.operation import Operation

Draw = tuple[str, int]  # the device, and how many numbers


class Generators:
    """The pairs after which the default generators of two runs are in different states, by device."""

    def __init__(self) -> None:
        self._moved: dict[str, Pair] = {}

    def moved(self, pair: Pair) -> Pair | None:
        """The earlier pair because of which a pair draws other numbers; None if there is none that was recorded."""
        if not self._moved:
            return None
        for device, _ in _draws(pair.a):
            if device in self._moved:
                return self._moved[device]
        return None

    def follow(self, pair: Pair, output: Closeness | None = None) -> None:
        """Remember whether a pair draws as many numbers in both runs, and whether these are the same."""
        if not any(map(_may_draw, pair.a + pair.b)):  # as most often
            return
        one, other = _draws(pair.a), _draws(pair.b)
        if one != other:
            self._move((one - other) + (other - one), pair)
        elif output is not None and output.same:
            self._set_again(pair, one)

    def _move(self, difference: Iterable[Draw], pair: Pair) -> None:
        """Remember that a pair does not draw as many numbers in both runs."""
        for device, _ in difference:
            self._moved.setdefault(device, pair)

    def _set_again(self, pair: Pair, drawn: Iterable[Draw]) -> None:
        """Forget earlier pairs: the same numbers are drawn, so the seed has been set again."""
        if pair.a[0].operation.draws == "order":  # an order can be the same by chance
            return
        for device, _ in drawn:
            self._moved.pop(device, None)


def _draws(stops: Iterable[Stop]) -> Counter[Draw]:
    """How many numbers calls draw from the default generator of each device."""
    found: Counter[Draw] = Counter()
    for stop in filter(draws, stops):
        if type(stop.event) is Call and not is_seeded(stop):
            found[_draw(stop.event)] += 1
    return found


def _may_draw(stop: Stop) -> bool:
    return stop.operation.draws != "never"


def is_seeded(stop: Stop) -> bool:
    """Whether a call draws from a generator of its own."""
    call = stop.event
    if type(call) is not Call or not draws(stop):
        return False
    return call.kwargs.get("generator") is not None


def _draw(call: Call) -> Draw:
    if not call.outputs:
        return "cpu", 0
    output = call.outputs[0]
    return output.device, math.prod(size for size in output.shape if isinstance(size, int))


def draws(stop: Stop) -> bool:
    """Whether a call draws random numbers."""
    call = stop.event
    if type(call) is not Call:
        return False
    if stop.operation.draws == "if dropout_p":
        return _drops(call)
    if stop.operation.draws == "in training":
        return _regularizes(stop.operation, call)
    return stop.operation.is_random


def _drops(call: Call) -> bool:
    """Whether attention drops anything: by place it is given the probability as the only float."""
    if call.kwargs.get("training") is False:
        return False
    by_place = next((item for item in call.args if type(item) is float), 0.0)
    return bool(call.kwargs.get("dropout_p", by_place))


def _regularizes(operation: Operation, call: Call) -> bool:
    """Whether a dropout is at work: by place it is given the probability, then whether it trains."""
    arguments: dict[str, Any] = {}
    if operation.base != "rrelu":
        by_place = [item for item in call.args if type(item) is not TensorFacts]
        arguments = dict(zip(("p", "training"), by_place, strict=False))
    arguments |= {argument: call.kwargs[argument] for argument in ("p", "training") if argument in call.kwargs}
    trains = arguments.get("training", *operation.default("training"))
    return bool(trains) and arguments.get("p", 0.5) != 0
