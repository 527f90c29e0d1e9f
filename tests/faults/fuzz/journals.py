"""Journals whose frames say anything, with checksums that are right."""

from __future__ import annotations

import json
import os
import random
import shutil
from pathlib import Path

import numpy as np
from tests.faults.fuzz.odd import NUMBERS, replaced
from tests.faults.fuzz.seeds import Seed

from insitu.store.journal import frames

_TIMES = (float("nan"), float("inf"), -1e300, 0.0, 1e18)


def make_forged(seed: Seed, path: Path, dice: random.Random, number: int) -> bool:
    """Some frames of rank 0 are other ones."""
    shutil.copytree(seed.path, path)
    target = path / seed.target.relative_to(seed.path)
    whole = target.read_bytes()
    file = os.open(target, os.O_RDONLY)
    every = list(frames.FrameScan(frames.OpenFile(file), whole[8:16]).frames())
    os.close(file)
    chosen = set(dice.sample(range(len(every)), dice.choice([1, 1, 2])))
    made = whole[:16]
    for place, frame in enumerate(every):
        index, kind, sequence = frame.index, frame.kind, frame.sequence
        if place in chosen:
            index = (
                _step(index, dice) if kind == frames.STEP else json.dumps(replaced(json.loads(index), dice)).encode()
            )
            kind = dice.choice([kind] * 20 + [0, 1, 2, 3, 4, 2**31])
            sequence = dice.choice([sequence] * 20 + [0, sequence + 1, 2**63])
        made += frames.head(whole[8:16], kind, sequence, index, frame.length)
        made += whole[frame.start : frame.start + frame.length]
    target.write_bytes(made)
    return False


def _step(index: bytes, dice: random.Random) -> bytes:
    size = frames.STEP_HEAD.size
    step, time, count, length = frames.STEP_HEAD.unpack_from(index)
    entries = np.frombuffer(index, frames.ENTRY, count, size).copy()
    text = index[size + count * frames.ENTRY.itemsize :]
    chance = dice.random()
    if chance < 0.2:
        step = dice.choice(NUMBERS)
    elif chance < 0.3:
        time = dice.choice(_TIMES)
    elif chance < 0.4 and text:
        text = json.dumps(replaced(json.loads(text), dice)).encode()
        length = len(text)
    elif chance < 0.5:
        count = dice.choice([0, 1, count + 1, 2**31, 2**32 - 1])
    else:
        name = dice.choice(["variable", "layout", "call", "kind", "length"])
        place = dice.randrange(len(entries))
        entries[name][place] = dice.choice(NUMBERS) % 2 ** (64 if name == "length" else 32)
        if dice.random() < 0.3:
            entries = np.concatenate([entries, entries[place : place + 1]])
            count = len(entries)
    return frames.STEP_HEAD.pack(step, time, count, length) + entries.tobytes() + text
