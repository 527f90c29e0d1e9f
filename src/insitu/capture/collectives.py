"""Collectives: results that are not there yet, and the calls that wait for them."""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import handle_torch_function

from insitu.capture.modes import FunctionMode, skip_when_compiling
from insitu.capture.tensors import RichValue
from insitu.capture.torch_internals import function_mode_at, function_stack_length

Work: Any = getattr(torch.distributed, "Work", None)  # None where torch is built without distributed training


def forget_statistics(recorded: Any) -> None:
    """Drop what was kept of the results of an operator that is still running: they are not its results yet."""
    if isinstance(recorded, RichValue):
        recorded.stat = None
    elif isinstance(recorded, (list, tuple)):
        for item in recorded:
            forget_statistics(item)


class WorkWaits:
    """Makes `Work.wait()` a call that function modes of insitu see, while sessions record functions.

    An asynchronous collective returns a `Work`; the program waits for it later.
    """

    def __init__(self) -> None:
        self._sessions = 0
        self._original: Any = None

    def begin(self) -> None:
        """A session starts."""
        self._sessions += 1
        if self._sessions > 1 or Work is None:
            return
        self._original = original = vars(Work)["wait"]

        def wait(work: Any, *args: Any, **kwargs: Any) -> Any:
            return original(work, *args, **kwargs)

        wait.__module__, wait.__qualname__ = "torch.distributed", "Work.wait"

        def relayed(work: Any, *args: Any, **kwargs: Any) -> Any:
            if not _is_recorded():
                return original(work, *args, **kwargs)
            return handle_torch_function(wait, (), work, *args, **kwargs)

        skip_when_compiling(wait, relayed)
        self._replacement = relayed
        Work.wait = relayed

    def end(self) -> None:
        """A session has ended; the last one puts the method of torch back, unless somebody else replaced it."""
        self._sessions -= 1
        if self._sessions == 0 and Work is not None and vars(Work).get("wait") is self._replacement:
            Work.wait = self._original


def _is_recorded() -> bool:
    """Whether the innermost function mode is one of insitu: modes of others see only what torch shows them."""
    length = function_stack_length()
    return length > 0 and isinstance(function_mode_at(length - 1), FunctionMode)


work_waits = WorkWaits()
