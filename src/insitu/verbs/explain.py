"""`insitu.explain`: why the last exception was raised."""

from __future__ import annotations

import sys

from insitu.errors import SubjectError
from insitu.trace.explain.explanation import Explanation


def explain(error: BaseException | None = None) -> Explanation:
    """Explain why an exception was raised.

    An exception that passed through a session of insitu is explained from its trace; any other from its frames. The
    note of the exception has the same text, as `str(note)`: code that reads the raw characters of notes, such as
    `"\\n".join(error.__notes__)` or `json.dumps`, finds only a placeholder.

    Args:
        error: The exception; by default the one that is being handled, else the last one that was shown.

    Examples:
        >>> import torch, insitu
        >>> try:
        ...     torch.ones(2, 3) @ torch.ones(4, 5)
        ... except RuntimeError as error:
        ...     found = insitu.explain(error)
        >>> found.error
        'RuntimeError'
    """
    from insitu.capture.explain.note import moment_of, note_of

    subject = error if error is not None else _last_exception()
    if not isinstance(subject, BaseException):
        raise SubjectError(_refusal(subject))
    note = note_of(subject)
    if note is not None:
        return note.explanation
    return moment_of(subject, None, None).explanation()


def _refusal(subject: object) -> str:
    what = f"{type(subject).__name__} is not an exception"
    if subject is None:
        what = "no exception to explain"
    return f"{what}: call insitu.explain(error), or insitu.explain() after a traceback in a notebook"


def _last_exception() -> BaseException | None:
    """The exception that is being handled, or the last one that ended in a traceback."""
    return sys.exc_info()[1] or getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
