"""What a guard checks about hooks on gradients (`Tensor.register_hook`): none may produce NaN or Inf by itself.

Autograd runs them between its nodes, from a dict that each tensor has. There each hook is replaced by one that calls it
and looks at its result, until the guard ends.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
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
from insitu.trace.findings import Finding, NonFiniteFromHook, TensorOperand

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
                output = grad if result is None else result
                unchanged = grad if version_counter(grad) == version else None
                check.tell(hook_finding, check, hook, output, unchanged, place)
            return result

        looking.__dict__["__insitu__"] = check.checks
        skip_when_compiling(looking)
        return looking

    def _version_of_finite(self, grad: Tensor) -> int | None:
        """The version of a gradient that a hook is to get; None if it is not finite already, or the guard is over."""
        try:
            marks = self._check.marks
            is_marked = marks is not None and marks.applies_to(grad)
            if self._check.probe.over or is_marked or not isfinite(careful_total(grad)):
                return None
            return version_counter(grad)
        except Exception as error:
            self._check.probe.trouble("checking a gradient", error)
            return None

    def end(self) -> None:
        """Put back what was replaced."""
        for ref in list(self._replaced.values()):
            hooks = ref()
            if hooks is not None:
                self._put_back(hooks)
        self._replaced.clear()

    def _put_back(self, hooks: Any) -> None:
        for key, hook in hooks.items():
            if self._is_ours(hook):
                hooks[key] = hook.__wrapped__


@dataclass(frozen=True, slots=True)
class HookTarget:
    """The tensor that a hook is on: the call that produced it, or the path of a parameter."""

    call: Call | None = None
    path: str = ""

    @property
    def name(self) -> str:
        """The name of the call."""
        if self.call is not None:
            return self.call.name
        return ""


def hook_finding(check: ProbeChecks, hook: Hook, output: Any, gradient: Tensor | None, place: Place) -> Finding | None:
    """The finding of a hook that got a finite gradient, which is None if the hook changed it in place."""
    if not isinstance(output, Tensor):
        return None
    found = finiteness_of(output)
    if found.is_finite:
        return None
    check.nodes.spoil()
    target = target_of(check, place)
    is_expected = check.checks.is_scaled and not found.nan
    if is_expected or check.checks.is_allowed(target.name, target.path):
        return None
    check.checks.has_found = True
    return NonFiniteFromHook(
        kind="nan" if found.nan else "inf",
        path=target.path,
        call=target.call,
        site=hook_site(hook),
        output=facts_of(output),
        index=first_bad(output, nan=found.nan),
        operands=() if gradient is None else (TensorOperand(facts_of(gradient), "the gradient"),),
        hook=getattr(hook, "__name__", type(hook).__name__),
    )


def target_of(check: ProbeChecks, place: Place) -> HookTarget:
    """The tensor that a hook is on; no call produced a parameter."""
    if not isinstance(place, int):
        return HookTarget(path=parameter_path(check.probe, place()))
    tape, at = place_of(check, place)
    if at is None:
        return HookTarget()
    with Reading(tape) as reading:
        call = reading.call(at)
        return HookTarget(call, call.path)


def hook_site(hook: Hook) -> Site | None:
    """Where a hook is written, if it is written in Python."""
    code = code_of(hook)
    if code is not None and not is_hidden(code.co_filename):
        return Sites().definition(code)
    return None
