"""`insitu.save`: a trace, a comparison or a recorded run in a file, in the form that the suffix asks for."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from insitu import store
from insitu.errors import ChoiceError, SubjectError
from insitu.store.files import write_whole
from insitu.trace.collector import pause_collector
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
    """Write a trace, a comparison or a recorded run to a file that only its owner may read.

    The suffix chooses the form: `.h5` holds all of a trace and `.trace` is text for version control; both can be
    loaded again. `.html` is a page, also of a `Diff` or of a `Run`. Other suffixes are for other viewers, as `.json`
    for Perfetto: `insitu export --help` lists them.

    Args:
        subject: A `Trace`, a `Diff` or a `Run`.
        path: The file to write.
        overwrite: Whether to replace an existing file.
        source: Whether a page holds the lines of source code.
        only: Path patterns: a page shows only these modules.
        steps: The steps that a page shows.
        depth: How many levels of the tree a page shows.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save(Trace(), f"{folder}/step.h5")
        ...     store.load(f"{folder}/step.h5")
        <Trace: 0 events, 0 modules>
    """
    if not isinstance(path, (str, os.PathLike)):
        raise SubjectError(f"save() writes to a file, not to a {type(path).__name__}: save(trace, 'run.h5')")
    target = store.check(path, overwrite=overwrite, suffixes=SUFFIXES)
    parts = PageParts(source=source, only=only, steps=steps, depth=depth)
    if target.suffix.lower() == PAGE:
        write_whole(target, _page(subject, parts).encode(), overwrite=overwrite)
        return
    if not parts.is_all:
        raise ChoiceError(f"source, only, steps and depth are for pages such as run.html, got {target.name!r}")
    if not isinstance(subject, Trace):
        raise SubjectError(
            f"a {target.suffix} file holds a Trace, got {type(subject).__name__}; "
            f"a page such as run.html can show a Diff or a Run, too"
        )
    if export.export_for(target.name) is None:
        store.save(subject, target, overwrite=overwrite)
        return
    with pause_collector():
        write_whole(target, export.export_bytes(subject, target.name), overwrite=overwrite)


@dataclass(frozen=True)
class PageParts:
    """The part of a subject that its page shows."""

    source: bool
    only: str | list[str] | None
    steps: list[int] | None
    depth: int | None

    @property
    def is_all(self) -> bool:
        """Whether the page shows everything."""
        return self == PageParts(source=True, only=None, steps=None, depth=None)


def _page(subject: Any, parts: PageParts) -> str:
    """The page of a trace, a diff or a recorded run."""
    if parts.depth is not None and parts.depth < 1:
        raise ChoiceError(f"depth expects a number of levels from 1, got {parts.depth}")
    if isinstance(subject, Trace):
        return _trace_page(subject, parts)
    if (parts.steps, parts.depth) != (None, None):
        raise ChoiceError("steps and depth are for pages of traces")
    if isinstance(subject, Diff):
        return _diff_page(subject, parts)
    return _run_page(subject, parts)


def _trace_page(trace: Trace, parts: PageParts) -> str:
    from insitu.view.html import page

    _check_steps(parts.steps, {event.step for event in trace.events})
    return page(trace, source=parts.source, only=parts.only, steps=parts.steps, depth=parts.depth)


def _diff_page(diff: Diff, parts: PageParts) -> str:
    from insitu.view.html import page

    if parts.only is not None:
        raise ChoiceError("only is for pages of traces and runs: compare the part, then save the comparison")
    return page(diff, source=parts.source)


def _run_page(run: Any, parts: PageParts) -> str:
    """The variables of a recorded run. h5py takes a tenth of a second to import; a program with a run has done it."""
    from insitu.store.run.curves import RunVariables
    from insitu.store.run.run import Run
    from insitu.store.run.summary import condition_of
    from insitu.view.html import page
    from insitu.view.page.series_pane import pane_of_run
    from insitu.view.run_table import matching_variables

    if not isinstance(run, Run):
        raise SubjectError(f"save() writes a Trace, a Diff or a Run, not a {type(run).__name__}: save(trace, 'run.h5')")
    only = [parts.only] if isinstance(parts.only, str) else parts.only or ()
    variables = RunVariables(run)
    names = matching_variables(variables.names, variables.paths, only)
    return page(None, series=pane_of_run(variables.drawn(names), condition_of(run)), title=os.path.basename(run.path))


def _check_steps(steps: list[int] | None, known: set[int]) -> None:
    if steps is not None and not known.intersection(steps):
        there = f"{min(known)} … {max(known)}" if known else "none"
        raise ChoiceError(f"steps={steps!r}: none of these steps is in the trace, which has {there}")
