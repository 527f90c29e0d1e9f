"""What several commands have in common: options, checks of them, ways to say things."""

from __future__ import annotations

import argparse

from insitu.errors import choose

VIEW_HELP = "tree (default), classic, code, table or variables"


def described(parser: argparse.ArgumentParser, description: str, example: str) -> argparse.ArgumentParser:
    """The parser with a description before its options and an example after them."""
    parser.description, parser.epilog = description, example
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    return parser


def add_appearance(parser: argparse.ArgumentParser) -> None:
    """How the terminal is written to."""
    parser.add_argument("--color", action=argparse.BooleanOptionalAction, help="colour, whatever the terminal says")
    parser.add_argument("--width", type=_columns, metavar="N", help="columns to use (default: those of the terminal)")


def _columns(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of columns")
    return int(text)


def check_view(name: str) -> None:
    """Raise `ChoiceError` if there is no such view."""
    from insitu.view import VIEWS

    choose("view", name, VIEWS)
