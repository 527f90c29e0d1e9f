"""The command `insitu`: run a program and see its tensors, show a saved trace or a recorded run.

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
from insitu.errors import ChoiceError, InsituError, StoreError, choose

if TYPE_CHECKING:
    from pathlib import Path

    from insitu.program import Program
    from insitu.store.run import Run
    from insitu.trace.trace import Trace

MOST_LINES = 200
_RUN_EXAMPLE = """\
The options stand before the script; what follows it belongs to the script. Its own output stays as it is, its exit
code too; the trace is printed to stderr when it ends, also when it fails.

example:
  insitu run --view code --only 'encoder.*' train.py --epochs 1
  insitu run --to run.h5 --quiet -m package.train
"""
_SHOW_EXAMPLE = """\
A recorded run is listed, with what is missing in it first; one that still runs or was killed too, from run.h5.parts.

example:
  insitu show trace.h5 --view code --only 'encoder.*' --only 'decoder.**'
  insitu show run.h5 --path 'decoder.*.weight.grad.mean'
  insitu show run.h5 --path forward.loss --plot loss.png
"""
_RECOVER_EXAMPLE = """\
The journals in run.h5.parts are removed once the file is made, and stay where one is damaged. The exit code is 1 if
something is missing in the file, which is said.

example:
  insitu recover run.h5
"""
_DEMO_EXAMPLE = """\
example:
  insitu demo
"""
_EXAMPLE = """\
example:
  insitu run train.py --epochs 1        trace an unmodified script
  insitu show run.h5 --view table       look at a saved trace, or a recorded run
  insitu recover run.h5                 make the file of a run that was killed
