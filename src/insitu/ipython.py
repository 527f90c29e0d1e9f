"""The running IPython, if the program is a notebook or a session of it. IPython itself is never imported here."""

from __future__ import annotations

import sys
from typing import Any

HTML = "text/html"


def running_shell() -> Any:
    """The shell of IPython in which the program runs; None outside of IPython."""
    return getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()


def shows_html(shell: Any) -> bool:
    """Whether a shell displays more than text: IPython in a terminal does not."""
    formatter = getattr(shell, "display_formatter", None)
    return formatter is not None and HTML in formatter.active_types
