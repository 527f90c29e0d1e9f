"""TensorTracer on insitu: the same names and shapes; nothing waits for another process while a model runs.

>>> import torch
>>> model = torch.nn.Linear(3, 2)
>>> with ModelTracer(model, ["forward", "forward.input"], post_trace_callbacks=[stack_tensors]) as tracer:
...     for _ in range(5):
...         output = model(torch.randn(4, 3))
>>> tracer.results["forward.input"].values[0].shape
torch.Size([5, 4, 3])
>>> tracer.results["forward.input"].iterations
[1, 2, 3, 4, 5]
"""

from __future__ import annotations

from tensortrace.gathering import ResultEntry
from tensortrace.h5py_tracer import H5PYSaverCallback
from tensortrace.stacking import stack_padded_tensors, stack_tensors
from tensortrace.tracer import ModelTracer, TracedModel, trace_model

__version__ = "0.1.0"
__all__ = [
    "H5PYSaverCallback",
    "ModelTracer",
    "ResultEntry",
    "TracedModel",
    "stack_padded_tensors",
    "stack_tensors",
    "trace_model",
]
