"""torch-code-tracing on insitu: every ATen operator under the line of source that ran it.

>>> import torch
>>> with TracingMode(quiet=True) as mode:
...     x = torch.ones(2, 3) * 2
>>> [trace.op_str for trace in mode.traces]
['ones([2, 3], device=cpu, pin_memory=False) -> f32[2, 3]', 'mul.Tensor(f32[2, 3], 2) -> f32[2, 3]']
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import replace
from types import TracebackType

import insitu
from insitu.view import Line, make
from torch_code_tracing.trace import Trace

__all__ = ["Trace", "TracingMode"]


class TracingMode:
    """Prints every operator that torch runs in a `with` block, and keeps it in `traces`.

    `quiet` keeps and does not print. `succinct` shows a line of source once for all that its calls lead to. `color`
    colours what goes to a terminal; it never puts colour codes into a file. The same mode may be used again, also
    inside itself: `traces` grows, and each operator is in it once.
    """

    def __init__(self, *, quiet: bool = False, succinct: bool = True, color: bool = True) -> None:
        self.traces: list[Trace] = []
        self._quiet, self._color = quiet, None if color else False
        self._view = make("code", succinct=succinct, native=False)
        self._session = insitu.watch(view=_Keeping(self), level="aten", color=self._color)
        self._depth = 0

    def __enter__(self) -> TracingMode:
        if self._depth == 0:
            self._session.__enter__()
        self._depth += 1
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._session.__exit__(kind, error, tb)

    def _keep(self, event: insitu.Event) -> Iterable[Line]:
        """The lines of an event; if it has any, it is an operator to keep."""
        lines = tuple(self._view(event))
        if lines and isinstance(event, insitu.Call):
            # Ids are those of one session: across several, only the order of the calls tells what came before what.
            self.traces.append(Trace(replace(event, parent=None)))
        if self._quiet:
            return ()
        return lines

    def print(self, *, succinct: bool = True) -> None:
        """Print all traces.

        >>> with TracingMode(quiet=True) as mode:
        ...     pass
        >>> mode.print()
        """
        insitu.show(self._trace(), "code", color=self._color, succinct=succinct, native=False)

    def format(self, *, color: bool = False, succinct: bool = True) -> str:
        """All traces as text, coloured if that is asked for.

        >>> TracingMode().format()
        ''
        """
        file = io.StringIO()
        insitu.show(self._trace(), "code", file=file, color=color, succinct=succinct, native=False)
        return file.getvalue().removesuffix("\n")

    def _trace(self) -> insitu.Trace:
        return insitu.Trace([trace.call for trace in self.traces])


class _Keeping:
    """The view of a mode: what it shows, it keeps."""

    def __init__(self, mode: TracingMode) -> None:
        self._mode = mode

    def begin(self) -> Iterable[Line]:
        return ()

    def __call__(self, event: insitu.Event) -> Iterable[Line]:
        return self._mode._keep(event)

    def finish(self) -> Iterable[Line]:
        return ()
