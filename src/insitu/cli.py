"""The command `insitu`: run a program and see its tensors; show, compare and recover what was saved.

Nothing here imports torch, numpy or h5py before a command needs it, so that `insitu show` answers in a blink.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

import insitu
from insitu.commands import diff as diffs
from insitu.commands import recover as recovers
from insitu.commands import show as shows
from insitu.commands.options import VIEW_HELP, check_view, described
from insitu.errors import InsituError

if TYPE_CHECKING:
    from insitu.program import Program
    from insitu.trace.trace import Trace

MOST_LINES = 200
_RUN_EXAMPLE = """\
The options stand before the script; what follows it belongs to the script. Its own output stays as it is, its exit
code too; the trace is printed to stderr when it ends, also when it fails.

example:
  insitu run --view code --only 'encoder.*' train.py --epochs 1
  insitu run --to run.h5 --quiet -m package.train
"""
_DEMO_EXAMPLE = """\
example:
  insitu demo
"""
_EXAMPLE = """\
example:
  insitu run train.py --epochs 1        trace an unmodified script
  insitu show run.h5 --view table       look at a saved trace, or a recorded run
  insitu diff before.h5 after.h5        find where two runs part
  insitu recover run.h5                 make the file of a run that was killed
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and give its exit code: 0, the program's own, 1 for not the same or not whole, 2 for errors."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    words, command = _split(words)
    parser = _parser()
    options = parser.parse_args(words)
    try:
        code = _dispatch(options, command, parser)
        _flush()
    except InsituError as error:
        return _complain(error)
    except BrokenPipeError:
        return _broken_pipe()
    return code


def _dispatch(options: argparse.Namespace, command: list[str], parser: argparse.ArgumentParser) -> int:
    if options.command == "run":
        return _run(options, command)
    if options.command == "show":
        return shows.main(options)
    if options.command == "diff":
        return diffs.main(options)
    if options.command == "recover":
        return recovers.main(options)
    if options.command == "demo":
        return _demo()
    parser.print_help(sys.stderr)
    return 2


def _complain(error: InsituError) -> int:
    print(f"insitu: {error}", file=sys.stderr)
    return 2


def _flush() -> None:
    if sys.stdout is not None and not sys.stdout.closed:  # a program may have closed it
        sys.stdout.flush()


def _broken_pipe() -> int:
    """The reader has gone (`insitu show … | head`): as silent as `cat`, with the exit code a shell gives it."""
    # Python flushes stdout once more at exit and would complain then.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 141


# The options of `run` that take a value, for `_split` to know where they end.
_VALUED = ("--view", "--level", "--only", "--to")


def _split(words: list[str]) -> tuple[list[str], list[str]]:
    """The words for insitu and, after `run`, the program with its own words, which may look like options of ours.

    >>> _split(["run", "--view", "code", "train.py", "--view", "2"])
    (['run', '--view', 'code'], ['train.py', '--view', '2'])
    """
    if words[:1] != ["run"]:
        return words, []
    end = 1
    while end < len(words) and words[end].startswith("-") and words[end] not in ("-m", "--"):
        end += 2 if words[end] in _VALUED else 1
    return words[:end], words[end + 1 :] if words[end : end + 1] == ["--"] else words[end:]


