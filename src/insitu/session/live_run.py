"""The run that is being recorded: its series as they are so far, and control over its steps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from insitu.errors import SubjectError

if TYPE_CHECKING:
    from insitu.session.run_entry import RunEntry
    from insitu.store.run.run import Run
    from insitu.store.run.series import Series


class LiveRun:
    """A run while it is recorded, and afterwards: `live["forward.x"]` has `.steps`, `.ranks` and `.values`."""

    def __init__(self, entry: RunEntry) -> None:
        self._entry = entry

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
        writer = self._entry.writer
        if writer is not None:
            return writer.run()
        if self._entry.is_off:
            raise SubjectError("INSITU=0 turned the recording off: no values are kept")
        raise SubjectError("the function given as `to` has received the values: none are kept here")

    @property
    def paths(self) -> list[str]:
        """The paths that were recorded."""
        if self._entry.writer is None:
            return []
        return list(self.run.paths)

    @property
    def committed_step(self) -> int | None:
        """The last step that a crash cannot take back."""
        if self._entry.writer is None:
            return None
        return self._entry.writer.journal.committed_step

    def flush(self) -> None:
        """Wait until all finished steps are on the disk."""
        if self._entry.writer is not None:
            with self._entry.recorder.lock:  # SIGTERM waits meanwhile
                self._entry.writer.journal.flush()

    def step(self, number: int | None = None) -> None:
        """Begin a new step here; without this call, each outermost call of the model is a step."""
        if self._entry.is_on:
            self._entry.recorder.begin_step(number)

    def end_step(self) -> None:
        """End the step; what runs before the next one, such as an evaluation, belongs to no step."""
        if self._entry.is_on:
            self._entry.recorder.end_step()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        if self._entry.writer is None:
            return {"text/plain": repr(self)}
        return self.run._repr_mimebundle_(include, exclude)

    def __str__(self) -> str:
        if self._entry.writer is None:
            return repr(self)
        return str(self.run)

    def __repr__(self) -> str:
        recorder = self._entry.recorder
        return f"<LiveRun: {len(recorder.seen)} paths, {recorder.step + 1} steps>"
