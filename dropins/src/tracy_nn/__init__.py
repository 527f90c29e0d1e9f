"""Tracy NN on insitu: the same names and the same blocks, and nothing of torch is patched by it.

>>> import torch
>>> model = torch.nn.Linear(3, 2)
>>> with Tracer("Line").trace(model):
...     output = model(torch.ones(4, 3))
  ● TRACING Line STARTED
  │
  ● (Linear) (in_features: 3, out_features: 2)
  ├─ Input: Tensor [4, 3] @ cpu
  └─ Output: Tensor [4, 2] @ cpu
  │
  ● TRACING Line COMPLETE
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING

from insitu import watch
from tracy_nn.blocks import Blocks

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from torch import nn

__version__ = "0.1.0"
__all__ = ["Tracer", "trace_model"]


class Tracer:
    """Prints each layer and each function of a model, with the shapes that go in and out, while the model runs.

    >>> import torch
    >>> tracer = Tracer("Nothing")
    >>> tracer.start(torch.nn.ReLU())
      ● TRACING Nothing STARTED
      │
    >>> tracer.stop()
      ● TRACING Nothing COMPLETE
    """

    def __init__(self, name: str = "Neural Network") -> None:
        self.name = name
        self._session: AbstractContextManager[object] | None = None

    def __repr__(self) -> str:
        return f"Tracer({self.name!r})"

    def start(self, model: nn.Module) -> None:
        """Begin to trace this model; a tracer that is active already says so and goes on with the model it has."""
        if self._session is not None:
            print(f"Tracer {self.name} is already active!")
            return
        session = watch(model, view=Blocks(str(self.name)))
        session.__enter__()
        self._session = session

    def stop(self) -> None:
        """End the trace, if there is one."""
        session, self._session = self._session, None
        if session is not None:
            session.__exit__(*sys.exc_info())

    @contextmanager
    def trace(self, model: nn.Module) -> Iterator[Tracer]:
        """Trace this model in a `with` block; a block inside a block of the same tracer ends nothing."""
        starts_here = self._session is None
        self.start(model)
        try:
            yield self
        finally:
            if starts_here:
                self.stop()

    def __enter__(self) -> Tracer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.stop()


def trace_model(model: nn.Module, name: str = "Quick Trace") -> Tracer:
    """A tracer to trace this model with.

    >>> import torch
    >>> model = torch.nn.ReLU()
    >>> trace_model(model, "My Model")
    Tracer('My Model')
    """
    return Tracer(name)
