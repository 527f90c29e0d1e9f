"""A recorded run: its variables by path, from its file, or from its journals if it goes on or was killed."""

from __future__ import annotations

import os
from collections.abc import Iterator, KeysView, Sequence
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import numpy as np

from insitu.errors import NotRecordedError, tell
from insitu.store.injournal import RunJournals
from insitu.store.runfile import RunFile
from insitu.store.series import Recorded, Series
from insitu.store.shard import RunEvent
from insitu.store.summary import Summary, summary_of
from insitu.store.value import Array
from insitu.trace.path import matches, nearest


class _Source(Protocol):
    """A file or journals."""

    path: Path
    running: bool
    about: dict[str, Any]
    world_size: int
    missing: list[str]
    missing_ranks: list[int]
    last_committed: dict[int, int | None]
    started: float | None
    ended: float | None
    dropped: int

    @property
    def variables(self) -> Sequence[Recorded]: ...

    @property
    def steps(self) -> tuple[Array, Array]: ...

    @property
    def events(self) -> list[RunEvent]: ...

    def close(self) -> None: ...


class Run:
    """What `insitu.load` gives for a recorded run: `run["forward.x"]` is a `Series`.

    >>> import tempfile
    >>> from insitu.store.journal import Journal
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Journal(f"{folder}/run.h5.parts") as journal:
    ...         for step in range(3):
    ...             _ = journal.step(step, 0.0, [("forward.x", 0, "uint8", (2,), bytes([step, 7]))])
    ...     with Run.open(f"{folder}/run.h5.parts") as run:
    ...         print(run["forward.x"].values.tolist(), run["forward.x"].steps.tolist(), run.complete)
    [[0, 7], [1, 7], [2, 7]] [0, 1, 2] True
    """

    def __init__(self, source: _Source) -> None:
        self._source = source
        self._closed = False
        self._series = {recorded.name: recorded for recorded in source.variables}

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Run:
        """The run in a file, or in a folder of journals."""
        found = Path(path)
        return cls(RunJournals(found) if found.is_dir() else RunFile(found))

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
        return sorted(self._source.last_committed)

    @property
    def world_size(self) -> int:
        """How many ranks there were."""
        return self._source.world_size

    @property
    def complete(self) -> bool:
        """Whether all ranks recorded all they should and ended; if not, `missing` says what is not there."""
        return not self._source.missing

    @property
    def running(self) -> bool:
        """Whether a rank was still writing when this was opened."""
        return self._source.running

    @property
    def missing(self) -> list[str]:
        """What is not there: ranks, steps, values, each as a sentence."""
        return self._source.missing

    @property
    def missing_ranks(self) -> list[int]:
        """The ranks that left nothing."""
        return self._source.missing_ranks

    @property
    def last_committed(self) -> dict[int, int | None]:
        """The last step of each rank."""
        return self._source.last_committed

    @property
    def dropped(self) -> int:
        """How many steps could not be written, as on a full disk."""
        return self._source.dropped

    @property
    def about(self) -> dict[str, Any]:
        """The facts about the run: versions, command, settings."""
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
        return [self[path] for path in self._series if matches(pattern, path)]

    def summaries(self, points: int = 24) -> list[Summary]:
        """What can be said of each variable in a line; of large ones from a sample."""
        return [summary_of(Series.whole(recorded), points, len(self._series)) for recorded in self._series.values()]

    def close(self) -> None:
        """Close the files."""
        self._closed = True
        self._source.close()

    def __getitem__(self, path: str) -> Series:
        if path not in self._series:
            raise NotRecordedError(f"{path!r} was not recorded in {self.path.name!r}{self._near(path)}")
        others = [other for other in self._series if other.startswith(f"{path}@")]
        if others:
            tell(f"{path!r} also has values of another dtype: {', '.join(map(repr, others))}")
        return Series.whole(self._series[path])

    def _near(self, path: object) -> str:
        if found := [each for each in self._series if matches(str(path), each)]:
            return f": it is a pattern, and run.find({path!r}) has the {len(found)} that it matches"
        near = nearest(str(path), self._series)
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

    def __repr__(self) -> str:
        if self._closed:
            return f"<Run {self.path.name!r}: closed>"
        steps = f", steps {self.steps[0]}–{self.steps[-1]}" if len(self.steps) else ", no step"
        ranks = f", {len(self.ranks)} ranks" if self.world_size > 1 else ""
        state = "running" if self.running else "" if self.complete else "not complete"
        return f"<Run {self.path.name!r}: {len(self)} variables{steps}{ranks}{', ' * bool(state)}{state}>"
