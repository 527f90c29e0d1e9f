"""The ring of the last steps: which parts of tapes and which tensors it keeps, by steps and by bytes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from insitu.capture.ring import KeptTensors, Ring
from insitu.capture.tape import Tape, new_record
from insitu.trace.event import Stats


def probe_with(slots: int) -> Any:
    tape = Tape()
    while len(tape) < slots:
        tape.extend(new_record(None, -1))
    return SimpleNamespace(tape=tape)


def test_first_step_is_0_and_holds_what_was_before() -> None:
    ring = Ring(3, 10**6)
    assert ring.step == 0
    ring.begin_step()
    assert ring.step == 0
    ring.begin_step()
    assert ring.step == 1


def test_old_steps_are_dropped() -> None:
    ring = Ring(3, 10**9)
    for _ in range(10):
        ring.begin_step()
        ring.take_tape(probe_with(100), 0)
        ring.keep_values(ring.step, KeptTensors((1,)), 50)
    assert [old.last_step for old in ring.segments] == [7, 8, 9]
    assert [tensors.step for tensors in ring.tensors] == [7, 8, 9]
    assert ring.bytes == 3 * (100 * 75 + 50)


def test_bytes_are_bounded_even_within_one_step() -> None:
    ring = Ring(20, 30_000)
    ring.begin_step()
    for _ in range(10):
        ring.take_tape(probe_with(100), 0)
        ring.keep_values(1, KeptTensors((1,)), 5_000)
        assert ring.bytes <= 30_000
    assert ring.segments or ring.tensors[-1].values


def test_memory_drops_the_oldest_steps_first() -> None:
    ring = Ring(20, 30_000)
    for _ in range(10):
        ring.begin_step()
        ring.take_tape(probe_with(100), 0)
    assert [old.last_step for old in ring.segments] == [6, 7, 8, 9]


def test_one_step_of_twenty_has_statistics() -> None:
    ring = Ring(20, 10**6)
    found = []
    assert not ring.takes_statistics  # nothing runs yet
    for _ in range(50):
        ring.begin_step()
        if ring.takes_statistics:
            found.append(ring.step)
            ring.keep_statistics(ring.step, (Stats(count=1),))
    assert found == [0, 20, 40]
    assert ring.calls_with_statistics() == {40}


@pytest.mark.parametrize("gone", [0, 100])
def test_ids_are_beyond_every_offset(gone: int) -> None:
    first = Ring(20, 10**6).take_tape(probe_with(100), gone)
    assert first > 1 << 38
