"""`insitu run`: trace an unmodified program."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from insitu.commands.delivery import MOST_LINES, deliver, say
from insitu.commands.options import add_view, add_view_flags, view_flags
from insitu.errors import ChoiceError, StoreError
from insitu.store.rank_files import rank, rank_file
from insitu.trace.step_choice import StepChoice
from insitu.view.views import traits

if TYPE_CHECKING:
    from insitu.commands.program import Program
    from insitu.session.flight_options import FlightOptions
    from insitu.session.guard import Guard
    from insitu.session.observation import Observation, TraceWish

EXAMPLE = """\
Options of insitu come before the script; everything after it belongs to the script. The output and the exit code of the
script stay as they are. The trace is printed to stderr when the script ends, even if it fails. Under torchrun each rank
writes its own file, step.rank0.h5 for --to step.h5, and rank 0 prints; all ranks record into one run.h5.

A step of a script is one update. It ends when an optimizer's step() has returned; the next call of the model, or the
next pass of a loop whose variables --record names, begins another one. What runs between, such as the loading of a
batch or an evaluation, is in the step before. In a script without an optimizer, each call of a model is a step.

--record names a variable of the script (loss), of one of its functions (train.loss, Trainer.run.self.loss), or a value
of its model (forward.logits, head.weight.grad).

example:
  insitu run --view code --only 'encoder.*' train.py --epochs 1
  insitu run --to step.h5 --keep stats --quiet -m package.train
  insitu run --html run.html --steps 10:12 train.py
  insitu run --record train.loss --record head.weight.grad --quiet train.py
  insitu run --guard train.py
  insitu run --guard --last 50 --watchdog 600 --quiet train.py
"""
LEVELS = ("modules", "functions", "aten")


def split(words: list[str], parser: argparse.ArgumentParser) -> tuple[list[str], list[str]]:
    """The words for insitu and, after `run`, the program with its own words, which may look like options of ours.

    >>> parser = argparse.ArgumentParser()
    >>> _ = parser.add_argument("--view")
    >>> split(["run", "--view", "code", "train.py", "--view", "2"], parser)
    (['run', '--view', 'code'], ['train.py', '--view', '2'])
    """
    if words[:1] != ["run"]:
        return words, []
    valued = {option for action in parser._actions if _takes_word(action) for option in action.option_strings}
    end = 1
    while end < len(words) and _is_option(words[end]):
        if words[end] in valued:
            end += 1
        end += 1
    if words[end : end + 1] == ["--"]:
        return words[:end], words[end + 1 :]
    return words[:end], words[end:]


def _takes_word(action: argparse.Action) -> bool:
    """Whether the word after an option belongs to it; one that may be left out is written with `=`."""
    return action.nargs not in (0, argparse.OPTIONAL)


def _is_option(word: str) -> bool:
    """Whether a word is an option of ours; `-m` and `--` begin the program."""
    if word in ("-m", "--"):
        return False
    return word.startswith("-")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `insitu run`."""
    add_view(parser, "what to print to stderr", default="tree")
    parser.add_argument(
        *("--level",),
        choices=LEVELS,
        metavar="NAME",
        help="which calls to trace: modules, functions (default) or aten (default of --view code)",
    )
    parser.add_argument(
        *("--keep",),
        choices=("meta", "stats"),
        default="meta",
        metavar="NAME",
        help="of each tensor, keep meta (default): shape and dtype, or stats: also statistics of its values",
    )
    parser.add_argument(
        "--only",
        action="append",
        metavar="PATTERN",
        help="trace only these modules, or functions of the script; may be repeated",
    )
    parser.add_argument("--steps", metavar="STEPS", help="trace only these steps, as in 3 or 10:12 (steps 10 and 11)")
    parser.add_argument(
        *("--record",),
        action="append",
        metavar="PATH",
        help="record a variable or a value of the model at each step, as in loss, train.loss or forward.logits; "
        "may be repeated",
    )
    parser.add_argument("--run", metavar="FILE", help="where --record writes (default: run.h5)")
    parser.add_argument(
        *("--guard",),
        nargs=argparse.OPTIONAL,
        const="warn",
        choices=("warn", "raise"),
        metavar="ACTION",
        help="report the call that produces NaN or Inf, and weights that do not learn; --guard=raise stops there; "
        "write the last steps to crash.h5 if the program ends badly",
    )
    parser.add_argument(
        "--last",
        type=_steps_number,
        metavar="N",
        help="with --guard: write the last N steps (default: 20) if the program ends badly; 0 keeps none",
    )
    parser.add_argument(
        "--crash", metavar="FILE", help="with --guard: where the last steps are written (default: crash.h5)"
    )
    parser.add_argument(
        "--watchdog",
        type=float,
        metavar="SECONDS",
        help="with --guard: write them, with the stacks of all threads, after so many seconds without a step",
    )
    parser.add_argument("--html", metavar="FILE", help="also make a page, as in run.html")
    parser.add_argument("--to", metavar="FILE", help="also save the trace, as in step.h5")
    parser.add_argument(
        "--memory", metavar="SIZE", help="limit of the trace, as in 500MB (default: 1GiB); it keeps the last steps"
    )
    parser.add_argument(
        *("--overflow",),
        choices=("disk", "drop"),
        metavar="WAY",
        help="where earlier steps go: disk (default with --to FILE.h5, which then holds all steps) or drop",
    )
    parser.add_argument("--overwrite", action="store_true", help="let --to, --html and --run replace existing files")
    parser.add_argument(
        "--all",
        action="store_true",
        help=f"print every row; without it, one screen of the tree, or {MOST_LINES} lines of another view",
    )
    add_view_flags(parser)
    parser.add_argument(
        "--quiet", action="store_true", help="print neither the trace nor a summary; findings of --guard are printed"
    )


