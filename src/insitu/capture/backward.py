"""The gradients of recorded tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from torch import Tensor

from insitu.capture.tensors import EARLIER, GIVEN, Fresh, RichValue, Value
from insitu.capture.torch_internals import DisableTorchFunction, is_functorch_wrapped

if TYPE_CHECKING:
    from insitu.capture.probe import Probe


class TensorGradients:
    """Notes the gradient of every recorded tensor, for sessions that keep more of a tensor than its facts.

    `ParameterGradients` of a recording takes only the gradients of parameters, when an optimizer uses them.
    """

    def __init__(self, probe: Probe, fresh: Fresh) -> None:
        self._probe, self._fresh = probe, fresh

    def follow(self, value: Value, tensor: Tensor) -> None:
        """Note the gradient of a tensor that a call has made, when a backward pass gets there."""
        if not value.requires_grad or not isinstance(tensor, Tensor) or is_functorch_wrapped(tensor):
            return
        with DisableTorchFunction():
            # On the node and not on the tensor: one with hooks of its own cannot be saved without a warning.
            if is_sound(tensor) and (node := tensor.grad_fn) is not None:
                node.register_prehook(self._hook(value, tensor.output_nr))

    def _hook(self, value: Value, index: int) -> Callable[[Any], None]:
        def arrived(grads: tuple[Tensor | None, ...]) -> None:
            if not self._probe.over and (grad := grads[index]) is not None:
                self._note(value, grad)

        return arrived

    def of_parameters(self) -> None:
        """A backward pass has ended: note what it left in the parameters."""
        for value in list(self._probe.table.values()):
            if isinstance(value, RichValue) and value.requires_grad and value.producer == GIVEN:
                with DisableTorchFunction():
                    tensor = value()
                    is_leaf = tensor is not None and is_sound(tensor) and tensor.is_leaf
                    grad = tensor.grad if tensor is not None and is_leaf else None
                if grad is not None:
                    self._note(value, grad)

    def _note(self, value: Any, grad: Tensor) -> None:
        try:
            known = self._probe.table.get(id(grad))
            producer = known.producer if known is not None and known() is grad else GIVEN
            if producer >= 0 and not self._probe.ids.is_whole:
                producer = EARLIER - self._probe.ids(producer)  # the producer may no longer be on the tape
            with DisableTorchFunction():
                found = self._fresh(grad, producer)  # anew: autograd adds up gradients in place
            value.grad = found
        except Exception as error:
            self._probe.trouble("recording a gradient", error)


def is_sound(tensor: Tensor) -> bool:
    """Whether autograd answers questions about a tensor: not for a view whose base was changed in place."""
    try:
        _ = tensor.is_leaf
    except RuntimeError:
        return False
    return True
