"""How many steps were written for good, told from process to process by eight bytes that both have in memory."""

from __future__ import annotations

import mmap
from pathlib import Path
from struct import Struct

NUMBER = Struct("<q")


class Progress:
    """The side of the one who writes."""

    def __init__(self, path: Path) -> None:
        path.write_bytes(NUMBER.pack(0))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), NUMBER.size)

    def tell(self, steps: int) -> None:
        """So many steps are written."""
        NUMBER.pack_into(self._memory, 0, steps)

    def close(self) -> None:
        """The training is over."""
        self._memory.close()


def committed(path: Path) -> int:
    """The side of the one who reads."""
    return int(NUMBER.unpack(path.read_bytes())[0])
