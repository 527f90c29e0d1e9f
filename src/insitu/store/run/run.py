"""A recorded run: its variables by path, from its file, or from its journals if it goes on or was killed."""

from __future__ import annotations

import os
from collections.abc import Iterator, KeysView, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import numpy as np

from insitu.errors import NotRecordedError, StoreError, tell
from insitu.store.journal.journal_reader import Shard
from insitu.store.journal.journaled_runs import run_to_merge, runs_in
from insitu.store.journal.shard_facts import (
    ShardFacts,
    attempts_of,
    last_committed_of,
    missing_of,
    missing_ranks_of,
    world_size_of,
)
from insitu.store.run.curves import RunVariables
from insitu.store.run.existing_file import is_same_run
from insitu.store.run.joined_run import JoinedRun
from insitu.store.run.run_file_reader import RunFileReader
from insitu.store.run.run_home import RunHome
from insitu.store.run.run_journals import RunJournals
from insitu.store.run.series import Series, VariableSource
from insitu.store.run.source_choice import not_in_file
from insitu.store.run.summary import condition_of
from insitu.store.stored_type import Array
from insitu.trace.path import Pattern
from insitu.trace.run import Attempt, RunEvent, RunSummary


class RunSource(Protocol):
    """A file or journals."""

    path: Path
    origin: str  # what `insitu.load` takes
    run_id: str
    running: bool
    about: dict[str, Any]
    shards: list[ShardFacts]
    excluded: list[str]
    others: list[str]
    journals: list[Shard]  # those that are read, and not the file

    @property
    def variables(self) -> Sequence[VariableSource]: ...

    @property
    def steps(self) -> tuple[Array, Array]: ...

    @property
    def events(self) -> list[RunEvent]: ...

    def close(self) -> None: ...


def _with_journals(file: RunFileReader, parts: Path) -> RunSource:
    """A file, and the journals that are beside it and not in it."""
    if not os.path.isdir(parts):
        return file
    found = runs_in(parts)
    own = found.pop(file.run_id, None)
    source: RunSource = file
    if own is not None and is_same_run(file, own) and (places := not_in_file(own.places, file.shards)):
        source = JoinedRun(file, parts, places)
    source.others = [str(other) for other in found.values()]
    return source


