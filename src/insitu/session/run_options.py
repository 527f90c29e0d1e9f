"""The options of `record_run`, checked when the session is made: before a long run, and not after it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Any

from torch import Tensor, nn

from insitu.capture.statistics import stats
from insitu.capture.step_rule import StepEnd, StepRule
from insitu.capture.values.intake import Keep
from insitu.capture.values.loop_targets import LoopScope, LoopSearch
from insitu.capture.values.targets import Targets, TargetSearch
from insitu.errors import ChoiceError, PatternError, SubjectError, brief, choose
from insitu.session.dist import current_rank
from insitu.session.run_block import RunBlock
from insitu.session.run_destination import RunDestination
from insitu.session.subject import pattern_list
from insitu.session.switch import is_off
from insitu.store import RUN_SUFFIXES, check
from insitu.store.address import is_address
from insitu.store.run.file_builder import check_compression
from insitu.store.run.run_start import restarts
from insitu.trace.path import Pattern

KEEPS = ("values", "stats")
WHENS = ("train", "eval")
STEPS: tuple[StepEnd, ...] = ("call", "update")

KeepOption = str | Callable[[Tensor], Any]


class RunOptions:
    """What is recorded of which model, how much of it, when, and where it goes."""

    def __init__(
        self,
        model: nn.Module | None,
        *,
        only: str | Iterable[str] | None,
        keep: KeepOption | dict[str, KeepOption],
        every: int,
        when: str | None,
        step: str,
        to: Any,
        overwrite: bool,
        resume: bool,
        compression: str,
        spool: Any = None,
        segment: int | str | None = None,
    ) -> None:
        check_model(model, only=only, when=when)
        check_steps(every, when)
        self.step: StepEnd = check_step(step, model)
        check_target(to)
        check_compression(compression)
        if resume:
            check_resume(to, overwrite=overwrite)
        self.model = model
        self.only = pattern_list("only", only, "'encoder.*'") or ("**",)
        self.every, self.when = every, when
        self.keeps = keep_by_pattern(keep)
        self._search = TargetSearch(model) if model is not None else None
        self.loop_patterns = [pattern for pattern in self.only if not self._names_model(pattern)]
        self.destination = RunDestination.parse(to, spool=spool, segment=segment)
        self.overwrite, self.resume, self.compression = overwrite, resume, compression
        self._keep_by_path: dict[tuple[str, str], Keep | None] = {}
        self.check_free()

    @property
    def function(self) -> Callable[..., Any] | None:
        """The function that gets the values."""
        return self.destination.function

    @property
    def to(self) -> Path | None:
        """The file of the run, beside which its journals are."""
        return self.destination.file

    def _names_model(self, pattern: str) -> bool:
        """Whether a pattern names something in the model; an error if it begins like one that does."""
        if self._search is None:
            return False
        is_found = self._search.add(pattern)
        if not is_found and self._search.begins(pattern):
            raise self._search.nothing(pattern)
        return is_found

    def plan(self, block: RunBlock) -> RunPlan:
        """What the patterns name in the model, and in the function or block that is recorded."""
        found = self._search.found if self._search is not None else Targets()
        if not self.loop_patterns:
            return RunPlan(found)
        if block.scope is None:
            raise self._nothing(self.loop_patterns[0])
        search = LoopSearch(block.scope)
        for pattern in self.loop_patterns:
            search.require(pattern, self._paths_in_model)
        has_updates = self.model is None and block.expects_updates()
        return RunPlan(replace(found, loops=search.found), search.paths, block.frame, has_updates=has_updates)

    def check_names(self, scope: LoopScope) -> None:
        """Raise if a decorated function has no variable of a name; functions that it calls may be defined later."""
        for pattern in self.loop_patterns:
            if "." not in pattern:
                LoopSearch(scope).require(pattern, self._paths_in_model)

    def _paths_in_model(self) -> list[str]:
        return list(self._search.paths()) if self._search is not None else []

    def _nothing(self, pattern: str) -> PatternError:
        if self._search is not None:
            return self._search.nothing(pattern)
        return PatternError(f"nothing has the path {pattern!r}: no model and no block is recorded here")

    def check_free(self) -> None:
        """Raise if the file cannot be written: better before a long run than after it.

        An existing file may be that of the same run, if this is not the first attempt. The run id decides that later.
        """
        if self.to is None or is_off() or current_rank() != 0:
            return
        may_exist = self.overwrite or self.resume or restarts() > 0 or not self.destination.does_merge
        check(self.to, overwrite=may_exist, suffixes=RUN_SUFFIXES)

    def keep_of(self, path: str, whole: str) -> Keep | None:
        """The function to apply to a tensor at a path, which may be an item of a whole; None keeps its values."""
        at = (path, whole)
        if at not in self._keep_by_path:
            self._keep_by_path[at] = self._find_keep(path, whole)
        return self._keep_by_path[at]

    def _find_keep(self, path: str, whole: str) -> Keep | None:
        for pattern, keep in self.keeps.items():
            if Pattern.of(pattern).match(path) or Pattern.of(pattern).match(whole):
                return keep
        return None


@dataclass(frozen=True)
class RunPlan:
    """What is recorded: the targets, and the frame of the block.

    `loop_paths` says where the values go of a pattern that names variables outside the model. With `has_updates` the
    program has an optimizer. A `rule` from outside says where steps begin.
    """

    targets: Targets
    loop_paths: dict[str, set[str]] = field(default_factory=dict)
    frame: FrameType | None = None
    has_updates: bool = False
    rule: StepRule | None = None


def check_model(model: object, *, only: object, when: str | None) -> None:
    """Refuse what is not a model; without a model, refuse options that need one."""
    if isinstance(model, nn.Module):
        return
    if callable(model):
        raise SubjectError(
            f"insitu.record_run cannot record {brief(model)}: it takes a model. To decorate a function, write "
            f"@insitu.record_run(only=['loss'], to='run.h5') above it"
        )
    if model is not None:
        raise SubjectError(f"insitu.record_run needs a torch.nn.Module, or nothing, got {model!r:.80}")
    if not only:
        raise ChoiceError("insitu.record_run without a model records variables: name them, as in only=['loss']")
    if when is not None:
        raise ChoiceError(f"when={when!r} asks a model whether it trains: pass the model, record_run(model, ...)")


def check_steps(every: object, when: str | None) -> None:
    """Refuse a choice of steps that does not exist."""
    if type(every) is not int or every < 1:
        raise ChoiceError(f"every={every!r} is not a number of steps: 1 records each step, 4 each fourth")
    if when is not None:
        choose("when", when, WHENS)


def check_step(step: str, model: nn.Module | None) -> StepEnd:
    """What a step of a model is; refuse what does not exist, and a choice that nobody needs."""
    found = STEPS[STEPS.index(choose("step", step, STEPS))]
    if found == "update" and model is None:
        raise ChoiceError('step="update" counts the updates of a model: pass the model, record_run(model, ...)')
    return found


def check_resume(to: object, *, overwrite: bool) -> None:
    """Refuse to continue a run that is replaced, or that has no file."""
    if overwrite:
        raise ChoiceError("resume=True continues a run and overwrite=True replaces it: pass one of them")
    if to is None or callable(to):
        raise ChoiceError("resume=True continues the run in a file: name the file, as in to='run.h5'")
    if is_address(to):
        raise ChoiceError(
            f"resume=True continues the run in a file, and to={to!r} is an address: under torchrun, a restart continues"
            " the run there by itself"
        )


def check_target(to: object) -> None:
    """Refuse a `to` that is neither a file nor a function."""
    is_target = to is None or callable(to) or isinstance(to, (str, os.PathLike))
    if not is_target:
        raise ChoiceError(
            f"to={to!r:.80} is neither a file, as in to='run.h5', nor an address, as in to='s3://bucket/run', nor a"
            " function of a value"
        )


def keep_by_pattern(keep: KeepOption | dict[str, KeepOption]) -> dict[str, Keep | None]:
    """The function to apply to tensors, by path pattern; None keeps their values."""
    options = keep if isinstance(keep, dict) else {"**": keep}
    for pattern in options:
        Pattern.of(pattern)
    if "**" in list(options)[:-1]:
        raise ChoiceError("keep has '**' before other patterns, and the first match counts: put '**' last")
    return {pattern: keep_function(option) for pattern, option in options.items()}


def keep_function(option: KeepOption) -> Keep | None:
    """The function to apply to a tensor; None keeps its values."""
    if callable(option):
        return option
    if choose("keep", option, KEEPS) == "stats":
        return stats
    return None
