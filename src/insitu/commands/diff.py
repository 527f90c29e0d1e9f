"""`insitu diff`: the first difference between two traces, or two recorded runs."""

from __future__ import annotations

import argparse

from insitu.commands.options import add_appearance
from insitu.errors import ChoiceError
from insitu.view.progress import working

EXAMPLE = """\
The calls are aligned, and the first one whose inputs agree and whose output does not is named, with its line in both.
The exit code is 0 if they are the same or equal within the tolerance, 1 if they differ, 2 if they cannot be compared.

example:
  insitu diff before.h5 after.h5
  insitu diff mine.h5 theirs.h5 --rename 'encoder.layer.*=blocks.*' --rtol 1e-3
  insitu diff before.h5 after.h5 --json
  insitu diff before.h5 after.h5 --html diff.html
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `insitu diff`."""
    parser.add_argument("a", help="a saved trace or a recorded run, as in before.h5")
    parser.add_argument("b", help="the trace or run to compare it with, as in after.h5")
    parser.add_argument("--reference", metavar="FILE", help="a third one: which of the two is further from it?")
    parser.add_argument(
        "--rename",
        action="append",
        default=[],
        metavar="OLD=NEW",
        help="a path in a, and its name in b; may be repeated",
    )
    parser.add_argument("--rtol", type=float, help="relative tolerance (default: by dtype, as in torch.testing)")
    parser.add_argument("--atol", type=float, help="absolute tolerance; give --rtol and --atol, or neither")
    parser.add_argument("--json", action="store_true", help="print the differences as JSON")
    parser.add_argument("--html", metavar="FILE", help="also make a page with both side by side, as in diff.html")
    parser.add_argument("--overwrite", action="store_true", help="let --html replace an existing file")
    add_appearance(parser)


def main(options: argparse.Namespace) -> int:
    """Compare the files; 0 if no difference has an effect on the results, 1 if one has."""
    from insitu import store
    from insitu.verbs.compare import compare
    from insitu.verbs.save import PAGE, save
    from insitu.view.diff import show_diff

    rename = dict(map(_renamed, options.rename))
    if options.html is not None:
        store.check(options.html, overwrite=options.overwrite, suffixes=(PAGE,))
    with working(f"comparing {options.a} and {options.b}"):
        tolerance = {"rtol": options.rtol, "atol": options.atol}
        diff = compare(options.a, options.b, reference=options.reference, rename=rename, **tolerance)
    if options.html is not None:
        save(diff, options.html, overwrite=options.overwrite)
    if options.json:
        import json

        from insitu.view.diff_facts import diff_facts

        print(json.dumps(diff_facts(diff), allow_nan=False))
    else:
        show_diff(diff, color=options.color, width=options.width)
    if diff.passes:
        return 0
    return 1


def _renamed(text: str) -> tuple[str, str]:
    old, sign, new = text.partition("=")
    if not sign:
        raise ChoiceError(f"--rename {text!r} is not OLD=NEW: write it as in 'encoder.layer.*=blocks.*'")
    return old, new
