"""The check of one model: what a session does to it, and what it costs."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from time import process_time
from typing import Any, Literal

from tests.capture.oracle import ops, troubles
from tests.models.outcome import Build, Outcome, bare, steady, traced
from tests.zoo.model import Model

import insitu
from insitu.errors import InsituWarning
from insitu.session.guard import Guard

State = Literal["passed", "failed", "not built"]
SESSIONS: dict[str, Callable[[Any], Any]] = {
    "record": insitu.record,
    # Without a model given, so that the operators of the loss and of backward are there too.
    "record aten": lambda subject: insitu.record(level="aten", keep="stats"),
}
VIEWS = ("tree", "table", "code")


@dataclass
class Result:
    """What became of a model: the checks it failed, the operators it ran, and how many times as long it took."""

    name: str
    state: State = "passed"
    reasons: list[str] = field(default_factory=list)
    operators: int = 0
    slowdown: float | None = None

    @property
    def family(self) -> str:
        """The library it comes from."""
        return self.name.split("/")[0]

    def fail(self, reason: str) -> None:
        """One more check that failed."""
        self.state = "failed"
        self.reasons.append(reason)

    as_dict = asdict


def check(model: Model, *, timed: bool = True, begun: Callable[[], None] = lambda: None) -> Result:
    """Run a model alone, then under sessions and compare; `begun` is told when it has run alone."""
    result = Result(model.name)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", InsituWarning)
        try:
            expected, operators = steady(model.build), bare(model.build)
        except Exception as error:
            return Result(model.name, "not built", [brief(error)])
        begun()
        result.operators = len(operators)
        for name, session in SESSIONS.items():
            with failing(result, name):
                compare(result, name, model.build, session, expected, operators)
        warned = dict.fromkeys(str(warning.message) for warning in told)
        with failing(result, "guard"):
            compare_guarded(result, model.build, expected)
        with failing(result, "slowdown"):
            result.slowdown = slowdown(model.build) if timed else None
    for text in warned:
        result.fail(f"warns: {text}")
    return result


def compare(result: Result, name: str, build: Build, session: Any, expected: Outcome, operators: list[str]) -> None:
    """The same outcome in a session, nothing left patched, no trouble, every operator; and every view can show it."""
    found = traced(build, session)
    if found.outcome != expected:
        result.fail(f"{name}: {'output' if found.outcome[0] != expected[0] else 'random state'} differs")
    for text in troubles(found.trace):
        result.fail(f"{name}: {text}")
    if "aten" in name and ops(found.trace) != operators:
        result.fail(f"{name}: {len(ops(found.trace))} operators, not {len(operators)} as under a bare mode")
    for view in VIEWS if name == "record" else VIEWS[:1]:
        insitu.show(found.trace, view=view, file=io.StringIO())


def compare_guarded(result: Result, build: Build, expected: Outcome) -> None:
    """The same outcome under a guard that only takes notes, and the guard finds nothing."""
    guards: list[Guard] = []

    def guarded(subject: Any) -> Any:
        guards.append(insitu.guard(subject, action="record"))
        return guards[0]

    found = traced(build, guarded)
    if found.outcome != expected:
        result.fail("guard: output or random state differs")
    for finding in guards[0].findings:
        if finding.severity != "info":
            result.fail(f"guard finds: {finding.text.splitlines()[0]}")


def slowdown(build: Build) -> float:
    """How many times as long a run takes when it is recorded: both in turn, on one thread."""
    subject, run = build()

    def recorded() -> Any:
        with insitu.record(subject):
            return run()

    turns = [(seconds(run), seconds(recorded)) for _ in range(2)]
    plain, traced = (min(times) for times in zip(*turns, strict=True))
    return traced / plain


def seconds(run: Callable[[], Any]) -> float:
    """The CPU time of a run."""
    start = process_time()
    run()
    return process_time() - start


@contextmanager
def failing(result: Result, name: str) -> Iterator[None]:
    """An exception is a failure of this check."""
    try:
        yield
    except Exception as error:
        result.fail(f"{name}: {brief(error)}")


def brief(error: Exception) -> str:
    """An error in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split()):.200}"
