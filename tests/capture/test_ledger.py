"""Numbers on a device come over in one copy, however many there are, and the buffer grows when it is full."""

from __future__ import annotations

import pytest
import torch

from insitu.capture import ledger as ledgers
from insitu.capture.ledger import FIRST_CELLS, Ledger

CPU = torch.device("cpu")


def number(value: float) -> torch.Tensor:
    return torch.tensor(value)


def test_all_numbers_come_over_in_one_copy() -> None:
    ledger = Ledger(CPU)
    cells = [ledger.write([number(index), number(-index)]) for index in range(100)]
    assert ledger.copies == 0
    assert [each.read().tolist() for each in cells] == [[float(index), float(-index)] for index in range(100)]
    assert ledger.copies == 1


def test_a_full_buffer_grows_and_keeps_its_numbers() -> None:
    ledger = Ledger(CPU)
    first = ledger.write([number(7.0)])
    rows = [ledger.write_row(torch.full((FIRST_CELLS // 2,), float(index))) for index in range(5)]
    assert first.read().tolist() == [7.0]
    assert [set(row.read().tolist()) for row in rows] == [{float(index)} for index in range(5)]
    assert ledger.copies == 1


def test_a_step_that_is_too_long_comes_over_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledgers, "MOST_CELLS", FIRST_CELLS)
    ledger = Ledger(CPU)
    rows = [ledger.write_row(torch.full((FIRST_CELLS // 2,), float(index))) for index in range(5)]
    assert ledger.copies == 2
    assert [row.read()[0] for row in rows] == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_the_next_step_uses_the_buffer_again_and_leaves_the_last_one_alone() -> None:
    ledger = Ledger(CPU)
    before = ledger.write([number(1.0)])
    ledger.fetch()
    after = ledger.write([number(2.0)])
    assert (before.read().tolist(), after.read().tolist()) == ([1.0], [2.0])


def test_nothing_is_copied_where_nothing_was_written() -> None:
    ledger = Ledger(CPU)
    ledger.fetch()
    assert ledger.copies == 0


def test_a_ledger_that_inference_mode_began_goes_on_outside_of_it() -> None:
    with torch.inference_mode():
        ledger = Ledger(CPU)
        inside = ledger.write([number(1.0)])
    outside = ledger.write([number(2.0)])
    assert (inside.read().tolist(), outside.read().tolist()) == ([1.0], [2.0])
