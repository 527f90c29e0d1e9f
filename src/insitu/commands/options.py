"""What several commands have in common: options, checks of them, ways to say things."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, NoReturn

from insitu.errors import choose

VIEW_HELP = "tree (default), classic, code, table or variables"


class Parser(argparse.ArgumentParser):
    """A parser that says of a word it does not know which one it is near to."""

    def __init__(self, prog: str | None = None, **options: Any) -> None:
        super().__init__(prog, allow_abbrev=False, **options)

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """The options; what is left over is an error here, for only this parser knows what is near to it."""
        found, rest = super().parse_known_args(args, namespace)
        if rest:
            options = [option for action in self._actions for option in action.option_strings]
            self.refuse(f"unrecognized arguments: {' '.join(rest)}", rest[0].partition("=")[0], options)
        return found, rest

    def refuse(self, message: str, word: str, known: Sequence[str]) -> NoReturn:
        """Print the usage and the message, with the nearest of the words that are known, and exit with 2."""
        near = get_close_matches(word, known, n=1)
        self.error(f"{message} (did you mean {near[0]!r}?)" if near else message)


def described(parser: Parser, description: str, example: str) -> Parser:
    """The parser with a description before its options and an example after them."""
    parser.description, parser.epilog = description, example
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    return parser


def add_appearance(parser: argparse.ArgumentParser) -> None:
    """How the terminal is written to."""
    parser.add_argument("--color", action=argparse.BooleanOptionalAction, help="colour, whatever the terminal says")
    parser.add_argument("--width", type=_columns, metavar="N", help="columns to use (default: those of the terminal)")


def add_memory(parser: argparse.ArgumentParser) -> None:
    """How much of a long trace is read."""
    parser.add_argument(
        "--memory", metavar="SIZE", help="of a trace that is longer, only the last steps, as in 4GB (default: 1GiB)"
    )


def _columns(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of columns")
    return int(text)


def check_view(name: str) -> None:
    """Raise `ChoiceError` if there is no such view."""
    from insitu.view import VIEWS

    choose("view", name, VIEWS)
