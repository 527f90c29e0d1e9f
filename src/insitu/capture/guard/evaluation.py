"""Training and evaluation modes: models that are trained in evaluation mode, and dropout that is on in evaluation."""

from __future__ import annotations

import ast
import sys
import weakref
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from types import FrameType
from typing import TYPE_CHECKING, Any

from torch import nn

from insitu.capture.calls import FunctionCallee
from insitu.capture.explain.reading import Reading, values
from insitu.capture.guard.clipping import calls_since
from insitu.capture.guard.method_calls import MethodListener, Trouble, mode_change
from insitu.capture.guard.ownership import CALLER
from insitu.capture.guard.places import Place, place_of, site_at
from insitu.capture.names import ModuleCallee
from insitu.trace.step_health import EvaluatedDropout, LastEvaluation, ModeHistory

if TYPE_CHECKING:
    from insitu.capture.guard.check import ProbeChecks

TRAIN = nn.Module.train.__code__
MOST_CHANGES = 64  # of modes that are remembered, by place
MOST_NAMES = 4  # of modules
MOST_NESTED = 40  # frames in which a mode is passed on to the parts of a model
DROPOUTS = (
    *(nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d),
    *(nn.AlphaDropout, nn.FeatureAlphaDropout),
)
BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
METRICS = frozenset({"argmax", "eq", "topk"})  # what metrics are computed with, as well as with losses
ATTENTION = "scaled_dot_product_attention"


@dataclass(frozen=True, slots=True)
class ModeChange:
    """A call of `train` or `eval` of a module that is not a part of another one that changes."""

    module: weakref.ref[nn.Module]
    is_training: bool
    number: int
    place: Place


@dataclass(slots=True)
class ModeSamples:
    """The modes that a model had when it was trained."""

    model: weakref.ref[nn.Module]
    path: str
    samples: int = 0
    evaluated: int = 0
    is_last: bool = False
    modules: tuple[str, ...] = ()
    place: Place = ()


@dataclass(slots=True)
class Window:
    """From where on the tape of a probe is the evaluation, or what follows the last step."""

    check: ProbeChecks
    begin: int

    @classmethod
    def now(cls, check: ProbeChecks) -> Window:
        """All that will be on the tape from now on."""
        return cls(check, check.gone + len(check.probe.tape))

    @property
    def offset(self) -> int:
        """Where it begins on the tape as it is now."""
        return max(0, self.begin - self.check.gone)


