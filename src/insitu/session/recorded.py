"""What a recording of values gives: the run as it is so far, and the say over its steps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from insitu.errors import SubjectError

if TYPE_CHECKING:
    from insitu.session.recording import Running
    from insitu.store.run.run import Run
    from insitu.store.run.series import Series


class Recorded:
    """What a recording has so far: `recorded["forward.x"]` has `.steps`, `.ranks` and `.values`."""

    def __init__(self, running: Running) -> None:
        self._running = running

    def __getitem__(self, path: str) -> Series:
        return self.run[path]

    def __contains__(self, path: object) -> bool:
        return path in self.paths

    def __len__(self) -> int:
        return len(self.paths)

    def __iter__(self) -> Iterator[str]:
        return iter(self.paths)

    @property
    def run(self) -> Run:
        """The run as it is on the disk now."""
        from insitu.store.run.run import joined_run

        running = self._running
        if running.folder is None:
            why = "INSITU=0 turned the recording off" if running.is_off else "what was given as `to` has the values"
            raise SubjectError(f"{why}: nothing is kept here")
        run_id = running.start.run if running.start is not None else None
        return joined_run(running.to or running.folder.with_suffix(""), running.folder, run_id)

    @property
    def paths(self) -> list[str]:
        """The paths that were recorded."""
        return list(self.run.paths) if self._running.folder is not None else []

    @property
    def committed_step(self) -> int | None:
        """The last step that a crash cannot take back."""
        return self._running.journal.committed_step if self._running.journal is not None else None

    def flush(self) -> None:
        """Wait until all finished steps are on the disk."""
        if self._running.journal is not None:
            with self._running.taking.lock:  # the end of the process waits meanwhile
                self._running.journal.flush()

    def step(self, number: int | None = None) -> None:
        """Say that a new step begins here; without it, each outermost call of the model is a step."""
        if self._running.is_on:
            self._running.taking.begin_step(number)

    def end_step(self) -> None:
        """Say that the step is over; what comes before the next one, an evaluation, is in none."""
        if self._running.is_on:
            self._running.taking.end_step()

    def __str__(self) -> str:
        return str(self.run) if self._running.folder is not None else repr(self)

    def __repr__(self) -> str:
        return f"<Recorded: {len(self._running.taking.seen)} paths, {self._running.taking.step + 1} steps>"
