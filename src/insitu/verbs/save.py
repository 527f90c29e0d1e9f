"""`insitu.save`: a trace, a comparison or a recorded run in a file, in the form that the suffix asks for."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from typing import Any

from insitu import store
from insitu.errors import ChoiceError, SubjectError
from insitu.store.files import write_whole
from insitu.trace.collector import collector_paused
from insitu.trace.diff import Diff
from insitu.trace.trace import Trace

PAGE = ".html"
PACKED = ".gz"
EXPORTED = (PAGE, ".json", ".dot", ".mmd", ".csv", ".json.gz", ".csv.gz")
SUFFIXES = (*store.SUFFIXES, *EXPORTED)


def save(
    subject: Any,
    path: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    source: bool = True,
    only: str | list[str] | None = None,
    steps: list[int] | None = None,
    depth: int | None = None,
) -> None:
    """Write a trace to a file, which only its owner may read; one that is there already is kept unless `overwrite`.

    `run.h5` holds all of it and `run.trace` is text for version control: both can be loaded again. For looking at:
    `run.html` is a page, of a `Diff` or of a recorded run as well; `run.json` opens in Perfetto, and so does the much
    smaller `run.json.gz`, `run.graph.json` in Model Explorer, `run.dot` in Graphviz, `run.mmd` in Mermaid, `run.csv` in
    a spreadsheet. A page without source code
    has `source=False`; one that is too large shows a part: `only` paths, some `steps`, a `depth` of the tree.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(Trace(), f"{folder}/run.h5")
    ...     store.load(f"{folder}/run.h5")
    <Trace: 0 events, 0 modules>
    """
    if not isinstance(path, (str, os.PathLike)):
        raise SubjectError(f"save() writes to a file, not to a {type(path).__name__}: save(trace, 'run.h5')")
    target = store.check(path, overwrite=overwrite, suffixes=SUFFIXES)
    is_page, is_export = target.suffix.lower() == PAGE, target.name.lower().endswith(EXPORTED)
    if is_page:
        write_whole(
            target, _page(subject, source=source, only=only, steps=steps, depth=depth).encode(), overwrite=overwrite
        )
        return
    if not source or only is not None or steps is not None or depth is not None:
        raise ChoiceError(f"source, only, steps and depth are for pages, and {target.name!r} is none: run.html")
    if not isinstance(subject, Trace):
        raise SubjectError(
            f"a {target.suffix} file holds a Trace, not a {type(subject).__name__}; a page does: run.html"
        )
    if is_export:
        with collector_paused():
            write_whole(target, _export(subject, target.name), overwrite=overwrite)
    else:
        store.save(subject, target, overwrite=overwrite)


def _export(trace: Trace, name: str) -> Iterator[bytes]:
    """The content of a file for another viewer, bit by bit."""
    from insitu.view.export import pieces

    if not name.lower().endswith(PACKED):
        yield from (piece.encode() for piece in pieces(trace, name))
        return
    packing = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)  # as gzip does, without the time of day
    for piece in pieces(trace, name[: -len(PACKED)]):
        yield packing.compress(piece.encode())
    yield packing.flush()


def _page(subject: Any, **options: Any) -> str:
    from insitu.view.html import page

    if options["depth"] is not None and options["depth"] < 1:
        raise ChoiceError(f"depth={options['depth']} shows nothing: give at least 1")
    if isinstance(subject, Trace):
        _check_steps(options["steps"], {event.step for event in subject.events})
        return page(subject, **options)
    if options["steps"] is not None or options["depth"] is not None:
        raise ChoiceError("steps and depth are for pages of traces")
    if isinstance(subject, Diff):
        if options["only"] is not None:
            raise ChoiceError("only is for pages of traces and runs: compare the part, then save the comparison")
        return page(subject, source=options["source"])
    # h5py takes a tenth of a second to import, and who has a run has it already.
    from insitu.store.run.curves import curves
    from insitu.store.run.run import Run
    from insitu.view.run import chosen

    if not isinstance(subject, Run):
        raise SubjectError(
            f"save() writes a Trace, a Diff or a Run, not a {type(subject).__name__}: save(trace, 'run.h5')"
        )
    only = options["only"] or ()
    names = chosen(subject.paths, [only] if isinstance(only, str) else only)
    drawn = [(name, curves(subject[name].latest())) for name in names]
    return page(None, curves=drawn, title=os.path.basename(subject.path))


def _check_steps(steps: list[int] | None, known: set[int]) -> None:
    if steps is not None and not known.intersection(steps):
        there = f"{min(known)} … {max(known)}" if known else "none"
        raise ChoiceError(f"steps={steps!r}: none of them is in the trace, which has {there}")