def main(options: argparse.Namespace, command: list[str]) -> int:
    """Run the program and return its exit code, whatever happens to its trace."""
    from insitu.commands.program import Program
    from insitu.session.switch import is_off

    if not command:
        raise ChoiceError("run needs a script: insitu run script.py, or insitu run -m module")
    # Errors in the options are reported now, and not after hours of running.
    _check(options)
    program = Program(command)
    _check_record(options, program)
    process = os.getpid()
    observation = _observation(options, program)
    failure = _observed(program, observation)
    try:
        is_own = os.getpid() == process  # and not a child that the program forked, and that came back here
        if is_own and is_off():
            print("insitu: INSITU=0, so nothing was traced", file=sys.stderr)
        elif is_own:
            _deliver(observation, failure, options)
    finally:  # the exception and its explanation come last, where they are seen
        code = _reported(failure)
    return code


def _observed(program: Program, observation: Observation) -> BaseException | None:
    """Run the program; return the exception that ended it. An exception of a session is raised."""
    from insitu.commands.program import Rewrite

    failure: BaseException | None = None

    def run_program(rewrite: Rewrite) -> None:
        nonlocal failure
        try:
            program.run(rewrite)
        except BaseException as error:
            failure = error
            raise

    try:
        observation.run(run_program)
    except BaseException as error:
        is_late_interrupt = isinstance(error, KeyboardInterrupt) and observation.trace is not None
        if error is not failure and not is_late_interrupt:
            raise
        failure = error
    return failure


def _deliver(observation: Observation, failure: BaseException | None, options: argparse.Namespace) -> None:
    """Save and print what was observed; of several ranks, only the first prints the trace."""
    number = rank()
    if number:
        options.quiet = True
    _say_observed(observation, failure, options)
    if number is not None:
        _say_files(number, options)


