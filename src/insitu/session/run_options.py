"""The options of `record_run`, checked when the session is made: before a long run, and not after it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from insitu.capture.statistics import stats
from insitu.capture.values.intake import Keep
from insitu.capture.values.targets import targets
from insitu.errors import ChoiceError, SubjectError, choose
from insitu.session.dist import current_rank
from insitu.session.subject import pattern_list
from insitu.session.switch import is_off
from insitu.store import RUN_SUFFIXES, check
from insitu.store.run.file_builder import check_compression
from insitu.store.run.run_start import restarts
from insitu.trace.path import Pattern

KEEPS = ("values", "stats")
WHENS = ("train", "eval")

KeepOption = str | Callable[[Tensor], Any]


class RunOptions:
    """What is recorded of which model, how much of it, when, and where it goes."""

    def __init__(
        self,
        model: Any,
        *,
        only: str | Iterable[str] | None,
        keep: KeepOption | dict[str, KeepOption],
        every: int,
        when: str | None,
        to: Any,
        overwrite: bool,
        resume: bool,
        compression: str,
    ) -> None:
        if not isinstance(model, nn.Module):
            raise SubjectError(f"insitu.record_run needs a torch.nn.Module, got {model!r:.80}")
        check_steps(every, when)
        check_target(to)
        check_compression(compression)
        if resume:
            check_resume(to, overwrite=overwrite)
        self.model: nn.Module = model
        self.only = pattern_list("only", only, "'encoder.*'") or ("**",)
        self.every, self.when = every, when
        self.keeps = keep_by_pattern(keep)
        self.targets = targets(model, self.only)
        self.function: Callable[..., Any] | None = to if callable(to) else None
        self.to = Path(to) if isinstance(to, (str, os.PathLike)) else None
        self.overwrite, self.resume, self.compression = overwrite, resume, compression
        self._keep_by_path: dict[tuple[str, str], Keep | None] = {}
        self.check_free()

    def check_free(self) -> None:
        """Raise if the file cannot be written: better before a long run than after it.

        An existing file may be that of the same run, if this is not the first attempt. The run id decides that later.
        """
        if self.to is None or is_off() or current_rank() != 0:
            return
        may_exist = self.overwrite or self.resume or restarts() > 0
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


def check_steps(every: object, when: str | None) -> None:
    """Refuse a choice of steps that does not exist."""
    if type(every) is not int or every < 1:
        raise ChoiceError(f"every={every!r} is not a number of steps: 1 records each step, 4 each fourth")
    if when is not None:
        choose("when", when, WHENS)


def check_resume(to: object, *, overwrite: bool) -> None:
    """Refuse to continue a run that is replaced, or that has no file."""
    if overwrite:
        raise ChoiceError("resume=True continues a run and overwrite=True replaces it: pass one of them")
    if to is None or callable(to):
        raise ChoiceError("resume=True continues the run in a file: name the file, as in to='run.h5'")


def check_target(to: object) -> None:
    """Refuse a `to` that is neither a file nor a function."""
    is_target = to is None or callable(to) or isinstance(to, (str, os.PathLike))
    if not is_target:
        raise ChoiceError(f"to={to!r:.80} is neither a file, as in to='run.h5', nor a function of a value")


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
