"""An interrupt at the n-th moment at which Python would notice one, inside the tool."""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable
from functools import cache
from types import CodeType
from typing import Any

# Where Python looks whether a signal has come: after calls into C, at the begin of functions, and in loops.
LOOKS = {dis.opmap[name] for name in ("CALL", "CALL_FUNCTION_EX", "RESUME", "JUMP_BACKWARD") if name in dis.opmap}


class Interrupt:
    """Does something, such as raising an exception, at the n-th moment; `came` is whether there was such a moment."""

    def __init__(self, moment: int, arrive: Callable[[Any], Any]) -> None:
        self.moment, self.came = moment, False
        self._arrive = arrive
        self._last: dict[int, int] = {}  # the instruction that each frame was at

    def __call__(self, frame: Any, event: str, argument: Any) -> Any:
        if not is_ours(frame):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "call":
            self._last[id(frame)] = -1
        elif event == "opcode":
            before, self._last[id(frame)] = self._last.get(id(frame)), frame.f_lasti
            if before is not None and is_moment(frame.f_code, before, frame.f_lasti):
                self.moment -= 1
                if self.moment == 0:
                    self.came = True
                    sys.settrace(None)
                    self._arrive(frame)
        elif event == "return":
            self._last.pop(id(frame), None)
            self._last.pop(id(frame.f_back), None)  # coming back from a function in Python is no such moment
        return self


def is_ours(frame: Any) -> bool:
    """Whether a frame runs code of the tool, or what `contextlib` does for it."""
    while frame is not None and frame.f_code.co_filename.endswith("/contextlib.py"):
        frame = frame.f_back
    return frame is not None and "/src/insitu/" in frame.f_code.co_filename


def is_moment(code: CodeType, before: int, now: int) -> bool:
    """Whether Python looks for signals at the instruction before, and an exception there goes where one goes now."""
    if before < 0:  # the first instruction
        return True
    return code.co_code[before] in LOOKS and handler_at(code, before) == handler_at(code, now)


@cache
def handler_at(code: CodeType, offset: int) -> int | None:
    """Where an exception at an instruction is handled."""
    entries = dis._parse_exception_table(code)  # type: ignore[attr-defined]
    return next((entry.target for entry in entries if entry.start <= offset < entry.end), None)
