"""An interrupt at the n-th moment at which Python would notice one, inside the tool."""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable
from typing import Any

# Where Python looks whether a signal has come: after calls into C, at the begin of functions, and in loops.
LOOKS = {dis.opmap[name] for name in ("CALL", "CALL_FUNCTION_EX", "RESUME", "JUMP_BACKWARD") if name in dis.opmap}


class Interrupt:
    """Does something, such as raising an exception, at the n-th moment; `came` is whether there was such a moment."""

    def __init__(self, moment: int, arrive: Callable[[Any], Any]) -> None:
        self.moment, self.came = moment, False
        self._arrive = arrive
        self._last: dict[int, int] = {}

    def __call__(self, frame: Any, event: str, argument: Any) -> Any:
        if not frame.f_code.co_filename.endswith("/contextlib.py") and "/src/insitu/" not in frame.f_code.co_filename:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "call":
            self._last[id(frame)] = dis.opmap["RESUME"]
        elif event == "opcode":
            before, self._last[id(frame)] = self._last.get(id(frame)), frame.f_code.co_code[frame.f_lasti]
            self.moment -= before in LOOKS
            if self.moment == 0:
                self.came = True
                sys.settrace(None)
                self._arrive(frame)
        elif event == "return":
            self._last.pop(id(frame), None)
            self._last.pop(id(frame.f_back), None)  # coming back from a function in Python is no such moment
        return self
