"""What a guard sees of a training: its parameters, gradients and optimizers; `trace.health` judges them at the end.

Gradients are looked at when an optimizer is about to use them, or after a backward pass where there is no optimizer;
not at every step.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from types import FrameType
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from insitu.capture.deferral import Deferral
from insitu.capture.explain.reading import Reading
from insitu.capture.finite import finiteness_of, first_bad, is_finite
from insitu.capture.guard.cut import cut_before
from insitu.capture.guard.facts import facts_of, input_values, outermost_modules, own_tensors
from insitu.capture.guard.loss_inputs import loss_inputs
from insitu.capture.guard.numbers import TrainingNumbers
from insitu.capture.guard.optimizers import OptimizerSteps, parameters_of, rate_of
from insitu.capture.guard.ownership import Assignment
from insitu.capture.guard.places import place_of, site_at
from insitu.capture.guard.sampling import is_due
from insitu.capture.guard.steps import StepLogic
from insitu.capture.guard.weights import Sample, Totals, Weight, dense_grad
from insitu.capture.modules import get_ident, patch
from insitu.capture.names import innermost_module
from insitu.capture.torch_internals import DisableTorchFunction
from insitu.trace.event import Call, Site
from insitu.trace.findings import Finding, LeftoverGradient, NonFiniteUpdate
from insitu.trace.health import ParameterHistory, TrainingHistory, health_findings
from insitu.trace.health_numbers import loss_spikes
from insitu.trace.loss_input import LossInput
from insitu.trace.step_health import NONE_LATE

if TYPE_CHECKING:
    from insitu.capture.guard.check import GuardChecks, ProbeChecks
    from insitu.capture.probe import Probe

SECOND = 2  # the backward pass after which to ask why parameters have no gradient


class Training:
    """Watches the weights of a model, or of the optimizers that step."""

    def __init__(self, model: nn.Module | None, checks: GuardChecks, trouble: Callable[[str, Exception], None]) -> None:
        self._checks, self._trouble = checks, trouble
        self._has_model = model is not None
        self._is_other_model = False  # whether the model that the user named is not the one that is trained
        self._model = nn.Module() if model is None else model  # without a model: one that has no parameters
        self._weights = Weights()
        self._optimizers: dict[int, OptimizerSteps] = {}
        self._passes = 0
        self._totals = Totals()
        self._loss_inputs: tuple[LossInput, ...] = ()
        self._departures = Departures(self._keep_history, trouble)
        self._departed: dict[str, ParameterHistory] = {}  # parameters of models that are gone
        self._late = NONE_LATE
        self._steps = StepLogic(checks, self._checks_here, model, trouble)
        self._numbers = TrainingNumbers(is_due, self._paths)
        self._cut: Call | None = None  # where the graph is cut, so that parameters get no gradient

    def start(self, undo: ExitStack) -> None:
        """Listen to the backward passes and to the optimizers."""
        with DisableTorchFunction():  # modes of others are not to see this
            self._see_model()
        self._checks.on_backward = self._on_backward
        self._steps.start(undo)
        undo.callback(self._departures.clear)
        self._checks.on_loss = self._numbers.begin_backward
        undo.callback(self._numbers.stop)
        undo.callback(register_optimizer_step_pre_hook(self._before_step).remove)
        undo.callback(register_optimizer_step_post_hook(self._after_step).remove)

    def findings(self) -> list[Finding]:
        """What is wrong with the training, at its end."""
        with DisableTorchFunction():  # modes of others are not to see this
            return [*self._leftover_gradients(), *health_findings(self._history())]

    def spikes(self) -> list[Finding]:
        """The spikes of the loss: even a block that an exception has ended reports these."""
        return list(loss_spikes(self._numbers.losses()))

    # Parameters.

    def _see_model(self) -> None:
        for parameter in self._model.parameters():
            self._weights.see(parameter)

    def _see_called_modules(self) -> None:
        """Without a model: see the parameters of all modules that were called, which an optimizer may lack."""
        if self._has_model:
            return
        replacements = self._replacements()
        called = (tensor for _, tensor in self._called_tensors(self._checks_here()))
        for tensor in (*called, *(each.parameter() for each in replacements)):
            if isinstance(tensor, nn.Parameter):
                self._weights.see(tensor)
        self._weights.name(self._paths(), self._trained() - self._steps.resting)
        for check in self._checks_here():
            self._departures.await_each(module for _, module in outermost_modules(check.probe))
        self._departures.await_each(module for each in replacements if (module := each.module()) is not None)

    def _look_for_other_model(self, optimizer: Any) -> None:
        """If all parameters of an optimizer had gradients and have none now, another model may be trained, as a copy of
        the one that the user named: then all modules that are called matter."""
        parameters = parameters_of(optimizer)
        if not self._has_model or any(each.grad is not None for each in parameters):
            return
        weights = map(self._weights.get, map(id, parameters))
        self._is_other_model = any(weight is not None and weight.has_gradient for weight in weights)
        self._has_model = not self._is_other_model

    @staticmethod
    def _called_tensors(checks: list[ProbeChecks]) -> Iterator[tuple[str, Tensor]]:
        """The parameters and buffers of all modules that were called, with their paths."""
        for check in checks:
            yield from own_tensors(check.probe)

    def _replacements(self) -> list[Assignment]:
        """The parameters of models that the guard does not follow, where the one that the user named is not trained."""
        if not self._is_other_model:
            return []
        return self._steps.ownership.replacements()

    def _checks_here(self) -> list[ProbeChecks]:
        """The checks of this guard in this thread."""
        checks = (probe.check for probe in patch.probes.get(get_ident(), ()))
        return [check for check in checks if check is not None and check.checks is self._checks]

    def _paths(self) -> dict[int, str]:
        """The paths of the parameters, by id."""
        if self._has_model:
            return paths_by_id(innermost_module(self._model).named_parameters())
        found = {id(each.parameter()): each.path for each in self._replacements()}
        for steps in self._optimizers.values():
            found |= steps.places()
        return found | paths_by_id(self._called_tensors(self._checks.checks))

    # Backward passes.

    def _on_backward(self, probe: Probe, at: int | None) -> None:
        """A backward pass begins (None) or has ended: called inside the checks, which catch what fails here."""
        with DisableTorchFunction():
            if at is None:
                self._begin_backward(probe)
            else:
                self._end_backward(probe, at)

    def _begin_backward(self, probe: Probe) -> None:
        for optimizer in self._optimizers.values():
            optimizer.begin_backward()
        self._steps.begin_backward()
        if is_due(self._passes) and probe.check is not None:
            for _, parameter in own_tensors(probe):
                probe.check.hooks.look_at(parameter)

    def _end_backward(self, probe: Probe, at: int) -> None:
        for optimizer in self._optimizers.values():
            optimizer.end_backward(lambda: Reading(probe.tape).call(at))
        is_sampled = is_due(self._passes)
        self._passes += 1
        if is_sampled:
            self._see_model()
        self._weights.update_missing()
        self._steps.end_backward(probe, at, self._weights.parameters())
        if probe.check is not None:
            self._numbers.end_backward(probe.check)
        if self._passes == 1:
            self._find_loss_inputs(probe, at)
        if self._passes == SECOND:
            self._find_cut(probe, at)
        is_unscaled_loop = not self._optimizers and not self._checks.is_scaled
        if is_sampled and is_unscaled_loop:
            self._totals.add(Sample(self._weights.all()).total)

    def _find_cut(self, probe: Probe, at: int) -> None:
        """Find where the graph is cut, from the losses of a backward pass."""
        missing = self._weights.missing_ids()
        if not missing:
            return
        with Reading(probe.tape) as reading:
            self._cut = cut_before(reading, input_values(reading, at), missing)

    def _find_loss_inputs(self, probe: Probe, at: int) -> None:
        """Find what the losses of a backward pass got."""
        with Reading(probe.tape) as reading:
            self._loss_inputs = tuple(loss_inputs(reading, input_values(reading, at)))

    # Steps of optimizers.

    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        try:
            with DisableTorchFunction():
                self._begin_step(optimizer, sys._getframe(1))
            calls_model = any(map(callable, (*args, *kwargs.values())))
            if not calls_model:
                self._pause(sys._getframe(1))
        except Exception as error:
            self._trouble("looking at an optimizer", error)
        self._checks.has_optimizer = True
        for check in self._checks_here():
            check.end_step()

    def _pause(self, frame: FrameType) -> None:
        """Check nothing until the call of this frame has ended."""
        for check in self._checks_here():
            check.pause.begin(frame)

    def _begin_step(self, optimizer: Any, frame: FrameType) -> None:
        steps = self._see_optimizer(optimizer)
        is_sampled = is_due(steps.steps)
        if is_sampled:
            self._look_for_other_model(optimizer)
            self._see_called_modules()
        weights = [self._weights.see(parameter) for parameter in parameters_of(optimizer)]
        for weight in weights:
            weight.has_optimizer = True
        if is_sampled:
            self._weights.see_rates(optimizer)
        self._weights.update_missing()
        steps.begin_step(optimizer)
        self._steps.begin_step(optimizer, steps, frame, is_sampled=is_sampled)
        if is_sampled:
            self._totals.add(Sample(weights).total)
        self._numbers.begin_step(optimizer, steps.steps)

    def _see_optimizer(self, optimizer: Any) -> OptimizerSteps:
        """The steps of an optimizer, which may be new."""
        known = self._optimizers.get(id(optimizer))
        if known is not None and known.ref() is optimizer:
            return known
        if not self._optimizers:
            self._totals = Totals()  # those without an optimizer are other gradients
            for weight in self._weights.all():
                weight.forget_samples()
        steps = self._optimizers[id(optimizer)] = OptimizerSteps(
            optimizer, self._steps.ownership.creation_of(optimizer), self._deferral
        )
        return steps

    def _after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        for check in self._checks_here():
            check.pause.end(sys._getframe(1))
        finding = None
        try:
            steps = self._optimizers[id(optimizer)]
            steps.steps += 1
            with DisableTorchFunction():
                self._update_later(optimizer, steps)
                finding = self._update(optimizer, steps)
                steps.leave(parameters_of(optimizer))
                self._steps.end_step(optimizer)
                self._numbers.end_step(optimizer)
        except Exception as error:
            self._trouble("looking at an optimizer", error)
        if finding is not None:
            self._checks.report(finding)

    def _update_later(self, optimizer: Any, steps: OptimizerSteps) -> None:
        """Mark the parameters on accelerators: what a step wrote into them is known at the end of the next one."""
        later = [each for each in parameters_of(optimizer) if self._is_marked(each)]
        checks = self._checks_here()
        if later and checks and checks[0].marks is not None:
            checks[0].marks.see_update(steps, place_of(sys._getframe(2))[:2], later)

    def _update(self, optimizer: Any, steps: OptimizerSteps) -> Finding | None:
        """The finding of a parameter that was finite before a step, and is not finite after it."""
        new = steps.new_bad([each for each in parameters_of(optimizer) if not self._is_marked(each)])
        if not new:
            return None
        has_bad_gradient = any(map(has_nonfinite_gradient, new))
        if has_bad_gradient and self._checks.has_found:
            return None
        path = self._paths().get(id(new[0]), "")
        if self._checks.is_allowed("", path):
            return None
        self._checks.has_found = True
        return NonFiniteUpdate(
            path=path,
            site=site_here(),
            output=facts_of(new[0]),
            index=first_bad(new[0], nan=finiteness_of(new[0]).nan),
            optimizer=steps.name,
            rate=steps.rate,
            count=len(new),
            has_bad_gradient=has_bad_gradient,
        )

    # The end.

    @property
    def _deferral(self) -> Deferral | None:
        return next((check.probe.services.deferral for check in self._checks.checks), None)

    def _is_marked(self, tensor: Tensor) -> bool:
        """Whether the numbers of a tensor wait on their device."""
        deferral = self._deferral
        return deferral is not None and deferral.applies_to(tensor)

    def _leftover_gradients(self) -> Iterator[Finding]:
        """The first gradient that is left and not finite, where nothing else that is not finite was reported."""
        checks = self._checks
        if checks.may_explain_gradients or not self._passes:
            return
        model = innermost_module(self._model).named_parameters()
        for path, parameter in (*model, *self._called_tensors(checks.checks)):
            gradient = dense_grad(parameter)
            if gradient is None or is_finite(gradient):
                continue
            index = first_bad(gradient, nan=finiteness_of(gradient).nan)
            yield LeftoverGradient(path=path, output=facts_of(gradient), index=index)
            return

    def _history(self) -> TrainingHistory:
        """The training as plain data."""
        self._keep_history()
        return TrainingHistory(
            parameters=tuple(self._departed.values()),
            optimizers=tuple(steps.history() for steps in self._optimizers.values()),
            passes=self._passes,
            first_norms=tuple(self._totals.first),
            largest_norm=self._totals.largest,
            has_model=self._has_model,
            cut=self._cut,
            loss_inputs=self._loss_inputs,
            late=self._late,
            steps_seen=self._steps.history(
                self._optimizers, self._weights.paths() | self._paths(), self._weights.with_optimizer()
            ),
            numbers=self._numbers.history(),
        )

    def _keep_history(self) -> None:
        """Keep what is known about the parameters: a model is about to go, or the guard ends."""
        late = self._steps.ownership.late(self._optimizers.values(), self._gap())
        self._late = max(late, self._late, key=lambda each: len(each.paths))
        for each in self._parameter_histories(self._trained()):
            if each.is_trained or each.path not in self._departed:  # parts of a model may be gone already
                self._departed[each.path] = each

    def _gap(self) -> dict[str, Tensor]:
        """The parameters, by path, that got a gradient and that no optimizer has."""
        found = self._checked_weights()
        return {path: each for path, weight, each in found if weight.has_gradient and not weight.has_optimizer}

    def _parameter_histories(self, trained: set[int]) -> Iterator[ParameterHistory]:
        has_stepped = any(steps.steps for steps in self._optimizers.values())
        wanted = trained - self._steps.resting
        for path, weight, parameter in self._checked_weights():
            is_unlikely_fixed = weight.has_gradient and not has_stepped  # to compare all values takes time
            yield ParameterHistory(
                path=path,
                requires_grad=parameter.requires_grad,
                was_frozen=weight.was_frozen,
                has_gradient=weight.has_gradient,
                has_optimizer=weight.has_optimizer,
                has_changed=is_unlikely_fixed or weight.has_changed(parameter),
                is_matrix=parameter.dim() > 1,
                is_layer=not parameter.requires_grad and self._is_layer(path),
                is_trained=weight.is_trained or id(parameter) in wanted,
                peak=weight.peak,
                norm=weight.norm,
                share=weight.share,
                samples=weight.samples,
                rate=weight.rate,
            )

    def _checked_weights(self) -> Iterator[tuple[str, Weight, Tensor]]:
        """The weights that are still there and are not allowed to be wrong, with their paths."""
        for key, path in (self._weights.paths() | self._paths()).items():
            weight = self._weights.get(key)
            if weight is None or self._checks.is_allowed("", path):
                continue
            parameter = weight.ref()
            if parameter is not None:
                yield path, weight, parameter

    def _trained(self) -> set[int]:
        """The ids of all parameters of the model; without one, of the modules of which an optimizer has a part.

        A module that no optimizer knows may be there to compute a loss, and not to learn.
        """
        if self._has_model:
            return set(map(id, self._model.parameters()))
        known = self._weights.with_optimizer()
        trained: set[int] = set()
        for module in self._called_modules():
            inside = set(map(id, module.parameters()))
            if inside & known:
                trained |= inside
        return trained | self._replaced()

    def _replaced(self) -> set[int]:
        """The ids of parameters that look like those of an optimizer which get no gradient: others took their place."""
        gap = self._gap()
        late = self._steps.ownership.late(self._optimizers.values(), gap)
        idle = [shape for steps in self._optimizers.values() for shape in steps.idle]
        found = [gap[path] for path in late.paths]
        if sorted(idle) != sorted(tuple(each.shape) for each in found):
            return set()
        return set(map(id, found))

    def _called_modules(self) -> Iterator[nn.Module]:
        for check in self._checks.checks:
            modules = (callee.ref() for callee in check.probe.names.callees.values())
            yield from (module for module in modules if module is not None)

    def _is_layer(self, path: str) -> bool:
        """Whether a parameter belongs to a layer of torch that should learn; a table of the user may be fixed."""
        if not self._has_model:
            return False
        owner = innermost_module(self._model).get_submodule(path.rpartition(".")[0])
        is_table = isinstance(owner, (nn.Embedding, nn.EmbeddingBag))
        return type(owner).__module__.startswith("torch.nn.") and not is_table


class Weights:
    """The parameters that were seen, by id; `missing` are those that have not got a gradient so far."""

    def __init__(self) -> None:
        self._by_id: dict[int, Weight] = {}
        self.missing: list[Weight] = []

    def see(self, parameter: Tensor) -> Weight:
        """The weight of a parameter, which may be new."""
        weight = self._by_id.get(id(parameter))
        if weight is None or weight.ref() is not parameter:
            weight = self._by_id[id(parameter)] = Weight(parameter)
            self.missing.append(weight)
        return weight

    def see_rates(self, optimizer: Any) -> None:
        """Look at the learning rates of the parameters of an optimizer."""
        for group in optimizer.param_groups:
            for weight in map(self.see, group["params"]):
                weight.rate = max(weight.rate, rate_of(group))

    def get(self, key: int) -> Weight | None:
        """The weight of the parameter with an id."""
        return self._by_id.get(key)

    def all(self) -> list[Weight]:
        """Every weight."""
        return list(self._by_id.values())

    def with_optimizer(self) -> set[int]:
        """The ids of the parameters that an optimizer has."""
        return {key for key, weight in self._by_id.items() if weight.has_optimizer}

    def name(self, paths: dict[int, str], trained: set[int]) -> None:
        """Remember the paths of the parameters, by id, and which of them are trained."""
        for key, path in paths.items():
            if key in self._by_id:
                self._by_id[key].path, self._by_id[key].is_trained = path, key in trained

    def paths(self) -> dict[int, str]:
        """The paths of the parameters, by id, as far as they are remembered."""
        return {key: weight.path for key, weight in self._by_id.items() if weight.path}

    def update_missing(self) -> None:
        """Look which of the missing gradients are there by now."""
        for weight in self.missing:
            weight.has_gradient = is_served(weight.ref())
        self.missing = [weight for weight in self.missing if not weight.has_gradient]

    def parameters(self) -> Iterator[Tensor | None]:
        """Every parameter; None for one that is gone."""
        return (weight.ref() for weight in self._by_id.values())

    def missing_ids(self) -> set[int]:
        """The ids of the parameters that require a gradient and have not got one."""
        parameters = (weight.ref() for weight in self.missing)
        return {id(each) for each in parameters if each is not None and each.requires_grad}


class Departures:
    """Tells that one of some modules is about to go: its parts and parameters are still there at that moment."""

    def __init__(self, tell: Callable[[], None], trouble: Callable[[str, Exception], None]) -> None:
        self._tell, self._trouble = tell, trouble
        self._awaited: dict[int, weakref.ref[nn.Module]] = {}

    def await_each(self, modules: Iterable[nn.Module]) -> None:
        """Wait for the end of modules."""
        for module in modules:
            known = self._awaited.get(id(module))
            if known is None or known() is not module:
                self._awaited[id(module)] = weakref.ref(module, self._on_end)

    def clear(self) -> None:
        """Wait no more."""
        self._awaited.clear()

    def _on_end(self, ref: weakref.ref[nn.Module]) -> None:
        if not self._awaited:
            return
        try:
            with DisableTorchFunction():
                self._tell()
        except Exception as error:
            self._trouble("looking at a model that goes", error)


def paths_by_id(named: Iterable[tuple[str, Tensor]]) -> dict[int, str]:
    """The paths of tensors, by id."""
    return {id(tensor): path for path, tensor in named}


def has_nonfinite_gradient(parameter: Tensor) -> bool:
    """Whether a parameter has a gradient that is not finite."""
    return parameter.grad is not None and not is_finite(parameter.grad)


def is_served(parameter: Tensor | None) -> bool:
    """Whether a parameter has its gradient, or is gone."""
    if parameter is None:
        return True
    return parameter.is_leaf and parameter.grad is not None


def site_here() -> Site | None:
    """The line of the user's code that is being executed."""
    return site_at(place_of(sys._getframe(1))[:2])