"""

VIEW_HELP = "tree (default), classic, code, table or variables"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and give its exit code: 0, the program's own, 1 for a file not whole, 2 for our errors."""
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
        return _show(options)
    if options.command == "recover":
        return _recover(options)
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
    parser = _described(argparse.ArgumentParser("insitu", allow_abbrev=False), "See every tensor in place.", _EXAMPLE)
    parser.add_argument("--version", action="version", version=f"insitu {insitu.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="run | show | recover | demo")
    run = commands.add_parser(
        "run",
        help="trace an unmodified script",
        usage="insitu run [options] script.py [arguments]\n       insitu run [options] -m module [arguments]",
        allow_abbrev=False,
    )
    _run_options(_described(run, "Run a Python program and show what torch did in it.", _RUN_EXAMPLE))
    show = commands.add_parser("show", help="look at a saved trace or a recorded run", allow_abbrev=False)
    _show_options(_described(show, "Show a trace or a recorded run, without importing torch.", _SHOW_EXAMPLE))
    recover = commands.add_parser("recover", help="make the file of a run that was killed", allow_abbrev=False)
    _recover_options(_described(recover, "Make the file of a run that was killed.", _RECOVER_EXAMPLE))
    demo = commands.add_parser("demo", help="a small transformer in every view")
    _described(demo, "Trace a small transformer and show it in every view.", _DEMO_EXAMPLE)
    return parser


def _described(parser: argparse.ArgumentParser, description: str, example: str) -> argparse.ArgumentParser:
    parser.description, parser.epilog = description, example
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    return parser


def _run_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--view", default="tree", help=f"{VIEW_HELP}; printed to stderr")
    parser.add_argument("--level", help="modules, functions (default) or aten (default for the view code)")
    parser.add_argument("--only", action="append", metavar="PATTERN", help="only these paths; may be repeated")
    parser.add_argument("--to", metavar="FILE", help="also save the trace, as in run.h5")
    parser.add_argument("--overwrite", action="store_true", help="let --to replace a file that is there")
    parser.add_argument("--all", action="store_true", help=f"print all of a trace of more than {MOST_LINES} lines")
    parser.add_argument("--quiet", action="store_true", help="print nothing, only save (with --to)")


def _show_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", help="a saved trace or a recorded run, as in run.h5 or run.h5.parts")
    parser.add_argument("--view", help=f"of a trace: {VIEW_HELP}")
    parser.add_argument(
        *("--path", "--only"), dest="only", action="append", metavar="PATTERN", help="only these paths; may be repeated"
    )
    parser.add_argument("--plot", metavar="FILE", help="of a run: draw the variables over the steps, as in loss.png")
    parser.add_argument("--json", action="store_true", help="of a run: print the list as JSON")
    parser.add_argument("--color", action=argparse.BooleanOptionalAction, help="colour, whatever the terminal says")
    parser.add_argument("--width", type=_columns, metavar="N", help="columns to use (default: those of the terminal)")
    parser.add_argument("--unfold", action="store_true", help="of a trace: show each of several identical blocks")


def _recover_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", help="the file to make, as in run.h5, or its journals, run.h5.parts")
    parser.add_argument("--overwrite", action="store_true", help="replace a file that is there")


def _columns(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of columns")
    return int(text)


def _show(options: argparse.Namespace) -> int:
    from insitu import store
    from insitu.trace.trace import Trace

    _known_view(options.view or "tree")
    found = store.load(options.file)
    if isinstance(found, Trace):
        _show_trace(found, options)
        return 0
    with found:
        _show_run(found, options)
    return 0


def _show_trace(trace: Trace, options: argparse.Namespace) -> None:
    from insitu import view

    name = options.view or "tree"
    _refuse(options, ("plot", "json"), "is for recorded runs", "a trace")
    if options.unfold and name != "tree":
        raise ChoiceError(f"--unfold is for the view 'tree': the view {name!r} folds nothing")
    extra: dict[str, Any] = {"unfold": True} if options.unfold else {}
    view.show(trace, view=name, only=options.only, color=options.color, width=options.width, **extra)


def _show_run(run: Run, options: argparse.Namespace) -> None:
    from insitu.view.run import run_lines
    from insitu.view.terminal import Terminal, terminal_width

    only = options.only or ()
    _refuse(options, ("view", "unfold"), "is for traces", "a recorded run")
    if options.json:
        _print_json(run, only)
    elif options.plot is None:
        width = options.width or terminal_width(sys.stdout) or 100
        Terminal(color=options.color, width=options.width).write(run_lines(run, width, only))
    if options.plot is not None:
        _plot(run, only, options.plot)


def _refuse(options: argparse.Namespace, names: Sequence[str], why: str, what: str) -> None:
    for name in names:
        if getattr(options, name):
            raise ChoiceError(f"--{name} {why}, and {options.file!r} is {what}")


def _print_json(run: Run, only: Sequence[str]) -> None:
    import json

    from insitu.view.run import run_facts

    about = {
        "file": str(run.path),
        "complete": run.complete,
        "running": run.running,
        "steps": [int(run.steps[0]), int(run.steps[-1])] if len(run.steps) else None,
        "ranks": run.ranks,
        "world_size": run.world_size,
    }
    print(json.dumps({**about, **run_facts(run, only)}, allow_nan=False))


def _plot(run: Run, only: Sequence[str], path: str) -> None:
    from insitu.view import plot
    from insitu.view.run import require, troubles

    plot.check(path)
    for pattern in only:
        require(pattern, run.paths)
    found = dict.fromkeys(series.name for pattern in only or ("**",) for series in run.find(pattern))
    plot.draw([run[name] for name in found], path)
    for text in troubles(run):
        print(f"insitu: {text}", file=sys.stderr)


def _recover(options: argparse.Namespace) -> int:
    from insitu import store
    from insitu.store.compact import compact
    from insitu.store.parts import parts_of

    target = store.check(options.file.rstrip("/").removesuffix(store.PARTS), overwrite=True)
    parts = parts_of(target)
    if not parts.is_dir():
        raise StoreError(_nothing_to_recover(target, parts))
    with store.load(parts) as run:
        if run.running:
            raise StoreError(
                f"{str(target)!r} still runs: nothing to recover; `insitu show {target}` reads it as it is"
            )
        counts = _count(len(run), "variable"), _count(len(run.steps), "step"), _count(len(run.ranks), "rank")
    missing = compact(parts, target, overwrite=options.overwrite)
    print(f"{target}: {', '.join(counts)}")
    for text in missing:
        print(f"! {text}")
    return 1 if missing else 0


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"


def _nothing_to_recover(target: Path, parts: Path) -> str:
    if target.is_file():
        return f"{str(target)!r} is a file already, and {parts.name!r} is not there: nothing to recover"
    return f"nothing to recover: there is no {str(parts)!r}, where a run that was killed leaves its journals"


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

    _known_view(options.view)
    options.level = options.level or ("aten" if options.view == "code" else "functions")
    if options.to is not None:
        options.to = os.path.abspath(options.to)  # the program may change the directory
        store.check(options.to, overwrite=options.overwrite)
    elif options.quiet:
        raise InsituError("--quiet without --to FILE would show nothing: give a file, or leave --quiet out")


def _known_view(name: str) -> None:
    from insitu.view import VIEWS

    choose("view", name, VIEWS)


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
