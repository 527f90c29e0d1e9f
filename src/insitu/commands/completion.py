"""`insitu completion`: a script with which a shell completes the commands, their options and the values of these."""

from __future__ import annotations

import argparse

from insitu.commands.options import commands_of
from insitu.errors import MissingError

EXAMPLE = """\
The script is written by shtab: pip install "insitu[completion]".

example:
  insitu completion bash >> ~/.bashrc
  insitu completion zsh > "${fpath[1]}/_insitu"
  insitu completion fish > ~/.config/fish/completions/insitu.fish
"""
SHELLS = ("bash", "zsh", "fish")
# Options and arguments that name a file.
FILES = ("file", "target", "a", "b", "html", "to", "run", "crash", "reference", "plot")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `insitu completion`."""
    parser.add_argument("shell", choices=SHELLS, metavar=" | ".join(SHELLS), help="the shell to complete in")


def main(options: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    """Print the script for a shell."""
    print(script(options.shell, parser))
    return 0


def script(shell: str, parser: argparse.ArgumentParser) -> str:
    """The script for a shell, from the parser itself."""
    try:
        import shtab
    except ImportError:
        raise MissingError('insitu completion needs shtab: pip install "insitu[completion]"') from None
    commands = commands_of(parser)
    commands["run"].add_argument("script", nargs="?").complete = shtab.FILE  # type: ignore[attr-defined]
    for command in commands.values():
        for action in command._actions:
            if action.dest in FILES:
                action.complete = shtab.FILE  # type: ignore[attr-defined]
    text: str = shtab.complete(parser, shell)
    return text
