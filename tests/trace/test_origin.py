"""The rule for where a NaN or Inf began, on calls made by hand: nothing here needs torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from insitu.trace.operation import operation
from insitu.trace.origin import (
    FINITE,
    MINUS_INF,
    Beginning,
    Doubt,
    Finiteness,
    GradientOrigin,
    Passage,
    beginning,
    doubt_of,
    entry_call,
    explains,
    gradient_origin,
    literals,
    may_heal,
    origin_output,
    reach_of,
    unchecked_source,
    union,
)

NAN, INF = Finiteness(nan=True), Finiteness(inf=True)
MINUS, BOTH = MINUS_INF, Finiteness(nan=True, inf=True)


def passage(
    name: str,
    *inputs: Finiteness,
    outputs: Sequence[Finiteness] = (),
    literals: Finiteness = FINITE,
    has_least: bool = False,
) -> Passage:
    return Passage(operation("function", f"torch.{name}"), inputs, tuple(outputs), literals, has_least)


BEGINNINGS = {
    "a finite output": (passage("exp", FINITE, outputs=[FINITE]), Beginning.NOWHERE),
    "Inf from finite inputs": (passage("exp", FINITE, outputs=[INF]), Beginning.HERE),
    "NaN from finite inputs": (passage("log", FINITE, outputs=[NAN]), Beginning.HERE),
    "NaN from Inf": (passage("sub", INF, INF, outputs=[NAN]), Beginning.HERE),
    "NaN from NaN": (passage("add", FINITE, NAN, outputs=[NAN]), Beginning.EARLIER),
    "Inf from Inf": (passage("add", FINITE, MINUS, outputs=[INF]), Beginning.EARLIER),
    "Inf from NaN": (passage("nan_to_num", NAN, outputs=[INF]), Beginning.EARLIER),
    "uninitialized memory": (passage("empty", outputs=[BOTH]), Beginning.MEMORY),
    "memory like another tensor": (passage("empty_like", FINITE, outputs=[NAN]), Beginning.MEMORY),
    "an infinite literal": (passage("masked_fill", FINITE, outputs=[MINUS], literals=MINUS), Beginning.LITERAL),
    "a NaN literal": (passage("mul", FINITE, outputs=[NAN], literals=NAN), Beginning.LITERAL),
    "a NaN literal that gives Inf": (passage("where", FINITE, outputs=[INF], literals=NAN), Beginning.LITERAL),
    "NaN from an infinite literal": (passage("mul", FINITE, outputs=[NAN], literals=INF), Beginning.HERE),
    "a literal without tensors": (passage("full", outputs=[INF], literals=INF), Beginning.LITERAL),
    "data": (passage("from_numpy", outputs=[NAN]), Beginning.DATA),
    "a mask": (passage("add", FINITE, outputs=[MINUS], has_least=True), Beginning.MASK),
    "a mask in a smaller dtype": (passage("Tensor.bfloat16", FINITE, outputs=[MINUS]), Beginning.MASK),
    "+inf next to a mask": (passage("add", FINITE, outputs=[INF], has_least=True), Beginning.HERE),
    "-inf without a mask": (passage("log", FINITE, outputs=[MINUS]), Beginning.HERE),
}


@pytest.mark.parametrize("name", BEGINNINGS)
def test_beginning_follows_the_order_of_the_rule(name: str) -> None:
    call, expected = BEGINNINGS[name]
    assert beginning(call, call.outputs[0]) is expected
    assert origin_output(call) == (0 if expected is Beginning.HERE else None)


def test_the_first_output_in_which_it_began_is_the_origin() -> None:
    assert origin_output(passage("linalg.slogdet", FINITE, outputs=[FINITE, INF, NAN])) == 1
    assert origin_output(passage("sub", INF, outputs=[INF, NAN])) == 1


def test_only_known_finite_inputs_are_called_finite() -> None:
    assert passage("log", FINITE).has_finite_inputs and passage("log").has_finite_inputs
    assert not passage("log", FINITE, MINUS).has_finite_inputs
    assert not passage("mul", FINITE, literals=INF).has_finite_inputs


def test_union_of_several_tensors() -> None:
    assert union([]) == FINITE and union([NAN, INF]) == BOTH
    assert FINITE.is_finite and not MINUS.is_finite and MINUS.is_minus_inf and not BOTH.is_minus_inf


def test_literals_are_found_in_nested_arguments() -> None:
    assert literals([1, {"value": (2.0, float("nan"))}, float("-inf")]) == Finiteness(nan=True, minus_inf=True)
    assert literals(("nan", 10**400, None, 1.5)) == FINITE
    endless: list[object] = [float("inf")]
    endless.append(endless)
    assert literals(endless) == INF


@pytest.mark.parametrize(
    ("output", "has_gradient", "is_in_model", "expected"),
    [
        (INF, False, True, True),
        (MINUS, False, False, True),
        (NAN, False, False, True),
        (NAN, False, True, False),
        (INF, True, False, False),
    ],
)
def test_inf_without_gradient_and_nan_outside_of_models_may_heal(
    output: Finiteness, has_gradient: bool, is_in_model: bool, expected: bool
) -> None:
    assert may_heal(output, has_gradient=has_gradient, is_in_model=is_in_model) == expected


@pytest.mark.parametrize(
    ("call", "is_nan", "is_in_model", "reach"),
    [
        (passage("Tensor.item", INF), False, True, "number"),
        (passage("sub", INF, outputs=[NAN]), False, False, "nan"),
        (passage("add", INF, outputs=[INF]), False, True, None),
        (passage("add", NAN, outputs=[NAN]), True, False, None),
        (passage("linear", NAN, outputs=[NAN]), True, True, "model"),
    ],
)
def test_reach_is_a_number_nan_or_the_model(call: Passage, is_nan: bool, is_in_model: bool, reach: str | None) -> None:
    assert reach_of(call, is_nan=is_nan, is_in_model=is_in_model) == reach


@pytest.mark.parametrize(
    ("outgoing", "incoming", "is_known", "is_scaled", "expected"),
    [
        (INF, FINITE, False, False, GradientOrigin.NODE),
        (NAN, INF, True, False, GradientOrigin.NODE),
        (INF, INF, False, False, GradientOrigin.UNCHECKED),
        (INF, INF, True, False, GradientOrigin.KNOWN),
        (FINITE, INF, False, False, GradientOrigin.KNOWN),
        (INF, FINITE, False, True, GradientOrigin.KNOWN),
        (NAN, INF, False, True, GradientOrigin.KNOWN),
        (NAN, FINITE, False, True, GradientOrigin.NODE),
    ],
)
def test_gradient_origin_is_the_node_an_unchecked_call_or_known(
    outgoing: Finiteness, incoming: Finiteness, is_known: bool, is_scaled: bool, expected: GradientOrigin
) -> None:
    assert gradient_origin(outgoing, incoming, is_known=is_known, is_scaled=is_scaled) is expected


def test_only_nan_of_the_forward_pass_explains_nan_that_is_news() -> None:
    assert explains(NAN, nan=True) and not explains(INF, nan=True)
    assert explains(MINUS, nan=False) and not explains(FINITE, nan=False)


# The calls behind a tensor: call n returns tensor n, and negative tensors were there before.


@dataclass
class Program:
    """Calls made by hand, by the tensors that go into them."""

    calls: dict[int, list[int]]
    unchecked: set[int] = field(default_factory=set)
    bad: set[int] = field(default_factory=set)
    unknown: set[int] = field(default_factory=set)
    moves: set[int] = field(default_factory=set)
    entries: dict[int, Passage] = field(default_factory=dict)

    def producer(self, tensor: int) -> int:
        return tensor

    def inputs(self, call: int) -> list[int]:
        return self.calls[call]

    def is_unchecked(self, call: int) -> bool:
        return call in self.unchecked

    def can_produce(self, call: int) -> bool:
        return call not in self.moves

    def is_suspect(self, tensor: int) -> bool:
        return tensor in self.bad

    def is_bad(self, tensor: int) -> bool:
        return tensor in self.bad

    def is_unknown(self, tensor: int) -> bool:
        return tensor in self.unknown

    def entry(self, call: int) -> Passage | None:
        return self.entries.get(call)


def test_an_unchecked_call_with_finite_inputs_is_the_source() -> None:
    program = Program({0: [], 1: [0], 2: [1]}, unchecked={1, 2}, bad={1, 2}, moves={2})
    assert unchecked_source(program, 2) == (1, True)


def test_a_checked_call_ends_the_search_for_the_source() -> None:
    program = Program({0: [], 1: [0], 2: [1]}, unchecked={2}, bad={0, 1, 2})
    assert unchecked_source(program, 2) == (1, False)
    assert unchecked_source(program, -1) == (-1, False)


def test_a_call_that_only_moves_numbers_is_not_their_source() -> None:
    assert unchecked_source(Program({0: [-1]}, unchecked={0}, moves={0}), 0) == (0, False)


def test_a_tensor_that_was_there_before_is_the_source() -> None:
    assert unchecked_source(Program({0: [-1]}, unchecked={0}, bad={-1}), 0) == (-1, False)


def test_the_call_that_wrote_a_literal_is_the_entry() -> None:
    full = passage("full", literals=NAN)
    program = Program({0: [], 1: [], 2: [0, 1]}, bad={1, 2}, entries={0: passage("ones"), 1: full})
    assert entry_call(program, 2, nan=True) == 1


def test_a_certain_entry_is_preferred_to_an_infinity_and_to_memory() -> None:
    entries = {0: passage("empty"), 1: passage("full", literals=INF), 2: passage("full", literals=NAN)}
    program = Program({0: [], 1: [], 2: [], 3: [0, 1, 2]}, unknown={0, 1, 2}, entries=entries)
    assert entry_call(program, 3, nan=True) == 2
    program.unknown = {0, 1}
    assert entry_call(program, 3, nan=True) == 1
    program.unknown = {0}
    assert entry_call(program, 3, nan=True) == 0
    program.unknown = set()
    assert entry_call(program, 3, nan=True) is None


@pytest.mark.parametrize(
    ("call", "is_certain", "nan", "doubt"),
    [
        (passage("full", literals=INF), False, False, Doubt.NONE),
        (passage("full", literals=INF), False, True, Doubt.INFINITE_LITERAL),
        (passage("load"), True, True, Doubt.NONE),
        (passage("load"), False, True, None),
        (passage("empty"), False, True, Doubt.MEMORY),
        (passage("add", FINITE), True, True, None),
    ],
)
def test_doubt_about_data_literals_and_memory(call: Passage, is_certain: bool, nan: bool, doubt: Doubt | None) -> None:
    assert doubt_of(call, is_certain=is_certain, nan=nan) is doubt
