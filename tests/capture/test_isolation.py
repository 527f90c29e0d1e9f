"""Code of the tool runs hidden from autograd, modes and the profiler, and the program finds everything as it was."""

from __future__ import annotations

import pytest
import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode

from insitu.capture.isolation import is_profiled, run_isolated


class SeenOperators(TorchDispatchMode):
    """Collects the operators that the mode sees."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


def test_modes_do_not_see_isolated_code() -> None:
    x = torch.ones(2)
    with SeenOperators() as mode:
        run_isolated(lambda: x.sin())
        x.cos()
    assert mode.names == ["aten.cos.default"]


def test_autograd_does_not_see_isolated_code() -> None:
    x = torch.ones(2, requires_grad=True)
    assert not run_isolated(lambda: x * 2).requires_grad
    assert torch.is_grad_enabled() and (x * 2).requires_grad


def test_grad_mode_is_restored_after_an_exception() -> None:
    with torch.no_grad():
        with pytest.raises(ZeroDivisionError):
            run_isolated(lambda: 1 / 0)
        assert not torch.is_grad_enabled()
    assert torch.is_grad_enabled()


def test_profiler_does_not_see_isolated_code() -> None:
    x = torch.ones(2)
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        assert is_profiled()
        run_isolated(lambda: x.sin())
        x.cos()
        assert is_profiled()
    names = {event.key for event in profiler.key_averages()}
    assert "aten::cos" in names and "aten::sin" not in names
    assert not is_profiled()
