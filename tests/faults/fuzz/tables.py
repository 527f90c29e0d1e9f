"""Traces whose tables say anything, with a checksum that is right: what they mean together is all that can be wrong."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
from tests.faults.fuzz.blind import blind
from tests.faults.fuzz.odd import JSONS, NUMBERS, replaced
from tests.faults.fuzz.seeds import Seed

from insitu.store.trace import trace_file
from insitu.store.trace.schema import bytes_of, narrow, pieces_of

Tables = dict[str, dict[str, Any]]


def make_forged(seed: Seed, path: Path, dice: random.Random, number: int) -> bool:
    """A few numbers, texts or rows are other ones."""
    tables: Tables = trace_file.read(seed.path)
    ways = [
        dice.choice((_texts, _texts, _numbers, _numbers, _numbers, _rows)) for _ in range(dice.choice([1, 1, 2, 4]))
    ]
    for way in sorted(ways, key=lambda way: way is not _texts):  # texts first: the numbers are where they lie
        way(tables, dice)
    trace_file.write(tables, {}, path, overwrite=True)
    return False


def _numbers(tables: Tables, dice: random.Random) -> None:
    table = dice.choice([name for name in tables if len(next(iter(tables[name].values())))])
    name = dice.choice(list(tables[table]))
    column = tables[table][name]
    if column.dtype.kind == "f":
        column[dice.randrange(len(column))] = dice.choice([np.nan, np.inf, -np.inf, 1e308, -0.0, 5e-324])
        return
    wide = column.astype(np.int64)
    chosen = slice(None) if dice.random() < 0.1 else dice.randrange(len(wide))
    other = int(wide[dice.randrange(len(wide))])
    wide[chosen] = dice.choice([other, dice.choice(NUMBERS), dice.randrange(-2, 40)])
    tables[table][name] = wide.astype(np.uint8) if column.dtype.kind == "u" else narrow(wide)


def _texts(tables: Tables, dice: random.Random) -> None:
    pieces = pieces_of(tables["text"]["byte"], tables["strings"]["length"].astype(np.int64), "string")
    at = dice.randrange(len(pieces))
    pieces[at] = _other(pieces[at], dice)
    tables["text"]["byte"] = bytes_of(pieces)
    tables["strings"]["length"] = narrow(np.array([len(piece) for piece in pieces], np.int64))


def _other(piece: bytes, dice: random.Random) -> bytes:
    chance = dice.random()
    if chance < 0.3:
        return blind(piece or b"x", (b'{"tuple":[', b"\xff\xfe"), dice)
    try:
        plain = json.loads(piece)
    except ValueError:
        plain = None
    made = replaced(plain, dice) if plain is not None and chance < 0.8 else dice.choice(JSONS)
    if isinstance(made, str) and chance > 0.9:
        return made.encode("utf-8", "surrogatepass")
    return json.dumps(made).encode()


def _rows(tables: Tables, dice: random.Random) -> None:
    """A table that lost rows, or has some twice."""
    table = dice.choice([name for name in tables if len(next(iter(tables[name].values())))])
    count = len(next(iter(tables[table].values())))
    at = dice.randrange(count)
    order = [*range(count)]
    order[at : at + 1] = [] if dice.random() < 0.5 else [at] * dice.choice([2, 3, 30])
    tables[table] = {name: column[order] for name, column in tables[table].items()}
