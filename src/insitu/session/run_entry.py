"""One entry of `record_run`: what takes the values, what writes them, and how both end."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable
from types import FrameType

from insitu.capture.explain.note import add_note
from insitu.capture.values.intake import ValueSink
from insitu.capture.values.value_recorder import ValueRecorder
from insitu.errors import Troubles, tell
from insitu.session.about import about_run
from insitu.session.dist import current_rank
from insitu.session.live_run import LiveRun
from insitu.session.run_options import RunOptions, RunPlan
from insitu.session.run_writer import RunWriter
from insitu.session.session import Entry
from insitu.session.signals import Termination
from insitu.session.switch import is_off
from insitu.session.value_sinks import EmptySink, FunctionSink, JournalSink
from insitu.trace.path import Pattern

PATIENCE = 60.0  # seconds that rank 0 waits for the others to end


class RunEntry(Entry):
    """Records the values of one run in this process; the child of a fork leaves everything to its parent."""

    def __init__(self, options: RunOptions, plan: RunPlan) -> None:
        super().__init__()
        self._loop_paths = plan.loop_paths
        self._options: RunOptions | None = options  # None after the end: the model may be large
        self.is_off = is_off()
        self.is_on = not self.is_off  # until the block ends
        self.trouble = Troubles()
        self._reasons: set[str] = set()  # why values were left out, as far as the user was told
        self._pid = os.getpid()
        self.live = LiveRun(self)
        self.writer = self._open_writer(options)
        self._termination: Termination | None = None
        self.recorder = ValueRecorder(
            options.model,
            plan.targets,
            keep_of=options.keep_of,
            every=options.every,
            when=options.when,
            sink=self._sink(options),
            trouble=self.trouble,
            rule=plan.rule,
            step=options.step,
        )
        if plan.has_updates:
            self.recorder.updates.expect()
        if self.is_on:
            self._start(plan.frame)

    def _open_writer(self, options: RunOptions) -> RunWriter | None:
        if self.is_off or options.function is not None:
            return None
        about = about_run(options.model, patterns=options.only, every=options.every, when=options.when)
        if options.to is None:
            return RunWriter.open_temporary(about, self.live)
        options.check_free()
        return RunWriter.open(options.destination, about, overwrite=options.overwrite, resume=options.resume)

    def _sink(self, options: RunOptions) -> ValueSink:
        if options.function is not None and self.is_on:
            return FunctionSink(options.function, current_rank(), self.trouble, self._tell_left_out)
        if self.writer is not None:
            return JournalSink(self.writer.journal, self._tell_left_out)
        return EmptySink()

    def _start(self, frame: FrameType | None) -> None:
        try:
            self.recorder.start(frame)
            self._termination = Termination(self._end_at_once, self._defer)
            atexit.register(self._end_at_once)
        except BaseException:
            self.roll_back()
            raise

    def _defer(self, work: Callable[[], None]) -> bool:
        """Let SIGTERM wait while a step is being written; whether it must."""
        if self.is_on and self.recorder.is_busy():
            self.recorder.afterwards = work
            return True
        return False

    def _end_at_once(self) -> None:
        """End the recording because the process ends, and wait for no other rank."""
        self.end(patience=0.0)

    def pause(self, error: BaseException | None) -> None:
        """Write the last step and record nothing until `resume`: a call of the decorated function has ended."""
        if not self.is_on or not self._is_owner:
            return
        if error is not None:
            add_note(error, None, None)
        try:
            self._stop_recorder()
        finally:
            if error is not None and self.writer is not None:
                self.writer.note_error(error, self.recorder.step)

    def resume(self) -> None:
        """Record again."""
        if self.is_on and self._is_owner:
            self.recorder.start()

    def end(self, *, patience: float = PATIENCE) -> None:
        """End the recording outside of a block, and make the file; another time, do nothing."""
        if self.is_on:
            self.stop(None)
            self._finish(patience=patience)
            self.release()

    @property
    def _is_owner(self) -> bool:
        """Whether this process has begun the recording, and is not the child of a fork."""
        return os.getpid() == self._pid

    def hand_over(self) -> None:
        """Call the user's function with the last step."""
        if self._options is None or self._options.function is None:
            return
        if self.is_on and self._is_owner:
            try:
                self.recorder.end_step()
            except BaseException:
                self.recorder.drop_batch()  # the user does not want the rest
                raise

    def stop(self, error: BaseException | None) -> None:
        """Write the last step, undo everything, close the journal."""
        if error is not None and self.is_on:
            add_note(error, None, None)
        if not self.is_on or not self._is_owner:
            return
        try:
            self._stop_recorder()
        finally:
            self.is_on = False
            atexit.unregister(self._end_at_once)
            if self._termination is not None:
                self._termination.forget()
            if self.writer is not None:
                self.writer.close(error, step=self.recorder.step, is_incomplete=self.recorder.has_unwritten)

    def _stop_recorder(self) -> None:
        try:
            self.recorder.stop()
        except BaseException:
            self.recorder.stop()  # a signal interrupted it: do the rest
            raise

    def report(self, error: BaseException | None) -> None:
        """Warn about patterns that matched nothing, and make the file.

        After an exception the other ranks may be waiting for this one, and not for its recording: don't wait for them.
        """
        if not self.is_off:
            self._finish(patience=0.0 if error is not None else PATIENCE)

    def _finish(self, *, patience: float) -> None:
        if self._options is None or not self._is_owner:
            return
        self._complain(self._options)
        if self.writer is not None:
            self.writer.finish(
                patience=patience,
                compression=self._options.compression,
                overwrite=self._options.overwrite,
                trouble=self.trouble,
            )

    def report_failure(self) -> None:
        """Tell the user where the journals are."""
        if self.writer is not None and self._is_owner:
            self.writer.tell_journals()

    def release(self) -> None:
        """Let go of the model: the recorded values may be kept for longer. End the process if SIGTERM has arrived."""
        self.recorder.release()
        self._options = None
        if self._termination is not None:
            self._termination.end_if_asked()

    def roll_back(self) -> None:
        """Undo everything and remove the empty journal: Ctrl-C arrived during `__enter__`."""
        try:
            self.stop(None)
        finally:
            if self.writer is not None:
                self.writer.discard()

    def _complain(self, options: RunOptions) -> None:
        """Warn about patterns that matched nothing."""
        if self.recorder.step < 0:
            tell(f"nothing was recorded: {self._nothing_text(options)}")
            return
        paths = self.recorder.seen
        for pattern in options.only:
            if not self._is_recorded(pattern):
                tell(f"nothing was recorded at {pattern!r}{self._nearest(pattern)}")
        for pattern in options.keeps:
            if pattern != "**" and not has_match(pattern, paths):
                tell(f"keep has {pattern!r}, where nothing was recorded{Pattern.of(pattern).nearest(paths)}")

    def _nearest(self, pattern: str) -> str:
        """What the user may have meant."""
        return Pattern.of(pattern).nearest(self.recorder.seen)

    def _nothing_text(self, options: RunOptions) -> str:
        """Why no step has begun."""
        if options.model is not None and options.step == "update":
            return 'the model was not called with gradients in this block, and step="update" counts no other call'
        if options.model is not None:
            return "the model was not called in this block"
        return "none of the functions that are recorded ran in this block"

    def _is_recorded(self, pattern: str) -> bool:
        """Whether a pattern has named a value."""
        paths = self.recorder.seen
        if pattern in self._loop_paths:
            return any(has_match(path, paths) for path in self._loop_paths[pattern])
        return names_output(pattern, paths)

    def _tell_left_out(self, path: str, reason: str) -> None:
        """Tell the user, once for each reason, that values are not recorded."""
        if reason in self._reasons:
            return
        self._reasons.add(reason)
        tell(f"not all of {path!r} is recorded: {reason}{self._where_missing()}")

    def _where_missing(self) -> str:
        """Where the user finds all that is left out: in the loaded file, or without a file in the live run."""
        if self.writer is None:
            return ""
        if self.writer.to is None:
            return "; `live.run.missing` names all that is left out"
        return "; `run.missing` names all that is left out"


def has_match(pattern: str, paths: set[str]) -> bool:
    """Whether a pattern names one of the paths, or something that holds it."""
    return any(map(Pattern.of(pattern).covers, paths))


def names_output(pattern: str, paths: set[str]) -> bool:
    """Whether a pattern names one of the paths; `encoder` and `encoder.forward` name the same output."""
    return has_match(pattern, paths) or has_match(pattern.removesuffix(".forward"), paths)
