"""Whether the random generators of two runs are still in the same state, or one has drawn more numbers."""

from __future__ import annotations

import math
from collections import Counter

from insitu.trace.compare.closeness import Closeness
from insitu.trace.compare.manner import draws
from insitu.trace.compare.stops import Stop
from insitu.trace.compare.units import Unit
from insitu.trace.event import Call

Draw = tuple[str, int]  # the device, and how many numbers


class Generators:
    """The calls after which the default generators of two runs are in different states, by device."""

    def __init__(self) -> None:
        self._moved: dict[str, Unit] = {}

    def moved(self, unit: Unit) -> Unit | None:
        """The earlier call because of which a pair draws other numbers; None if there is none that was recorded."""
        if not self._moved:
            return None
        return next((self._moved[device] for device, _ in _drawn(unit.a) if device in self._moved), None)

    def note(self, unit: Unit, out: Closeness | None = None) -> None:
        """Note whether a unit draws as many numbers in both runs, and whether these are the same."""
        if unit.matched and unit.a[0].operation.draws == "never" == unit.b[0].operation.draws:  # as most often
            return
        one, other = _drawn(unit.a), _drawn(unit.b)
        if one != other:
            for device, _ in (one - other) + (other - one):
                self._moved.setdefault(device, unit)
        elif out is not None and out.same and unit.a[0].operation.draws != "order":  # the seed has been set again
            for device, _ in one:
                self._moved.pop(device, None)


def _drawn(stops: list[Stop]) -> Counter[Draw]:
    """How many numbers calls draw from the default generator of each device."""
    return Counter([_draw(stop.event) for stop in stops if type(stop.event) is Call and _is_default(stop)])


def is_seeded(stop: Stop) -> bool:
    """Whether a call draws from a generator of its own."""
    call = stop.event
    return type(call) is Call and draws(stop) and call.kwargs.get("generator") is not None


def _is_default(stop: Stop) -> bool:
    return draws(stop) and not is_seeded(stop)


def _draw(call: Call) -> Draw:
    made = call.outputs[0] if call.outputs else None
    if made is None:
        return "cpu", 0
    return made.device, math.prod(size for size in made.shape if isinstance(size, int))
