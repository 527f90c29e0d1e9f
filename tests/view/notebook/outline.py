"""HTML of a notebook, read back: rows with their depth, tags and attributes."""

from __future__ import annotations

from html.parser import HTMLParser

ROWS = ("summary", "div", "li", "td", "th", "pre")
VOID = {"img"}


class Outline(HTMLParser):
    """The rows of a list with their depth, and every tag and attribute there is; blanks count as one."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.images: list[dict[str, str | None]] = []
        self._rows: list[tuple[int, str]] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert not self._open, f"left open: {self._open}"

    @property
    def rows(self) -> list[tuple[int, str]]:
        """Those rows that have a text."""
        found = [(depth, " ".join(text.split())) for depth, text in self._rows]
        return [(depth, text) for depth, text in found if text]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag in VOID:
            self.images.append(dict(attrs))
            return
        self._open.append(tag)
        if tag in ROWS:
            self._rows.append((self._open.count("details") - (tag == "summary"), ""))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open[-1] == "style":
            return
        depth, text = self._rows[-1]
        self._rows[-1] = (depth, text + data)


def static(forms: dict[str, str]) -> str:
    """The list of a trace or a diff that works without any script."""
    text = forms["text/html"].removesuffix("</div>")  # of the element around the output
    _, sign, after = text.partition('<div class="i-static">')
    if sign:
        return sign + after
    return text.partition("</style>")[2].partition("<p>")[0]
