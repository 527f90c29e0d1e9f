"""`insitu.explain`: why the last exception was raised."""

from __future__ import annotations

import sys

from insitu.errors import SubjectError
from insitu.trace.explanation import Explanation


def explain(error: BaseException | None = None) -> Explanation:
    """Why an exception was raised: the given one, the one that is being handled, or the last one that was shown.

    What passed through a session of insitu is explained from its trace; anything else from the frames that it left.
    The same is in the note of such an exception, as `str(note)`: what reads the raw characters of notes, such as
    `"\\n".join(error.__notes__)` or `json.dumps`, finds only a placeholder.

    >>> import torch, insitu
    >>> try:
    ...     torch.ones(2, 3) @ torch.ones(4, 5)
    ... except RuntimeError as error:
    ...     found = insitu.explain(error)
    >>> found.error
    'RuntimeError'
    """
    from insitu.capture.explain.notes import moment_of, note_of

    found = error if error is not None else _last()
    if not isinstance(found, BaseException):
        what = "there is no exception to explain" if found is None else f"a {type(found).__name__} is no exception"
        raise SubjectError(f"{what}: call insitu.explain(error), or after a traceback in a notebook")
    note = note_of(found)
    return note.explanation if note is not None else moment_of(found, None, None).explanation()


def _last() -> BaseException | None:
    """The exception that is being handled, or the last one that ended in a traceback."""
    return sys.exc_info()[1] or getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
