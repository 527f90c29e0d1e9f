"""While an optimizer steps, what it calls is not checked one by one, but all together afterwards (training.py)."""

from __future__ import annotations

from sys import _getframe
from types import FrameType, MethodType
from typing import TYPE_CHECKING, Any

from insitu.capture.modes import skip_when_compiling

if TYPE_CHECKING:
    from insitu.capture.probe import Probe


class Pause:
    """The steps of optimizers that run in the thread of a probe, one inside the other, as the frames that run them.

    Meanwhile the function mode has another handler. Nobody tells of a step that raises: that handler sees, at the next
    function, that its frame runs no more.
    """

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._steps: list[FrameType] = []
        self._usual: Any = None

    def begin(self, step: FrameType) -> None:
        """A step begins in a frame."""
        mode = self._probe.modes.function
        if mode is None or mode.silent:
            return
        self._settle(step)
        if not self._steps:
            self._usual = mode.__torch_function__
            mode.__torch_function__ = MethodType(self._on_function, mode)  # type: ignore[method-assign]
        self._steps.append(step)

    def end(self, step: FrameType) -> None:
        """The step of a frame has ended, and with it all inside of it."""
        if step in self._steps:
            del self._steps[self._steps.index(step) :]
            self._resume()

    def _settle(self, frame: FrameType) -> None:
        """Forget the steps that an exception has ended."""
        while self._steps and not is_running(self._steps[-1], frame):
            self._steps.pop()
        self._resume()

    def _resume(self) -> None:
        if self._steps or self._usual is None:
            return
        mode = self._probe.modes.function
        if mode is not None and not mode.silent:
            mode.__torch_function__ = self._usual  # type: ignore[method-assign]
        self._usual = None

    def _on_function(self, mode: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """The handler of torch functions meanwhile."""
        usual = self._usual
        if usual is not None:
            self._settle(_getframe(1))
            if self._usual is None:
                return usual(func, types, args, kwargs)
        if kwargs:
            return func(*args, **kwargs)
        return func(*args)


def is_running(step: FrameType, frame: FrameType | None) -> bool:
    """Whether a frame is another one, or has called it."""
    while frame is not None and frame is not step:
        frame = frame.f_back
    return frame is not None


skip_when_compiling(Pause._on_function, Pause._settle, Pause._resume, is_running)
