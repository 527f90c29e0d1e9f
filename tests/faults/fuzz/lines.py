"""Traces in text whose lines have other words in them, are in other places, or are nested without end."""

from __future__ import annotations

import random
import re
from pathlib import Path

from tests.faults.fuzz.seeds import Seed

_WORDS = re.compile(r"\s+|\w+|.")
_ODD = (
    *(
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        "<",
        ">",
        ",",
        "=",
        ":",
        "->",
        "%",
        "'",
        '"',
        "\\",
        "#",
        " ",
        "\t",
        "\0",
        "\r",
        "\x0c",
    ),
    *("(" * 70, "[" * 2000, "{" * 500, "%x:f32[" * 50, "%x:f32[1]{gradient " * 400, "a'<f4[2]' " * 300, "x(y=" * 200),
    *("0x" + "f" * 9000, "9" * 5000, "-", "1e999", "nan", "inf", "-inf", "1_0", "0b1", "１２", "²", "1e5", "0x", ".5"),
    *(
        "None",
        "True",
        "module",
        "op",
        "def",
        "let",
        "mark",
        "about",
        "end",
        "raised",
        "makes",
        "kept",
        "gradient",
        "given",
    ),
    *("a'<f4[3]' [1]", "a'<f4[-1]' [1]", "a'<f4[]' [1]", "a'<f99[1]' [1]", "a'<f4[1]' ['x']", "a'|b1[99999999999]' []"),
    *(
        "c'x'",
        "c'1+2j'",
        "b'\\xff'",
        "b'é'",
        "w''",
        "'\\N{DASH}'",
        "'\\ud800'",
        "'\\x'",
        "f32[99999999999999999999]",
        "count -1",
    ),
    *(
        "step 99999999999999999999",
        "step -1",
        "rank -5",
        "[of %x]",
        "[backward]",
        "[in a b]",
        "{new}",
        "min x",
        "on 'x y'",
    ),
)


def make_forged(seed: Seed, path: Path, dice: random.Random, number: int) -> bool:
    """Some words are other ones, some lines elsewhere."""
    lines = seed.path.read_text(errors="surrogateescape").split("\n")
    for _ in range(dice.choice([1, 1, 2, 5])):
        at = dice.randrange(1, len(lines) - 1)
        chance = dice.random()
        if chance < 0.7:
            lines[at] = _line(lines[at], dice)
        elif chance < 0.8:
            lines[at] = " " * dice.randrange(12) + lines[at].lstrip()
        elif chance < 0.9:
            lines[at:at] = [lines[dice.randrange(1, len(lines) - 1)]]
        else:
            del lines[at]
        if len(lines) < 4:
            break
    path.write_text("\n".join(lines), errors="surrogateescape")
    return False


def _line(line: str, dice: random.Random) -> str:
    words = _WORDS.findall(line) or [""]
    at = dice.randrange(len(words))
    chance = dice.random()
    if chance < 0.6:
        words[at] = dice.choice(_ODD)
    elif chance < 0.8:
        words[at] = words[dice.randrange(len(words))]
    elif chance < 0.9:
        words[at:at] = words[dice.randrange(len(words)) :]
    else:
        del words[at]
    return "".join(words)
