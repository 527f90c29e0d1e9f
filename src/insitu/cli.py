"""The command `insitu`: run a program and see its tensors; show, compare, export and recover what was saved.

Nothing here imports torch, numpy or h5py before a command needs it, so that `insitu show` answers in a blink.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import suppress

import insitu
from insitu.commands import completion, diff, export, open, recover, run, show
from insitu.commands.options import Parser, commands_of, described
from insitu.errors import InsituError

EXAMPLE = """\
example:
  insitu run train.py --epochs 1        trace an unmodified script
  insitu show step.h5 --view table      look at a saved trace, or a recorded run
  insitu open run.h5                    look at it in the browser
  insitu diff before.h5 after.h5        find where two runs differ
  insitu export step.h5 step.html       a page, or a file for another viewer
  insitu recover run.h5                 make the file of a run that was killed
"""
DEMO_EXAMPLE = """\
example:
  insitu demo
"""
# The module of a command, a line for the list of commands, and a sentence for its own help.
COMMANDS = {
    "show": (
        show,
        "look at a saved trace or a recorded run",
        "Show a trace or a recorded run, without importing torch.",
    ),
    "open": (
        open,
        "open the page of a trace or run in the browser",
        "Make the page of a trace or a recorded run, and open it in the browser.",
    ),
    "diff": (diff, "find where two traces or runs differ", "Find where two traces or recorded runs differ, and why."),
    "export": (export, "make a page, or a file for another viewer", "Make a page, or a file for another viewer."),
    "recover": (recover, "make the file of a run that was killed", "Make the file of a run that was killed."),
    "completion": (completion, "complete commands in a shell", "Print what a shell needs to complete the commands."),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0, the program's own, 1 for different or incomplete, 2 for errors."""
    parser = _parser()
    words, command = run.split(list(sys.argv[1:] if arguments is None else arguments), commands_of(parser)["run"])
    _check_command(words, parser)
    try:
        code = _dispatch(parser.parse_args(words), command, parser)
        if sys.stdout is not None and not sys.stdout.closed:  # a program may have closed it
            sys.stdout.flush()
    except InsituError as error:
        return _failed(error)
    except BrokenPipeError:  # the reader has gone (`insitu show … | head`): as silent as `cat`, with its exit code
        _leave_stdout()
        return 141
    except OSError as error:
        _leave_stdout()
        return _failed(error)
    except KeyboardInterrupt:
        return 130
    return code


def _check_command(words: list[str], parser: Parser) -> None:
    """Refuse a command that does not exist, with the nearest one."""
    known = [*COMMANDS, "run", "demo"]
    if words and not words[0].startswith("-") and words[0] not in known:
        parser.refuse(f"unknown command {words[0]!r}", words[0], known)


def _failed(error: Exception) -> int:
    print(f"insitu: {error}", file=sys.stderr)
    return 2


def _dispatch(options: argparse.Namespace, command: list[str], parser: argparse.ArgumentParser) -> int:
    if options.command == "run":
        return run.main(options, command)
    if options.command == "completion":
        return completion.main(options, parser)
    if options.command == "demo":
        return _demo()
    if options.command in COMMANDS:
        code: int = COMMANDS[options.command][0].main(options)
        return code
    parser.print_help(sys.stderr)
    return 2


def _leave_stdout() -> None:
    """Redirect stdout to nowhere: Python flushes it once more at exit, and would report the error again."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _parser() -> Parser:
    parser = described(Parser("insitu"), "See every tensor in place.", EXAMPLE)
    parser.add_argument("--version", action="version", version=f"insitu {insitu.__version__}")
    commands = parser.add_subparsers(dest="command", metavar=" | ".join(["run", *COMMANDS, "demo"]))
    runs = commands.add_parser(
        "run",
        help="trace an unmodified script",
        usage="insitu run [options] script.py [arguments]\n       insitu run [options] -m module [arguments]",
    )
    run.add_options(described(runs, "Run a Python program and show what torch did in it.", run.EXAMPLE))
    for name, (module, help, sentence) in COMMANDS.items():
        command = commands.add_parser(name, help=help)
        module.add_options(described(command, sentence, module.EXAMPLE))
    demo = commands.add_parser("demo", help="a small transformer in every view")
    described(demo, "Trace a small transformer and show it in every view.", DEMO_EXAMPLE)
    return parser


def _demo() -> int:
    from insitu import demo

    demo.main()
    return 0
