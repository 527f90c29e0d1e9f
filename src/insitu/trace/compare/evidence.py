"""What is known of one pair of calls: whether the inputs agree, how the calls are made, whether the outputs agree.

All of it comes from the two calls alone. Which call is to blame for a difference is decided later, in `causes`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from insitu.trace.compare.change import SAME_MANNER, Manner
from insitu.trace.compare.closeness import (
    NOTHING_DIFFERS,
    Certainty,
    Closeness,
    Tolerance,
    basis,
    close,
    close_plain,
    worst,
)
from insitu.trace.compare.manner import argument_changes, exception_changes, manner_of_calls, setting_changes
from insitu.trace.compare.pairs import Pair
from insitu.trace.compare.stops import inputs
from insitu.trace.event import Call, TensorFacts, Variable, tensors
from insitu.trace.operation import Operation
from insitu.trace.origin import finiteness

Facts = tuple[TensorFacts, ...]


class TensorPair(NamedTuple):
    """A tensor of a beside one of b, and how close they are."""

    a: TensorFacts
    b: TensorFacts
    closeness: Closeness


TensorPairs = tuple[TensorPair, ...]


class Evidence(NamedTuple):
    """What is known of a pair: of a call, of the beginning or end of one, of a variable.

    `inputs` are the tensors that go in, those of b in the order of a; `operands` are those of a, even if b has fewer.
    `outputs` are the tensors that come out, and `output` is the largest difference among them and all else that comes
    out. `is_producer` says that the call itself made its outputs: at the end of a module or a function it is False if
    a call within made them.
    """

    inputs: TensorPairs = ()
    manner: Manner = SAME_MANNER
    outputs: TensorPairs = ()
    output: Closeness = NOTHING_DIFFERS
    is_producer: bool = True
    operands: Facts = ()


class Comparison:
    """Compares tensors and plain values; each pair of tensors is compared once."""

    def __init__(self, tolerance: Tolerance) -> None:
        self.tolerance = tolerance
        self._tight = tolerance.tenth()
        self._plain = tolerance.of("f32", "f32")
        self._known: dict[tuple[int, int], Closeness] = {}

    def close(self, a: TensorFacts, b: TensorFacts) -> Closeness:
        """How close two tensors are."""
        key = (id(a), id(b))
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = close(a, b, self.tolerance)
        return found

    def doubt(self, pair: TensorPair) -> TensorPair:
        """Compare two tensors again whose calls took tensors that differ.

        Statistics hide most of what elements differ by. So a difference that went in counts as lost only if the
        statistics of what comes out agree within a tenth of the tolerance.
        """
        if not pair.closeness.drifts or pair.closeness.certainty != "statistics":
            return pair
        again = close(pair.a, pair.b, self._tight)
        if again.same is False:
            return pair._replace(closeness=again)
        return pair

    def plain(self, a: Any, b: Any) -> Closeness:
        """How close two Python values are; tensors in them are not looked at."""
        return close_plain(a, b, *self._plain) or NOTHING_DIFFERS

    def pairs(self, a: Facts, b: Facts) -> TensorPairs:
        """Tensors of a beside those of b, in order; those without a counterpart are left out."""
        if len(a) == 1 and len(b) == 1:  # as most often
            return (TensorPair(a[0], b[0], self.close(a[0], b[0])),)
        return tuple([TensorPair(left, right, self.close(left, right)) for left, right in zip(a, b, strict=False)])


def evidence_of(pair: Pair, comparison: Comparison) -> Evidence | None:
    """What is known of a pair; None for a stretch of calls that the other run does not make."""
    if not pair.matched:
        return None
    a, b = pair.a[0].event, pair.b[0].event
    if type(a) is Variable and type(b) is Variable:
        return _of_variable(a, b, comparison)
    assert type(a) is Call and type(b) is Call
    return _BY_ROLE[pair.a[0].role](pair, a, b, comparison)


def _of_call(pair: Pair, a: Call, b: Call, comparison: Comparison) -> Evidence:
    into_a, into_b = _operands(a, b, pair.a[0].operation, comparison)
    manner = manner_of_calls(pair, a, b, (len(into_a), len(into_b)))
    into = comparison.pairs(into_a, into_b)
    if pair.a[0].operation.is_uninitialized:
        return Evidence(into, manner, operands=into_a)
    outputs = _outputs(a, b, comparison)
    return Evidence(into, manner, outputs, _output(a, b, outputs, comparison), operands=into_a)


def _of_beginning(pair: Pair, a: Call, b: Call, comparison: Comparison) -> Evidence:
    """The beginning of a module or a watched function: arguments and settings."""
    manner = Manner(argument_changes(a, b, pair.a[0].operation), setting_changes(a, b))
    operands = a.inputs
    return Evidence(comparison.pairs(operands, b.inputs), manner, operands=operands)


def _of_end(pair: Pair, a: Call, b: Call, comparison: Comparison) -> Evidence:
    """The end of a module or a watched function: its result, and the exception that ends it."""
    operands = a.inputs
    into = comparison.pairs(operands, b.inputs)
    manner = Manner(exception_changes(a, b))
    if not _is_producer(a, b):
        results = comparison.pairs(a.outputs, b.outputs)
        return Evidence(into, manner, results, is_producer=False, operands=operands)
    outputs = _outputs(a, b, comparison)
    return Evidence(into, manner, outputs, _output(a, b, outputs, comparison), operands=operands)


def _is_producer(a: Call, b: Call) -> bool:
    """Whether a container counts as the producer of its result: no call within made it."""
    if not a.outputs and not b.outputs:
        return True
    return any(facts.producer == a.id for facts in a.outputs)


def _of_variable(a: Variable, b: Variable, comparison: Comparison) -> Evidence:
    """A variable after it changed: the tensors in its value, and the rest of it."""
    held = comparison.pairs(tuple(tensors(a.value)), tuple(tensors(b.value)))
    found = [*(pair.closeness for pair in held), comparison.plain(a.value, b.value)]
    return Evidence(held, outputs=held, output=worst(found))


_BY_ROLE = {"call": _of_call, "begin": _of_beginning, "end": _of_end}


def _operands(a: Call, b: Call, operation: Operation, comparison: Comparison) -> tuple[Facts, Facts]:
    """The tensors that go in; those of `x + y` may be the other way round."""
    into_a, into_b = inputs(a), inputs(b)
    if operation.commutes and _are_swapped(into_a, into_b, comparison):
        return into_a, into_b[::-1]
    return into_a, into_b


def _are_swapped(a: Facts, b: Facts, comparison: Comparison) -> bool:
    """Whether two operands, or one of them, are the same the other way round only."""
    if len(a) != 2 or len(b) != 2:
        return False
    if comparison.close(a[0], b[0]).same is not False or comparison.close(a[1], b[1]).same is not False:
        return False
    crossed = (comparison.close(a[0], b[1]), comparison.close(a[1], b[0]))
    return any(closeness.same for closeness in crossed)


def _outputs(a: Call, b: Call, comparison: Comparison) -> TensorPairs:
    """The tensors that come out, if both calls return and return as many."""
    if a.raised is not None or b.raised is not None:
        return ()
    one, other = a.outputs, b.outputs
    if len(one) != len(other):
        return ()
    return comparison.pairs(one, other)


def _output(a: Call, b: Call, outputs: TensorPairs, comparison: Comparison) -> Closeness:
    """The largest difference in what comes out."""
    if len(outputs) == 1:
        return outputs[0].closeness
    if outputs:
        return worst([pair.closeness for pair in outputs])
    if a.raised is not None or b.raised is not None:
        return NOTHING_DIFFERS
    if len(a.outputs) != len(b.outputs):
        return Closeness(False, "structure", measure="number of outputs")
    if a.result is None and b.result is None:
        return NOTHING_DIFFERS
    return comparison.plain(a.result, b.result)


def certainty_counts(evidence: Iterable[Evidence | None], last: Iterable[TensorPair]) -> Counter[Certainty]:
    """How many outputs were compared by values, by statistics, by structure only; `last` are those of last calls."""
    counts = Counter(map(_basis, last))
    for known in filter(None, evidence):
        if known.is_producer:
            counts.update(map(_basis, known.outputs))
    return counts


def _basis(pair: TensorPair) -> Certainty:
    """What two tensors were compared by: of those that differ, the best that both sides have kept."""
    if pair.closeness.same is False:
        return basis(pair.a, pair.b)
    return pair.closeness.certainty


def has_nan(call: Call) -> bool:
    """Whether there is NaN in what a call makes: whatever went in, NaN is equal to NaN."""
    return any(_has_nan(facts) for facts in call.outputs)


def _has_nan(facts: TensorFacts) -> bool:
    if facts.stats is not None:
        return finiteness(facts.stats).nan
    kept = facts.kept
    if isinstance(kept, float):
        return kept != kept
    kind = getattr(getattr(kept, "dtype", None), "kind", "")
    if kind not in ("f", "c", "V"):  # V: as bfloat16 has it
        return False
    return bool((kept != kept).any())


def operand(index: int, inputs: Facts, operation: Operation, kwargs: dict[str, object]) -> str:
    """An input by its name, with dtype and shape: `weight f32[24, 8]`."""
    facts = inputs[index]
    for argument, item in kwargs.items():
        if item is facts:
            return f"{argument} {facts!r}"
    return f"{operation.input_name(index, len(inputs))} {facts!r}"
