"""`insitu show`: a saved trace through a view, or a recorded run as a list, as JSON or as a picture."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any

from insitu.commands.options import add_appearance, add_memory, add_view, add_view_flags, view_flags
from insitu.errors import ChoiceError
from insitu.view.views import VIEWS, traits

if TYPE_CHECKING:
    from insitu.store.run.run import Run
    from insitu.trace.trace import Trace

EXAMPLE = """\
A recorded run is printed as a list: first the missing parts, then the attempts if the run was restarted, then the
variables. A run that is still running or was killed is read from run.h5.parts. Means and pictures show each step as the
last attempt recorded it.

example:
  insitu show trace.h5 --view code --only 'encoder.*' --only 'decoder.**'
  insitu show trace.h5 --costs --width 200
  insitu show run.h5 --path 'decoder.*.weight.grad.mean' --json
  insitu show run.h5 --path forward.loss --plot loss.png
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `insitu show`."""
    parser.add_argument("file", help="a saved trace or a recorded run, as in run.h5 or run.h5.parts")
    add_view(parser, "how to show a trace")
    parser.add_argument(
        *("--path", "--only"), dest="only", action="append", metavar="PATTERN", help="only these paths; may be repeated"
    )
    parser.add_argument("--plot", metavar="FILE", help="draw the variables of a run over the steps, as in loss.png")
    parser.add_argument(
        "--json", action="store_true", help="print JSON: a list of the calls of a trace, or of the variables of a run"
    )
    add_appearance(parser)
    add_memory(parser)
    add_view_flags(parser)


def main(options: argparse.Namespace) -> int:
    """Show the content of the file."""
    from insitu import store
    from insitu.trace.trace import Trace

    found = store.load(options.file, memory=options.memory)
    if isinstance(found, Trace):
        _show_trace(found, options)
        return 0
    with found:
        _show_run(found, options)
    return 0


def _show_trace(trace: Trace, options: argparse.Namespace) -> None:
    from insitu import view

    name = options.view or "tree"
    _refuse(options, ("plot",), "is for recorded runs", "a trace")
    if not trace.events:
        print(f"insitu: {options.file!r} holds no calls", file=sys.stderr)
    if options.json:
        _print_calls(trace, options.only)
        return
    flags = view_flags(options, name)
    view.show(trace, view=name, only=options.only, color=options.color, width=options.width, **flags)


def _print_calls(trace: Trace, only: Sequence[str] | None) -> None:
    """Each call as one object, with the columns of `to_pandas`."""
    import json

    from insitu.trace.event import Call
    from insitu.trace.selection import select
    from insitu.trace.trace import COLUMNS, row

    calls = [event for event in select(trace.events, only) if isinstance(event, Call)]
    rows = [dict(zip(COLUMNS, row(call), strict=True)) for call in calls]
    print(json.dumps(_plain({"about": trace.about, "calls": rows}), allow_nan=False, default=str))


def _plain(item: Any) -> Any:
    """Data that JSON can hold: NaN, infinities and keys become strings."""
    if isinstance(item, dict):
        return {str(name): _plain(part) for name, part in item.items()}
    if isinstance(item, (list, tuple)):
        return [_plain(part) for part in item]
    if isinstance(item, float) and not isfinite(item):
        return str(item)
    return item


def _show_run(run: Run, options: argparse.Namespace) -> None:
    from insitu.view.run_table import points_in, run_lines
    from insitu.view.terminal import terminal_width, write_all

    only = options.only or ()
    flags = [flag for view in VIEWS for flag in traits(view).flags]
    _refuse(options, ("view", *flags), "is for traces", "a recorded run")
    if options.json:
        _print_json(run, only)
    elif options.plot is None:
        width = options.width or terminal_width(sys.stdout) or 100
        summary = run.summary(points_in(width), names=_names(run, only))
        write_all(run_lines(summary), None, options.color, options.width)
    if options.plot is not None:
        _plot(run, only, options.plot)


def _refuse(options: argparse.Namespace, names: Sequence[str], why: str, what: str) -> None:
    for name in names:
        if getattr(options, name):
            raise ChoiceError(f"--{name} {why}, and {options.file!r} is {what}")


def _print_json(run: Run, only: Sequence[str]) -> None:
    import json
    from dataclasses import asdict

    from insitu.view.run_table import run_facts

    about = {
        "file": str(run.path),
        "complete": run.complete,
        "running": run.running,
        "steps": _ends(run.steps),
        "ranks": run.ranks,
        "world_size": run.world_size,
        "attempts": [asdict(attempt) for attempt in run.attempts],
    }
    print(json.dumps({**about, **run_facts(run.summary(32, names=_names(run, only)))}, allow_nan=False))


def _ends(steps: Any) -> list[int] | None:
    """The first and the last step; None if there is none."""
    if len(steps) == 0:
        return None
    return [int(steps[0]), int(steps[-1])]


def _names(run: Run, only: Sequence[str]) -> list[str]:
    """The variables, or statistics of them, that the patterns name."""
    from insitu.store.run.curves import RunVariables
    from insitu.view.run_table import matching_variables

    variables = RunVariables(run)
    return matching_variables(variables.names, variables.paths, only)


def _plot(run: Run, only: Sequence[str], path: str) -> None:
    from insitu.store.run.curves import RunVariables
    from insitu.view import plot
    from insitu.view.run_table import troubles

    names = _names(run, only)
    plot.check(path, len(names))
    variables = RunVariables(run)
    plot.draw({name: variables[name].curves for name in names}, path)
    for text in troubles(run.missing, run.events):
        print(f"insitu: {text}", file=sys.stderr)
