"""`insitu completion`: what a shell needs to complete the commands, their options and the values of these."""

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
VALUES = {
    "--view": ("tree", "classic", "code", "table", "variables"),
    "--level": ("modules", "functions", "aten"),
    "--keep": ("meta", "stats"),
}
_BASH = """\
_insitu() {{
  local words files=yes word="${{COMP_WORDS[COMP_CWORD]}}"
  case "${{COMP_WORDS[1]}}" in
{commands}
  esac
  case "${{COMP_WORDS[COMP_CWORD-1]}}" in
{values}
  esac
  [ "$COMP_CWORD" -eq 1 ] && words="{names}" files=
  COMPREPLY=($(compgen -W "$words" -- "$word"))
  local IFS=$'\\n'
  [ -n "$files" ] && COMPREPLY+=($(compgen -f -- "$word"))
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
    """The options of each command, read from the parser itself, and the shells."""
    (commands,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    found: dict[str, list[str]] = {}
    for name, command in commands.choices.items():
        options = (option for action in command._actions for option in action.option_strings)
        found[name] = [option for option in options if option.startswith("--")]
    found["completion"] += SHELLS
    return found


def script(shell: str, commands: dict[str, list[str]]) -> str:
    """The script.

    >>> print(script("fish", {"show": ["--json", "--keep"]}), end="")
    complete -c insitu -n __fish_use_subcommand -a show
    complete -c insitu -n '__fish_seen_subcommand_from show' -l json
    complete -c insitu -n '__fish_seen_subcommand_from show' -l keep -x -a 'meta stats'
    """
    if shell == "fish":
        names = [f"complete -c insitu -n __fish_use_subcommand -a {name}" for name in commands]
        options = [
            f"complete -c insitu -n '__fish_seen_subcommand_from {name}' {_in_fish(word)}"
            for name, every in commands.items()
            for word in every
        ]
        return "\n".join([*names, *options]) + "\n"
    bash = _BASH.format(
        commands="\n".join(f'    {name}) words="{" ".join(every)}" ;;' for name, every in commands.items()),
        values="\n".join(f'    {option}) words="{" ".join(every)}" files= ;;' for option, every in VALUES.items()),
        names=" ".join(commands),
    )
    return bash if shell == "bash" else f"autoload -U +X bashcompinit && bashcompinit\n{bash}"


def _in_fish(word: str) -> str:
    """How fish is told of an option, with its values, or of another word."""
    if not word.startswith("--"):
        return f"-a {word}"
    values = f" -x -a '{' '.join(VALUES[word])}'" if word in VALUES else ""
    return f"-l {word.removeprefix('--')}{values}"