def _say_observed(observation: Observation, failure: BaseException | None, options: argparse.Namespace) -> None:
    """Save and print the trace; then say what was recorded, and what the guard has found."""
    if observation.empty_text is not None:
        say(observation.empty_text + _unwritten_text(options))
    elif observation.trace is not None:
        deliver(observation.trace, failure, options)
    if observation.run_summary is not None and not options.quiet:
        say(observation.run_summary)
    guard = observation.guard
    if guard is None:
        return
    if guard.findings or not options.quiet:
        say(_findings_text(guard))


def _unwritten_text(options: argparse.Namespace) -> str:
    """The files that an empty trace is not written to."""
    names = [os.path.basename(path) for path in (options.to, options.html) if path is not None]
    return "".join(f"; {name} was not written" for name in names)


def _findings_text(guard: Guard) -> str:
    """The findings of a guard once more, in a line each: what, where, and how often."""
    count = len(guard.findings)
    if count == 0:
        return "the guard found nothing"
    lines = [f"  {finding.text.splitlines()[0]}{_times_text(guard.times(finding))}" for finding in guard.findings]
    return "\n".join([f"the guard found {count} thing{'s' * (count != 1)}:", *lines])


def _times_text(times: int) -> str:
    if times == 1:
        return ""
    return f" (× {times:,})"


def _say_finding(text: str) -> None:
    """Print what a session has to say; under torchrun, with the rank."""
    number = rank()
    say(text if number is None else f"rank {number}: {text}")


def _reported(failure: BaseException | None) -> int:
    """Print the exception that ended the program, as `python` does; return the exit code."""
    from insitu.commands.program import exit_code

    try:
        return exit_code(failure)
    except KeyboardInterrupt:  # it came again while the first one was reported
        return exit_code(KeyboardInterrupt())


def _say_files(rank: int, options: argparse.Namespace) -> None:
    """Name the files that a rank has written."""
    for path in (options.to, options.html):
        if path is None:
            continue
        if os.path.exists(path):
            say(f"rank {rank}: {path}")


def _check(options: argparse.Namespace) -> None:
    """Check all options before the program runs, and turn their texts into what they mean."""
    options.flags = view_flags(options, options.view)
    options.level = options.level or _usual_level(options.view)
    if options.steps is not None:
        options.steps = StepChoice.of("--steps", options.steps)
    has_file = _check_files(options)
    _check_memory(options)
    _check_flight(options)
    options.is_traced = has_file or not options.quiet
    has_output = options.is_traced or bool(options.record) or options.guard is not None
    if not has_output:
        raise ChoiceError(
            "--quiet would show nothing: add --to FILE, --html FILE, --record PATH or --guard, or leave --quiet out"
        )


def _check_files(options: argparse.Namespace) -> bool:
    """Check that the files of the trace can be written; whether there are any."""
    from insitu import store
    from insitu.store.files import check_writable
    from insitu.verbs.save import PAGE, SUFFIXES

    for name, suffixes in (("to", SUFFIXES), ("html", (PAGE,))):
        path = getattr(options, name)
        if path is None:
            continue
        mine = rank_file(path, SUFFIXES)
        setattr(options, name, os.path.abspath(mine))  # the program may change the directory
        check_writable(store.check(mine, overwrite=options.overwrite, suffixes=suffixes))
    has_file = options.to is not None or options.html is not None
    if has_file and options.to == options.html:
        raise ChoiceError(f"--to and --html are both {path!r}: give two names, or leave one out")
    return has_file


