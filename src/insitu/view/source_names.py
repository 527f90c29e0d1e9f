"""The places of a trace as its tree names them: files of the user that share a name have their folders."""

from __future__ import annotations

from collections.abc import Iterable

from insitu.trace.event import Site
from insitu.trace.source_file import folders, is_library
from insitu.view.name import file_name, named_in_folder

TO = "…"


class SourceNames:
    """Names places after the files of one trace that are known so far.

    >>> names = SourceNames()
    >>> places = [Site("/me/data/utils.py", 3, "load"), Site("/me/model/utils.py", 9, "init")]
    >>> names.place(places[0])
    'utils.py:3'
    >>> names.add([places[1].file])
    >>> [names.place(place) for place in places]
    ['data/utils.py:3', 'model/utils.py:9']
    """

    def __init__(self) -> None:
        self._names: dict[str, str] = {}  # by file
        self._files: dict[str, list[str]] = {}  # of the user, by the name without a folder
        self._places: dict[Site, str] = {}

    def add(self, files: Iterable[str]) -> None:
        """Learn that the trace has places in these files."""
        for file in files:
            if file not in self._names:
                self._learn(file)

    def _learn(self, file: str) -> None:
        name = self._names[file] = file_name(file)
        if is_library(file) or not folders(file):
            return
        sharing = self._files.setdefault(name, [])
        sharing.append(file)
        if len(sharing) > 1:
            self._names.update((each, named_in_folder(each)) for each in sharing)
            self._places.clear()

    def place(self, site: Site) -> str:
        """The file and the line."""
        text = self._places.get(site)
        if text is None:
            self.add([site.file])
            text = self._places[site] = f"{self._names[site.file]}:{site.line}"
        return text

    def stretch(self, first: Site, last: Site) -> str:
        """The places of the first and the last of several calls.

        >>> names, first = SourceNames(), Site("/me/a.py", 20, "f")
        >>> [names.stretch(first, Site(file, line, "f")) for file, line in (("/me/a.py", 21), ("/me/b.py", 3))]
        ['a.py:20…21', 'a.py:20 … b.py:3']
        """
        start, end = self.place(first), self.place(last)
        if start == end:
            return start
        if first.file == last.file:
            return f"{start}{TO}{last.line}"
        return f"{start} {TO} {end}"
