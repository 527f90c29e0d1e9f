"""Runs code of the tool hidden from autograd, from the modes of torch and from its profiler."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

import torch

from insitu.capture.torch_internals import (
    DisableTorchDispatch,
    DisableTorchFunction,
    enable_record_function,
    profiler_enabled,
    set_grad_enabled,
)

T = TypeVar("T")


def run_isolated(run: Callable[[], T]) -> T:
    """Run code of the tool hidden from autograd, modes and profilers; `torch.no_grad` costs more."""
    if is_profiled():
        return run_unprofiled(lambda: run_isolated(run))
    with DisableTorchFunction(), DisableTorchDispatch():
        enabled = torch.is_grad_enabled()
        try:
            set_grad_enabled(False)
            return run()
        finally:
            set_grad_enabled(enabled)


def is_profiled() -> bool:
    """Whether a profiler of torch runs in this thread and would see operators now."""
    return profiler_enabled() and not _own.running


def run_unprofiled(run: Callable[[], T]) -> T:
    """Run code of the tool hidden from the profiler of torch."""
    try:  # an interrupt may arrive at any moment, so the switch is inside
        _own.running = True
        enable_record_function(False)
        return run()
    finally:
        enable_record_function(True)
        _own.running = False


class _OwnOperators(threading.local):
    """Whether operators of the tool run in this thread, hidden from the profiler."""

    running = False


_own = _OwnOperators()
