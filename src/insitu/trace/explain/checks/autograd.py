"""Mistakes with autograd: leaves, losses that are not scalars, graphs that are cut or freed."""

from __future__ import annotations

import re

from insitu.trace.explain.case import Case, ParameterUpdate, before_dot
from insitu.trace.explain.checks.registry import Checks
from insitu.trace.explain.explanation import Misfit
from insitu.trace.explain.messages import CHANGED_IN_PLACE, INVALID_GRADIENT, NO_GRAPH, SECOND_BACKWARD

CHECKS = Checks()


@CHECKS.add(says="implicitly created only for scalar outputs")
def loss_is_not_a_scalar(case: Case, match: re.Match[str]) -> Misfit:
    """backward() of a tensor with several elements."""
    return Misfit("backward() needs a single number", case.first_row("loss"), way_out="reduce it: .mean() or .sum()")


@CHECKS.add(says=NO_GRAPH)
def loss_without_graph(case: Case, match: re.Match[str]) -> Misfit:
    """A loss that autograd knows nothing about."""
    return Misfit("no tensor that this one is computed from requires a gradient")


@CHECKS.add(says=SECOND_BACKWARD)
def second_backward(case: Case, match: re.Match[str]) -> Misfit:
    """A graph that an earlier backward pass has freed."""
    way_out = "detach() the tensors that are carried over, or call the earlier backward with retain_graph=True"
    return Misfit("an earlier backward pass freed a part of this graph", way_out=way_out)


@CHECKS.add(says=CHANGED_IN_PLACE)
def changed_in_place(case: Case, match: re.Match[str]) -> Misfit:
    """A tensor that autograd has saved and that changed since."""
    if case.update is not None:
        return _update_misfit(case.update)
    shape = re.search(r"\[torch\.\w+Tensor \[([\d, ]*)\]\]", case.message)
    which = f" of shape [{shape[1]}]" if shape is not None else ""
    way_out = "change a copy instead: x = x + 1, or x.clone() first"
    return Misfit(f"a tensor{which} that the backward pass needs was changed in place", way_out=way_out)


def _update_misfit(update: ParameterUpdate) -> Misfit:
    parameter = update.parameter or "a parameter"
    what = f"{parameter} was changed"
    if update.step:
        what = f"{update.step} changed {parameter}"
    way_out = "step after the last backward pass through this graph, or run the forward pass again"
    return Misfit(f"{what} between forward and backward", way_out=way_out, names=(parameter,))


@CHECKS.add(says="leaf Variable that requires grad")
def leaf_changed_in_place(case: Case, match: re.Match[str]) -> Misfit:
    """A change of a leaf that requires a gradient."""
    text = "a leaf that requires a gradient cannot be changed in place while gradients are on"
    return Misfit(text, case.first_row("leaf"), way_out="change it in `with torch.no_grad():`, or change a copy")


@CHECKS.add(says=r"Can't call numpy\(\) on Tensor that requires grad")
def array_of_gradient(case: Case, match: re.Match[str]) -> Misfit:
    """A NumPy array of a tensor that requires a gradient."""
    name = case.first.name if case.first is not None else ""
    text = f"{name or 'a tensor'} requires a gradient"
    return Misfit(text, way_out=f"{before_dot(name)}.detach().numpy()", names=(name,))


@CHECKS.add(says=INVALID_GRADIENT.pattern)
def wrong_shape_of_gradient(case: Case, match: re.Match[str]) -> Misfit | None:
    """The backward of a custom function returns a gradient of another shape than its input."""
    if match["shape"] is None:
        return None
    function = match["function"].removesuffix("Backward")
    gradient = f"{function}.backward returns a gradient of shape {match['shape']}"
    return Misfit(f"{gradient} for input {match['index']}, whose shape is {match['expected']}")
