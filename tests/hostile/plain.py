"""What a program made, as plain data that is equal only if every bit is, whatever it lets itself be asked."""

from __future__ import annotations

import traceback
from typing import Any

from tests.capture.oracle import tensor_bits
from torch import Tensor

DEEPEST = 5


def plain(value: Any, depth: int = 0) -> Any:
    """Anything as plain data."""
    kind = type(value)
    if kind in (int, float, str, bool, type(None), bytes):
        return value
    if depth > DEEPEST:
        return kind.__name__
    if issubclass(kind, Tensor):
        return bits_of(value)
    if issubclass(kind, (list, tuple)):
        return kind.__name__, [plain(item, depth + 1) for item in value]
    if issubclass(kind, dict):
        return kind.__name__, [(plain(key, depth + 1), plain(item, depth + 1)) for key, item in dict.items(value)]
    inside = getattr(value, "__dict__", {}) if kind.__name__ == "Pair" else {}
    return kind.__name__, [(name, plain(item, depth + 1)) for name, item in inside.items()]


def bits_of(tensor: Tensor) -> Any:
    """A tensor bit by bit, where it has bits: one that is not initialised, or in a transform, has none to read."""
    try:
        return tensor_bits(tensor)
    except Exception:
        return type(tensor).__name__


def facts_of(error: BaseException | None, depth: int = 0) -> Any:
    """An exception as plain data: its type, arguments, the user's frames, and those that it came from."""
    if error is None or depth > 3:
        return None
    walked = traceback.walk_tb(error.__traceback__)
    frames = [(frame.f_code.co_qualname, line) for frame, line in walked if theirs(frame)]
    args = [plain(item) for item in BaseException.args.__get__(error)]
    origins = [facts_of(origin, depth + 1) for origin in (error.__cause__, error.__context__)]
    return type(error).__name__, args, frames, origins, error.__suppress_context__


def theirs(frame: Any) -> bool:
    """Whether a frame is of the program or of its cast."""
    return frame.f_code.co_filename.endswith(("/program.py", "/hostile/cast.py"))
