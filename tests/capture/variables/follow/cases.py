"""All cases of the engine by name: functions that take nothing and raise when something is wrong."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from types import ModuleType

from tests.capture.variables.follow import entering, following, joining, looping, reaching, rewriting
from tests.capture.variables.follow.table import PROGRAMS

Case = Callable[[], None]


def cases_of(module: ModuleType) -> dict[str, Case]:
    """The cases that a module defines."""
    found = {name: value for name, value in vars(module).items() if name.startswith("case_")}
    return {name.removeprefix("case_").replace("_", " "): value for name, value in found.items()}


def in_a_way(way: Callable[[], object], case: Case) -> None:
    with way():  # type: ignore[attr-defined]
        case()


REWRITING = {**cases_of(rewriting), **cases_of(entering), **cases_of(looping)}
PROGRAM_CASES: dict[str, Case] = {
    f"{program.name}: {check.__name__.replace('_', ' ')}": partial(check, program)
    for program in PROGRAMS
    if sys.version_info >= program.since
    for check in rewriting.PROGRAM_CHECKS
}
LINES = {"lines report as functions do": looping.case_lines_report_as_functions_do}
FOLLOWING: dict[str, Case] = {
    f"{name} ({way.__name__})": partial(in_a_way, way, case)
    for name, case in {**cases_of(following), **cases_of(joining), **LINES}.items()
    for way in following.WAYS
}
REACHING = cases_of(reaching)
ALL = {**REWRITING, **PROGRAM_CASES, **FOLLOWING, **REACHING}
