"""What becomes of a faulty program if the advice is followed: it runs again with the advised line."""

from __future__ import annotations

import random
import warnings
from dataclasses import dataclass
from typing import Any

import torch
from tests.bugs.catalog import Program
from tests.bugs.verdicts import failure

import insitu
from insitu.trace.advice import Advice, Certainty
from insitu.trace.advice_of_findings import advice_of
from insitu.trace.explain.explanation import Explanation
from insitu.trace.findings import Finding
from insitu.view.origin_words import with_reason

SURE = (Certainty.CERTAIN, Certainty.LIKELY)


@dataclass(frozen=True)
class Outcome:
    """An advice, whether its place is the line at fault, and whether the program is well with it; None if not tried."""

    advice: Advice | None
    is_at_fault: bool = False
    repairs: bool | None = None

    @property
    def word(self) -> str:
        """The certainty in a word."""
        if self.advice is None:
            return "none"
        return self.advice.certainty.value

    @property
    def code(self) -> str:
        """The advised line, or the words."""
        if self.advice is None:
            return ""
        if self.advice.fix is not None:
            return f"{self.advice.fix.line}: {self.advice.fix.code}"
        if self.advice.look_at is not None:
            return f"{self.advice.look_at.line}: {self.advice.doubt}"
        return self.advice.words

    @property
    def result(self) -> str:
        """What came of it, in a word."""
        return {None: "", True: "runs", False: "fails"}[self.repairs]


def outcome(program: Program) -> Outcome:
    """The advice on a program, and what it does."""
    advice = advice_on(program)
    if advice is None or advice.fix is None:
        return Outcome(advice)
    is_at_fault = program.faults == [advice.fix.line] and advice.fix.file.endswith(program.file)
    is_own = advice.fix.file == program.module.__file__
    if advice.certainty not in SURE or not is_own:
        return Outcome(advice, is_at_fault)
    return Outcome(advice, is_at_fault, repairs(program, advice))


def advice_on(program: Program) -> Advice | None:
    """What insitu advises, by the means with which the fault should be found."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = {"explain": explained, "guard": guarded}[program.found_by](program)
    if isinstance(found, Explanation):
        return found.advice and with_reason(found.advice, found.origins)
    return None if found is None else advice_of(found)


def explained(program: Program) -> Explanation | None:
    """The explanation of the exception that a program raises."""
    error = failure(program)
    if error is None:
        return None
    return insitu.explain(error)


def guarded(program: Program, names: dict[str, Any] | None = None) -> Finding | None:
    """The first finding of a guard."""
    names = vars(program.module) if names is None else names
    subject = [names["build"]()] if "build" in names else []
    with insitu.guard(*subject, action="record") as guard:
        names["run"](*subject)
    return next(iter(guard.findings), None)


def is_another(again: Finding, first: Finding | None) -> bool:
    """Whether a finding on the advised program is only a warning about something else."""
    return first is not None and again.severity != "error" and again.kind != first.kind


def repairs(program: Program, advice: Advice) -> bool:
    """Whether the program is well with the advised line: it runs, and the guard does not find the same again."""
    assert advice.fix is not None
    names: dict[str, Any] = {"__name__": f"{program.name}_advised"}
    torch.manual_seed(0)
    random.seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            exec(compile(advice.fix.applied(program.source), program.file, "exec"), names)
            if program.found_by == "guard":
                again = guarded(program, names)
                return again is None or is_another(again, guarded(program))
            names["run"]()
        except Exception:
            return False
    return True
