"""`insitu run`: trace an unmodified program."""

from __future__ import annotations

import argparse
import os
import sys
from collections import deque
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

from insitu.commands.options import VIEW_HELP, check_view
from insitu.commands.progress import working
from insitu.errors import ChoiceError, InsituError, choose

if TYPE_CHECKING:
    from insitu.program import Program
    from insitu.trace.trace import Trace
    from insitu.view.line import Line

MOST_LINES, LAST_LINES = 200, 40
EXAMPLE = """\
The options stand before the script; what follows it belongs to the script. Its own output stays as it is, its exit
code too; the trace is printed to stderr when it ends, also when it fails.

example:
  insitu run --view code --only 'encoder.*' train.py --epochs 1
  insitu run --to run.h5 --keep stats --quiet -m package.train
  insitu run --html run.html train.py
"""

# The options of `run` that take a value, for `split` to know where they end.
_VALUED = ("--view", "--level", "--keep", "--only", "--to", "--html")


def split(words: list[str]) -> tuple[list[str], list[str]]:
    """The words for insitu and, after `run`, the program with its own words, which may look like options of ours.

    >>> split(["run", "--view", "code", "train.py", "--view", "2"])
    (['run', '--view', 'code'], ['train.py', '--view', '2'])
    """
    if words[:1] != ["run"]:
        return words, []
    end = 1
    while end < len(words) and words[end].startswith("-") and words[end] not in ("-m", "--"):
        end += 2 if words[end] in _VALUED else 1
    return words[:end], words[end + 1 :] if words[end : end + 1] == ["--"] else words[end:]


def add_options(parser: argparse.ArgumentParser) -> None:
    """What can be said after `insitu run`."""
    parser.add_argument("--view", default="tree", help=f"{VIEW_HELP}; printed to stderr")
    parser.add_argument("--level", help="modules, functions (default) or aten (default for the view code)")
    parser.add_argument(
        "--keep", default="meta", help="meta (default): shapes and dtypes; stats: statistics of all values"
    )
    parser.add_argument("--only", action="append", metavar="PATTERN", help="only these paths; may be repeated")
    parser.add_argument("--html", metavar="FILE", help="also make a page, as in run.html")
    parser.add_argument("--to", metavar="FILE", help="also save the trace, as in run.h5")
    parser.add_argument("--overwrite", action="store_true", help="let --to and --html replace files that are there")
    parser.add_argument("--all", action="store_true", help=f"print all of a trace of more than {MOST_LINES} lines")
    parser.add_argument("--unfold", action="store_true", help="in the tree: each call of loops and blocks")
    parser.add_argument("--quiet", action="store_true", help="print nothing, only save (with --to or --html)")


def main(options: argparse.Namespace, command: list[str]) -> int:
    """Run the program; its exit code, or 2 if what it did cannot be saved."""
    from insitu.program import Program, exit_code

    if not command:
        raise ChoiceError("run needs a script: insitu run script.py, or insitu run -m module")
    # Whatever can be wrong with the options is found now, and not after hours of running.
    _check(options)
    process = os.getpid()
    trace, failure = _traced(Program(command), options)
    code = exit_code(failure)
    if os.getpid() != process:  # a child that the program forked, and that came back here
        return code
    if os.environ.get("INSITU") == "0":
        print("insitu: INSITU=0, so nothing was traced", file=sys.stderr)
        return code
    delivered = _deliver(trace, failure, options)
    return code or delivered


def _check(options: argparse.Namespace) -> None:
    from insitu import store
    from insitu.saving import PAGE, SUFFIXES

    check_view(options.view)
    choose("keep", options.keep, ("meta", "stats"))
    options.level = options.level or ("aten" if options.view == "code" else "functions")
    for name, suffixes in (("to", SUFFIXES), ("html", (PAGE,))):
        if (path := getattr(options, name)) is not None:
            setattr(options, name, os.path.abspath(path))  # the program may change the directory
            store.check(path, overwrite=options.overwrite, suffixes=suffixes)
    if options.to is not None and options.to == options.html:
        raise ChoiceError(f"--to and --html are both {path!r}: give two names, or leave one out")
    if options.unfold and options.view != "tree":
        raise ChoiceError(f"--unfold is for the view 'tree', and not for {options.view!r}")
    if options.quiet and options.to is None and options.html is None:
        raise ChoiceError("--quiet without --to FILE or --html FILE would show nothing: give one, or leave it out")


def _traced(program: Program, options: argparse.Namespace) -> tuple[Trace, BaseException | None]:
    """Run the program; its trace, whole or up to where it failed, and what it raised."""
    from insitu.session import record

    failure: BaseException | None = None
    try:
        with record(level=options.level, keep=options.keep, only=options.only or ()) as trace:
            try:
                program.run()
            except BaseException as error:
                failure = error
                raise
    except BaseException as error:
        if error is not failure:  # an error of ours, not of the program
            raise
    return trace, failure


def _show_most(trace: Trace, options: argparse.Namespace) -> None:
    """Print the trace of a program; of a long one the beginning and the end, because nobody reads 80,000 lines."""
    from insitu import view

    terminal = view.Terminal(sys.stderr)
    extra: dict[str, Any] = {"live": False, "unfold": options.unfold} if options.view == "tree" else {}
    lines = view.replay(trace.events, view.make(options.view, **extra))
    terminal.write(islice(lines, None if options.all else MOST_LINES - LAST_LINES))
    last: deque[Line] = deque(maxlen=LAST_LINES)
    left = -LAST_LINES
    for line in lines:
        last.append(line)
        left += 1
    if left > 0:
        more = f"… {left:,} more line{'s' * (left != 1)}: --all prints them, --to FILE.h5 keeps the trace"
        terminal.write([view.Line(((more, ""),))])
    terminal.write(last)


def _nothing(failure: BaseException | None, options: argparse.Namespace) -> str:
    """Why there is nothing to show, as far as that is known."""
    if options.only:
        return "no call of a module that matches --only was recorded"
    before = f" before {type(failure).__name__}" if isinstance(failure, Exception) else ""
    return f"no call of a torch module or function on tensors was recorded{before}"


def _deliver(trace: Trace, failure: BaseException | None, options: argparse.Namespace) -> int:
    from insitu.saving import save

    with suppress(OSError, ValueError):  # a program may have closed it
        sys.stdout.flush()  # what the program printed comes first
    try:
        for path in (options.to, options.html):
            if path is not None:
                with working(f"writing {os.path.basename(path)}"):
                    save(trace, path, overwrite=options.overwrite)
        if not options.quiet and not trace.events:
            print(f"insitu: {_nothing(failure, options)}", file=sys.stderr)
        elif not options.quiet:
            _show_most(trace, options)
    except InsituError as error:
        print(f"insitu: {error}", file=sys.stderr)
        return 2
    return 0
