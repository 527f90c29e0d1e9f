"""`record` with paths: the values of a whole run, step by step, into a file that survives."""

from __future__ import annotations

import os
import tempfile
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from shutil import rmtree
from types import TracebackType
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from insitu import dist
from insitu.about import about_run
from insitu.capture.explain.notes import add_note
from insitu.capture.keep import stats
from insitu.capture.targets import targets
from insitu.capture.values import Keep, Taken, Taking
from insitu.entries import entry
from insitu.errors import ChoiceError, PatternError, SubjectError, choose, not_entered, tell
from insitu.interrupts import Termination, begun, ended
from insitu.start import open_journal, restarts
from insitu.store import RUN_SUFFIXES, check
from insitu.store.building import check_compression
from insitu.store.claims import Start
from insitu.store.journal import Entry, Journal
from insitu.store.parts import parts_of, remove_journal
from insitu.store.ranks import Ranks
from insitu.trace.path import compiled, matches, nearest

if TYPE_CHECKING:
    from insitu.store.run import Run
    from insitu.store.series import Series

KEEPS = ("values", "stats")
WHENS = ("train", "eval")
PATIENCE = 60.0  # seconds that rank 0 waits for the others to end

KeepOption = str | Callable[[Tensor], Any]


class Recording:
    """A `with` block that records what path patterns name in a model, at each step."""

    def __init__(
        self,
        model: Any,
        *,
        only: tuple[str, ...],
        keep: KeepOption | dict[str, KeepOption],
        every: int,
        when: str | None,
        to: Any,
        overwrite: bool,
        compression: str,
        resume: bool = False,
    ) -> None:
        if not isinstance(model, nn.Module):
            raise SubjectError(f"values are recorded of a model, not of {model!r:.80}: insitu.record(model, only=...)")
        if type(every) is not int or every < 1:
            raise ChoiceError(f"every={every!r} is no number of steps: 1 records each one, 4 each fourth")
        if when is not None:
            choose("when", when, WHENS)
        self._model, self._only, self._every, self._when = model, only or ("**",), every, when
        self._keeps = keeps_of(keep)
        self._targets = targets(model, self._only)
        self._sink = to if callable(to) else None
        if to is not None and not callable(to) and not isinstance(to, (str, os.PathLike)):
            raise ChoiceError(f"to={to!r:.80} is neither a file, as in to='run.h5', nor a function of a value")
        self._to = None if to is None or callable(to) else Path(to)
        check_compression(compression)
        if resume and overwrite:
            raise ChoiceError("resume=True goes on with a run and overwrite=True replaces it: give one of them")
        if resume and self._to is None:
            raise ChoiceError("resume=True goes on with the run in a file: say which, as in to='run.h5'")
        self._overwrite, self._compression, self._resume = overwrite, compression, resume
        self.check_free()
        self._keep_at: dict[tuple[str, str], Keep | None] = {}
        self._running: list[Running] = []

    def __getattr__(self, name: str) -> Any:
        raise not_entered(self, name, Recorded, "recorded")

    def __enter__(self) -> Recorded:
        return begun(self._entered, self._abandon).recorded

    def _entered(self) -> Running:
        running = Running(self)
        self._running.append(running)
        return running

    def _abandon(self, running: Running) -> None:
        """An interrupt came while it was entered: it never was."""
        self._running = [entry for entry in self._running if entry is not running]
        try:
            running.undo(None)
        finally:
            running.discard()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        running, was_on = self._running[-1], self._running[-1].is_on
        try:
            try:
                running.hand_on_last()
            finally:
                ended(lambda: self._left(running, error))
            if was_on:
                # With an exception the others may be waiting for this rank, and not for this recording.
                running.finish(patience=PATIENCE if error is None else 0.0)
        except BaseException:
            running.tell_parts()
            raise
        finally:
            running.release()

    def _left(self, running: Running, error: BaseException | None) -> None:
        self._running.remove(running)
        if error is not None and running.is_on:
            add_note(error, None, None)
        running.undo(error)

    def check_free(self) -> None:
        """Raise if the file cannot be made: better before a long run than after it.

        A file that is there may be that of the same run, if this is not the first attempt: the id tells, later.
        """
        if self._to is not None and not is_off() and dist.current_rank() == 0:
            may_be_there = self._overwrite or self._resume or restarts() > 0
            check(self._to, overwrite=may_be_there, suffixes=RUN_SUFFIXES)

    def keep_of(self, path: str, whole: str) -> Keep | None:
        """What is made of a tensor at a path, which may be an item of a whole; None for its values."""
        at = (path, whole)
        if at not in self._keep_at:
            fitting = (
                keep for pattern, keep in self._keeps.items() if matches(pattern, path) or matches(pattern, whole)
            )
            self._keep_at[at] = next(fitting, None)
        return self._keep_at[at]


