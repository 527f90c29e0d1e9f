"""`insitu completion`: what a shell needs to complete the commands and their options."""

from __future__ import annotations

import argparse

from insitu.errors import choose

EXAMPLE = """\
example:
  insitu completion bash >> ~/.bashrc
  insitu completion zsh >> ~/.zshrc
  insitu completion fish > ~/.config/fish/completions/insitu.fish
"""
SHELLS = ("bash", "zsh", "fish")
_BASH = """\
_insitu() {{
  local words
  case "${{COMP_WORDS[1]}}" in
{cases}
    *) words="{commands}" ;;
  esac
  [ "$COMP_CWORD" -eq 1 ] && words="{commands}"
  COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
  [ "$COMP_CWORD" -gt 1 ] && COMPREPLY+=($(compgen -f -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o filenames -F _insitu insitu
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """What can be said after `insitu completion`."""
    parser.add_argument("shell", metavar=" | ".join(SHELLS), help="the shell to complete in")


def main(options: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    """Print the script for a shell."""
    shell = choose("shell", options.shell, SHELLS)
    print(script(shell, words(parser)), end="")
    return 0


def words(parser: argparse.ArgumentParser) -> dict[str, list[str]]:
    """The options of each command, read from the parser itself."""
    (commands,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    found: dict[str, list[str]] = {}
    for name, command in commands.choices.items():
        options = (option for action in command._actions for option in action.option_strings)
        found[name] = [option for option in options if option.startswith("--")]
    return found


def script(shell: str, commands: dict[str, list[str]]) -> str:
    """The script.

    >>> print(script("fish", {"show": ["--view"]}), end="")
    complete -c insitu -n __fish_use_subcommand -a show
    complete -c insitu -n '__fish_seen_subcommand_from show' -l view
    """
    if shell == "fish":
        names = [f"complete -c insitu -n __fish_use_subcommand -a {name}" for name in commands]
        options = [
            f"complete -c insitu -n '__fish_seen_subcommand_from {name}' -l {option.removeprefix('--')}"
            for name, every in commands.items()
            for option in every
        ]
        return "\n".join([*names, *options]) + "\n"
    cases = "\n".join(f'    {name}) words="{" ".join(every)}" ;;' for name, every in commands.items())
    bash = _BASH.format(cases=cases, commands=" ".join(commands))
    return bash if shell == "bash" else f"autoload -U +X bashcompinit && bashcompinit\n{bash}"
