"""The parser and the options that several commands share, with their checks."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from difflib import get_close_matches
from textwrap import fill
from typing import Any, NoReturn

from insitu.errors import ChoiceError, choose
from insitu.view.views import VIEWS, traits


class Parser(argparse.ArgumentParser):
    """A parser that names the nearest known word for a word it does not know."""

    def __init__(self, prog: str | None = None, **options: Any) -> None:
        super().__init__(prog, allow_abbrev=False, **options)

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Return the options. Words that are left over are an error here, because only this parser knows their like."""
        found, rest = super().parse_known_args(args, namespace)
        if rest:
            options = [option for action in self._actions for option in action.option_strings]
            self.refuse(f"unrecognized arguments: {' '.join(rest)}", rest[0].partition("=")[0], options)
        return found, rest

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Raise `ChoiceError`, which names the nearest choice, for a value that is not one of the choices."""
        if action.choices is not None and not isinstance(action, argparse._SubParsersAction):
            choose(option_name(action), value, action.choices)

    def refuse(self, message: str, word: str, known: Sequence[str]) -> NoReturn:
        """Print the usage and the message, with the nearest of the words that are known, and exit with 2."""
        for near in get_close_matches(word, known, n=1):
            message += f" (did you mean {near!r}?)"
        self.error(message)


def option_name(action: argparse.Action) -> str:
    """How the user writes an option or argument."""
    return action.option_strings[0] if action.option_strings else action.dest


def commands_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The parsers of the commands, by name."""
    (found,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return dict(found.choices)


def described(parser: Parser, description: str, example: str) -> Parser:
    """The parser with a description before its options and an example after them."""
    parser.description = description
    parser.epilog = example
    parser.formatter_class = _HelpFormatter
    return parser


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Wraps sentences to the width of the terminal; examples keep their lines."""

    def _format_action_invocation(self, action: argparse.Action) -> str:
        """How an option is written; a value that may be left out comes after `=`."""
        if action.nargs == argparse.OPTIONAL and action.option_strings:
            return f"{action.option_strings[0]}[={action.metavar}]"
        return super()._format_action_invocation(action)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        paragraphs = [_wrapped(paragraph, width) for paragraph in text.split("\n\n")]
        return "\n\n".join(paragraphs)


def _wrapped(paragraph: str, width: int) -> str:
    is_example = "\n  " in paragraph
    if is_example:
        return paragraph
    return fill(paragraph, width, break_long_words=False, break_on_hyphens=False)


def add_appearance(parser: argparse.ArgumentParser) -> None:
    """How the terminal is written to."""
    parser.add_argument(
        "--color",
        action=argparse.BooleanOptionalAction,
        help="print with or without colours (default: colours in a terminal)",
    )
    parser.add_argument("--width", type=_columns, metavar="N", help="columns to use (default: those of the terminal)")


def add_memory(parser: argparse.ArgumentParser) -> None:
    """How much of a long trace is read."""
    parser.add_argument(
        "--memory", metavar="SIZE", help="read at most so much of a trace, its last steps, as in 4GB (default: 1GiB)"
    )


def _columns(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expects a number of columns, got {text!r}")
    return int(text)


def add_view(parser: argparse.ArgumentParser, help: str, *, default: str | None = None) -> None:
    """The view of a trace, by name."""
    parser.add_argument("--view", default=default, choices=tuple(VIEWS), metavar="NAME", help=f"{help}: {view_names()}")


def view_names() -> str:
    """The names of the views, for help; the first is the default."""
    first, *others, last = VIEWS
    return f"{', '.join([f'{first} (default)', *others])} or {last}"


def add_view_flags(parser: argparse.ArgumentParser) -> None:
    """The flags that the views declare."""
    for view in VIEWS:
        for flag, text in traits(view).flags.items():
            parser.add_argument(f"--{flag}", action="store_true", help=f"in the {view}: {text}")


def view_flags(options: argparse.Namespace, view: str) -> dict[str, Any]:
    """The flags that were given, checked against those that the view has."""
    given = {flag for name in VIEWS for flag in traits(name).flags if getattr(options, flag, False)}
    for flag in sorted(given - set(traits(view).flags)):
        owners = [repr(name) for name in VIEWS if flag in traits(name).flags]
        raise ChoiceError(f"--{flag} is an option of the view {' or '.join(owners)}, got --view {view}")
    return dict.fromkeys(sorted(given), True)
