"""All that can be done with what a file holds: what was loaded must stand it, to the end."""

from __future__ import annotations

import io
import warnings
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any

import numpy as np
from tests.store.example import picture

import insitu
from insitu import cli, store
from insitu.errors import InsituError, SubjectError
from insitu.store.run.run import Run
from insitu.trace.trace import Trace
from insitu.verbs.save import save
from insitu.view import VIEWS, render

_SAVED = ("again.h5", "again.trace", "page.html", "a.json", "a.graph.json", "a.dot", "a.mmd", "a.csv")
_TREES: tuple[dict[str, Any], ...] = ({"unfold": True}, {"costs": True}, {"backward": True})


class WrongError(AssertionError):
    """A value is not the one that was saved, or an error does not say what it should."""


def use(path: Path, folder: Path, truth: Any = None) -> str:
    """Load a file and do everything with it; "refused" or "loaded". Anything but an error of insitu gets through.

    With the truth given, what was loaded must be that, or known to be not all of it.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", insitu.errors.InsituWarning)
        try:
            found = store.load(path)
        except InsituError as error:
            if str(path) not in str(error):
                raise WrongError(f"the error does not name the file: {error}") from error
            return "refused"
        try:
            if isinstance(found, Trace):
                _use_trace(found, path, folder, truth)
                return "loaded"
            with found:
                return _use_run(found, path, folder, truth)
        except InsituError as error:
            if isinstance(found, Trace):
                raise WrongError(f"it was loaded, and then refused: {error}") from error
            return "refused late"


def _use_trace(trace: Trace, path: Path, folder: Path, truth: Any) -> None:
    if truth is not None:
        if picture(trace) != truth:
            raise WrongError("another trace was read")
        return  # the same as the seed, which was used already
    _ = repr(trace), [repr(event) for event in trace], trace.modules, trace.roots, trace.variables()
    for call in trace.calls:
        for facts in (*call.inputs, *call.outputs):
            _ = trace.producer(facts), trace.consumers(facts)
        _ = call.site.chain() if call.site is not None else None
    for view in VIEWS:
        render(trace, view, width=100)
    for options in _TREES:
        render(trace, "tree", **options)
    if not insitu.compare(trace, trace).same:
        raise WrongError("it is not the same as itself")
    for name in _SAVED:
        with suppress(SubjectError):  # there is nothing to export
            save(trace, folder / name, overwrite=True)
    for name in _SAVED[:2]:
        store.load(folder / name)
    _command("show", str(path), "--json")


def _use_run(run: Run, path: Path, folder: Path, truth: Any) -> str:
    _ = repr(run), run.steps, run.events, run.about, run.missing, list(map(str, run.events)), run.ranks, run.world_size
    found = {key for name in run for key in _use_series(run, name, truth)}
    if truth is not None and run.complete and len(found) != len(truth):
        raise WrongError(f"{len(found)} of {len(truth)} values were read, and none is said to be missing")
    if truth is not None and run.complete:
        return "loaded"  # the same as the seed, which was used already
    _ = run.summary(), run.missing_ranks, run.last_committed
    if not insitu.compare(run, run).same:
        raise WrongError("it is not the same as itself")
    save(run, folder / "page.html", overwrite=True)
    _command("show", str(path))
    _command("show", str(path), "--json")
    if path.is_dir():
        from insitu.store.run.merge import merge_journals

        merge_journals(path, folder / "recovered.h5", overwrite=True, keep_parts=True)
        with store.load(folder / "recovered.h5") as again:
            recovered = {key for name in again for key in _use_series(again, name, truth)}
            if recovered != found:
                raise WrongError(f"the file that was recovered differs from the journals in {recovered ^ found}")
    return "loaded"


def _use_series(run: Run, name: str, truth: Any) -> list[Any]:
    series = run[name]
    _ = repr(series), series.times, series.shapes, list(series), series.facts, series.source, series[1:3]
    if series.dtype != "json":
        _ = series.raw, series.padded() if len({len(shape) for shape in series.shapes}) == 1 else None
    columns = (series.steps.tolist(), series.ranks.tolist(), series.calls.tolist(), series.values)
    keys = [((name, *place), value) for *place, value in zip(*columns, strict=True)]
    for key, value in keys if truth is not None else ():
        _check(key, value, truth)
    return [key for key, _ in keys]


def _check(key: Any, value: Any, truth: Any) -> None:
    if key[0].startswith("forward.x"):  # which of the two types has the bare name depends on what was lost
        key = ("forward.x@uint16" if value.dtype == np.uint16 else "forward.x", *key[1:])
    true = truth.get(key, WrongError)
    if isinstance(true, np.ndarray):
        same = (value.dtype, value.shape, value.tobytes()) == (true.dtype, true.shape, true.tobytes())
    else:
        same = (type(value), value) == (type(true), true)
    if not same:
        raise WrongError(f"{key} is {value!r:.80} and was {true!r:.80}")


def _command(*words: str) -> None:
    """A command of the shell: it ends with a code, and never with a traceback."""
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()) as said:
        if cli.main(words) not in (0, 1):
            raise WrongError(f"{words[0]}: {said.getvalue()}")
