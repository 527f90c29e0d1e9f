"""What no file of ours says: values and numbers for every place in which a stranger's file could say them."""

from __future__ import annotations

import random
from typing import Any

NUMBERS = (
    *(0, 1, -1, 2, 3, 7, 63, 64, 127, -128, 255, 1000, 2**15, -(2**15), 2**24, 2**31 - 1, -(2**31), 2**40),
    *(2**53 + 1, 2**62, 2**63 - 1, -(2**63)),
)
_DEEP: Any = 1
for _ in range(60):
    _DEEP = [_DEEP]
JSONS: tuple[Any, ...] = (
    *(None, True, False, -1, 0, 1, 2**31, 2**63, 2**64, 10**400, 1.5, -0.0, 1e308, float("nan"), float("inf")),
    *(
        "",
        "x",
        "0",
        "-1",
        "\0",
        "/",
        "..",
        "a/../b",
        "\ud800",
        "é" * 300,
        "x" * 10_000,
        "%",
        "nan",
        "float64",
        "numpy:<U9",
    ),
    *("json", "dense", "ragged", "text", "numpy:|S0", "numpy:O", "numpy:<M8", "complex32", "bfloat16", "uint1"),
    *([], {}, [[]], [None], [0, 0], [-1], ["a"], [2**40, 2**40], {"a": 1}, _DEEP, [1] * 100, [[1, 2], [3]]),
    *({"tensor": 0}, {"tuple": []}, {"tuple": [1, {"tensor": 0}]}, {"dict": [[[], 1]]}, {"dict": [[1, 2], [1, 3]]}),
    *({"dict": 5}, {"array": 0}, {"array": -1}, {"array": 99}, {"scalar": 0}, {"scalar": 1}, {"float": "1e999"}),
    *(
        {"int": "0x" + "f" * 5000},
        {"int": "zz"},
        {"complex": [1, 2]},
        {"complex": 1},
        {"bytes": "AA=="},
        {"bytes": "!"},
    ),
    *(
        {"fields": ["T", [["a", 1]]]},
        {"fields": [1, 2]},
        {"word": "w"},
        {"opaque": "o"},
        {"repr": ["t", "r"]},
        {"word": 1},
    ),
    *(
        '{"dict":[]}',
        '{"tuple":[]}',
        '{"tuple":["a",1.5,{"word":"w"}]}',
        '{"dict":[["a",{"tuple":[]}]]}',
        "null",
        "[[[",
        "1e999",
    ),
)


def replaced(node: Any, dice: random.Random) -> Any:
    """A JSON value in which one thing, anywhere, is another."""
    if isinstance(node, (list, dict)) and node and dice.random() < 0.85:
        key = dice.choice(list(node) if isinstance(node, dict) else range(len(node)))
        chance, made = dice.random(), node.copy()
        if chance < 0.06:
            del made[key]
        elif chance < 0.1:
            made = [*made, node[key]] if isinstance(made, list) else {**made, "more": node[key]}
        else:
            made[key] = replaced(node[key], dice)
        return made
    if isinstance(node, (int, float)) and dice.random() < 0.5:
        return dice.choice(NUMBERS)
    return dice.choice(JSONS)
