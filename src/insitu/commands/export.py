"""`insitu export`: a saved trace or a recorded run as a page, or for another viewer."""

from __future__ import annotations

import argparse
from typing import Any

from insitu.commands.options import add_memory
from insitu.errors import ChoiceError
from insitu.trace.step_choice import StepChoice
from insitu.view.export import export_help
from insitu.view.progress import working

FORMS = f"The suffix says what is made: .html a page, .trace text, .h5 a trace again, {export_help()}."
EXAMPLE = f"""\
{FORMS}

example:
  insitu export step.h5 step.html
  insitu export step.h5 step.html --only 'encoder.**' --no-source
  insitu export step.h5 step.json
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `insitu export`."""
    parser.add_argument("file", help="a saved trace or a recorded run, as in step.h5 or run.h5")
    parser.add_argument("target", help="the file to make, as in run.html")
    parser.add_argument("--overwrite", action="store_true", help="replace an existing file")
    parser.add_argument(
        "--only", action="append", metavar="PATTERN", help="in a page, only these paths; may be repeated"
    )
    parser.add_argument("--steps", metavar="STEPS", help="in a page, only these steps, as in 0,3 or 10:12 (10 and 11)")
    parser.add_argument("--depth", type=int, metavar="N", help="in a page, only the first N levels of the tree")
    add_memory(parser)
    parser.add_argument("--no-source", dest="source", action="store_false", help="leave source code out of a page")


def main(options: argparse.Namespace) -> int:
    """Make the file."""
    from insitu import store
    from insitu.verbs.save import SUFFIXES, save

    choice = None if options.steps is None else StepChoice.of("--steps", options.steps)
    store.check(options.target, overwrite=options.overwrite, suffixes=SUFFIXES)
    with working(f"making {options.target}"):
        found = store.load(options.file, memory=options.memory)
        part = {"source": options.source, "only": options.only, "depth": options.depth}
        save(found, options.target, overwrite=options.overwrite, steps=_chosen(choice, found, options.file), **part)
    print(options.target)
    return 0


def _chosen(choice: StepChoice | None, found: Any, file: str) -> list[int] | None:
    """The steps of a trace that are chosen; None for all."""
    from insitu.trace.trace import Trace

    if choice is None:
        return None
    if not isinstance(found, Trace):
        raise ChoiceError(f"--steps is for pages of traces, and {file!r} is a recorded run")
    return choice.among("--steps", (event.step for event in found.events), f"{file!r}")
