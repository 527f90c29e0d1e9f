"""The heads of a segment: a small file that is sent with it, so that a reader at an address need not scan the segment.

It begins with `MAGIC`, the tag of the journal and the size of the segment. Then it has the position of each frame with
its head and index, as they are in the segment; at the end a checksum. A segment with damage has no heads: its reader
must look at the segment itself. The end of a killed process may be torn.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from struct import error as StructError

from xxhash import xxh3_64_intdigest

from insitu.errors import StoreError
from insitu.store.journal import frames
from insitu.store.journal.frames import Frame, FrameScan, FrameSource

MAGIC = b"\x93ish01\r\n"
JOURNAL, HEADS = ".journal", ".heads"
_BEGIN = Struct("<8s8sQ")
_POSITION = Struct("<Q")
_SUM = Struct("<Q")
_HEAD_SIZE = frames.HEAD.size + frames.CHECK.size


def heads_name(journal: str) -> str:
    """The name of the heads of a segment.

    >>> heads_name("00003-0123456789abcdef.journal")
    '00003-0123456789abcdef.heads'
    """
    return journal.removesuffix(JOURNAL) + HEADS


def heads_of(source: FrameSource, tag: bytes) -> bytes:
    """The heads of a finished segment; nothing if a part of it before its end belongs to no frame."""
    scan = FrameScan(source, tag)
    pieces = [_BEGIN.pack(MAGIC, tag, source.size)]
    for frame in scan.frames():
        position = frames.position_of(frame)
        pieces.append(_POSITION.pack(position) + source.read(position, frame.start - position))
    is_damaged = any(end < source.size for _, end in scan.gaps)
    if is_damaged:
        return b""
    content = b"".join(pieces)
    return content + _SUM.pack(xxh3_64_intdigest(content))


class HeadScan:
    """The frames of a segment, from its heads; it has the interface of `FrameScan`."""

    def __init__(self, heads: bytes, source: FrameSource, tag: bytes, sequence: int = -1) -> None:
        self._heads = heads
        self.source, self.tag, self.sequence = source, tag, sequence
        self.gaps: list[tuple[int, int]] = []

    @staticmethod
    def fits(heads: bytes, tag: bytes, size: int) -> bool:
        """Whether these are the whole heads of a segment with this tag and size."""
        if len(heads) < _BEGIN.size + _SUM.size:
            return False
        is_whole = xxh3_64_intdigest(heads[: -_SUM.size]) == _SUM.unpack(heads[-_SUM.size :])[0]
        return is_whole and _BEGIN.unpack_from(heads) == (MAGIC, tag, size)

    def magic(self) -> bytes:
        """The first bytes of the segment, which was read when its heads were made."""
        return frames.MAGIC

    def frames(self) -> Iterator[Frame]:
        """All frames; an error if the heads are forged."""
        try:
            yield from self._frames()
        except StructError as error:
            raise StoreError(f"the heads of the journal {self.tag.hex()} are damaged: {error}") from None

    def _frames(self) -> Iterator[Frame]:
        at, end = _BEGIN.size, len(self._heads) - _SUM.size
        while at < end:
            (position,) = _POSITION.unpack_from(self._heads, at)
            at += _POSITION.size
            _, kind, index_length, sequence, length = frames.HEAD.unpack_from(self._heads, at)
            index = self._heads[at + _HEAD_SIZE : at + _HEAD_SIZE + index_length]
            at += _HEAD_SIZE + index_length
            yield Frame(kind, sequence, index, position + _HEAD_SIZE + index_length, length)
            self.sequence = sequence
