"""The sessions of `insitu run` around one program: it is traced, recorded and guarded, as far as that is wanted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import CodeType

from insitu.capture.program_calls import ProgramCalls
from insitu.errors import outside
from insitu.session.flight_options import FlightOptions
from insitu.session.guard import Guard
from insitu.session.record import TraceSession
from insitu.session.run_options import RunOptions
from insitu.session.script_run import ScriptEntry, ScriptRun, ScriptSteps, number_or_statistics
from insitu.session.script_source import parsed, with_reports
from insitu.session.switch import is_off
from insitu.session.trace_gate import Condition, FunctionCondition, StepCondition, TraceGate
from insitu.trace.path import suggestion
from insitu.trace.step_choice import StepChoice
from insitu.trace.trace import Trace

Run = Callable[[], None]
# Runs a program; the argument takes the code and the source of the script, and returns the code that is run.
RunProgram = Callable[[Callable[[CodeType, bytes], CodeType]], None]


@dataclass(frozen=True)
class TraceWish:
    """What of a program is in the trace: a level, how much of each tensor, which modules or functions, which steps."""

    level: str
    keep: str
    modules: tuple[str, ...]
    functions: tuple[str, ...]
    steps: StepChoice | None
    memory: int
    overflow: str
    folder: str | None
    definitions: frozenset[str] = frozenset()  # names that the script defines, to suggest one

    @property
    def part(self) -> str:
        """The options that name a part of the script; empty if all of it is traced."""
        names = [f"--only {name}" for name in self.functions]
        steps = [f"--steps {self.steps.text}"] if self.steps is not None else []
        return " ".join(names + steps)

    @property
    def near_text(self) -> str | None:
        """The function of the script that the user may have meant; None if none is close to the path of a module."""
        hints = [hint for name in self.modules if (hint := suggestion(name, self.definitions))]
        if not hints:
            return None
        return f"--only also takes functions of the script{hints[0]}"


@dataclass(frozen=True)
class RunWish:
    """What of a program is recorded at each step, and the file that it goes to."""

    patterns: tuple[str, ...]
    to: Path
    overwrite: bool
    with_statistics: bool


@dataclass(frozen=True)
class GuardWish:
    """What a guard does with a finding, and which of the last steps it writes if the program ends badly."""

    action: str
    flight: FlightOptions | None


class Observation:
    """The sessions around one program, and what they leave: a trace, findings, a recorded run.

    `guard` says whether there is a guard, and which. `say` prints a line for the user.
    """

    def __init__(
        self, trace: TraceWish | None, run: RunWish | None, guard: GuardWish | None, say: Callable[[str], None]
    ) -> None:
        self._trace_wish, self._run_wish, self._guard_wish, self._say = trace, run, guard, say
        self._steps = ScriptSteps()
        self._conditions: Sequence[Condition] = ()
        self._entry: ScriptEntry | None = None
        self.trace: Trace | None = None
        self.guard: Guard | None = None

    def run(self, run_program: RunProgram) -> None:
        """Run the program inside of the sessions, which end in turn even if it raises."""
        outside.say = self._say
        run = partial(run_program, self._rewrite)
        for session in (self._traced, self._guarded, self._counted, self._recorded):
            run = partial(session, run)
        try:
            run()
        finally:
            outside.say = None

    @property
    def run_summary(self) -> str | None:
        """What was recorded, in a line; None if nothing was to be recorded."""
        if self._entry is None:
            return None
        return self._entry.summary()

    @property
    def empty_text(self) -> str | None:
        """Why the trace is empty, if that is because of the part of the program that was to be traced."""
        wish = self._trace_wish
        if wish is None or self.trace is None or self.trace.events:
            return None
        unmet = [text for condition in self._conditions if (text := condition.unmet_text) is not None]
        if unmet:
            return unmet[0]
        if wish.modules:
            return wish.near_text
        return f"{wish.part}: no call of torch was recorded there" if wish.part else None

    def _rewrite(self, code: CodeType, source: bytes) -> CodeType:
        """The code of the script as it is run: with reports, if variables or functions of it are named."""
        has_functions = self._trace_wish is not None and bool(self._trace_wish.functions)
        needs_reports = self._entry is not None or has_functions
        if not needs_reports or is_off():
            return code
        tree = parsed(source, code.co_filename)
        wanted = self._entry.prepare(code, tree) if self._entry is not None else ()
        return with_reports(code, tree, wanted)

    def _recorded(self, run: Run) -> None:
        """Run while values are recorded."""
        wish = self._run_wish
        if wish is None:
            run()
            return
        options = RunOptions(
            None,
            only=wish.patterns,
            keep=number_or_statistics if wish.with_statistics else "values",
            every=1,
            when=None,
            step="call",
            to=wish.to,
            overwrite=wish.overwrite,
            resume=False,
            compression="none",
        )
        with ScriptRun(options, self._steps) as self._entry:
            run()

    def _counted(self, run: Run) -> None:
        """Run while the steps of the program are counted, if somebody needs them."""
        chooses_steps = self._trace_wish is not None and self._trace_wish.steps is not None
        needs_steps = self._entry is not None or chooses_steps
        with ExitStack() as undo:
            if needs_steps and not is_off():
                self._steps.start(undo)
                self._model_calls().start(undo)
            run()

    def _model_calls(self) -> ProgramCalls:
        if self._entry is None:
            return ProgramCalls(self._steps.rule, is_counted=True)
        return ProgramCalls(self._steps.rule, self._entry.learn, is_counted=True)

    def _guarded(self, run: Run) -> None:
        """Run under a guard."""
        wish = self._guard_wish
        if wish is None:
            run()
            return
        self.guard = Guard(None, action=wish.action, allow=(), tell=self._say, flight=wish.flight)
        with self.guard:
            run()

    def _traced(self, run: Run) -> None:
        """Run while calls are recorded."""
        wish = self._trace_wish
        if wish is None:
            run()
            return
        session = TraceSession(
            "record",
            None,
            level=wish.level,
            keep=wish.keep,
            only=wish.modules,
            memory=wish.memory,
            overflow=wish.overflow,
            folder=wish.folder,
            gate=self._gate(wish),
        )
        with session as self.trace:
            run()

    def _gate(self, wish: TraceWish) -> TraceGate | None:
        """What lets parts of the program into the trace; None if all of it is traced."""
        gate = TraceGate()
        if wish.steps is not None:
            gate.conditions.append(StepCondition(wish.steps, self._steps.rule))
        if wish.functions:
            gate.conditions.append(FunctionCondition(wish.functions))
        self._conditions = gate.conditions
        return gate if gate.conditions else None
