"""What a loss gets: probabilities where it takes scores or logarithms, or a softmax over the batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from insitu.trace.event import Call, Site, TensorFacts, tensors
from insitu.trace.operation import operation

Mistake = Literal["probabilities", "logarithms", "batch", "scores"]

PROBABILITIES = ("softmax", "sigmoid")
# The mistake of passing probabilities to a loss that computes them itself, or that takes their logarithms.
MISTAKES: dict[str, Mistake] = {
    **dict.fromkeys(("cross_entropy", "binary_cross_entropy_with_logits"), "probabilities"),
    **dict.fromkeys(("nll_loss", "kl_div"), "logarithms"),
}
SOFTMAXES = ("softmax", "log_softmax")
SCORES = ("linear", "matmul", "addmm", "conv2d")  # what a last layer computes: numbers of any size
LOSSES = frozenset(MISTAKES)
IGNORING = frozenset({"cross_entropy", "nll_loss"})  # the losses that leave out a label, by its number
IGNORED = -100  # unless they are told another one
SUSPICIOUS = frozenset((*SOFTMAXES, "sigmoid", *SCORES))  # what may be a mistake before a loss


@dataclass(frozen=True, slots=True)
class LossInput:
    """The call of a loss, and the call that computed its input, behind calls that only move the values.

    `definition` is where the module was made that ran the second call, if there is one and its line is known.
    """

    loss: Call
    source: Call
    definition: Site | None = None

    @property
    def mistake(self) -> Mistake | None:
        """What is wrong with the input; None if nothing is."""
        loss, source = operation(self.loss.kind, self.loss.name), operation(self.source.kind, self.source.name)
        if source.base in PROBABILITIES and loss.base in MISTAKES:
            return MISTAKES[loss.base]
        if source.base in SOFTMAXES and self._is_over_batch():
            return "batch"
        if loss.base == "nll_loss" and source.base in SCORES:
            return "scores"
        return None

    def _is_over_batch(self) -> bool:
        """Whether a softmax over the rows of a matrix normalizes its columns: each row is a sample."""
        shape = _shape(self.source.result)
        return len(shape) == 2 and shape[0] != 1 and _dim(self.source) in (0, -2)


def ignored_label(kwargs: dict[str, Any]) -> Any:
    """The label that a loss leaves out, by its keyword arguments."""
    return kwargs.get("ignore_index", IGNORED)


def _shape(result: Any) -> tuple[int | str, ...]:
    found = next(iter(tensors(result)), None)
    if isinstance(found, TensorFacts):
        return found.shape
    return ()


def _dim(call: Call) -> Any:
    """The dimension of a softmax."""
    if len(call.args) > 1:
        return call.args[1]
    return call.kwargs.get("dim")
