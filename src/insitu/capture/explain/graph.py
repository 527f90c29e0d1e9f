"""What a tape tells of autograd: where a gradient was lost, what was freed, what was changed that was still needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torch import Tensor

from insitu.capture.explain.assigned import assigned
from insitu.capture.explain.reading import Reading, values
from insitu.capture.tape import BACKWARD, NODE_COUNT, NODES, Raised
from insitu.capture.tensors import Value
from insitu.trace.explanation import Origin


class Graph:
    """The calls before the end of a tape, as autograd sees them."""

    def __init__(self, reading: Reading, end: int) -> None:
        self._reading, self._end = reading, end

    def lost(self, value: Value) -> Iterator[Origin]:
        """The call behind a loss at which the gradient ends: what goes in requires one, what comes out does not."""
        seen: set[int] = set()
        waiting = [value]
        ends: list[Origin] = []
        while waiting:
            made = self._reading.producer(waiting.pop(0))
            if made is None or made in seen:
                continue
            seen.add(made)
            taken = list(values([self._reading.args(made), self._reading.kwargs(made)]))
            tensors = [item for item in taken if not _is_array(item)]
            place = self._reading.place(made)
            if place is not None and any(item.requires_grad for item in tensors):
                yield Origin("gradient", "lost at", place)
                return
            unseen = [each for item in tensors for each in self._unseen(made, item)]
            known = [item for item in tensors if self._reading.producer(item) is not None]
            if place is not None and not known and not unseen:
                ends.append(Origin("", "made without a gradient at", place))
            ends[:0] = unseen
            waiting += tensors
        yield from ends[:3]

    def _unseen(self, at: int, value: Value) -> Iterator[Origin]:
        """Where something that no recorded call has made got its name: from NumPy, mostly."""
        place = self._reading.place(at) if self._reading.producer(value) is None else None
        name = self._reading.name_in(at, value)
        for found in assigned(place.file, place.line, name)[:1] if place is not None else ():
            yield Origin(name, "has no gradient, assigned at", found)

    def forward(self, at: int) -> Origin | None:
        """The call whose gradient an operator of the backward pass was computing."""
        tape = self._reading.tape
        if not tape[at + BACKWARD] or self._reading.note(at).kind != "aten":
            return None
        found: int | None = None
        for other in self._reading.before(self._end):
            count, first = divmod(tape[other + NODES], NODE_COUNT)
            if count and first <= tape[at + NODES] < first + count:
                found = other  # the last that fits is the innermost
        place = self._reading.place(found) if found is not None else None
        return Origin("backward", "of the call at", place) if place is not None else None

    def earlier_backward(self) -> Origin | None:
        """The backward pass before this one, which has freed what it went through."""
        found = None
        for at in self._reading.before(self._end):
            note = self._reading.note(at)
            freed = getattr(note, "runs_backward", False) and self._reading.kwargs(at).get("retain_graph") is not True
            if freed and not isinstance(self._reading.result(at), Raised):
                found = at
        place = self._reading.place(found) if found is not None else None
        return Origin("graph", "freed by the backward at", place) if place is not None else None

    def changed(self, shape: Sequence[int], maker: str) -> Iterator[Origin]:
        """What was changed in place after a call that needs it for its gradient, and that call."""
        found: tuple[int, int, int] | None = None
        used: dict[int, int] = {}  # the last call that was given a value and made nodes
        for at in self._reading.before(self._end):
            taken = list(values([self._reading.args(at), self._reading.kwargs(at)]))
            if getattr(self._reading.note(at), "in_place", False) and self._reading.note(at).kind == "function":
                for value in values(self._reading.args(at)[:1]):
                    rank = self._likely(value, shape, maker, used)
                    if rank and (found is None or rank >= found[0]):
                        found = rank, at, used.get(id(value), self._reading.producer(value) or at)
            if self._reading.made_nodes(at):
                used.update((id(value), at) for value in taken)
        if found is None:
            return
        _, changed, needed = found
        yield Origin("changed", "in place at", self._reading.place(changed))
        if needed != changed:
            yield Origin("needed", "for the gradient of", self._reading.place(needed))

    def _likely(self, value: Value, shape: Sequence[int], maker: str, used: dict[int, int]) -> int:
        """How well a value that is changed fits what autograd misses: by its shape, and by what made it."""
        sizes = list(value.layout[0] or ())
        made = self._reading.producer(value)
        name = self._reading.note(made).name.rpartition(".")[2].strip("_") if made is not None else ""
        same_shape = sizes == list(shape) or sizes == list(reversed(shape))
        same_maker = bool(maker) and name.lower() in maker.lower()
        if id(value) not in used and not same_maker:
            return 0
        return 1 + 2 * same_shape + 4 * (same_maker and same_shape)


def _is_array(value: Value) -> bool:
    kind = getattr(value, "type", Tensor)
    return not issubclass(kind, Tensor)
