"""`insitu run`: trace an unmodified program."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from insitu.commands.delivery import MOST_LINES, deliver, say
from insitu.commands.options import add_view, add_view_flags, view_flags
from insitu.commands.rank_files import rank, rank_file
from insitu.errors import ChoiceError
from insitu.view.views import traits

if TYPE_CHECKING:
    from insitu.commands.program import Program
    from insitu.trace.trace import Trace

EXAMPLE = """\
Options of insitu come before the script; everything after it belongs to the script. The output and the exit code of the
script stay as they are. The trace is printed to stderr when the script ends, even if it fails. Under torchrun each rank
writes its own file, step.rank0.h5 for --to step.h5, and rank 0 prints.

example:
  insitu run --view code --only 'encoder.*' train.py --epochs 1
  insitu run --to step.h5 --keep stats --quiet -m package.train
  insitu run --html run.html train.py
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
    valued = {option for action in parser._actions if action.nargs != 0 for option in action.option_strings}
    end = 1
    while end < len(words) and _is_option(words[end]):
        if words[end] in valued:
            end += 1
        end += 1
    if words[end : end + 1] == ["--"]:
        return words[:end], words[end + 1 :]
    return words[:end], words[end:]


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
        help="modules, functions (default) or aten (default of --view code)",
    )
    parser.add_argument(
        *("--keep",),
        choices=("meta", "stats"),
        default="meta",
        metavar="NAME",
        help="meta (default): shapes and dtypes; stats: statistics of all values",
    )
    parser.add_argument("--only", action="append", metavar="PATTERN", help="only these paths; may be repeated")
    parser.add_argument("--html", metavar="FILE", help="also make a page, as in run.html")
    parser.add_argument("--to", metavar="FILE", help="also save the trace, as in step.h5")
    parser.add_argument(
        "--memory", metavar="SIZE", help="what the trace may take, as in 500MB (default: 1GiB); the last steps are kept"
    )
    parser.add_argument(
        *("--overflow",),
        choices=("disk", "drop"),
        metavar="WAY",
        help="where the rest goes: disk (default with --to FILE.h5, which then holds everything) or drop",
    )
    parser.add_argument("--overwrite", action="store_true", help="let --to and --html replace files that are there")
    parser.add_argument(
        "--all", action="store_true", help=f"print every row: not one screen of the tree, {MOST_LINES} lines of others"
    )
    add_view_flags(parser)
    parser.add_argument("--quiet", action="store_true", help="print nothing, only save (with --to or --html)")


def main(options: argparse.Namespace, command: list[str]) -> int:
    """Run the program and return its exit code, whatever happens to its trace."""
    from insitu.commands.program import Program
    from insitu.session.switch import is_off

    if not command:
        raise ChoiceError("run needs a script: insitu run script.py, or insitu run -m module")
    # Errors in the options are reported now, and not after hours of running.
    _check(options)
    process = os.getpid()
    trace, failure = _traced(Program(command), options)
    try:
        is_own = os.getpid() == process  # and not a child that the program forked, and that came back here
        if is_own and is_off():
            print("insitu: INSITU=0, so nothing was traced", file=sys.stderr)
        elif is_own:
            _deliver(trace, failure, options)
    finally:  # the exception and its explanation come last, where they are seen
        code = _reported(failure)
    return code


def _deliver(trace: Trace, failure: BaseException | None, options: argparse.Namespace) -> None:
    """Save and print the trace; of several ranks, only the first prints."""
    number = rank()
    if number:
        options.quiet = True
    deliver(trace, failure, options)
    if number is not None:
        _say_files(number, options)


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
    from insitu import store
    from insitu.store.files import check_writable
    from insitu.verbs.save import PAGE, SUFFIXES

    options.flags = view_flags(options, options.view)
    options.level = options.level or _usual_level(options.view)
    for name, suffixes in (("to", SUFFIXES), ("html", (PAGE,))):
        path = getattr(options, name)
        if path is None:
            continue
        mine = rank_file(path, SUFFIXES)
        setattr(options, name, os.path.abspath(mine))  # the program may change the directory
        check_writable(store.check(mine, overwrite=options.overwrite, suffixes=suffixes))
    _check_memory(options)
    has_file = options.to is not None or options.html is not None
    if has_file and options.to == options.html:
        raise ChoiceError(f"--to and --html are both {path!r}: give two names, or leave one out")
    if options.quiet and not has_file:
        raise ChoiceError("--quiet without --to FILE or --html FILE would show nothing: give one, or leave it out")


def _usual_level(view: str) -> str:
    """The level to record for a view. The view of variables needs watched functions, which a script does not have."""
    level = traits(view).level
    if level in LEVELS:
        return level
    return "functions"


def _check_memory(options: argparse.Namespace) -> None:
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


def _traced(program: Program, options: argparse.Namespace) -> tuple[Trace, BaseException | None]:
    """Run the program; return its trace, up to the failure if it failed, and the exception."""
    from insitu.session.record import TraceSession

    folder = None
    if options.overflow == "disk":
        folder = os.path.dirname(options.to)
    session = TraceSession(
        "record",
        None,
        level=options.level,
        keep=options.keep,
        only=options.only or (),
        memory=options.memory,
        overflow=options.overflow,
        folder=folder,
    )
    trace: Trace | None = None
    failure: BaseException | None = None
    try:
        with session as trace:
            try:
                program.run()
            except BaseException as error:
                failure = error
                raise
    except BaseException as error:
        is_of_program = error is failure or isinstance(error, KeyboardInterrupt)  # which may come at the very end
        if trace is None or not is_of_program:
            raise
        failure = error
    return trace, failure
