"""The stages of a comparison, each on events made by hand: pairs, the evidence of a pair, the causes of a few pairs."""

from __future__ import annotations

from tests.trace.comparing import Program, chain, given

from insitu.trace.compare.causes import Causes, find_causes
from insitu.trace.compare.change import Change, Manner
from insitu.trace.compare.closeness import Tolerance
from insitu.trace.compare.evidence import Comparison, Evidence, evidence_of
from insitu.trace.compare.pairs import Pair, align_sides
from insitu.trace.compare.stops import Side, side


def sides(a: Program, b: Program) -> tuple[Side, Side]:
    return side(a.events, {"function"}, str, {""}), side(b.events, {"function"}, str, {""})


def pairs_of(a: Program, b: Program) -> list[Pair]:
    return align_sides(*sides(a, b))[0]


def evidence(a: Program, b: Program) -> list[Evidence | None]:
    comparison = Comparison(Tolerance())
    return [evidence_of(pair, comparison) for pair in pairs_of(a, b)]


def causes(a: Program, b: Program) -> Causes:
    comparison = Comparison(Tolerance())
    pairs = pairs_of(a, b)
    return find_causes(pairs, [evidence_of(pair, comparison) for pair in pairs], sides(a, b), comparison)


def test_pairs_have_numbers_in_the_order_of_the_run_and_a_stretch_is_not_matched() -> None:
    a = chain(("relu", 1.0, ()), ("abs", 3.0, ()))
    b = chain(("relu", 1.0, ()), ("exp", 2.0, ()), ("abs", 3.0, ()))
    pairs = pairs_of(a, b)
    assert [(pair.number, pair.matched, len(pair.a), len(pair.b)) for pair in pairs] == [
        (0, True, 1, 1),
        (1, False, 0, 1),
        (2, True, 1, 1),
    ]
    assert not any(pair.last for pair in pairs)


def test_evidence_of_equal_calls_has_no_change() -> None:
    (known,) = evidence(chain(("softmax", 1.0, (-1,))), chain(("softmax", 1.0, (-1,))))
    assert known is not None and known.manner == Manner()
    assert [tensor.closeness.same for tensor in known.inputs] == [True]
    assert known.output.same and known.output.certainty == "statistics"


def test_evidence_names_the_argument_the_dtype_and_the_size_of_the_difference() -> None:
    a, b = chain(("layer_norm", 1.0, ())), chain(("layer_norm", 1.5, ()))
    call = b.events[0]
    call.kwargs = {"eps": 0.001}  # type: ignore[union-attr]
    call.result.dtype = "bf16"  # type: ignore[union-attr]
    (known,) = evidence(a, b)
    assert known is not None
    assert known.manner.changes == (Change("argument", "eps", 1e-05, 0.001),)
    assert known.manner.layout == (Change("dtype", "", "f32", "bf16"),)
    assert known.manner.is_loose and not known.manner.is_reshaped and not known.manner.raises
    assert (known.output.same, known.output.delta, known.output.measure) == (False, 0.5, "Δ mean")


def test_evidence_of_an_exception_has_its_type_and_message() -> None:
    a, b = chain(("relu", 1.0, ())), chain(("relu", 1.0, ()))
    call = b.events[0]
    call.raised, call.message, call.result = "ValueError", "no", None  # type: ignore[union-attr]
    (known,) = evidence(a, b)
    assert known is not None and known.manner.raises
    assert known.manner.changes == (Change("exception", "", None, ("ValueError", "no")),)
    assert known.outputs == () and known.output.same is None


def test_a_stretch_has_no_evidence() -> None:
    assert evidence(chain(("relu", 1.0, ())), chain(("relu", 1.0, ()), ("exp", 2.0, ())))[1] is None


def test_evidence_swaps_the_operands_of_a_sum() -> None:
    programs = []
    for swap in (False, True):
        run, x, y = Program(), given(1.0), given(2.0)
        run.made("add", *((y, x) if swap else (x, y)), value=3.0)
        programs.append(run)
    (known,) = evidence(*programs)
    assert known is not None and [tensor.closeness.same for tensor in known.inputs] == [True, True]


def test_the_second_of_three_pairs_is_the_cause_and_the_third_follows() -> None:
    a = chain(("relu", 1.0, ()), ("softmax", 2.0, (-1,)), ("abs", 3.0, ()))
    b = chain(("relu", 1.0, ()), ("softmax", 2.5, (0,)), ("abs", 3.5, ()))
    ledger = causes(a, b).ledger
    assert {number: set(sighting.causes) for number, sighting in ledger.sightings.items()} == {1: {1}, 2: {1}}
    assert ledger.sightings[1].kind == "argument" and ledger.sightings[2].kind == "output"
    assert ledger.used == {0, 1} and 0 in ledger.agreed
    assert ledger.links[2].beyond == {1}


def test_a_pair_is_blamed_later_if_only_its_consumer_shows_the_difference() -> None:
    a = chain(("relu", 1.0, ()), ("flip", 1.0, (0,)), ("linear", 2.0, ()))
    b = chain(("relu", 1.0, ()), ("flip", 1.0, (1,)), ("linear", 2.5, ()))
    ledger = causes(a, b).ledger
    assert set(ledger.sightings[2].causes) == {1}
    seen_at = ledger.sightings[1].seen_at
    assert seen_at is not None and seen_at.number == 2 and ledger.sightings[1].closeness.delta is None


def test_the_pass_writes_nothing_into_pairs_and_evidence() -> None:
    a, b = chain(("relu", 1.0, ()), ("exp", 2.0, ())), chain(("relu", 1.5, ()), ("exp", 2.5, ()))
    comparison, both = Comparison(Tolerance()), sides(a, b)
    pairs = align_sides(*both)[0]
    known = [evidence_of(pair, comparison) for pair in pairs]
    first = find_causes(pairs, known, both, comparison)
    again = find_causes(pairs, known, both, comparison)
    assert [sighting.causes for sighting in first.ledger.sightings.values()] == [
        sighting.causes for sighting in again.ledger.sightings.values()
    ]
