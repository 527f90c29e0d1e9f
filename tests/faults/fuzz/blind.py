"""Bytes that are damaged by chance: flipped, cut, zeroed, spliced, or set to what a length must not be."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence

_EXTREMES = (0, 1, 2, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**63, 2**64 - 1)

Mutation = Callable[[bytearray, Sequence[bytes], random.Random], bytearray]


def _flip(data: bytearray, _: Sequence[bytes], dice: random.Random) -> bytearray:
    for _ in range(dice.choice([1, 1, 1, 2, 8, 64])):
        data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
    return data


def _set(data: bytearray, _: Sequence[bytes], dice: random.Random) -> bytearray:
    for _ in range(dice.choice([1, 1, 4])):
        data[dice.randrange(len(data))] = dice.choice([0, 1, 127, 128, 255, dice.randrange(256)])
    return data


def _cut(data: bytearray, _: Sequence[bytes], dice: random.Random) -> bytearray:
    return data[: dice.randrange(len(data))]


def _zero(data: bytearray, _: Sequence[bytes], dice: random.Random) -> bytearray:
    start, length = dice.randrange(len(data)), dice.choice([1, 8, 64, 512, 4096])
    data[start : start + length] = bytes(len(data[start : start + length]))
    return data


def _extreme(data: bytearray, _: Sequence[bytes], dice: random.Random) -> bytearray:
    """A field of 2, 4 or 8 bytes, where most formats have them, set to the least or the most it takes."""
    for _ in range(dice.choice([1, 1, 3])):
        code, width = dice.choice([("<H", 2), ("<I", 4), ("<Q", 8)])
        at = dice.randrange(max(1, len(data) - width)) // 2 * 2
        data[at : at + width] = struct.pack(code, dice.choice(_EXTREMES) % 2 ** (8 * width))
    return data


def _copy(data: bytearray, _: Sequence[bytes], dice: random.Random) -> bytearray:
    """A part of it in another place: an address that leads back makes a loop."""
    length = dice.choice([2, 4, 8, 8, 64, 512])
    start, to = dice.randrange(len(data)), dice.randrange(len(data))
    part = data[start : start + length]
    data[to : to + len(part)] = part
    return data


def _shift(data: bytearray, _: Sequence[bytes], dice: random.Random) -> bytearray:
    at, length = dice.randrange(len(data)), dice.randrange(1, 64)
    if dice.random() < 0.5:
        del data[at : at + length]
    else:
        data[at:at] = dice.randbytes(length)
    return data


def _splice(data: bytearray, others: Sequence[bytes], dice: random.Random) -> bytearray:
    other = dice.choice(list(others))
    at, there = dice.randrange(len(data)), dice.randrange(len(other))
    if dice.random() < 0.5:
        return data[:at] + other[there:]
    return data[:at] + other[at : at + dice.choice([8, 64, 512])] + data[at + 8 :]


MUTATIONS: tuple[Mutation, ...] = (_flip, _flip, _set, _cut, _zero, _extreme, _extreme, _copy, _shift, _splice)


def blind(data: bytes, others: Sequence[bytes], dice: random.Random) -> bytes:
    """The bytes, damaged in one way, and now and then in several."""
    made = bytearray(data)
    for _ in range(dice.choice([1, 1, 1, 1, 3])):
        made = dice.choice(MUTATIONS)(made or bytearray(b"\0"), others, dice)
    return bytes(made)
