"""A trace as a file for another viewer. Each form has a file here, with a function `pieces(trace)` that makes its text.

`EXPORTS` lists the forms: `insitu.save`, the command line and its help read everything from there. A form turns plain
data into text; it opens no file and knows no tensor.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from insitu.trace.trace import Trace

PACKED = ".gz"


@dataclass(frozen=True)
class Export:
    """A form for another viewer: the suffix of its files, what they are for, and its module in this folder.

    A form that is `long` may also be written packed: `run.json.gz`.
    """

    suffix: str
    purpose: str
    module: str
    long: bool = False

    def pieces(self, trace: Trace) -> Iterable[str]:
        """The text, piece by piece; a long form makes each piece when it is asked for."""
        module: Any = import_module(f"{__name__}.{self.module}")
        pieces: Iterable[str] = module.pieces(trace)
        return pieces

    @property
    def suffixes(self) -> tuple[str, ...]:
        """The suffixes of its files."""
        if self.long:
            return (self.suffix, self.suffix + PACKED)
        return (self.suffix,)


# The first suffix that fits is taken: a longer one comes before the one it ends in.
EXPORTS = (
    Export(".graph.json", "for Model Explorer", "model_explorer", long=True),
    Export(".json", "for Perfetto", "perfetto", long=True),
    Export(".dot", "for Graphviz", "dot"),
    Export(".mmd", "for Mermaid", "mermaid"),
    Export(".csv", "a table", "csv", long=True),
)
SUFFIXES = tuple(suffix for export in EXPORTS for suffix in export.suffixes)


def export_for(name: str) -> Export | None:
    """The form of a file with this name; None if there is none.

    >>> export_for("run.json").purpose, export_for("run.graph.json.gz").purpose, export_for("run.h5")
    ('for Perfetto', 'for Model Explorer', None)
    """
    lower = name.lower()
    return next((export for export in EXPORTS if lower.endswith(export.suffixes)), None)


def export_text(trace: Trace, suffix: str) -> str:
    """The text of a file with this suffix.

    >>> export_text(Trace(), ".json")
    '{"otherData":{},"traceEvents":[]}'
    """
    (export,) = (export for export in EXPORTS if export.suffix == suffix)
    return "".join(export.pieces(trace))


def export_bytes(trace: Trace, name: str) -> Iterator[bytes]:
    """The content of a file with this name, piece by piece, packed if the name says so."""
    export = export_for(name)
    if export is None:
        raise ValueError(f"{name!r} does not end in one of {', '.join(SUFFIXES)}")
    content = (piece.encode() for piece in export.pieces(trace))
    if name.lower().endswith(PACKED):
        return _packed(content)
    return content


def _packed(content: Iterable[bytes]) -> Iterator[bytes]:
    packing = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)  # as gzip does, without the time of day
    for piece in content:
        yield packing.compress(piece)
    yield packing.flush()


def export_help() -> str:
    """The forms in one sentence, for help."""
    return ", ".join(f"{' or '.join(export.suffixes)} {export.purpose}" for export in EXPORTS)
