"""What is wrong with the parts of a value, from parts made by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.trace.placements.test_joined_value import COLUMNS, COPIES, ROWS, SUM, WHOLE, joined, laid_out, plain

from insitu.trace.compare.closeness import Tolerance
from insitu.trace.placements.joined_value import JoinedValue
from insitu.trace.placements.joiner import Joiner
from insitu.trace.placements.rank_fault import RankFault, find_rank_fault
from insitu.view.rank_text import rank_fault_text

HALVES = np.split(WHOLE, 2)


def fault(value: JoinedValue, whole: Any = WHOLE) -> RankFault:
    found = find_rank_fault(value, whole, Joiner(Tolerance()))
    assert found is not None
    assert rank_fault_text(found)
    return found


def test_missing_sum() -> None:
    assert fault(joined(plain([WHOLE - 5, np.full_like(WHOLE, 5)]))).kind == "sum"
    loss = np.float32(6.0).reshape(())
    assert fault(joined(plain([loss - 1, loss - 5]), loss), loss).kind == "sum"


def test_values_that_were_not_averaged() -> None:
    assert fault(joined(plain([WHOLE - 1, WHOLE + 1]), path="weight")).kind == "mean"


@pytest.mark.parametrize("factor", [2.0, 0.5])
def test_value_times_the_number_of_ranks(factor: float) -> None:
    found = fault(joined(plain([WHOLE * np.float32(factor)] * 2)))
    assert (found.kind, found.factor) == ("times", factor)


def test_recorded_placement_of_another_dimension() -> None:
    found = fault(joined(laid_out(HALVES, COLUMNS)))
    assert (found.kind, found.placements, found.recorded) == ("placement", (ROWS,), (COLUMNS,))


def test_parts_gathered_along_the_wrong_dimension() -> None:
    gathered = np.concatenate(np.split(WHOLE, 2, axis=1)).reshape(WHOLE.shape)
    found = fault(joined(plain([gathered, gathered])))
    assert (found.kind, found.placements) == ("gathered", (COLUMNS,))


def test_parts_of_some_ranks() -> None:
    found = fault(joined(laid_out([HALVES[0], HALVES[1] + 1], ROWS)))
    assert (found.kind, found.ranks) == ("some ranks", (1,))
    assert find_rank_fault(joined(laid_out([HALVES[0] + 1, HALVES[1] + 1], ROWS)), WHOLE, Joiner(Tolerance())) is None


def test_copies_that_differ() -> None:
    found = fault(joined(laid_out([WHOLE, WHOLE, WHOLE + 1], COPIES)))
    assert (found.kind, found.ranks) == ("copies", (2,))


def test_same_values_on_all_ranks() -> None:
    found = fault(joined(plain([HALVES[0], HALVES[0]])))
    assert (found.kind, found.ranks) == ("same values", (0, 1))


def test_same_zeros_on_all_ranks() -> None:
    mask = np.arange(12).reshape(2, 6) % 3 != 0
    whole = WHOLE * (np.arange(24).reshape(4, 6) % 5 != 0)
    found = fault(joined(plain([half * mask for half in HALVES]), whole), whole)
    assert found.kind == "same zeros"


def test_parts_that_do_not_fit() -> None:
    found = fault(joined(plain([WHOLE[:, :2], WHOLE[:, :2]])))
    assert rank_fault_text(found) == "the parts of 2 ranks, [4, 2], do not make up [4, 6]"


def test_wrong_sum_has_no_fault_that_is_known() -> None:
    value = joined(laid_out([WHOLE, np.ones_like(WHOLE)], SUM))  # one copy agrees, and the other does not
    assert find_rank_fault(value, WHOLE, Joiner(Tolerance())) is None
