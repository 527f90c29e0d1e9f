"""Every program of the table does the same with and without a trace, and the trace has every operator it runs."""

from __future__ import annotations

import functools
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from tests.capture.oracle import BareMode, bits, nothing_left, ops, troubles
from tests.models.cases import CASES, Case

import insitu

VARIANTS = {
    "modules": {"level": "modules"},
    "functions": {"level": "functions"},
    "aten": {"level": "aten"},
    "aten+stats": {"level": "aten", "keep": "stats"},
}


@contextmanager
def quiet(case: Case) -> Iterator[None]:
    """Without the warnings that torch itself gives for a case."""
    with warnings.catch_warnings():
        for message in case.ignore:
            warnings.filterwarnings("ignore", message)
        yield


def outcome(case: Case, around: Any) -> tuple[Any, int]:
    """What a program returns when it is run inside `around`, and the state of the random numbers afterwards."""
    with quiet(case):
        torch.manual_seed(0)
        subject, run = case.build()
        torch.manual_seed(1)
        with around(subject):
            result = run()
        return bits(result), zlib.crc32(torch.get_rng_state().numpy().tobytes())


@functools.cache
def untraced(name: str) -> tuple[Any, int]:
    @contextmanager
    def nothing(subject: Any) -> Iterator[None]:
        yield

    outcome(CASES[name], nothing)  # what torch does only the first time is done
    return outcome(CASES[name], nothing)


@functools.cache
def bare(name: str) -> list[str]:
    mode = BareMode()
    outcome(CASES[name], lambda subject: mode)
    return mode.ops


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", CASES)
def test_nothing_changes(name: str, variant: str) -> None:
    expected = untraced(name)
    trace = insitu.Trace()

    @contextmanager
    def recorded(subject: Any) -> Iterator[None]:
        nonlocal trace
        with insitu.record(**VARIANTS[variant]) as trace:
            yield

    with nothing_left():
        result, rng = outcome(CASES[name], recorded)
    assert troubles(trace) == []
    assert result == expected[0]
    assert rng == expected[1]
    if CASES[name].bare:
        assert ops(trace) == (bare(name) if "aten" in variant else [])


@pytest.mark.parametrize("name", CASES)
def test_a_subject_is_a_step_and_changes_nothing(name: str) -> None:
    expected = untraced(name)
    trace = insitu.Trace()

    @contextmanager
    def recorded(subject: Any) -> Iterator[None]:
        nonlocal trace
        with insitu.record(subject, level="aten") as trace:
            yield

    with nothing_left():
        assert outcome(CASES[name], recorded) == expected
    assert troubles(trace) == []
    own = [call for call in trace.calls if call.kind == "module" and call.path == "" and call.parent is None]
    assert {call.step for call in own} == set(range(len(own)))


def test_the_table_is_full() -> None:
    assert len(CASES) > 60
