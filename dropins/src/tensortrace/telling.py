"""Warnings: something about the tracing went wrong, and the run of the user goes on."""

from __future__ import annotations

import os
import sys
import warnings

from insitu import InsituWarning

_OWN = os.path.join(os.path.dirname(__file__), "")


def tell(text: str) -> None:
    """Warn at the line of the user; print the text where warnings are errors: the program did nothing wrong."""
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OWN):
        frame, level = frame.f_back, level + 1
    try:
        warnings.warn(text, InsituWarning, stacklevel=level)
    except InsituWarning:
        print(text, file=sys.stderr)
