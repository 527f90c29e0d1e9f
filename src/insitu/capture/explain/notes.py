"""Exceptions that explain themselves: a note that is made when somebody reads it.

When an exception passes, only a `Note` is added to it, which remembers where on the tape it happened. The explanation
is made from the tape when the note is turned into text: by a traceback, a log, a test report.
"""

from __future__ import annotations

import weakref
from itertools import count
from threading import get_ident
from types import CodeType, TracebackType
from typing import TYPE_CHECKING, Any

from insitu.capture.calls import FunctionCallee, OperatorCallee
from insitu.capture.contents import small_content_of
from insitu.capture.explain.scene import Scene, entries, has_come_further, is_shown, last_raised, take
from insitu.capture.tape import ARGS, FIXED, KWARGS, Tape, arguments_of
from insitu.capture.tensors import Value
from insitu.capture.torch_internals import DisableTorchFunction
from insitu.errors import InsituError
from insitu.trace.explanation import Explanation
from insitu.tracebacks import is_own

if TYPE_CHECKING:
    from insitu.capture.probe import Probe

# What programs use to get from one place to another, and what explains itself.
PASSING = (StopIteration, StopAsyncIteration, InsituError)
PLAIN = (str, int, float, bool, type(None))
UNREAD = "(insitu explains this exception when the note is printed)"

waiting: weakref.WeakValueDictionary[int, Moment] = weakref.WeakValueDictionary()
_numbers = count()


class Moment:
    """Where an exception was first seen: the tape, the call on it, the frames that it came through."""

    def __init__(self, probe: Probe | None, at: int | None, error: BaseException, scene: Scene | None) -> None:
        self.tape: Tape = probe.tape if probe is not None else []
        self.end = len(self.tape)
        self.thread = probe.thread if probe is not None else 0
        self.cleared = probe.cleared if probe is not None else (0, 0)
        self.at, self.scene = at, scene
        self.error = type(error).__name__
        args = arguments_of(error)
        is_text = bool(args) and type(args[0]) is str and not any(type(item) in PLAIN for item in args[1:])
        is_text = is_text and not isinstance(error, KeyError)  # whose argument is the key
        self.message = args[0] if is_text else ", ".join(map(_told, args))
        self.contents = {**(scene.contents if scene is not None else {}), **self._given()}
        if probe is not None:
            waiting[next(_numbers)] = self

    def _given(self) -> dict[int, Any]:
        """What each tensor held that the call was given, as far as it is small."""
        if self.at is None:
            return {}
        first = self.at + FIXED
        given = self.tape[first : first + self.tape[self.at + ARGS] + self.tape[self.at + KWARGS]]
        with DisableTorchFunction():
            return {id(item): small_content_of(item()) for item in given if isinstance(item, Value)}

    def explanation(self) -> Explanation:
        """Why it was raised."""
        from insitu.capture.explain.explanation import (
            explanation,  # only now: it needs all that a session does, and more
        )

        return explanation(self)


def _told(argument: Any) -> str:
    return repr(argument) if type(argument) in PLAIN else f"<{type(argument).__name__}>"


class Note(str):
    """A note that becomes text when it is read; as raw characters it only says so."""

    __slots__ = ("__weakref__", "_explanation", "_moment", "_text", "raised", "seen")

    raised: Raise
    seen: int  # the id of the frame that the exception had come to
    _moment: Moment | None
    _text: str | None
    _explanation: Explanation | None

    def __new__(cls, moment: Moment, raised: Raise) -> Note:
        """A note of a moment, of an exception that was raised at a place."""
        note = super().__new__(cls, UNREAD)
        note.raised, note.seen = raised, 0
        note._moment, note._text, note._explanation = moment, None, None
        return note

    @property
    def explanation(self) -> Explanation:
        """What the note says, as data."""
        if self._explanation is None and self._moment is not None:
            self._explanation = self._moment.explanation()
            self._moment = None
        assert self._explanation is not None
        return self._explanation

    def __str__(self) -> str:
        if self._text is None:
            try:
                self._text = self.explanation.note
            except Exception as error:  # the tool's own trouble: the user's exception is what counts
                self._text = f"(insitu cannot explain this: {type(error).__name__}: {error})"
        return self._text

    def __repr__(self) -> str:
        return repr(str(self))

    def __format__(self, form: str) -> str:
        return format(str(self), form)

    def __contains__(self, part: object) -> bool:
        return isinstance(part, str) and part in str(self)

    def split(self, *args: Any, **kwargs: Any) -> list[str]:
        """The text, split."""
        return str(self).split(*args, **kwargs)

    def splitlines(self, *args: Any, **kwargs: Any) -> list[str]:
        """The lines of the text."""
        return str(self).splitlines(*args, **kwargs)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return str, (str(self),)  # elsewhere there is no tape: it goes there as its text


def note_of(error: BaseException) -> Note | None:
    """The note that an exception has already."""
    notes = getattr(error, "__notes__", None)
    return next((note for note in notes if type(note) is Note), None) if isinstance(notes, list) else None


def add_note(error: BaseException, probe: Probe | None, at: int | None) -> None:
    """Let an exception that passes explain itself; the first to see it knows best, until it is raised elsewhere."""
    try:
        if isinstance(error, Exception) and not isinstance(error, PASSING):
            _note(error, error.__traceback__, probe, at)
    except Exception:  # a class of the user that does not let itself be noted
        return


def _note(error: Exception, traceback: TracebackType | None, probe: Probe | None, at: int | None) -> None:
    before = note_of(error)
    if before is None or not has_come_further(traceback, before.seen):
        last = last_raised(traceback)
        raised = _raise(traceback, last)
        if before is None:
            before = Note(moment_of(error, probe, at), raised)
            BaseException.add_note(error, before)
        elif before.raised[1] is None:
            before.raised = raised
        elif raised != before.raised and raised[0] == before.raised[0]:
            others = [note for note in error.__notes__ if note is not before]
            before = Note(moment_of(error, probe, at, last), raised)
            error.__notes__ = [*others, before]
    before.seen = id(traceback.tb_frame) if traceback is not None else 0


# A thread, and the instruction in it that raised an exception; no code while only frames of this tool know of it.
Raise = tuple[int, CodeType | None, int]


def _raise(traceback: TracebackType | None, last: TracebackType | None) -> Raise:
    found: TracebackType | None = None
    for entry in entries(traceback, last):
        found = entry if not is_own(entry) else found
    return (get_ident(), found.tb_frame.f_code, found.tb_lasti) if found is not None else (get_ident(), None, -1)


def moment_of(error: BaseException, probe: Probe | None, at: int | None, until: TracebackType | None = None) -> Moment:
    """Where an exception is now. The frames matter only where code of the user, or of a module, ran in them.

    `until` is the last frame that matters, where those behind it are of an earlier time.
    """
    called = probe.tape[at] if probe is not None and at is not None else None
    traceback = error.__traceback__
    if isinstance(called, (FunctionCallee, OperatorCallee)) and not is_shown(traceback):
        return Moment(probe, at, error, None)
    return Moment(probe, at, error, take(traceback, probe.table if probe is not None else {}, until))


def settle(probe: Probe) -> None:
    """The tape is about to be cleared: notes that still need it take what is on it along."""
    needing = [moment for moment in list(waiting.values()) if moment.tape is probe.tape]
    taken = list(probe.tape) if needing else []
    for moment in needing:
        moment.tape = taken  # one for all of them: nobody writes to it
