"""Where a run goes: to a file, to a folder of journals, to an address, or to a function."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from insitu.errors import ChoiceError
from insitu.store import PARTS
from insitu.store.address import Address, is_address
from insitu.store.journal.segment_limits import KEPT, SENT, SegmentLimits


@dataclass(frozen=True, slots=True)
class RunDestination:
    """Where a run goes. `file` names the folder of the journals, too: `run.h5.parts`.

    With `does_merge`, rank 0 makes the file at the end.
    """

    function: Callable[..., Any] | None = None
    file: Path | None = None
    address: Address | None = None
    does_merge: bool = True
    limits: SegmentLimits = KEPT

    @classmethod
    def parse(cls, to: object, *, spool: object, segment: object) -> RunDestination:
        """The destination that the options name."""
        limits = SegmentLimits.parse(segment, SENT if is_address(to) else KEPT)
        if is_address(to):
            address = Address.parse(str(to))
            return cls(file=_spool_file(spool, address), address=address, does_merge=False, limits=limits)
        if spool is not None:
            raise ChoiceError("spool is where segments wait to be sent: pass an address, as in to='s3://bucket/run'")
        if callable(to):
            return cls(function=to)
        if not isinstance(to, (str, os.PathLike)):
            return cls(limits=limits)
        # Absolute: the program may change the directory before the file is made.
        path = Path(to).absolute()
        file = path.with_name(path.name.removesuffix(PARTS))
        return cls(file=file, does_merge=file == path, limits=limits)


def _spool_file(spool: object, address: Address) -> Path:
    """The file beside which the journals of this machine wait until they are sent."""
    if spool is None:
        folder = Path.cwd()
    elif isinstance(spool, (str, os.PathLike)):
        folder = Path(spool).absolute()
    else:
        raise ChoiceError(f"spool={spool!r:.80} is not a folder: write it as in spool='/scratch'")
    if not folder.is_dir():
        raise ChoiceError(f"spool={str(folder)!r} is not a folder: make it first")
    return folder / f"{address.name}.h5"
