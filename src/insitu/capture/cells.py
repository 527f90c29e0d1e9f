"""The names of notebook cells: `In [3]` instead of the temporary file that IPython compiles the cell from."""

from __future__ import annotations

import re
from dataclasses import replace
from types import CodeType

from insitu.ipython import running_shell
from insitu.trace.explain.explanation import Explanation, ExpressionSite, Origin

# The number of a cell in IPython's own label for it, and in the file names of IPython in a terminal.
LABEL = re.compile(r"In ?\[(\d+)\]")
TERMINAL_FILE = re.compile(r"<ipython-input-(\d+)-")


def file_or_cell(file: str) -> str:
    """The name by which users know a file: a cell of a notebook by its number, any other file as it is.

    A cell that runs again has the number of its last run, which is the one that the notebook shows beside it.

    >>> file_or_cell("<ipython-input-3-0a1b2c>"), file_or_cell("model.py")
    ('In [3]', 'model.py')
    """
    found = LABEL.fullmatch(_label(file)) or TERMINAL_FILE.match(file)
    if found is None:
        return file
    return f"In [{found[1]}]"


def is_cell(code: CodeType) -> bool:
    """Whether a code object is a whole cell: only frames of the notebook's own machinery are above it."""
    return code.co_name == "<module>" and file_or_cell(code.co_filename) != code.co_filename


def _label(file: str) -> str:
    """The label that tracebacks of IPython have for a file; empty if the file is not a cell, or IPython not there."""
    try:
        label: tuple[str, str] | None = running_shell().compile.format_code_name(file)
    except Exception:  # another version of IPython, or a shell of its own kind
        return ""
    if label is None:
        return ""
    return label[1]


def with_cells(explanation: Explanation) -> Explanation:
    """The explanation with the numbers of cells in place of their files."""
    origins = tuple(_origin_in_cell(origin) for origin in explanation.origins)
    return replace(explanation, site=_site_in_cell(explanation.site), origins=origins)


def _origin_in_cell(origin: Origin) -> Origin:
    return replace(origin, site=_site_in_cell(origin.site))


def _site_in_cell(site: ExpressionSite | None) -> ExpressionSite | None:
    if site is None:
        return None
    return replace(site, file=file_or_cell(site.file))
