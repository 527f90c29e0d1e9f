"""The page in a frame of a notebook; one that is too large, in a file beside the notebook."""

from __future__ import annotations

import hashlib
from pathlib import Path

from insitu.trace.diff import Diff
from insitu.trace.trace import Trace
from insitu.view.notebook.forms import failure_text
from insitu.view.notebook.markup import Markup, element, joined
from insitu.view.streams import open_private

MOST_PAGE = 1_000_000  # bytes: a larger page would make the notebook itself slow to open and to save
LEAST_HEIGHT, MOST_HEIGHT = 400, 640  # pixels
ROW_HEIGHT, AROUND = 22, 320  # pixels of a row, and of all that is around the rows


def page_or_list(subject: Trace | Diff, rows: int, static: Markup) -> Markup:
    """The page of a subject with so many rows, and a list for where frames or scripts are not allowed.

    Only one of the two is visible. The style hides the list behind the frame, where scripts run. What removes the
    frame, as GitHub does, leaves the list; and without the style, the list follows the page.
    """
    from insitu.view.html import page

    try:
        text = page(subject)
    except Exception as error:
        return joined(static, element("p", f"The page: {failure_text(error)}"))
    if len(text) > MOST_PAGE:
        return joined(static, _link(text.encode()))
    return joined(_frame(text, rows), element("div", static, class_="i-static"))


def _frame(text: str, rows: int) -> Markup:
    """The page in a frame, from which no script reaches the notebook."""
    height = min(MOST_HEIGHT, max(LEAST_HEIGHT, AROUND + ROW_HEIGHT * rows))
    return element(
        "iframe",
        sandbox="allow-scripts",
        srcdoc=text,
        title="insitu",
        class_="i-page",
        width="100%",
        height=height,
        loading="lazy",
    )


def _link(page: bytes) -> Markup:
    """The page in a file of the working directory, where the server of a notebook finds it; the same one once."""
    path = Path(f"insitu-{hashlib.sha256(page).hexdigest()[:12]}.html")
    size = f"{len(page) / 1e6:.1f} MB"
    try:
        with open(path, "wb", opener=open_private) as file:
            file.write(page)
    except OSError as error:
        reason = error.strerror or str(error)
        advice = "insitu.save(…, 'run.html') writes it"
        return element("p", f"The page, {size}, cannot be written here ({reason}): {advice}")
    return element(
        "p", element("a", str(path), href=str(path), target="_blank", rel="noopener"), f" is the page, {size}"
    )
