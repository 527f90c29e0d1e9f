"""Sessions in the child of a fork: no lock of the parent stops them, and all that they replace is put back."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from types import FunctionType

import pytest
import torch

from insitu.capture.backward_calls import BACKWARD, BackwardCalls, show
from insitu.capture.compiled_graphs.graph_hooks import graph_hooks

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")


def exit_code_of_child(work: Callable[[], bool]) -> int:
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if work() else 1)
        finally:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_lock_that_a_thread_of_the_parent_held_is_free_in_the_child() -> None:
    def is_free() -> bool:
        return graph_hooks._lock.acquire(blocking=False)

    with graph_hooks._lock:
        assert exit_code_of_child(is_free) == 0


@pytest.fixture
def calls() -> Iterator[BackwardCalls]:
    """As it is in torch up to 2.10."""
    code = torch.autograd.backward.__code__
    calls = BackwardCalls()
    calls.is_needed, calls._shown = True, show.__code__
    calls.original = FunctionType(code, BACKWARD.__globals__)
    yield calls
    BACKWARD.__code__ = code


def test_backward_is_put_back_after_a_child_has_left_the_session_of_its_parent(calls: BackwardCalls) -> None:
    code = BACKWARD.__code__
    calls.begin()
    calls.abandon()
    calls.end()
    calls.begin()
    assert BACKWARD.__code__ is not code
    calls.end()
    assert BACKWARD.__code__ is code
