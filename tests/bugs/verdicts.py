"""What insitu says about a program, and which places and parameters it names."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass, replace
from typing import Any

from tests.bugs.catalog import Program

import insitu
from insitu.trace.explain.explanation import Explanation, OriginKind

# The origins that are known without a walk: the calls that made the operands, and what autograd says by itself. All
# others are found by following a size, a dtype, a value or a state back through the lineage and the source.
WITHOUT_WALK = frozenset(
    {
        OriginKind.PRODUCED,
        OriginKind.ASSIGNED,
        OriginKind.PASSED,
        OriginKind.VALUES_PRODUCED,
        OriginKind.GRADIENT_LOST,
        OriginKind.NO_GRADIENT_PRODUCED,
        OriginKind.NO_GRADIENT_ASSIGNED,
        OriginKind.GRAPH_FREED,
        OriginKind.CHANGED_IN_PLACE,
        OriginKind.NEEDED_FOR_GRADIENT,
        OriginKind.BACKWARD_OF,
        OriginKind.CUSTOM_GRADIENT,
    }
)


@dataclass(frozen=True)
class Verdict:
    """The text that a user reads."""

    text: str

    @property
    def places(self) -> list[str]:
        """Every place in it, as `file.py:12`, once and in order."""
        return list(dict.fromkeys(re.findall(r"\b[\w-]+\.py:\d+\b", self.text)))

    def names(self, wanted: str) -> bool:
        """Whether the place or parameter is in it, and not merely as a part of another name."""
        return bool(re.search(rf"(?<![\w.-]){re.escape(wanted)}(?!\w|\.\w)", self.text))

    def summary(self, wanted: str, width: int = 72) -> str:
        """Its line that says what does not fit, else the one about what is wanted, else the first; cut to the width."""
        lines = [" ".join(line.split()) for line in self.text.splitlines() if line.strip()]
        said = [line.partition("✗ ")[2] for line in lines if "✗ " in line]
        said += [line for line in lines if Verdict(line).names(wanted)]
        line = next(iter([*said, *lines, "nothing"]))
        return line if len(line) <= width else f"{line[: width - 1]}…"


def verdict(program: Program) -> Verdict:
    """What insitu says, by the means with which the fault should be found."""
    find = {"explain": explanation, "guard": guarded, "compare": divergence}[program.found_by]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's about the fault, and the findings, which are read from the guard
        return Verdict(find(program))


def explanation(program: Program) -> str:
    """The notes of the exception: not its message, and not its traceback."""
    error = failure(program)
    return "\n".join(map(str, getattr(error, "__notes__", ())))


def explanation_without_walk(program: Program) -> Verdict:
    """What the explanation of the exception says if nothing is followed back through the lineage."""
    error = failure(program)
    if error is None:
        return Verdict("")
    return Verdict(without_walk(insitu.explain(error)).note)


def without_walk(explanation: Explanation) -> Explanation:
    """The explanation without the origins that were found by walking back, and without the advice built on them."""
    origins = tuple(each for each in explanation.origins if each.kind in WITHOUT_WALK)
    return replace(explanation, origins=origins, advice=None)


def failure(program: Program) -> Exception | None:
    """The exception that a program raises while it is recorded."""
    try:
        with insitu.record(level="functions"):
            program.module.run()
    except Exception as error:
        return error
    return None


def guarded(program: Program) -> str:
    """The error that the guard raises, or what it found by the end."""
    subject = subjects(program)
    try:
        with insitu.guard(*subject) as guard:
            program.module.run(*subject)
    except insitu.NonFiniteError as error:
        return str(error)
    return "\n".join(finding.text for finding in guard.findings)


def divergence(program: Program) -> str:
    """The first difference between the right run and the wrong one."""
    runs = []
    for run in (program.module.good, program.module.bad):
        with insitu.record(level="functions", keep="stats") as trace:
            run()
        runs.append(trace)
    diff = insitu.compare(*runs, rename=getattr(program.module, "RENAME", None))
    return "" if diff.first is None else str(diff)


def subjects(program: Program) -> list[Any]:
    """The model that the program builds, if it builds one: what the guard and `run` are given."""
    build = getattr(program.module, "build", None)
    return [build()] if build is not None else []
