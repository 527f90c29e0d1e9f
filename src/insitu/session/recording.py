"""`record` with paths: the values of a whole run, step by step, into a file that survives."""

from __future__ import annotations

import atexit
import os
import tempfile
import time
import weakref
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from shutil import rmtree
from types import TracebackType
from typing import Any

from torch import Tensor, nn

from insitu.capture.explain.note import add_note
from insitu.capture.keep import stats
from insitu.capture.values.intake import Keep, ValueSink
from insitu.capture.values.targets import targets
from insitu.capture.values.value_recorder import ValueRecorder
from insitu.errors import ChoiceError, PatternError, StoreError, SubjectError, choose, not_entered, tell
from insitu.session import dist
from insitu.session.about import about_run
from insitu.session.entries import ToFunction, ToJournal, ToNothing
from insitu.session.recorded import Recorded
from insitu.session.signals import Dropped, Exit, Termination, begun, ended, undone_with
from insitu.store import RUN_SUFFIXES, check
from insitu.store.journal.claims import Start
from insitu.store.journal.journal_writer import JournalWriter
from insitu.store.journal.parts import parts_of, remove_journal
from insitu.store.run.file_builder import check_compression
from insitu.store.run.job_end import Ranks
from insitu.store.run.run_start import open_journal, restarts
from insitu.trace.path import compiled, matches, nearest
from insitu.view.progress import working

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
        running.dropped = undone_with(self, partial(self._cut_short, running))
        return running

    def _abandon(self, running: Running) -> None:
        """Roll back: an interrupt came while the block was entered."""
        try:
            running.undo(None)
        finally:
            self._forget(running)
            running.discard()

    def _cut_short(self, running: Running) -> None:
        """End the recording: an interrupt has kept `__exit__` from running. The file is left to `insitu recover`."""
        ended(lambda: self._left(running, None))
        running.tell_parts()
        running.release()

    def _forget(self, running: Running) -> None:
        running.dropped = None
        self._running = [entry for entry in self._running if entry is not running]

    def _leave(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
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

    __exit__ = Exit(_leave)

    def _left(self, running: Running, error: BaseException | None) -> None:
        if error is not None and running.is_on:
            add_note(error, None, None)
        running.undo(error)
        self._forget(running)

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
        self._reasons: set[str] = set()  # why values were left out, as far as the user was told
        self._pid = os.getpid()
        self.to = recording._to
        self.rank = dist.current_rank()
        self.folder: Path | None = None
        self.journal: JournalWriter | None = None
        self.start: Start | None = None
        self.recorded = Recorded(self)
        self._termination: Termination | None = None
        self.dropped: Dropped = None
        if self.is_on and recording._sink is None:
            self._open()
        self.taking = ValueRecorder(
            recording._model,
            recording._targets,
            keep_of=recording.keep_of,
            every=recording._every,
            when=recording._when,
            sink=self._sink(recording._sink),
            trouble=self.trouble,
        )
        if self.is_on:
            try:
                self.taking.start()
                self._termination = Termination(self._end_at_once, self._defer)
                atexit.register(self._end_at_once)
            except BaseException:
                self.undo(None)
                self.discard()
                raise

    def _sink(self, function: Callable[..., Any] | None) -> ValueSink:
        if self.is_off:
            return ToNothing()
        if function is not None:
            return ToFunction(function, self.rank, self.trouble, self._tell_left_out)
        assert self.journal is not None
        return ToJournal(self.journal, self._tell_left_out)

    def _defer(self, work: Callable[[], None]) -> bool:
        """Let the end of the process wait while a step is being written; whether it must."""
        if self.is_on and self.taking.is_busy():
            self.taking.afterwards = work
            return True
        return False

    def _end_at_once(self) -> None:
        """The process ends: end the recording, and wait for nobody."""
        if self.is_on:
            self.undo(None)
            self.finish(patience=0.0)
            self.release()

    def _open(self) -> None:
        of, to = self._recording, self._recording._to
        said = about_run(of._model, patterns=of._only, every=of._every, when=of._when)
        if to is None:
            folder = tempfile.mkdtemp(prefix="insitu-")
            weakref.finalize(self.recorded, _remove_folder, folder, os.getpid())
            self.folder, self.start = parts_of(Path(folder) / "run.h5"), Start.new()
            self.journal = JournalWriter(self.folder, self.rank, said, run=self.start.run)
            return
        of.check_free()
        self.folder = parts_of(to)
        options = {"overwrite": of._overwrite, "resume": of._resume}
        self.journal, self.start = open_journal(
            self.folder, to, said, rank=self.rank, ranks=dist.world_size(), **options
        )

    def hand_on_last(self) -> None:
        """Hand the last step on to a function of the user, whom nothing may keep from interrupting that."""
        if self._recording._sink is not None and self.is_on and os.getpid() == self._pid:
            try:
                self.taking.end_step()
            except BaseException:
                self.taking.drop_batch()  # the user does not want the rest
                raise

    def undo(self, error: BaseException | None) -> None:
        """End the recording: hand on the last step, close the journal.

        In the child of a fork there is nothing to end: the recording is the parent's.
        """
        if not self.is_on or os.getpid() != self._pid:
            return
        try:
            self._stop_taking()
        finally:
            self.is_on = False
            atexit.unregister(self._end_at_once)
            if self._termination is not None:
                self._termination.forget()
            self._close(error)

    def _stop_taking(self) -> None:
        try:
            self.taking.stop()
        except BaseException:
            self.taking.stop()  # an interrupt came: now what it has left
            raise

    def _close(self, error: BaseException | None) -> None:
        if self.journal is None:
            return
        self.journal.dropped += self.taking.has_unwritten
        if error is not None:
            with suppress(StoreError):
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
        if self._termination is not None:
            self._termination.end_if_asked()

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
            with working(f"merging {to.name}"):
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

    def _tell_left_out(self, path: str, reason: str) -> None:
        """Say that values are not recorded, once for each reason."""
        if reason not in self._reasons:
            self._reasons.add(reason)
            where = "" if self.journal is None else "; `run.missing` names all that is left out"
            tell(f"not all of {path!r} is recorded: {reason}{where}")

    def trouble(self, what: str, error: Exception) -> None:
        """Recording failed somewhere: say so once, and let the run go on."""
        if what not in self._troubles:
            self._troubles.add(what)
            tell(f"insitu failed at {what} and goes on without it: {type(error).__name__}: {error}")


def _remove_folder(folder: str, process: int) -> None:
    """Remove a temporary folder, but not in the child of a fork: the folder belongs to its parent."""
    if os.getpid() == process:
        rmtree(folder, ignore_errors=True)


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