class Run:
    """What `insitu.load` gives for a recorded run: `run["forward.x"]` is a `Series`.

    >>> import tempfile
    >>> from insitu.store.journal.journal_writer import JournalWriter
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with JournalWriter(f"{folder}/run.h5.parts") as journal:
    ...         for step in range(3):
    ...             _ = journal.step(step, 0.0, [("forward.x", 0, "uint8", (2,), bytes([step, 7]))])
    ...     with Run.open(f"{folder}/run.h5.parts") as run:
    ...         print(run["forward.x"].values.tolist(), run["forward.x"].steps.tolist(), run.complete)
    [[0, 7], [1, 7], [2, 7]] [0, 1, 2] True
    """

    def __init__(self, source: RunSource) -> None:
        self._source = source
        self._closed = False
        self._missing = missing_of(source.shards) + source.excluded
        self._series = {recorded.name: recorded for recorded in source.variables}
        home = RunHome(source.origin, source.run_id)
        for recorded in source.variables:
            recorded.home = home
        self._names_with_dtype = [name for name in self._series if "@" in name]

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Run:
        """The run in a file, or the newest in a folder of journals, and nothing else; `insitu.load` joins the two."""
        found = Path(path)
        return cls(RunJournals.in_folder(found) if found.is_dir() else RunFileReader(found))

    @property
    def path(self) -> Path:
        """The file or folder it is read from."""
        return self._source.path

    @property
    def paths(self) -> list[str]:
        """The paths that were recorded."""
        return list(self._series)

    @cached_property
    def steps(self) -> Array:
        """The steps that were recorded on any rank."""
        return np.unique(self._source.steps[0])

    @cached_property
    def ranks(self) -> list[int]:
        """The ranks that left something."""
        return sorted(self.last_committed)

    @property
    def world_size(self) -> int:
        """How many ranks there were."""
        return world_size_of(self._source.shards)

    @property
    def id(self) -> str:
        """The id that all its journals have; empty if they were written without."""
        return self._source.run_id

    @property
    def attempts(self) -> list[Attempt]:
        """The starts of the job that it belongs to: more than one if it was restarted or resumed."""
        return attempts_of(self._source.shards)

    @property
    def others(self) -> list[str]:
        """Other runs whose journals are in the same folder, and which are not read here."""
        return self._source.others

    @property
    def complete(self) -> bool:
        """Whether all ranks recorded all they should and ended; if not, `missing` says what is not there."""
        return not self._missing

    @property
    def running(self) -> bool:
        """Whether a rank was still writing when this was opened."""
        return self._source.running

    @property
    def missing(self) -> list[str]:
        """What is not there: ranks, steps, values, each as a sentence."""
        return self._missing

    @property
    def missing_ranks(self) -> list[int]:
        """The ranks that left nothing, in one of the attempts."""
        return missing_ranks_of(self._source.shards)

    @property
    def last_committed(self) -> dict[int, int | None]:
        """The last step of each rank, in its last attempt."""
        return last_committed_of(self._source.shards)

    @property
    def dropped(self) -> int:
        """How many steps could not be written, as on a full disk."""
        return sum(facts.dropped for facts in self._source.shards)

    @property
    def about(self) -> dict[str, Any]:
        """The facts about the run, of its last attempt: versions, command, settings."""
        return self._source.about

    @property
    def events(self) -> list[RunEvent]:
        """Marks, errors, trouble with the disk, ends of ranks."""
        return self._source.events

    def keys(self) -> KeysView[str]:
        """The paths, so that `dict(run)` has the series of each."""
        return self._series.keys()

    def find(self, pattern: str) -> list[Series]:
        """The variables whose path the pattern matches."""
        return [self[path] for path in self._series if Pattern.of(pattern).match(path)]

    def summary(self, points: int = 24, *, names: Sequence[str] | None = None) -> RunSummary:
        """The run in a few lines; the range and the mean of large variables are those of a sample.

        The statistics of one tensor are one variable. Each variable has the means of up to `points` groups of steps.
        `names` chooses variables; it may name a single statistic, such as `head.weight.grad.max`.
        """
        variables = RunVariables(self)
        chosen = variables.names if names is None else names
        return replace(condition_of(self), variables=tuple(variables.summary(name, points) for name in chosen))

    def to_xarray(self, only: str | Sequence[str] | None = None) -> Any:
        """The variables as a lazy xarray Dataset with the dimensions step and rank; needs `insitu[xarray]`.

        `only` are path patterns. A variable that is not a number or a tensor of one shape is left out; the attribute
        `left_out` names it.
        """
        from insitu.store.run.labelled_data import run_to_xarray

        return run_to_xarray(self, self._matching(only))

    def to_parquet(
        self, path: str | os.PathLike[str], *, only: str | Sequence[str] | None = None, overwrite: bool = False
    ) -> int:
        """Write the statistics of each value to a Parquet file; needs `insitu[parquet]`. Returns the number of rows.

        `path` may be an address. `only` are path patterns. Tensors whose values were recorded are read and reduced.
        """
        from insitu.store.run.parquet_export import to_parquet

        return to_parquet(self, path, self._matching(only), overwrite=overwrite)

    def _matching(self, only: str | Sequence[str] | None) -> list[str]:
        """The paths that one of the patterns matches; an error if one of them matches none."""
        if only is None:
            return self.paths
        patterns = [only] if isinstance(only, str) else list(only)
        for pattern in patterns:
            if not any(map(Pattern.of(pattern).match, self._series)):
                raise NotRecordedError(f"only={pattern!r} matches nothing in {self.path.name!r}{self._near(pattern)}")
        return [path for path in self._series if any(Pattern.of(pattern).match(path) for pattern in patterns)]

    def close(self) -> None:
        """Close the files."""
        self._closed = True
        self._source.close()

    def __getitem__(self, path: str) -> Series:
        if path not in self._series:
            raise NotRecordedError(f"{path!r} was not recorded in {self.path.name!r}{self._near(path)}")
        others = [other for other in self._names_with_dtype if other.startswith(f"{path}@")]
        if others:
            tell(f"{path!r} also has values of another dtype: {', '.join(map(repr, others))}")
        return Series.whole(self._series[path])

    def _near(self, path: object) -> str:
        if found := [each for each in self._series if Pattern.of(str(path)).match(each)]:
            return f": it is a pattern, and run.find({path!r}) has the {len(found)} that it matches"
        near = Pattern.of(str(path)).nearest(self._series)
        return near or (f"; there is {', '.join(map(repr, self.paths[:5]))}" if self._series else "; it is empty")

    def __contains__(self, path: object) -> bool:
        return path in self._series

    def __iter__(self) -> Iterator[str]:
        return iter(self._series)

    def __len__(self) -> int:
        return len(self._series)

    def __enter__(self) -> Run:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        from insitu.view.notebook import SPARK_POINTS, run_forms  # only a notebook needs it

        if self._closed:
            return {"text/plain": repr(self)}
        return run_forms(self, lambda: self.summary(SPARK_POINTS), include, exclude)

    def __repr__(self) -> str:
        if self._closed:
            return f"<Run {self.path.name!r}: closed>"
        steps = f", steps {self.steps[0]}–{self.steps[-1]}" if len(self.steps) else ", no step"
        ranks = f", {len(self.ranks)} ranks" if self.world_size > 1 else ""
        attempts = f", {len(self.attempts)} attempts" if len(self.attempts) > 1 else ""
        state = "running" if self.running else "" if self.complete else "not complete"
        return f"<Run {self.path.name!r}: {len(self)} variables{steps}{ranks}{attempts}{', ' * bool(state)}{state}>"


def source_of(run: Run) -> RunSource:
    """The file or the journals that a run is read from."""
    return run._source


def _file_of(source: Path, run_id: str | None) -> RunFileReader | None:
    """The file of a run; None if there is none, or it is of another run."""
    file = RunFileReader(source) if os.path.isfile(source) else None
    if file is not None and run_id is not None and file.run_id != run_id:
        file.close()
        return None
    return file


def joined_run(source: Path, parts: Path, run_id: str | None = None) -> Run:
    """A run from its file and from journals that are not in the file; by default the one in the file.

    Where there is no file, or it holds another run than the one asked for, it is read from the journals alone.
    """
    file = _file_of(source, run_id)
    if file is None:
        try:
            return Run(RunJournals.in_folder(parts, None if run_id is None else run_to_merge(parts, [run_id], None)))
        except StoreError:
            file = _file_of(source, run_id)  # they may have been merged just now
            if file is None:
                raise
    try:
        return Run(_with_journals(file, parts))
    except BaseException:
        file.close()
        raise