def keeps_of(keep: KeepOption | dict[str, KeepOption]) -> dict[str, Keep | None]:
    """What is made of tensors, by path pattern."""
    options = keep if isinstance(keep, dict) else {"**": keep}
    for pattern in options:
        compiled(pattern)
    if "**" in list(options)[:-1]:
        raise ChoiceError("keep has '**' before other patterns, and the first that matches counts: put it last")
    return {pattern: _keep(option) for pattern, option in options.items()}


def _keep(option: KeepOption) -> Keep | None:
    if callable(option):
        return option
    return stats if choose("keep", option, KEEPS) == "stats" else None


class Running:
    """One entry of a recording: what it writes to, and what to undo."""

    def __init__(self, recording: Recording) -> None:
        self._recording: Any = recording  # let go in the end, with the model
        self.is_off = is_off()
        self.is_on = not self.is_off  # until it is left
        self._troubles: set[str] = set()
        self._pid = os.getpid()
        self.to = recording._to
        self.rank = dist.current_rank()
        self.folder: Path | None = None
        self.journal: Journal | None = None
        self.start: Start | None = None
        self.recorded = Recorded(self)
        self.taking = Taking(
            recording._model,
            recording._targets,
            keep_of=recording.keep_of,
            every=recording._every,
            when=recording._when,
            sink=self._hand_on,
            trouble=self.trouble,
        )
        self._termination: Termination | None = None
        if self.is_on:
            if recording._sink is None:
                self._open()
            self.taking.start()
            self._termination = Termination(self._terminate)

    def _terminate(self) -> None:
        if self.is_on:
            self.undo(None)
            self.finish(patience=0.0)
            self.release()

    def _open(self) -> None:
        of, to = self._recording, self._recording._to
        said = about_run(of._model, patterns=of._only, every=of._every, when=of._when)
        if to is None:
            folder = tempfile.mkdtemp(prefix="insitu-")
            weakref.finalize(self.recorded, rmtree, folder, ignore_errors=True)
            self.folder, self.start = parts_of(Path(folder) / "run.h5"), Start.new()
            self.journal = Journal(self.folder, self.rank, said, run=self.start.run)
            return
        of.check_free()
        self.folder = parts_of(to)
        options = {"overwrite": of._overwrite, "resume": of._resume}
        self.journal, self.start = open_journal(
            self.folder, to, said, rank=self.rank, ranks=dist.world_size(), **options
        )

    def _hand_on(self, step: int, moment: float, taken: list[Taken]) -> None:
        if self._recording._sink is not None:
            for path, _, value in taken:
                self._recording._sink(path, value, step, self.rank)
        elif self.journal is not None:
            for path, facts in self.taking.facts.items():
                self.journal.describe(path, **facts)
            self.taking.facts = {}
            self.journal.step(step, moment, self._entries(taken))

    def _entries(self, taken: list[Taken]) -> list[Entry]:
        made = []
        for path, call, value in taken:
            try:
                made.append(entry(path, call, value))
            except Exception as error:
                self.trouble(f"storing {path}", error)
        return made

    def hand_on_last(self) -> None:
        """Hand the last step on to a function of the user, whom nothing may keep from interrupting that."""
        if self._recording._sink is not None and self.is_on and os.getpid() == self._pid:
            self.taking.end_step()

    def undo(self, error: BaseException | None) -> None:
        """End the recording: hand on the last step, close the journal.

        In the child of a fork there is nothing to end: the recording is the parent's.
        """
        if not self.is_on or os.getpid() != self._pid:
            return
        self.is_on = False
        if self._termination is not None:
            self._termination.forget()
        try:
            self.taking.stop()
        finally:
            if self.journal is not None:
                if error is not None:
                    self.journal.event("raised", type(error).__name__, step=self.taking.step, time=time.time())
                self.journal.close()

    def finish(self, *, patience: float = PATIENCE) -> None:
        """After the end: say what did not match, make the file."""
        if os.getpid() != self._pid:
            return
        self._complain()
        if self.to is not None and self.rank == 0 and self.folder is not None:
            self._merge(self.to, self.folder, patience)

    def tell_parts(self) -> None:
        """The file was not made: say where that is from which it can be."""
        if self.to is not None and self.folder is not None and self.folder.is_dir() and os.getpid() == self._pid:
            tell(f"{self.to} was not made: what was recorded is in {self.folder}, `insitu recover {self.to}` makes it")

    def discard(self) -> None:
        """Remove the journal, in which nothing is."""
        if self.folder is not None and self.journal is not None:
            remove_journal(self.journal.folder)
            with suppress(OSError):  # other ranks have begun
                self.folder.rmdir()

    def release(self) -> None:
        """Let the model go: what was recorded may be kept for longer."""
        self.taking.release()
        self._recording = None

    def _merge(self, to: Path, folder: Path, patience: float) -> None:
        recording = self._recording
        assert self.start is not None
        ranks = Ranks(folder, self.start, dist.world_size())
        try:
            waiting = ranks.wait(patience)
            if waiting and patience == 0.0:  # they may still go on for long
                listed = ", ".join(map(str, waiting[:8])) + ", …" * (len(waiting) > 8)
                tell(f"{to} is not made yet: rank {listed} has not ended. `insitu recover {to}` makes it later")
                return
            missing = ranks.merge(to, compression=recording._compression, overwrite=recording._overwrite)
        except Exception as error:
            self.trouble("making the file of the run", error)
            return
        for text in missing:
            tell(f"{to}: {text}")

    def _complain(self) -> None:
        """Say which patterns named nothing that came to be."""
        if self.taking.step < 0:
            tell("the model that was to be recorded was not called in this block")
            return
        for pattern in self._recording._only:
            plain = pattern.removesuffix(".forward") or pattern  # the output of a module has two names
            if not any(matches(f"{name}.**", path) for name in (pattern, plain) for path in self.taking.seen):
                tell(f"nothing was recorded at {pattern!r}{nearest(pattern, self.taking.seen)}")
        for pattern in self._recording._keeps:
            if pattern != "**" and not any(matches(f"{pattern}.**", path) for path in self.taking.seen):
                tell(f"keep has {pattern!r}, where nothing was recorded{nearest(pattern, self.taking.seen)}")

    def trouble(self, what: str, error: Exception) -> None:
        """Recording failed somewhere: say so once, and let the run go on."""
        if what not in self._troubles:
            self._troubles.add(what)
            tell(f"insitu failed at {what} and goes on without it: {type(error).__name__}: {error}")


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
        from insitu.store.run import joined_run

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


def is_off() -> bool:
    """Whether the environment turns everything off."""
    return os.environ.get("INSITU") == "0"


def is_recording(*, keep: Any, every: int, when: str | None, to: Any) -> bool:
    """Whether what is asked of `record` are values over a run, rather than the calls of a block."""
    return keep == "values" or isinstance(keep, dict) or every != 1 or when is not None or to is not None


def patterns(only: str | Iterable[str] | None) -> tuple[str, ...]:
    """The patterns that were given."""
    given = () if only is None else (only,) if isinstance(only, str) or not isinstance(only, Iterable) else tuple(only)
    for pattern in given:
        if not isinstance(pattern, str):
            raise PatternError(f"only={pattern!r:.80} is no path pattern: write text such as 'encoder.*'")
    return given
