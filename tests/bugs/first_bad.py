"""Where the first NaN or Inf is made, found without insitu: an oracle for the programs that make one in forward."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

# A mask is asked for, uninitialised memory is to be filled, and a gradient was there before it is looked at.
NOT_MAKERS = {"masked_fill", "full", "empty", "empty_like", "__get__"}


class FirstBad(TorchFunctionMode):
    """Remembers the line of one file whose call first returned NaN or Inf though it was given none."""

    def __init__(self, file: str) -> None:
        super().__init__()
        self.file = file
        self.line: int | None = None

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        given = _bad((args, kwargs))
        result = func(*args, **kwargs)
        if self.line is None and _bad(result) > given and getattr(func, "__name__", "") not in NOT_MAKERS:
            self.line = self._line()
        return result

    def _line(self) -> int | None:
        frame: FrameType | None = sys._getframe(2)
        while frame is not None and not frame.f_code.co_filename.endswith(self.file):
            frame = frame.f_back
        return frame.f_lineno if frame is not None else None


def _bad(values: Any) -> int:
    """0 for finite values, 1 with an Inf, 2 with a NaN: from one to the next something was produced."""
    with torch._C.DisableTorchFunction():
        found = [value for value in tree_leaves(values) if isinstance(value, torch.Tensor)]
        if any(bool(value.isnan().any()) for value in found):
            return 2
        return int(any(bool(value.isinf().any()) for value in found))