class Modes:
    """Listens to the modes of modules; `checks_here` returns the checks of the guard in this thread."""

    def __init__(self, checks_here: Callable[[], list[ProbeChecks]], trouble: Trouble) -> None:
        self._checks_here, self._trouble = checks_here, trouble
        self._count = 0
        self._changes: dict[tuple[Any, ...], ModeChange] = {}
        self._samples: dict[int, ModeSamples] = {}
        self._evaluations: list[Window] = []
        self._tails: list[Window] = []
        self._has_switched = False  # whether a mode was changed since the last step
        self._dropouts: dict[tuple[str, int], EvaluatedDropout] = {}
        self.resting: set[int] = set()  # parameters of normalizations that are in evaluation mode, and not moved

    def start(self, undo: ExitStack) -> None:
        """Listen to changes from now on."""
        mode_change.listen(MethodListener(self._on_change, self._trouble), undo)

    def _on_change(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        frame = sys._getframe(CALLER)
        if not is_passed_on(frame):
            self._change(module, frame, is_training=bool((*args, *kwargs.values(), True)[0]))

    def _change(self, module: nn.Module, frame: FrameType, *, is_training: bool) -> None:
        self._count += 1
        self._has_switched = True
        place = place_of(frame, beyond=module)
        if is_training:
            self._end_evaluation()
        elif not self._evaluations:
            self._evaluations = list(map(Window.now, self._checks_here()))
        if len(self._changes) < MOST_CHANGES or (id(module), *place[:2]) in self._changes:
            change = ModeChange(weakref.ref(module), is_training, self._count, place)
            self._changes[id(module), *place[:2]] = change

    def _end_evaluation(self) -> None:
        """Look for dropout in the evaluation that ends."""
        windows, self._evaluations = self._evaluations, []
        for window in windows:
            with Reading(window.check.probe.tape) as reading:
                for at in calls_since(reading.tape, window.offset):
                    self._look_at_dropout(reading, at)

    def _look_at_dropout(self, reading: Reading, at: int) -> None:
        if not is_unaware_dropout(reading, at):
            return
        module = next((callee.ref() for callee in reversed(reading.modules(at))), None)
        if module is None or module.training:
            return
        call = reading.call(at)
        if call.site is not None:
            switch = site_at(self._last_switch(module))
            self._dropouts.setdefault((call.site.file, call.site.line), EvaluatedDropout(call, switch))

    def _last_switch(self, module: nn.Module) -> Place:
        """Where a module, or one that it is a part of, was switched to evaluation last."""
        changes = sorted(self._changes.values(), key=lambda change: change.number, reverse=True)
        for change in changes:
            owner = change.module()
            is_around = owner is not None and any(part is module for part in owner.modules())
            if is_around and not change.is_training:
                return change.place
        return ()

    # Steps.

    def see_step(self, roots: Iterable[tuple[str, nn.Module]], moved: Container[int]) -> None:
        """Parameters, known by their ids, are about to be moved: see in which modes their models are."""
        self.resting = set()
        for path, root in roots:
            if is_mostly_moved(root, moved):
                self.resting.update(resting_parameters(root, moved))
                self._see_root(path, root, moved)

    def _see_root(self, path: str, root: nn.Module, moved: Container[int]) -> None:
        self._add_sample(self._samples_of(path, root), root, moved)
        if not root.training:
            return
        for part_path, part in self._evaluated_parts(root, moved):
            full = ".".join(filter(None, (path, part_path)))
            self._add_sample(self._samples_of(full, part), part, moved)

    def _evaluated_parts(self, root: nn.Module, moved: Container[int]) -> list[tuple[str, nn.Module]]:
        """The parts of a model in training mode that were switched to evaluation, are moved, and that nobody switched
        to training, with what is around them: who does both in turns does it on purpose."""
        owners = [owner for change in self._changes.values() if (owner := change.module()) is not None]
        evaluated = {id(owner) for owner in owners if not owner.training and owner is not root}
        if not evaluated:
            return []
        parts = [(path, part) for path, part in root.named_modules() if id(part) in evaluated]
        trained = self._trained_modules()
        return [
            (path, part)
            for path, part in parts
            if id(part) not in trained and not is_noisy(part) and is_mostly_moved(part, moved)
        ]

    def _trained_modules(self) -> set[int]:
        """The ids of the modules that were switched to training, and of their parts."""
        owners = (change.module() for change in self._changes.values() if change.is_training)
        return {id(part) for owner in owners if owner is not None for part in owner.modules()}

    def _samples_of(self, path: str, module: nn.Module) -> ModeSamples:
        known = self._samples.get(id(module))
        if known is None or known.model() is not module:
            known = self._samples[id(module)] = ModeSamples(weakref.ref(module), path)
        return known

    def _add_sample(self, known: ModeSamples, module: nn.Module, moved: Container[int]) -> None:
        known.samples += 1
        known.is_last = not module.training
        if module.training:
            return
        parts = noisy_parts(module, is_training=False)
        names = names_of(path_in(known.path, path, part) for path, part in parts if not is_resting(part, moved))
        if names:
            known.evaluated += 1
            known.modules = names
            known.place = self._last_switch(module)

    def end_step(self) -> None:
        """A step has ended: what follows may be an evaluation."""
        self._has_switched = False
        self._tails = list(map(Window.now, self._checks_here()))

    # The end.

    def histories(self) -> tuple[ModeHistory, ...]:
        """The modes of the models that were trained."""
        return tuple(
            ModeHistory(each.path, each.modules, each.evaluated, each.samples, each.is_last, site_at(each.place))
            for each in self._samples.values()
            if each.evaluated
        )

    def dropouts(self) -> tuple[EvaluatedDropout, ...]:
        """The functional dropouts that ran in evaluation."""
        self._end_evaluation()
        return tuple(self._dropouts.values())

    def last_evaluation(self) -> LastEvaluation | None:
        """The evaluation, after the last step, of a model that is in training mode."""
        if self._has_switched:
            return None
        for window in self._tails:
            with Reading(window.check.probe.tape) as reading:
                found = self._evaluated_in_training(reading, window.offset)
            if found is not None:
                return found
        return None

    def _evaluated_in_training(self, reading: Reading, begin: int) -> LastEvaluation | None:
        found: LastEvaluation | None = None
        for at in calls_since(reading.tape, begin):
            if found is None:
                found = self._trained_without_gradient(reading, at)
            elif is_metric(reading, at):
                return found
        return None

    def _trained_without_gradient(self, reading: Reading, at: int) -> LastEvaluation | None:
        callee = reading.callee(at)
        module = callee.ref() if isinstance(callee, ModuleCallee) else None
        if module is None or id(module) not in self._samples or not module.training:
            return None
        if any(value.requires_grad for value in values(reading.result(at))):
            return None
        names = names_of(path_in(callee.path, path, part) for path, part in noisy_parts(module, is_training=True))
        if names:
            return LastEvaluation(reading.call(at), names)
        return None


def is_passed_on(frame: FrameType | None) -> bool:
    """Whether a frame changes the mode of a module because the mode of one around it is changed."""
    for _ in range(MOST_NESTED):
        if frame is None:
            return False
        if frame.f_code is TRAIN:
            return True
        frame = frame.f_back
    return False


def is_unaware_dropout(reading: Reading, at: int) -> bool:
    """Whether a call is a dropout that is on, and whose expression does not say whether the model trains."""
    if not isinstance(reading.callee(at), FunctionCallee):
        return False
    what, kwargs = reading.operation(at), reading.kwargs(at)
    if what.base == ATTENTION:
        return bool(kwargs.get("dropout_p", (*reading.args(at), *[0.0] * 5)[4]))
    if what.draws != "in training" or "dropout" not in what.base:
        return False
    is_on = kwargs.get("training", True) is True and bool(kwargs.get("p", 0.5))
    return is_on and not says_training(reading.expression(at).node)


def says_training(node: ast.AST) -> bool:
    """Whether the call of a functional dropout says whether the model trains; True if that is not known."""
    if not isinstance(node, ast.Call):
        return True
    names = [keyword.arg for keyword in node.keywords]
    has_stars = None in names or any(isinstance(item, ast.Starred) for item in node.args)
    return has_stars or "training" in names or len(node.args) > 2


def is_metric(reading: Reading, at: int) -> bool:
    """Whether a call computes a loss, or what metrics are computed with."""
    what = reading.operation(at)
    return what.family == "loss" or what.base in METRICS


def is_mostly_moved(root: nn.Module, moved: Container[int]) -> bool:
    """Whether most parameters of a module are moved: else a part is trained on top of another that stays as it is."""
    parameters = list(map(id, root.parameters()))
    count = sum(key in moved for key in parameters)
    return 2 * count > len(parameters)


def is_resting(module: nn.Module, moved: Container[int]) -> bool:
    """Whether a normalization is in evaluation mode and its parameters are not moved: it is frozen on purpose."""
    own = [id(each) for each in module.parameters(recurse=False)]
    is_frozen = bool(own) and not any(key in moved for key in own)
    return isinstance(module, BATCH_NORMS) and not module.training and is_frozen


def resting_parameters(root: nn.Module, moved: Container[int]) -> Iterator[int]:
    """The ids of the parameters of normalizations in a module that are frozen on purpose."""
    for part in root.modules():
        if is_resting(part, moved):
            yield from map(id, part.parameters(recurse=False))


def noisy_parts(root: nn.Module, *, is_training: bool) -> Iterator[tuple[str, nn.Module]]:
    """The parts of a module, with their paths in it, that are in a mode and behave differently in the other."""
    for path, part in root.named_modules():
        if part.training is is_training and is_noisy(part):
            yield path, part


def is_noisy(module: nn.Module) -> bool:
    """Whether a module of torch behaves differently in training."""
    if isinstance(module, DROPOUTS):
        return module.p > 0
    if isinstance(module, BATCH_NORMS):
        return module.track_running_stats
    rate = getattr(module, "dropout", 0.0)
    is_own = type(module).__module__.startswith("torch.nn.")
    return is_own and isinstance(rate, float) and rate > 0


def path_in(root: str, path: str, part: nn.Module) -> str:
    """The title of a part of a module."""
    full = ".".join(filter(None, (root, path)))
    return f"{full} ({type(part).__name__})".strip()


def names_of(titles: Iterable[str]) -> tuple[str, ...]:
    """The first of some titles."""
    return tuple(islice(titles, MOST_NAMES))
