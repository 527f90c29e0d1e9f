"""A trace for other viewers: pure data to text, the form chosen by the suffix of the file's name."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from insitu.trace.trace import Trace
from insitu.view.export.csv import csv_pieces, to_csv
from insitu.view.export.dot import to_dot
from insitu.view.export.mermaid import to_mermaid
from insitu.view.export.model_explorer import to_model_explorer
from insitu.view.export.perfetto import perfetto_pieces, to_perfetto

__all__ = ["EXPORTS", "exporter", "pieces", "to_csv", "to_dot", "to_mermaid", "to_model_explorer", "to_perfetto"]

Exporter = Callable[[Trace], str]
# The first suffix that fits is taken, so the longer one stands before the one it ends in.
EXPORTS: dict[str, Exporter] = {
    ".graph.json": to_model_explorer,
    ".json": to_perfetto,
    ".dot": to_dot,
    ".mmd": to_mermaid,
    ".csv": to_csv,
}


def exporter(name: str) -> Exporter | None:
    """What writes a file of this name; None if no other viewer reads such files.

    >>> exporter("run.json").__name__, exporter("run.graph.json").__name__, exporter("run.h5")
    ('to_perfetto', 'to_model_explorer', None)
    """
    lower = name.lower()
    return next((make for suffix, make in EXPORTS.items() if lower.endswith(suffix)), None)


# Those whose text is many times as long as the trace, in pieces.
_PIECES: dict[Exporter, Callable[[Trace], Iterator[str]]] = {to_perfetto: perfetto_pieces, to_csv: csv_pieces}


def pieces(trace: Trace, name: str) -> Iterator[str]:
    """What is written to a file of this name, bit by bit where it is long.

    >>> "".join(pieces(Trace(), "run.json"))
    '{"otherData":{},"traceEvents":[]}'
    """
    export = exporter(name)
    if export is None:
        raise ValueError(f"no other viewer reads {name!r}")
    return _PIECES[export](trace) if export in _PIECES else iter([export(trace)])
