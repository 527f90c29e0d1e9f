"""The note of an exception: text that is made when somebody reads it.

When an exception passes, it gets a `LazyNote`, which remembers where on the tape it happened. The explanation is made
from the tape when the note is turned into text: by a traceback, a log, a test report.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from itertools import count
from types import TracebackType
from typing import TYPE_CHECKING, Any

from insitu.capture.calls import FunctionCallee, OperatorCallee
from insitu.capture.contents import small_content_of
from insitu.capture.explain.raising import RaisePoint, has_only_propagated, is_shown, last_raised, raise_point
from insitu.capture.explain.scene import Scene, take_scene
from insitu.capture.tape import Tape, arguments_of
from insitu.capture.tensors import Value
from insitu.capture.torch_internals import DisableTorchFunction
from insitu.errors import InsituError
from insitu.ipython import running_shell
from insitu.trace.explain.explanation import Explanation

if TYPE_CHECKING:
    from insitu.capture.probe import Probe

# Exceptions that programs use as control flow, and those that explain themselves.
WITHOUT_NOTE = (StopIteration, StopAsyncIteration, InsituError)
PLAIN = (str, int, float, bool, type(None))
UNREAD = "(insitu explains this exception when the note is printed)"

waiting: weakref.WeakValueDictionary[int, Moment] = weakref.WeakValueDictionary()
_numbers = count()


class Moment:
    """Where an exception was first seen: the tape, the call on it, the scene."""

    def __init__(self, probe: Probe | None, at: int | None, error: BaseException, scene: Scene) -> None:
        self.tape = probe.tape if probe is not None else Tape()
        self.end = len(self.tape)
        self.cleared = probe.cleared if probe is not None else (0, 0)
        self.at, self.scene = at, scene
        self.error, self.message = type(error).__name__, _message(error)
        self.contents = {**scene.contents, **self._argument_contents()}
        if probe is not None:
            waiting[next(_numbers)] = self

    def _argument_contents(self) -> dict[int, Any]:
        """The digests of the small tensors that went into the call, by the ids of their values."""
        if self.at is None:
            return {}
        arguments = self.tape.inputs(self.at)
        with DisableTorchFunction():
            return {id(item): small_content_of(item()) for item in arguments if isinstance(item, Value)}

    def explanation(self) -> Explanation:
        """Why the exception was raised."""
        from insitu.capture.explain.build_failure import explanation  # only when asked: it needs the decoder

        return explanation(self)


def _message(error: BaseException) -> str:
    """The message of an exception: its first argument, if that is a text; else all arguments that are plain."""
    args = arguments_of(error)
    has_text = bool(args) and type(args[0]) is str and not isinstance(error, KeyError)  # whose argument is the key
    if has_text and not any(type(item) in PLAIN for item in args[1:]):
        return str(args[0])
    return ", ".join(map(_plain_text, args))


def _plain_text(argument: Any) -> str:
    if type(argument) in PLAIN:
        return repr(argument)
    return f"<{type(argument).__name__}>"


class LazyNote(str):
    """A note that becomes text when it is read; its raw characters only say so."""

    __slots__ = ("__weakref__", "_explanation", "_moment", "_text", "last_frame", "raised")

    raised: RaisePoint
    last_frame: int  # the id of the frame that the exception had come to
    _moment: Moment | None
    _text: str | None
    _explanation: Explanation | None

    def __new__(cls, moment: Moment, raised: RaisePoint) -> LazyNote:
        """The note of an exception that was raised at a point, and first seen at a moment."""
        note = super().__new__(cls, UNREAD)
        note.raised, note.last_frame = raised, 0
        note._moment, note._text, note._explanation = moment, None, None
        return note

    @property
    def explanation(self) -> Explanation:
        """The content of the note as data."""
        if self._explanation is None and self._moment is not None:
            self._explanation = self._moment.explanation()
            self._moment = None
        assert self._explanation is not None
        return self._explanation

    def __str__(self) -> str:
        if self._text is None:
            try:
                self._text = self.explanation.note
            except Exception as error:  # trouble of the tool must not hide the user's exception
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
        return str, (str(self),)  # another process has no tape: it gets the text


class NotesInIPython(list[str]):
    """The notes of an exception in IPython, whose tracebacks have the raw characters of each: these are texts here."""

    def __iter__(self) -> Iterator[str]:
        return map(str, super().__iter__())

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return list, (list(self),)


def unread_notes(error: BaseException) -> list[str]:
    """The notes that an exception has, without reading them; none if they are not a list."""
    notes = getattr(error, "__notes__", None)
    if not isinstance(notes, list):
        return []
    return list(list.__iter__(notes))


def note_of(error: BaseException) -> LazyNote | None:
    """The note that an exception has already."""
    return next((note for note in unread_notes(error) if type(note) is LazyNote), None)


def add_note(error: BaseException, probe: Probe | None, at: int | None) -> None:
    """Attach a note to an exception that passes. The first probe to see it knows most, until it is raised again."""
    if not isinstance(error, Exception) or isinstance(error, WITHOUT_NOTE):
        return
    try:
        note = note_of(error)
        if note is None or not has_only_propagated(error.__traceback__, note.last_frame):
            note = _current_note(error, note, probe, at)
        note.last_frame = id(error.__traceback__.tb_frame) if error.__traceback__ is not None else 0
    except Exception:  # an exception class of the user that does not accept notes
        return


def _current_note(error: Exception, note: LazyNote | None, probe: Probe | None, at: int | None) -> LazyNote:
    """The note for the last raise of an exception: a new one, if the exception was raised again elsewhere."""
    traceback = error.__traceback__
    last = last_raised(traceback)
    raised = raise_point(traceback, last)
    if note is None:
        note = LazyNote(moment_of(error, probe, at), raised)
        BaseException.add_note(error, note)
        if running_shell() is not None:
            error.__notes__ = NotesInIPython(unread_notes(error))
    elif note.raised.code is None:
        note.raised = raised
    elif raised != note.raised and raised.thread == note.raised.thread:
        others = [each for each in unread_notes(error) if each is not note]
        note = LazyNote(moment_of(error, probe, at, last), raised)
        error.__notes__ = type(error.__notes__)([*others, note])
    return note


def moment_of(error: BaseException, probe: Probe | None, at: int | None, until: TracebackType | None = None) -> Moment:
    """Where an exception is now. The frames matter only if code of the user, or of a module, ran in them.

    `until` is the last entry of the traceback that matters, if an earlier raise left those behind it.
    """
    callee = probe.tape[at] if probe is not None and at is not None else None
    traceback = error.__traceback__
    if isinstance(callee, (FunctionCallee, OperatorCallee)) and not is_shown(traceback):
        return Moment(probe, at, error, Scene())
    return Moment(probe, at, error, take_scene(traceback, probe.table if probe is not None else {}, until))


def save_waiting_tapes(probe: Probe) -> None:
    """Copy the tape for the notes that still need it: it is about to be cleared."""
    needing = [moment for moment in list(waiting.values()) if moment.tape is probe.tape]
    if needing:
        copy = probe.tape.part()  # one copy for all of them
        for moment in needing:
            moment.tape = copy
