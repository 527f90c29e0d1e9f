"""The running IPython, if the program is a notebook or a session of it. Without one, IPython is never imported."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

HTML = "text/html"


def running_shell() -> Any:
    """The shell of IPython in which the program runs; None outside of IPython."""
    return getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()


def shows_html(shell: Any) -> bool:
    """Whether a shell displays more than text: IPython in a terminal does not."""
    formatter = getattr(shell, "display_formatter", None)
    return formatter is not None and HTML in formatter.active_types


def publish(forms: dict[str, str], id: str, *, is_update: bool) -> None:
    """Display something in the cell that runs, in all its forms; or replace what was displayed with the same id."""
    from IPython.display import display, update_display

    send: Callable[..., Any] = update_display if is_update else display
    send(forms, raw=True, display_id=id)
