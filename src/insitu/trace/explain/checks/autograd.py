"""What does not fit in autograd: leaves, scalars, graphs that end or are gone."""

from __future__ import annotations

import re

from insitu.trace.event import TensorFacts
from insitu.trace.explain.case import Case, ParameterUpdate, before_dot
from insitu.trace.explain.explanation import Misfit


def not_a_scalar(case: Case) -> Misfit | None:
    """The backward pass of something that is no single number."""
    if "implicitly created only for scalar outputs" not in case.message:
        return None
    loss = _first(case)
    rows = (case.row("loss", loss),) if loss is not None else ()
    return Misfit("a backward pass begins at one number", rows, advice="reduce it first: .mean() or .sum()")


def without_gradient(case: Case) -> Misfit | None:
    """A loss that no graph leads to."""
    if "does not require grad and does not have a grad_fn" not in case.message:
        return None
    return Misfit("nothing that it was made of by differentiable calls requires a gradient")


def second_backward(case: Case) -> Misfit | None:
    """A graph that an earlier backward pass has freed."""
    if "backward through the graph a second time" not in case.message:
        return None
    text = "a part of this graph went through a backward pass before, which has freed it"
    return Misfit(text, advice="detach() what is carried over, or call the earlier one with retain_graph=True")


def changed_in_place(case: Case) -> Misfit | None:
    """A value that autograd had saved and that was changed."""
    if "modified by an inplace operation" not in case.message:
        return None
    if case.update is not None:
        return _updated(case.update)
    found = re.search(r"\[torch\.\w+Tensor \[([\d, ]*)\]\]", case.message)
    shape = f" of shape [{found[1]}]" if found else ""
    advice = "change a copy instead: x = x + 1, or x.clone() first"
    return Misfit(f"a tensor{shape} that the backward pass needs was changed in place", advice=advice)


def _updated(update: ParameterUpdate) -> Misfit:
    parameter = update.parameter or "a parameter"
    what = f"{update.step} changed {parameter}" if update.step else f"{parameter} was changed"
    advice = "step after the last backward pass through this graph, or run the forward pass again"
    return Misfit(f"{what} between forward and backward", advice=advice, names=(parameter,))


def leaf_in_place(case: Case) -> Misfit | None:
    """A change of a leaf that requires a gradient."""
    if "leaf Variable that requires grad" not in case.message:
        return None
    leaf = _first(case)
    rows = (case.row("leaf", leaf),) if leaf is not None else ()
    text = "a leaf that requires a gradient cannot be changed in place while gradients are on"
    return Misfit(text, rows, advice="do it in `with torch.no_grad():`, or on a copy")


def numpy_of_gradient(case: Case) -> Misfit | None:
    """An array of something that requires a gradient."""
    if "Can't call numpy() on Tensor that requires grad" not in case.message:
        return None
    facts = _first(case)
    name = case.name_of(facts) if facts is not None else ""
    return Misfit(f"{name or 'it'} requires a gradient", advice=f"{before_dot(name)}.detach().numpy()")


def gradient_shape(case: Case) -> Misfit | None:
    """The backward of a custom function gives a gradient of another shape than what went in."""
    found = re.search(
        r"Function (\w+) returned an invalid gradient at index (\d+) - got (\[.*?\]) but expected .* with (\[.*?\])",
        case.message,
    )
    if found is None:
        return None
    function = found[1].removesuffix("Backward")
    return Misfit(
        f"{function}.backward returns {found[3]} as gradient number {found[2]}; what went in there was {found[4]}"
    )


def _first(case: Case) -> TensorFacts | None:
    return case.operands[0].facts if case.operands else None


CHECKS = (
    not_a_scalar,
    without_gradient,
    second_backward,
    changed_in_place,
    leaf_in_place,
    numpy_of_gradient,
    gradient_shape,
)
