"""A program while it is observed: traced, recorded and guarded, as the options of `insitu run` ask."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from types import CodeType
from typing import Any

from torch import Tensor

from insitu.capture.program_calls import ProgramCalls
from insitu.capture.statistics import stats
from insitu.commands.delivery import deliver, say
from insitu.commands.program import Program, exit_code
from insitu.commands.rank_files import rank
from insitu.errors import outside
from insitu.session.guard import Guard
from insitu.session.record import TraceSession
from insitu.session.run_options import RunOptions
from insitu.session.script_run import ScriptEntry, ScriptRun, ScriptSteps
from insitu.session.script_source import parsed, with_reports
from insitu.session.switch import is_off
from insitu.session.trace_gate import FunctionCondition, StepCondition, TraceGate
from insitu.trace.trace import Trace

Run = Callable[[], None]


@dataclass(frozen=True)
class Ending:
    """How a program has ended: the exception that ended it, if one did, and its exit code."""

    failure: BaseException | None
    code: int


class Observation:
    """The sessions around one program, and what they leave: a trace, findings, and the number of its steps."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._steps = ScriptSteps()
        self._run: ScriptEntry | None = None
        self.trace: Trace | None = None
        self._step_condition: StepCondition | None = None
        self.guard: Guard | None = None

    def observe(self, program: Program) -> Ending:
        """Run the program inside of the sessions; an exception of the program ends it, one of a session is raised."""
        failure: BaseException | None = None

        def run_program() -> None:
            nonlocal failure
            try:
                program.run(self._rewrite)
            except BaseException as error:
                failure = error
                raise

        try:
            outside.say = say
            run: Run = run_program
            for session in (self._traced, self._guarded, self._counted, self._recorded):
                run = partial(session, run)
            run()
        except BaseException as error:
            is_late_interrupt = isinstance(error, KeyboardInterrupt) and self.trace is not None
            if error is not failure and not is_late_interrupt:
                raise
            failure = error
        try:
            return Ending(failure, exit_code(failure))
        except KeyboardInterrupt:  # it came again while the first one was reported
            return Ending(failure, exit_code(KeyboardInterrupt()))

    def deliver(self, failure: BaseException | None) -> None:
        """Save and print the trace, then say what was recorded and found."""
        if self.trace is not None:
            self._deliver_trace(self.trace, failure)
        if self._run is not None and not self._options.quiet:
            say(self._run.summary())
        if self.guard is not None and self.guard.findings:
            say(findings_text(self.guard))

    def _deliver_trace(self, trace: Trace, failure: BaseException | None) -> None:
        condition = self._step_condition
        if condition is not None and not trace.events:
            say(f"--steps {self._options.steps.text}: none of these steps ran; {condition.text}")
            return
        deliver(trace, failure, self._options)

    def _rewrite(self, code: CodeType, source: bytes) -> CodeType:
        """The code of the script as it is run: with reports, if variables or functions of it are named."""
        needs_reports = self._run is not None or bool(self._options.only_functions)
        if not needs_reports or is_off():
            return code
        tree = parsed(source, code.co_filename)
        wanted = self._run.prepare(code, tree) if self._run is not None else ()
        return with_reports(code, tree, wanted)

    def _recorded(self, run: Run) -> None:
        """Run while values are recorded."""
        if not self._options.record:
            run()
            return
        options = RunOptions(
            None,
            only=self._options.record,
            keep=number_or_statistics if self._options.keep == "stats" else "values",
            every=1,
            when=None,
            to=self._options.run,
            overwrite=self._options.overwrite,
            resume=False,
            compression="none",
        )
        with ScriptRun(options, self._steps) as self._run:
            run()

    def _counted(self, run: Run) -> None:
        """Run while the steps of the program are counted, if somebody needs them."""
        needs_steps = bool(self._options.record) or self._options.steps is not None
        with ExitStack() as undo:
            if needs_steps and not is_off():
                self._steps.start(undo)
                calls = ProgramCalls(self._steps.rule)
                if self._run is not None:
                    calls = ProgramCalls(self._steps.rule, self._run.learn)
                calls.start(undo)
            run()

    def _guarded(self, run: Run) -> None:
        """Run under a guard."""
        if self._options.guard is None:
            run()
            return
        self.guard = Guard(None, action=self._options.guard, allow=(), tell=say_finding)
        with self.guard:
            run()

    def _traced(self, run: Run) -> None:
        """Run while calls are recorded."""
        options = self._options
        if not options.is_traced:
            run()
            return
        folder = None
        if options.overflow == "disk":
            folder = os.path.dirname(options.to)
        session = TraceSession(
            "record",
            None,
            level=options.level,
            keep=options.keep,
            only=options.only_modules,
            memory=options.memory,
            overflow=options.overflow,
            folder=folder,
            gate=self._gate(),
        )
        with session as self.trace:
            run()

    def _gate(self) -> TraceGate | None:
        """What lets parts of the program into the trace; None if all of it is traced."""
        gate = TraceGate()
        if self._options.steps is not None:
            self._step_condition = StepCondition(self._options.steps, self._steps.rule)
            gate.conditions.append(self._step_condition)
        if self._options.only_functions:
            gate.conditions.append(FunctionCondition(self._options.only_functions))
        return gate if gate.conditions else None


def number_or_statistics(tensor: Tensor) -> Any:
    """What `--keep stats` records: the statistics of a tensor, or its only number."""
    if tensor.numel() == 1:
        return tensor
    return stats(tensor)


def findings_text(guard: Guard) -> str:
    """The findings of a guard in a few lines: what, where, and how often."""
    count = len(guard.findings)
    lines = [f"  {finding.text.splitlines()[0]}{times_text(guard.times(finding))}" for finding in guard.findings]
    return "\n".join([f"the guard found {count} thing{'s' * (count != 1)}:", *lines])


def times_text(times: int) -> str:
    """How often something was found, if more than once."""
    if times == 1:
        return ""
    return f" (× {times:,})"


def say_finding(text: str) -> None:
    """Print a finding of the guard when it occurs; under torchrun, with the rank."""
    number = rank()
    say(text if number is None else f"rank {number}: {text}")
