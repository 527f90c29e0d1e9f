"""Fused attention: torch's attention layers use a fused kernel unless somebody overrides torch functions.

They ask `torch.overrides.has_torch_function`, which a function mode of this tool would answer with yes. So while such a
layer runs, it gets another answer: whether anybody but this tool does. All other conditions are torch's own, and what
runs inside the layer is recorded, fused or not.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from insitu.capture.modes import FunctionMode, function_stack, skip_when_compiling
from insitu.operating_system import at_fork

FUSED = (nn.TransformerEncoderLayer, nn.TransformerEncoder, nn.MultiheadAttention)
# The modules of torch that define them: others that ask meanwhile get torch's answer.
ASKING = frozenset(kind.__module__ for kind in FUSED)
get_ident = threading.get_ident


class Question:
    """The replacement of `torch.overrides.has_torch_function`, there while an attention layer runs in any thread."""

    def __init__(self) -> None:
        self.original = torch.overrides.has_torch_function
        self._lock = threading.RLock()
        self._layers: dict[int, int] = {}  # how many run in each thread
        self._pauses = 0

    @contextmanager
    def replaced(self) -> Iterator[None]:
        """An attention layer runs in this thread."""
        try:  # Ctrl-C may arrive anywhere: `reset` puts right what is counted wrong then
            self._count(1)
            yield
        finally:
            self._count(-1)

    def pause(self, by: int) -> None:
        """A compiled region begins (1) or ends (-1): dynamo must find the original, if the region is in a layer."""
        with self._lock:
            if get_ident() in self._layers:
                self._pauses = max(0, self._pauses + by)
                self._install()

    def reset(self) -> None:
        """All sessions have ended."""
        with self._lock:
            self._layers.clear()
            self._install()

    def abandon(self) -> None:
        """This process is the child of a fork: the layers of other threads do not run here."""
        self._lock = threading.RLock()
        ident = get_ident()
        self._layers = {ident: self._layers[ident]} if ident in self._layers else {}
        self._install()

    def _count(self, by: int) -> None:
        ident = get_ident()
        with self._lock:
            if not self._layers:  # others may have replaced it, too
                self.original = torch.overrides.has_torch_function
            self._layers[ident] = self._layers.get(ident, 0) + by
            if self._layers[ident] <= 0:
                del self._layers[ident]
            self._install()

    def _install(self) -> None:
        if not self._layers:
            self._pauses = 0
        wanted = has_others if self._layers and not self._pauses else self.original
        if torch.overrides.has_torch_function in (self.original, has_others):  # what others put there is left alone
            torch.overrides.has_torch_function = wanted  # type: ignore[assignment]


question = Question()
at_fork(after_in_child=question.abandon)


def has_others(arguments: Any) -> bool:
    """Whether anything but the modes of this tool overrides torch functions of these arguments."""
    if sys._getframe(1).f_globals.get("__name__") not in ASKING:
        return bool(question.original(arguments))
    modes = [mode for mode in reversed(function_stack()) if isinstance(mode, FunctionMode)]
    places = [(mode, mode.remove()) for mode in modes]
    try:
        return bool(question.original(arguments))
    finally:
        for mode, above in reversed(places):
            mode.enter(above or 0)


skip_when_compiling(has_others, Question._count, Question._install, Question.pause)
