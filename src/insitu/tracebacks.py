"""Tracebacks of the user's exceptions, without the frames of this tool."""

from __future__ import annotations

import os
from types import TracebackType

OWN_FOLDER = os.path.join(os.path.dirname(__file__), "")


def without_own_frames(traceback: TracebackType | None) -> TracebackType | None:
    """The traceback without the frames of this tool; it is changed in place."""
    while traceback is not None and is_own(traceback):
        traceback = traceback.tb_next
    here = traceback
    while here is not None:
        while here.tb_next is not None and is_own(here.tb_next):
            here.tb_next = here.tb_next.tb_next
        here = here.tb_next
    return traceback


def is_own(traceback: TracebackType) -> bool:
    """Whether a frame is of this tool, or of what runs a module for it."""
    file = traceback.tb_frame.f_code.co_filename
    return file.startswith(OWN_FOLDER) or file == "<frozen runpy>"