def _steps_number(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expects a number of steps, got {text!r}")
    return int(text)


FLIGHT_OPTIONS = ("last", "crash", "watchdog")


def _check_flight(options: argparse.Namespace) -> None:
    """Check the options of the flight recorder, which is a part of the guard."""
    options.flight = None
    asked = [name for name in FLIGHT_OPTIONS if getattr(options, name) is not None]
    if options.guard is None:
        if asked:
            raise ChoiceError(f"--{asked[0]} is an option of the guard: add --guard")
        return
    if options.last != 0:
        options.flight = _flight_options(options, is_asked=bool(asked))
    elif asked != ["last"]:
        raise ChoiceError("--last 0 keeps no steps, and --crash and --watchdog write them: leave one of them out")


def _flight_options(options: argparse.Namespace, *, is_asked: bool) -> FlightOptions | None:
    """What is kept of the last steps; nothing if nobody asked for a file, and none can be written here."""
    from insitu.session.flight_options import LAST, flight_options

    last = options.last or LAST
    try:
        return flight_options(None, last=last, to=options.crash, values=(), watchdog=options.watchdog, memory=None)
    except StoreError as error:
        if is_asked:
            raise
        say(f"the last steps are not kept: {error}")
        return None


def _check_record(options: argparse.Namespace, program: Program) -> None:
    """Check what is recorded, as far as the source of the script says it, and where it goes."""
    from insitu.session.script_source import check_patterns

    if not options.record:
        if options.run is not None:
            raise ChoiceError(f"--run {options.run} is the file that --record writes: add --record PATH")
        return
    if program.is_archive:
        raise ChoiceError(f"--record cannot follow the code in {program.name!r}, an archive: unpack it first")
    options.run = os.path.abspath(options.run or "run.h5")  # the program may change the directory
    if options.run in (options.to, options.html):
        raise ChoiceError(f"{options.run!r} cannot be two files: give --run another name")
    source = program.source()
    if source is not None:
        check_patterns(options.record, source, program.name)


def _usual_level(view: str) -> str:
    """The level to record for a view. The view of variables needs watched functions, which a script does not have."""
    level = traits(view).level
    if level in LEVELS:
        return level
    return "functions"


def _check_memory(options: argparse.Namespace) -> None:
    """Check how much the trace may hold, and where the rest goes; fill in the defaults."""
    from insitu.store import RUN_SUFFIXES
    from insitu.trace.capacity import MEMORY, capacity

    holds_all = options.to is not None and options.to.lower().endswith(RUN_SUFFIXES)
    if options.memory is None:
        options.memory = MEMORY
    else:
        options.memory = capacity("--memory ", options.memory)
    if options.overflow is None:
        options.overflow = _usual_overflow(holds_all)
    if options.overflow == "disk" and not holds_all:
        raise ChoiceError("--overflow disk needs --to FILE.h5, the file that then holds all of the trace")


def _usual_overflow(holds_all: bool) -> str:
    """Where events go that do not fit into memory: to the file, if it can hold them."""
    if holds_all:
        return "disk"
    return "drop"


def _observation(options: argparse.Namespace, program: Program) -> Observation:
    """The sessions that the options ask for."""
    from insitu.session.observation import GuardWish, Observation, RunWish

    trace = _trace_wish(options, program) if options.is_traced else None
    run = None
    if options.record:
        run = RunWish(tuple(options.record), Path(options.run), options.overwrite, options.keep == "stats")
    guard = GuardWish(options.guard, options.flight) if options.guard is not None else None
    return Observation(trace, run, guard, _say_finding)


def _trace_wish(options: argparse.Namespace, program: Program) -> TraceWish:
    """What is traced. A pattern of --only that begins like a function of the script names that, others a module."""
    from insitu.session.observation import TraceWish
    from insitu.session.script_source import definitions_in_source

    only = tuple(options.only or ())
    source = program.source() if only else None
    known = definitions_in_source(source, program.name) if source is not None else frozenset()
    functions = tuple(text for text in only if text.partition(".")[0] in known)
    modules = tuple(text for text in only if text not in functions)
    if functions and modules:
        both = f"{functions[0]!r}, a function, and {modules[0]!r}"
        raise ChoiceError(f"--only takes functions of the script or paths of modules, got {both}")
    return TraceWish(
        level=options.level,
        keep=options.keep,
        modules=modules,
        functions=functions,
        steps=options.steps,
        memory=options.memory,
        overflow=options.overflow,
        folder=os.path.dirname(options.to) if options.overflow == "disk" else None,
        definitions=known,
    )
