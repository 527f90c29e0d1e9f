"""What all tests share: the option `--update`, and that each leaves nothing global changed."""

from __future__ import annotations

import gc
import linecache
import signal
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.failing import Program


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update", action="store_true", help="write the expected texts anew instead of comparing with them"
    )


@pytest.fixture(scope="module")
def quick_collections() -> Iterator[None]:
    """For tests that collect garbage often: what was there before is not looked through each time."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """For models that are too small for more."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    """Runs a text as the file model.py and gives its names."""
    from tests.failing import names_of  # it imports insitu, which most tests of plain data do without

    yield partial(names_of, tmp_path)
    linecache.clearcache()


@pytest.fixture(autouse=True)
def nothing_stays_patched() -> Iterator[None]:
    """Trace functions, collector and torch are after the test what they were before it."""
    before = _hooks()
    yield
    assert _hooks() == before
    # A test that needs no torch does not import it here either.
    if (torch := sys.modules.get("torch")) is not None and hasattr(torch, "nn"):
        assert _patched(torch) == []


def _hooks() -> dict[str, Any]:
    return {
        "sys.gettrace": sys.gettrace(),
        "sys.getprofile": sys.getprofile(),
        "threading.gettrace": threading.gettrace(),
        "gc.isenabled": gc.isenabled(),
        "gc.get_threshold": gc.get_threshold(),
    }


def _patched(torch: Any) -> list[str]:
    call = torch.nn.Module._call_impl
    found = {
        "a torch function mode is still active": torch._C._len_torch_function_stack(),
        "a torch dispatch mode is still active": torch._C._len_torch_dispatch_stack(),
        "Module._call_impl is not torch's own": _file_of(call) != sys.modules[torch.nn.Module.__module__].__file__,
        "Module.__call__ is not torch's own": _file_of(torch.nn.Module.__call__) != _file_of(call),
        "torch.autograd.backward has code of insitu": any(
            name.startswith("insitu") for name in torch.autograd.backward.__code__.co_names
        ),
        "torch.overrides.has_torch_function is not torch's own": hasattr(
            torch.overrides.has_torch_function, "__code__"
        ),
    }
    return [what for what, true in found.items() if true]


def _file_of(function: Any) -> str | None:
    code = getattr(function, "__code__", None)
    return code.co_filename if code is not None else None


@pytest.fixture(autouse=True)
def sigterm_is_handled_as_before() -> Iterator[None]:
    """A decorated function is recorded until the program ends, and its handler stays: not for the next test."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    if signal.getsignal(signal.SIGTERM) is not before:
        signal.signal(signal.SIGTERM, before)


EXCEPTHOOK = sys.excepthook


@pytest.fixture(autouse=True)
def errors_are_printed_as_before() -> Iterator[None]:
    """`init_process_group` of torch puts the rank before each line of a traceback, and nothing undoes that."""
    yield
    if sys.excepthook is not EXCEPTHOOK:
        sys.excepthook = EXCEPTHOOK
