"""`insitu.save`: a trace, a comparison or a recorded run in a file, in the form that the suffix asks for."""

from __future__ import annotations

import os
from typing import Any

from insitu import store
from insitu.errors import ChoiceError, SubjectError
from insitu.store.files import write_whole
from insitu.trace.collector import collector_paused
from insitu.trace.diff import Diff
from insitu.trace.trace import Trace
from insitu.view import export

PAGE = ".html"
SUFFIXES = (*store.SUFFIXES, PAGE, *export.SUFFIXES)


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
    """Write a trace to a file that only its owner may read; an existing file is kept unless `overwrite`.

    `run.h5` holds all of it and `run.trace` is text for version control: both can be loaded again. `run.html` is a
    page, also of a `Diff` or of a recorded run. Other suffixes are for other viewers, as `run.json` for Perfetto:
    `insitu export --help` lists them. A page without source code has `source=False`; one that is too large can show a
    part: `only` paths, some `steps`, a `depth` of the tree.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(Trace(), f"{folder}/run.h5")
    ...     store.load(f"{folder}/run.h5")
    <Trace: 0 events, 0 modules>
    """
    if not isinstance(path, (str, os.PathLike)):
        raise SubjectError(f"save() writes to a file, not to a {type(path).__name__}: save(trace, 'run.h5')")
    target = store.check(path, overwrite=overwrite, suffixes=SUFFIXES)
    if target.suffix.lower() == PAGE:
        page = _page(subject, source=source, only=only, steps=steps, depth=depth)
        write_whole(target, page.encode(), overwrite=overwrite)
        return
    if (source, only, steps, depth) != (True, None, None, None):
        raise ChoiceError(f"source, only, steps and depth are for pages such as run.html, got {target.name!r}")
    if not isinstance(subject, Trace):
        raise SubjectError(
            f"a {target.suffix} file holds a Trace, not a {type(subject).__name__}; a page can show it: run.html"
        )
    if export.export_for(target.name) is None:
        store.save(subject, target, overwrite=overwrite)
        return
    with collector_paused():
        write_whole(target, export.export_bytes(subject, target.name), overwrite=overwrite)


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
    from insitu.view.run_table import matching_paths

    if not isinstance(subject, Run):
        raise SubjectError(
            f"save() writes a Trace, a Diff or a Run, not a {type(subject).__name__}: save(trace, 'run.h5')"
        )
    only = options["only"] or ()
    names = matching_paths(subject.paths, [only] if isinstance(only, str) else only)
    drawn = [(name, curves(subject[name].latest())) for name in names]
    return page(None, curves=drawn, title=os.path.basename(subject.path))


def _check_steps(steps: list[int] | None, known: set[int]) -> None:
    if steps is not None and not known.intersection(steps):
        there = f"{min(known)} … {max(known)}" if known else "none"
        raise ChoiceError(f"steps={steps!r}: none of them is in the trace, which has {there}")
