"""A thread that notices when a program makes no step for a while, and what all threads were doing then."""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections.abc import Callable
from time import monotonic
from types import FrameType

import insitu
from insitu.errors import own_threads
from insitu.trace.crash import ThreadStack

OWN = os.path.join(os.path.dirname(insitu.__file__), "")
LOOKS = 8  # in the time after which it fires, so often it looks
LONGEST_LOOK = 1.0  # seconds between two looks
MOST_FRAMES = 60  # of a stack, the innermost
MOST_THREADS = 100
LONGEST_END = 10.0  # seconds to wait for a file that is being written


class Watchdog:
    """Calls `fire` with the seconds since the last sign of life, once for each time that they stop for too long."""

    def __init__(self, seconds: float, count_signs: Callable[[], int], fire: Callable[[float], None]) -> None:
        self._seconds, self._count_signs, self._fire = seconds, count_signs, fire
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="insitu watchdog", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def stop(self) -> None:
        """Watch no more."""
        self._is_over.set()
        if threading.current_thread() is not self._thread:
            self._thread.join(LONGEST_END)

    def _watch(self) -> None:
        ident = threading.get_ident()
        own_threads.add(ident)
        try:
            self._wait_for_silence()
        finally:
            own_threads.discard(ident)

    def _wait_for_silence(self) -> None:
        seen, since, has_fired = self._count_signs(), monotonic(), False
        while not self._is_over.wait(min(self._seconds / LOOKS, LONGEST_LOOK)):
            count, now = self._count_signs(), monotonic()
            if count != seen:
                seen, since, has_fired = count, now, False
            elif now - since >= self._seconds and not has_fired:
                has_fired = True
                self._fire(now - since)


def thread_stacks() -> tuple[ThreadStack, ...]:
    """What every thread but this one is doing now, the main thread first."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    main = threading.main_thread().ident
    own = threading.get_ident()
    frames = [(ident, frame) for ident, frame in sys._current_frames().items() if ident != own]
    frames.sort(key=lambda item: item[0] != main)
    del frames[MOST_THREADS:]
    return tuple(ThreadStack(names.get(ident, f"thread {ident}"), stack_text(frame)) for ident, frame in frames)


def stack_text(frame: FrameType) -> str:
    """The stack of a frame as a traceback shows it, without the frames of insitu."""
    entries = [entry for entry in traceback.extract_stack(frame) if not entry.filename.startswith(OWN)]
    return "".join(traceback.format_list(entries[-MOST_FRAMES:])).rstrip("\n")
