"""`insitu export`: a saved trace or a recorded run as a page, or for another viewer."""

from __future__ import annotations

import argparse

from insitu.commands.options import add_memory
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
    parser.add_argument("--overwrite", action="store_true", help="replace a file that is there")
    parser.add_argument(
        "--only", action="append", metavar="PATTERN", help="in a page, only these paths; may be repeated"
    )
    parser.add_argument("--steps", type=_steps, metavar="N,M", help="in a page, only these steps")
    parser.add_argument("--depth", type=int, metavar="N", help="in a page, only so many levels of the tree")
    add_memory(parser)
    parser.add_argument("--no-source", dest="source", action="store_false", help="leave source code out of a page")


def _steps(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"expects step numbers such as 0,3,4, got {text!r}") from None


def main(options: argparse.Namespace) -> int:
    """Make the file."""
    from insitu import store
    from insitu.verbs.save import SUFFIXES, save

    store.check(options.target, overwrite=options.overwrite, suffixes=SUFFIXES)
    part = {"source": options.source, "only": options.only, "steps": options.steps, "depth": options.depth}
    with working(f"making {options.target}"):
        save(store.load(options.file, memory=options.memory), options.target, overwrite=options.overwrite, **part)
    print(options.target)
    return 0