def _parser() -> argparse.ArgumentParser:
    parser = described(argparse.ArgumentParser("insitu", allow_abbrev=False), "See every tensor in place.", _EXAMPLE)
    parser.add_argument("--version", action="version", version=f"insitu {insitu.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="run | show | diff | recover | demo")
    run = commands.add_parser(
        "run",
        help="trace an unmodified script",
        usage="insitu run [options] script.py [arguments]\n       insitu run [options] -m module [arguments]",
        allow_abbrev=False,
    )
    _run_options(described(run, "Run a Python program and show what torch did in it.", _RUN_EXAMPLE))
    show = commands.add_parser("show", help="look at a saved trace or a recorded run", allow_abbrev=False)
    shows.add_options(described(show, "Show a trace or a recorded run, without importing torch.", shows.EXAMPLE))
    recover = commands.add_parser("recover", help="make the file of a run that was killed", allow_abbrev=False)
    recovers.add_options(described(recover, "Make the file of a run that was killed.", recovers.EXAMPLE))
    diff = commands.add_parser("diff", help="find where two traces or runs part", allow_abbrev=False)
    diffs.add_options(described(diff, "Find where two traces or recorded runs part, and why.", diffs.EXAMPLE))
    demo = commands.add_parser("demo", help="a small transformer in every view")
    described(demo, "Trace a small transformer and show it in every view.", _DEMO_EXAMPLE)
    return parser


def _run_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--view", default="tree", help=f"{VIEW_HELP}; printed to stderr")
    parser.add_argument("--level", help="modules, functions (default) or aten (default for the view code)")
    parser.add_argument("--only", action="append", metavar="PATTERN", help="only these paths; may be repeated")
    parser.add_argument("--to", metavar="FILE", help="also save the trace, as in run.h5")
    parser.add_argument("--overwrite", action="store_true", help="let --to replace a file that is there")
    parser.add_argument("--all", action="store_true", help=f"print all of a trace of more than {MOST_LINES} lines")
    parser.add_argument("--quiet", action="store_true", help="print nothing, only save (with --to)")


def _demo() -> int:
    from insitu import demo

    demo.main()
    return 0


def _run(options: argparse.Namespace, command: list[str]) -> int:
    from insitu.program import Program

    if not command:
        raise InsituError("run needs a script: insitu run script.py, or insitu run -m module")
    # Whatever can be wrong with the options is found now, and not after hours of running.
    _check_run(options)
    process = os.getpid()
    trace, code = _traced(Program(command), options)
    if os.getpid() != process:  # a child that the program forked, and that came back here
        return code
    if os.environ.get("INSITU") == "0":
        print("insitu: INSITU=0, so nothing was traced", file=sys.stderr)
        return code
    delivered = _deliver(trace, options)
    return code or delivered


def _check_run(options: argparse.Namespace) -> None:
    from insitu import store

    check_view(options.view)
    options.level = options.level or ("aten" if options.view == "code" else "functions")
    if options.to is not None:
        options.to = os.path.abspath(options.to)  # the program may change the directory
        store.check(options.to, overwrite=options.overwrite)
    elif options.quiet:
        raise InsituError("--quiet without --to FILE would show nothing: give a file, or leave --quiet out")


def _traced(program: Program, options: argparse.Namespace) -> tuple[Trace, int]:
    """Run the program; its trace, whole or up to where it failed, and its exit code."""
    from insitu.program import exit_code
    from insitu.session import record

    failure: BaseException | None = None
    try:
        with record(level=options.level, only=options.only or ()) as trace:
            try:
                program.run()
            except BaseException as error:
                failure = error
                raise
    except BaseException as error:
        if error is not failure:  # an error of ours, not of the program
            raise
    return trace, exit_code(failure)


def _show_beginning(trace: Trace, options: argparse.Namespace) -> None:
    """Print the trace of a program; of a long one the beginning, because nobody reads 80,000 lines."""
    from insitu import view

    file = sys.stderr
    extra: dict[str, Any] = {"live": False} if options.view == "tree" else {}
    lines = view.replay(trace.events, view.make(options.view, **extra))
    view.Terminal(file).write(islice(lines, None if options.all else MOST_LINES))
    left = sum(1 for _ in lines)
    if left:
        print(f"… {left:,} more lines: --all prints them, --to FILE.h5 keeps the trace", file=file)


def _deliver(trace: Trace, options: argparse.Namespace) -> int:
    from insitu import store

    with suppress(OSError):
        _flush()  # what the program printed comes first
    try:
        if options.to is not None:
            store.save(trace, options.to, overwrite=options.overwrite)
        if not options.quiet and not trace.events:
            nothing = "none of its modules matched --only" if options.only else "the program called nothing of torch"
            print(f"insitu: {nothing}", file=sys.stderr)
        elif not options.quiet:
            _show_beginning(trace, options)
    except InsituError as error:
        return _complain(error)
    return 0
