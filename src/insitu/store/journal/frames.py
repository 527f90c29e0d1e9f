"""The format of a journal: a file of frames, each of which is whole or ignored.

A file begins with 16 bytes, `MAGIC` and the tag of the journal: 8 random bytes that also come before every frame.
A frame is a head of 40 bytes (tag, kind, length of the index, sequence, length of the data, checksum), an index and
data. The checksum covers the head and the index; each value in the data is checked by its digest in the index.
After damage the reader finds the next frame by its tag, and accepts it only if its checksum is right and its sequence
is higher: the values of a tensor may contain the bytes of another journal, or of this one.

The index of a step is its number, its time, the number of its entries and the length of its text; then the entries,
40 bytes each; then the text: the variables that are new in this step, as JSON. All other indexes are JSON. The data of
the frame END are `last_bytes`, so that the end of a file shows whether its journal has ended.

A step may have several frames, and the kind of a frame has flags for that. `MORE`: the step began in an earlier frame.
`OPEN`: more of the step is expected, so a journal that ends here lacks it. `AGAIN`: some entries replace entries of
earlier frames of the step, which have the same variable and call.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from struct import Struct
from typing import Protocol

import numpy as np
from xxhash import xxh3_64_intdigest

from insitu.operating_system import read_at
from insitu.store.format_version import JOURNAL_VERSION

MAGIC = b"\x93isj%02d\r\n" % JOURNAL_VERSION
ABOUT, STEP, EVENT, END = 1, 2, 3, 4
KIND, MORE, OPEN, AGAIN = 0xFF, 0x100, 0x200, 0x400  # the bits of a kind that name it, and its flags
STORED, SAME = 0, 1  # the kinds of an entry: its bytes are in the data, or they are equal to those stored last

HEAD = Struct("<8sIIQQ")
CHECK = Struct("<Q")
ENTRY = np.dtype(
    [("variable", "<u4"), ("layout", "<u4"), ("call", "<u4"), ("kind", "<u4"), ("length", "<u8"), ("digest", "V16")]
)
ENTRY_FORMAT = "IIIIQ16s"
STEP_HEAD = Struct("<qdII")

_HEAD_SIZE = HEAD.size + CHECK.size
_BLOCK = 2**20
_ANY_MAGIC = re.compile(rb"\x93isj(\d\d)\r\n")


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame whose head and index are whole; its data begin at byte `start` of the file."""

    kind: int
    sequence: int
    index: bytes
    start: int
    length: int


def position_of(frame: Frame) -> int:
    """The byte of the file at which a frame begins."""
    return frame.start - len(frame.index) - _HEAD_SIZE


def last_bytes(tag: bytes) -> bytes:
    """The last bytes of a journal that has ended; not the tag itself, because a frame begins there."""
    return tag[::-1] + b"isjended"


def magic_version(magic: bytes) -> int | None:
    """The version that the first bytes of a file declare; None if they are not those of a journal."""
    match = _ANY_MAGIC.fullmatch(magic)
    if match:
        return int(match[1])
    return None


def head(tag: bytes, kind: int, sequence: int, index: bytes, length: int) -> bytes:
    """The part of a frame before its data: the head and the index."""
    fields = HEAD.pack(tag, kind, len(index), sequence, length)
    return b"".join((fields, CHECK.pack(xxh3_64_intdigest(fields + index)), index))


class FrameSource(Protocol):
    """The bytes of a file."""

    @property
    def size(self) -> int:
        """The number of bytes."""
        ...

    def read(self, start: int, length: int) -> bytes:
        """Some of the bytes; fewer if the file ends before."""
        ...


class OpenFile:
    """The bytes of an open file."""

    def __init__(self, file: int) -> None:
        self.file = file
        self.size = os.fstat(file).st_size

    def read(self, start: int, length: int) -> bytes:
        """Some of the bytes; fewer if the file ends before."""
        return read_at(self.file, length, start)


@dataclass(slots=True)
class FrameScan:
    """Reads a file of a journal in any state.

    When `frames` has ended, `gaps` are the ranges of bytes that belong to no frame.
    """

    source: FrameSource
    tag: bytes
    sequence: int = -1
    gaps: list[tuple[int, int]] = field(default_factory=list)

    def frames(self, start: int | None = None) -> Iterator[Frame]:
        """All frames that are whole, or those from a byte on."""
        size = self.source.size
        position = data = len(MAGIC) + len(self.tag) if start is None else start
        while position < size:
            frame = self._frame(position, size)
            if frame is None:
                # Bytes of the previous frame's data may be lost: search from where these data began.
                found = self._next(data, size)
                end = size if found is None else found
                self.gaps.append((min(position, end), end))
                position = end
                continue
            yield frame
            self.sequence = frame.sequence
            data, position = frame.start, frame.start + frame.length

    def magic(self) -> bytes:
        """The first bytes of the file."""
        return self.source.read(0, len(MAGIC))

    def first(self) -> Frame | None:
        """The first frame, if it is whole."""
        return self._frame(len(MAGIC) + len(self.tag), self.source.size)

    def _frame(self, position: int, size: int) -> Frame | None:
        fields = self.source.read(position, _HEAD_SIZE)
        if len(fields) < _HEAD_SIZE or not fields.startswith(self.tag):
            return None
        _, kind, index_length, sequence, length = HEAD.unpack_from(fields)
        start = position + _HEAD_SIZE + index_length
        if start + length > size or sequence <= self.sequence:
            return None
        index = self.source.read(position + _HEAD_SIZE, index_length)
        if xxh3_64_intdigest(fields[: HEAD.size] + index) != CHECK.unpack_from(fields, HEAD.size)[0]:
            return None
        return Frame(kind, sequence, index, start, length)

    def _next(self, position: int, size: int) -> int | None:
        """The position of the next whole frame."""
        while position < size:
            block = self.source.read(position, _BLOCK)
            found = block.find(self.tag)
            while found >= 0:
                if self._frame(position + found, size) is not None:
                    return position + found
                found = block.find(self.tag, found + 1)
            if len(block) < _BLOCK:
                return None
            position += len(block) - len(self.tag) + 1
        return None
