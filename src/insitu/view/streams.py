"""Where watched lines can go: a file, a logger, or one file for each process, rank and thread."""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Hashable
from pathlib import Path
from string import Formatter
from typing import Any, Protocol

from insitu.errors import ChoiceError, SubjectError, choose

PLACES = ("pid", "rank", "thread")


class Stream(Protocol):
    """Anything that takes text."""

    def write(self, text: str, /) -> Any:
        """Write some lines."""


def stream(file: Any) -> Any:
    """The stream that is meant: a logger, a path, or a file that is open already; None stays None.

    A path may contain {pid}, {thread} and {rank}: then there is one file for each process, thread or rank.

    >>> stream("logs/{pid}-{thread}.log")
    LogFile('logs/{pid}-{thread}.log')
    """
    if isinstance(file, (logging.Logger, logging.LoggerAdapter)):
        return Log(file)
    if isinstance(file, (str, os.PathLike)):
        return LogFile(os.fspath(file))
    if file is not None and not callable(getattr(file, "write", None)):
        raise SubjectError(f"file expects a path, a logger, or anything with write(), got {file!r:.80}")
    return file


def place_of(stream: Any) -> Hashable:
    """A key that is equal for streams to the same place."""
    if isinstance(stream, Log):
        return ("log", id(stream.logger))
    if isinstance(stream, LogFile):
        return ("file", stream.path)
    return id(stream)


class Log:
    """Writes each line to a logger."""

    def __init__(self, logger: Any, level: int = logging.INFO) -> None:
        self.logger, self._level = logger, level

    def write(self, text: str) -> None:
        """Log the lines."""
        for line in text.splitlines():
            self.logger.log(self._level, "%s", line)


class LogFile:
    """Appends to a file, created at the first line; to several files if the name has placeholders."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._folders: set[Path] = set()
        try:
            places = [place for _, place, *_ in Formatter().parse(path) if place is not None]
        except ValueError as error:
            raise ChoiceError(f"file={path!r} has a brace that is not closed, or not opened: {error}") from None
        for place in places:
            choose(f"a placeholder in file={path!r}", place, PLACES)

    def __repr__(self) -> str:
        return f"LogFile({self.path!r})"

    def write(self, text: str) -> None:
        """Append the lines to the file of this process and thread; it is closed again, because threads come and go."""
        path = Path(
            self.path.format(
                pid=os.getpid(),
                rank=os.environ.get("RANK", "0"),
                thread=re.sub(r"[^\w.-]", "_", threading.current_thread().name),
            )
        )
        if path.parent not in self._folders:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._folders.add(path.parent)
        with open(path, "a", encoding="utf-8", opener=open_private) as file:
            file.write(text)


def open_private(path: str, flags: int) -> int:
    """Open a file; only the owner may read a new one, because it may show values of the program."""
    return os.open(path, flags, 0o600)
