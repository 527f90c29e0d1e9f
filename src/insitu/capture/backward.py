"""The gradients of recorded tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from torch import Tensor

from insitu.capture.tensors import EARLIER, GIVEN, DeferredValue, Fresh, RichValue, Value
from insitu.capture.torch_internals import DisableTorchFunction, is_functorch_wrapped

if TYPE_CHECKING:
    from insitu.capture.probe import Probe


class TensorGradients:
    """Records the gradient of every recorded tensor, for sessions that keep more of a tensor than its facts.

    `ParameterGradients` of a recording takes only the gradients of parameters, when an optimizer uses them.
    """

    def __init__(self, probe: Probe, fresh: Fresh) -> None:
        self._probe, self._fresh = probe, fresh

    def follow(self, value: Value, tensor: Tensor) -> None:
        """Record the gradient of a tensor that a call has made, when a backward pass gets there."""
        if not value.requires_grad or not isinstance(tensor, Tensor):
            return
        if is_functorch_wrapped(tensor):
            return
        with DisableTorchFunction():
            node = gradient_node(tensor)
            # On the node and not on the tensor: one with hooks of its own cannot be saved without a warning.
            if node is not None:
                node.register_prehook(self._hook(value, tensor.output_nr))

    def _hook(self, value: Value, index: int) -> Callable[[Any], None]:
        def record(grads: tuple[Tensor | None, ...]) -> None:
            grad = grads[index]
            if grad is not None and not self._probe.over:
                self._record(value, grad)

        return record

    def of_parameters(self) -> None:
        """A backward pass has ended: record the gradients that it left in the parameters."""
        deferral = self._probe.services.deferral
        if deferral is not None:
            deferral.begin_period()
        for value in filter(is_leaf_value, list(self._probe.table.values())):
            with DisableTorchFunction():
                grad = leaf_gradient(value())
            if grad is not None:
                self._record(value, grad)

    def _record(self, value: Any, grad: Tensor) -> None:
        try:
            producer = self._producer(grad)
            with DisableTorchFunction():
                value.grad = self._fresh(grad, producer)  # anew: autograd adds up gradients in place
        except Exception as error:
            self._probe.trouble("recording a gradient", error)

    def _producer(self, grad: Tensor) -> int:
        """The call that made a gradient; by its id where the tensor may outlive the call on the tape."""
        known, ids = self._probe.table.get(id(grad)), self._probe.ids
        if known is None or known() is not grad:
            return GIVEN
        producer = known.maker if isinstance(known, DeferredValue) else known.producer
        if producer < 0 or ids.is_whole:
            return producer
        return EARLIER - ids(producer)


def is_leaf_value(value: Value) -> bool:
    """Whether a value may be that of a parameter: no recorded call has made it, and it requires a gradient."""
    needs_gradient = isinstance(value, RichValue) and bool(value.requires_grad)
    if isinstance(value, DeferredValue):
        return needs_gradient and value.maker == GIVEN
    return needs_gradient and value.producer == GIVEN


def gradient_node(tensor: Tensor) -> Any:
    """The autograd node that made a tensor; None for a view that autograd refuses: its base was changed in place."""
    try:
        return tensor.grad_fn
    except RuntimeError:
        return None


def leaf_gradient(tensor: Tensor | None) -> Tensor | None:
    """The gradient of a leaf; None for all other tensors."""
    try:
        if tensor is not None and tensor.is_leaf:
            return tensor.grad
        return None
    except RuntimeError:  # a view that autograd refuses
        return None
