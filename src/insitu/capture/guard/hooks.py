"""What a guard checks of hooks on gradients (`Tensor.register_hook`): that none makes NaN or Inf of finite numbers.

Autograd runs them between its nodes, from a dict that each tensor has. There each hook is replaced by one that calls it
and looks at what it made, until the guard ends.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import wraps
from math import isfinite
from typing import TYPE_CHECKING, Any

from torch import Tensor

from insitu.capture.explain.reading import Reading
from insitu.capture.finite import careful_total, finiteness_of, first_bad
from insitu.capture.guard.facts import facts_of, parameter_path
from insitu.capture.guard.gradient import place_of
from insitu.capture.modes import skip_when_compiling
from insitu.capture.sites import Sites, is_hidden
from insitu.capture.torch_internals import DisableTorchFunction, backward_hooks, node_number, version_counter
from insitu.capture.variables.function_watch import code_of
from insitu.trace.event import Call, Site
from insitu.trace.findings import Finding, FindingKind, NonFiniteFromHook, TensorOperand
from insitu.trace.origin import FINITE

if TYPE_CHECKING:
    from insitu.capture.guard.check import ProbeChecks

Hook = Callable[[Tensor], Tensor | None]
Place = int | weakref.ref[Tensor]  # the number of the autograd node that a hook is on, or the tensor that has none


class Hooks:
    """The hooks on gradients that one probe has met, by the ids of the dicts that they are in."""

    def __init__(self, check: ProbeChecks) -> None:
        self._check = check
        self._replaced: dict[int, weakref.ref[Any]] = {}

    def register(self, tensor: Any, handle: Any) -> Any:
        """A hook was registered; returns its handle."""
        try:
            with DisableTorchFunction():
                self.look_at(tensor)
        except Exception as error:
            self._check.probe.trouble("looking at a hook", error)
        return handle

    def look_at(self, tensor: Tensor) -> None:
        """Replace the hooks of a tensor."""
        hooks: Any = backward_hooks(tensor)
        for key, hook in list(hooks.items()) if hooks else ():
            if not self._is_ours(hook):
                hooks[key] = self._looking(hook, tensor)
                self._remember(hooks)

    def _remember(self, hooks: Any) -> None:
        replaced, number = self._replaced, id(hooks)
        replaced[number] = weakref.ref(hooks, lambda _: replaced.pop(number, None))

    def _is_ours(self, hook: Hook) -> bool:
        return getattr(hook, "__insitu__", None) is self._check.checks

    def _looking(self, hook: Hook, tensor: Tensor) -> Hook:
        check, node = self._check, tensor.grad_fn
        place = node_number(node) if node is not None else weakref.ref(tensor)

        @wraps(hook)
        def looking(grad: Tensor) -> Tensor | None:
            version = self._version_of_finite(grad)
            result = hook(grad)
            if version is not None:
                made = grad if result is None else result
                check.tell(hook_cause, check, hook, made, grad if version_counter(grad) == version else None, place)
            return result

        looking.__dict__["__insitu__"] = check.checks
        skip_when_compiling(looking)
        return looking

    def _version_of_finite(self, grad: Tensor) -> int | None:
        """The version of a gradient that a hook is to get; None if it is not finite already, or the guard is over."""
        try:
            return None if self._check.probe.over or not isfinite(careful_total(grad)) else version_counter(grad)
        except Exception as error:
            self._check.probe.trouble("checking a gradient", error)
            return None

    def end(self) -> None:
        """Put back what was replaced."""
        for hooks in [there for ref in list(self._replaced.values()) if (there := ref()) is not None]:
            for key, hook in hooks.items():
                if self._is_ours(hook):
                    hooks[key] = hook.__wrapped__
        self._replaced.clear()


def hook_cause(check: ProbeChecks, hook: Hook, made: Any, given: Tensor | None, place: Place) -> Finding | None:
    """What to say of what a hook made of a finite gradient, which is `given` unless it was changed in place."""
    found = finiteness_of(made) if isinstance(made, Tensor) else FINITE
    if found.is_finite:
        return None
    check.nodes.spoil()
    call, path = call_at(check, place), ""
    if not isinstance(place, int):
        path = parameter_path(check.probe, place())
    elif call is not None:
        path = call.path
    if (check.checks.is_scaled and not found.nan) or check.checks.allowed(call.name if call is not None else "", path):
        return None
    check.checks.found = True
    operands = (TensorOperand(facts_of(given), "the gradient"),) if given is not None else ()
    name = getattr(hook, "__name__", type(hook).__name__)
    kind: FindingKind = "nan" if found.nan else "inf"
    index = first_bad(made, nan=found.nan)
    return NonFiniteFromHook(
        kind=kind,
        path=path,
        call=call,
        site=hook_site(hook),
        output=facts_of(made),
        index=index,
        operands=operands,
        hook=name,
    )


def call_at(check: ProbeChecks, place: Place) -> Call | None:
    """The call that made the tensor that a hook is on; none made a parameter."""
    if not isinstance(place, int):
        return None
    tape, at = place_of(check, place)
    reading = Reading(tape)
    try:
        return reading.call(at) if at is not None else None
    finally:
        reading.close()


def hook_site(hook: Hook) -> Site | None:
    """Where a hook is written, if it is written in Python."""
    code = code_of(hook)
    return Sites().definition(code) if code is not None and not is_hidden(code.co_filename) else None
