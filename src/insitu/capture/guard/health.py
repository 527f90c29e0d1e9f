"""Whether a training is sound: gradients that are missing, vanish or explode, weights that do not change.

Gradients are looked at when an optimizer is about to use them, or after a backward pass where there is none; not at
every step. What is to be said is said in the end, when it has been so all along.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from math import isfinite
from statistics import median
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from insitu.capture.explain.reading import Reading
from insitu.capture.finite import finiteness_of, first_bad, is_finite, total
from insitu.capture.guard.cut import cut_before
from insitu.capture.guard.facts import facts_of, noted_values, own_tensors
from insitu.capture.guard.weights import Sample, Totals, Weight, dense_grad
from insitu.capture.modules import get_ident, patch
from insitu.capture.names import unwrapped
from insitu.capture.sites import Sites, is_hidden
from insitu.capture.torch_internals import DisableTorchFunction, version_counter
from insitu.trace.event import Call, Site
from insitu.trace.findings import (
    ExplodingGradients,
    Finding,
    FrozenParameters,
    LeftoverGradient,
    MissingGradients,
    NonFiniteUpdate,
    OptimizerGap,
    StaleGradients,
    StuckParameters,
    VanishingGradients,
)

if TYPE_CHECKING:
    from insitu.capture.guard.check import Check, Checks
    from insitu.capture.probe import Probe

SECOND = 2  # the backward pass after which to ask why parameters have no gradient
FIRST = 4  # steps that are all looked at; then it is those that are powers of two, and each EVERY-th
EVERY = 64
VANISHED = 1e-6  # of the largest gradient, element by element
EXPLODED = 1e5  # times the weight itself
GROWN = 1e3  # times what the norm of all gradients was at first
SMALL_ENOUGH = 1e2  # a norm that is nothing to worry about


class Stepping:
    """An optimizer that steps: how often, how fast, and whether it meets the gradients of its last step again."""

    def __init__(self, optimizer: Any) -> None:
        self.ref = weakref.ref(optimizer)
        self.steps = self.stale = 0
        self.rate = 0.0
        self.bad: set[int] = set()
        self._left: tuple[weakref.ref[Tensor], weakref.ref[Tensor], int] | None = None
        self._added = False
        self.place: Call | None = None

    def leave(self, parameters: list[Tensor]) -> None:
        """The step is over: remember the gradient of one parameter as it is now."""
        self._left, self._added = None, False
        for parameter in parameters:
            grad = parameter.grad
            if grad is not None:
                self._left = (weakref.ref(parameter), weakref.ref(grad), version_counter(grad))
                break

    def _version(self) -> int | None:
        """The version of the gradient that was left, if it is still the one that the parameter has."""
        parameter, grad = (ref() for ref in self._left[:2]) if self._left is not None else (None, None)
        return version_counter(grad) if parameter is not None and grad is not None and parameter.grad is grad else None

    def backward_begins(self) -> None:
        """If anybody else has written to the gradient, it was set to zero."""
        if self._left is not None and self._version() != self._left[2]:
            self._left = None

    def backward_ends(self, place: Callable[[], Call]) -> None:
        """If it was written to now, this pass was added to what was left."""
        version = self._version()
        if self._left is not None and version is not None and version > self._left[2]:
            self._left = (*self._left[:2], version)
            self._added = True
            self.place = self.place or place()

    def meet(self) -> None:
        """The next step begins."""
        self.stale += self._added and self._version() is not None


class Health:
    """Watches the weights of a model, or of the optimizers that step."""

    def __init__(self, model: nn.Module | None, checks: Checks, trouble: Callable[[str, Exception], None]) -> None:
        self._model, self._checks, self._trouble = model, checks, trouble
        self._weights: dict[int, Weight] = {}
        self._missing: list[Weight] = []
        self._optimizers: dict[int, Stepping] = {}
        self._backwards = 0
        self._totals = Totals()
        self._cut: Call | None = None  # where the graph is cut, so that parameters get no gradient

    def start(self, undo: ExitStack) -> None:
        """Listen to the backward passes and to the optimizers."""
        with DisableTorchFunction():  # modes of others are not to see this
            self._look_for_new()
        self._checks.on_backward = self._on_backward
        undo.callback(register_optimizer_step_pre_hook(self._before_step).remove)
        undo.callback(register_optimizer_step_post_hook(self._after_step).remove)

    def _see(self, parameter: Tensor) -> Weight:
        weight = self._weights.get(id(parameter))
        if weight is None or weight.ref() is not parameter:
            weight = self._weights[id(parameter)] = Weight(parameter)
            self._missing.append(weight)
        return weight

    def _look_for_new(self) -> None:
        for parameter in self._model.parameters() if self._model is not None else ():
            self._see(parameter)

    def _look_at_called(self) -> None:
        """Without a model: see the parameters of all modules that were called, which an optimizer may lack."""
        for check in self._of_this_thread() if self._model is None else ():
            for _, parameter in own_tensors(check.probe):
                if isinstance(parameter, nn.Parameter):
                    self._see(parameter)

    def _on_backward(self, probe: Probe, at: int | None) -> None:
        """A backward pass begins (None) or has ended: called inside the checks, which catch what fails here."""
        with DisableTorchFunction():
            self._look(probe, at)

    def _look(self, probe: Probe, at: int | None) -> None:
        if at is None:
            for optimizer in self._optimizers.values():
                optimizer.backward_begins()
            if is_due(self._backwards) and probe.check is not None:
                for _, parameter in own_tensors(probe):
                    probe.check.hooks.look_at(parameter)
            return
        due = is_due(self._backwards)
        self._backwards += 1
        for optimizer in self._optimizers.values():
            optimizer.backward_ends(lambda: Reading(probe.tape).call(at))
        if due:
            self._look_for_new()
        self._look_for_missing()
        if self._backwards == SECOND and self._missing:
            self._look_for_cut(probe, at)
        if due and not self._optimizers and not self._checks.is_scaled:
            self._totals.add(Sample(self._weights.values()).total)

    def _look_for_cut(self, probe: Probe, at: int) -> None:
        """Find where the graph is cut, from the losses of a backward pass."""
        parameters = [weight.ref() for weight in self._missing]
        missing = {id(parameter) for parameter in parameters if parameter is not None and parameter.requires_grad}
        reading = Reading(probe.tape)
        try:
            self._cut = cut_before(reading, noted_values(reading, at), missing) if missing else None
        finally:
            reading.close()

    def _look_for_missing(self) -> None:
        for weight in self._missing:
            parameter = weight.ref()
            weight.got = parameter is None or (parameter.is_leaf and parameter.grad is not None)
        self._missing = [weight for weight in self._missing if not weight.got]

    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        try:
            with DisableTorchFunction():
                self._meet(optimizer)
            if not any(callable(argument) for argument in (*args, *kwargs.values())):  # else the model is called in it
                for check in self._of_this_thread():
                    check.pause.begin(sys._getframe(1))
        except Exception as error:
            self._trouble("looking at an optimizer", error)

    def _meet(self, optimizer: Any) -> None:
        stepping = self._optimizers.get(id(optimizer))
        if stepping is None or stepping.ref() is not optimizer:
            if not self._optimizers:
                self._totals = Totals()
            stepping = self._optimizers[id(optimizer)] = Stepping(optimizer)
            stepping.bad = {id(parameter) for parameter in owned(optimizer) if not is_finite(parameter)}
        if is_due(stepping.steps):
            self._look_at_called()
        weights = [self._see(parameter) for parameter in owned(optimizer)]
        for weight in weights:
            weight.owned = True
        self._look_for_missing()
        stepping.meet()
        stepping.rate = max(stepping.rate, *(float(group.get("lr", 1.0)) for group in optimizer.param_groups))
        if is_due(stepping.steps):
            self._totals.add(Sample(weights).total)

    def _of_this_thread(self) -> list[Check]:
        checks = (probe.check for probe in patch.probes.get(get_ident(), ()))
        return [check for check in checks if check is not None and check.checks is self._checks]

    def _after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        for check in self._of_this_thread():
            check.pause.end(sys._getframe(1))
        finding = None
        try:
            stepping = self._optimizers[id(optimizer)]
            stepping.steps += 1
            with DisableTorchFunction():
                finding = self._update(optimizer, stepping)
                stepping.leave(owned(optimizer))
        except Exception as error:
            self._trouble("looking at an optimizer", error)
        if finding is not None:
            self._checks.report(finding)

    def _update(self, optimizer: Any, stepping: Stepping) -> Finding | None:
        """What to say of a parameter that is not finite after a step, and was before."""
        parameters = owned(optimizer)
        if all(isfinite(total(parameter)) for parameter in parameters):
            return None
        new = [each for each in parameters if id(each) not in stepping.bad and not is_finite(each)]
        stepping.bad.update(map(id, new))
        spoiled = any(parameter.grad is not None and not is_finite(parameter.grad) for parameter in new)
        if not new or (spoiled and self._checks.found):
            return None
        parameter, path = new[0], self._paths().get(id(new[0]), "")
        if self._checks.allowed("", path):
            return None
        self._checks.found = True
        index = first_bad(parameter, nan=finiteness_of(parameter).nan)
        return NonFiniteUpdate(
            path=path,
            site=site_here(),
            output=facts_of(parameter),
            index=index,
            optimizer=type(optimizer).__name__,
            rate=stepping.rate,
            count=len(new),
            has_bad_gradient=spoiled,
        )

    def _paths(self) -> dict[int, str]:
        """The paths of the parameters, by id."""
        if self._model is not None:
            return {id(parameter): path for path, parameter in unwrapped(self._model).named_parameters()}
        found = self._places_in_optimizers()
        for check in self._checks.checks:
            found.update((id(tensor), path) for path, tensor in own_tensors(check.probe))
        return found

    def _places_in_optimizers(self) -> dict[int, str]:
        """What to call a parameter that is in no module that was called, by id: where its optimizer has it."""
        return {
            id(parameter): f"{type(optimizer).__name__}.param_groups[{number}]['params'][{index}]"
            for stepping in self._optimizers.values()
            if (optimizer := stepping.ref()) is not None
            for number, group in enumerate(optimizer.param_groups)
            for index, parameter in enumerate(group["params"])
        }

    def findings(self) -> list[Finding]:
        """What there is to say at the end."""
        with DisableTorchFunction():  # modes of others are not to see this
            return list(self._findings())

    def _findings(self) -> Iterator[Finding]:
        paths = self._paths()
        weights = [
            (path, weight, parameter)
            for key, path in paths.items()
            if (weight := self._weights.get(key)) is not None and (parameter := weight.ref()) is not None
            if not self._checks.allowed("", path)
        ]
        steps = sum(stepping.steps for stepping in self._optimizers.values())
        unchanged = [item for item in weights if steps and not item[1].has_changed(item[2])]
        checks = self._checks
        if self._backwards and not (checks.found or checks.told or checks.is_scaled or checks.allow):
            yield from self._spoiled()
        if self._backwards > 1:
            yield from self._gradients(weights)
        if steps > 1:
            same = {path for path, *_ in unchanged}
            learned = any(parameter.requires_grad and path not in same for path, _, parameter in weights)
            yield from self._unchanged(unchanged, everything=len(unchanged) == len(weights), learned=learned)
        for stepping in self._optimizers.values():
            if stepping.stale and stepping.stale >= 0.9 * (stepping.steps - 1) and stepping.place is not None:
                yield StaleGradients(
                    call=stepping.place,
                    site=stepping.place.site,
                    optimizer=type(stepping.ref()).__name__,
                    steps=stepping.steps,
                    stale_steps=stepping.stale,
                )

    def _spoiled(self) -> Iterator[Finding]:
        """What to say of the gradients that are left, where nothing else that is not finite was told of."""
        known = [own_tensors(check.probe) for check in self._checks.checks]
        model = unwrapped(self._model).named_parameters() if self._model is not None else ()
        for path, parameter in (*model, *(item for items in known for item in items)):
            grad = dense_grad(parameter)
            if grad is not None and not is_finite(grad):
                yield LeftoverGradient(
                    path=path, output=facts_of(grad), index=first_bad(grad, nan=finiteness_of(grad).nan)
                )
                return

    def _none(self, weights: list[Any]) -> Iterator[Finding]:
        """What to say of parameters that never got a gradient.

        Where no parameter of the model got one, the model may be one that is only evaluated: an optimizer that has
        its parameters, and steps, tells otherwise. Without a model, those of the optimizers are looked at.
        """
        missing = [item for item in weights if item[2].requires_grad and not item[1].got]
        none = [(path, weight) for path, weight, parameter in missing if not weight.has_changed(parameter)]
        if self._model is None:
            none = [(path, weight) for path, weight in none if weight.owned]
        is_all = len(none) == len(weights)
        is_trained = any(weight.owned for _, weight in none)
        if none and (is_trained or not is_all):
            paths = tuple(path for path, _ in none)
            site = self._cut.site if self._cut is not None else None
            yield MissingGradients(
                path=paths[0],
                call=self._cut,
                site=site,
                paths=paths,
                passes=self._backwards,
                is_every=is_all and len(paths) > 1,
            )

    def _gradients(self, weights: list[Any]) -> Iterator[Finding]:
        yield from self._none(weights)
        exploded = [path for path, weight, _ in weights if weight.peak > EXPLODED * max(1.0, weight.size)]
        first, last = median(self._totals.first or [0.0]), self._totals.largest
        if not exploded and last > GROWN * first and last > SMALL_ENOUGH:
            peak = max(weight.peak for _, weight, _ in weights)
            exploded = [path for path, weight, _ in weights if weight.peak >= 0.1 * peak]
        if exploded:
            yield ExplodingGradients(path=exploded[0], paths=tuple(exploded), first=self._totals.first[0], largest=last)
            return
        vanished = [
            (path, weight)
            for path, weight, parameter in weights
            if weight.samples > 1 and weight.share < VANISHED and parameter.dim() > 1
        ]
        if vanished:
            paths = tuple(path for path, _ in vanished)
            yield VanishingGradients(path=paths[0], paths=paths, share=max(weight.share for _, weight in vanished))

    def _unchanged(self, weights: list[Any], *, everything: bool, learned: bool) -> Iterator[Finding]:
        """What to say of weights that did not change; where others have `learned`, they may be frozen on purpose."""
        rate = max(stepping.rate for stepping in self._optimizers.values())
        steps = max(stepping.steps for stepping in self._optimizers.values())
        frozen: dict[bool, list[str]] = {True: [], False: []}
        for path, weight, parameter in weights:
            if not parameter.requires_grad and not everything:
                frozen[weight.frozen and learned].append(path)
        for paths in frozen.values():
            if not any(map(self._is_layer, paths)):  # where layers are frozen, what is not one was frozen with them
                paths.clear()
        learning = [item for item in weights if item[1].got and item[2].requires_grad]
        trained = self._trained()
        left_out = [path for path, weight, parameter in learning if not weight.owned and id(parameter) in trained]
        resting = [
            path
            for path, weight, parameter in learning
            if weight.owned and weight.share > VANISHED and (parameter.dim() > 1 or not rate)
        ]
        for is_fine_tuning in (False, True):
            if names := tuple(frozen[is_fine_tuning]):
                yield FrozenParameters(path=names[0], paths=names, steps=steps, is_fine_tuning=is_fine_tuning)
        if left_out:
            yield OptimizerGap(path=left_out[0], paths=tuple(left_out), steps=steps)
        if resting:
            yield StuckParameters(path=resting[0], paths=tuple(resting), steps=steps, rate=rate)

    def _trained(self) -> set[int]:
        """The ids of all parameters of the model; without one, of the modules of which an optimizer has a part.

        A module that no optimizer knows may be there to compute a loss, and not to learn.
        """
        if self._model is not None:
            return set(map(id, self._model.parameters()))
        known = {key for key, weight in self._weights.items() if weight.owned}
        found: set[int] = set()
        for module in (callee.ref() for check in self._checks.checks for callee in check.probe.names.callees.values()):
            inside = set(map(id, module.parameters())) if module is not None else set()
            if inside & known:
                found |= inside
        return found

    def _is_layer(self, path: str) -> bool:
        """Whether a parameter is of a layer of torch that is there to learn; a table of one's own may be fixed."""
        if self._model is None:
            return False
        owner = unwrapped(self._model).get_submodule(path.rpartition(".")[0])
        return type(owner).__module__.startswith("torch.nn.") and not isinstance(owner, (nn.Embedding, nn.EmbeddingBag))


def is_due(count: int) -> bool:
    """Whether to look at the gradients of this step."""
    return count < FIRST or count % EVERY == 0 or not count & (count - 1)


def owned(optimizer: Any) -> list[Tensor]:
    """The parameters of an optimizer."""
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def site_here() -> Site | None:
    """The line of the user's code that is being executed."""
    frame: Any = sys._getframe(1)
    while frame is not None and is_hidden(frame.f_code.co_filename):
        frame = frame.f_back
    return Sites().chain((frame.f_code, frame.f_lasti), None) if frame is not None else None
