"""Where the lines go: to the terminal, to the logger and, once something is logged, to the files of the logger."""

from __future__ import annotations

import logging
import os
import threading
from pathlib import Path

from insitu.view import Line, Terminal

# It says nothing to the handlers of the program: what is on the terminal already would be there twice.
logger = logging.getLogger("ttracker")
logger.setLevel(logging.DEBUG)
logger.propagate = False


class ThreadFiles(logging.Handler):
    """Appends to one file for each process and thread, which is made once there is something to write.

    However many of them a logger has been given for the same folder, no record is in a file twice.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder.absolute()
        self.setFormatter(logging.Formatter("%(asctime)s - %(levelname)s - %(message)s"))
        self._failed = False

    def emit(self, record: logging.LogRecord) -> None:
        """Append a record; a folder that cannot be written to is reported once, as logging does."""
        path = self.folder / f"process_{os.getpid()}_thread_{threading.get_native_id()}.log"
        written: set[Path] = record.__dict__.setdefault("ttracker_files", set())
        if path in written:
            return
        written.add(path)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with open(path, "a", encoding="utf-8", errors="backslashreplace") as file:
                file.write(self.format(record) + "\n")
        except Exception:
            if not self._failed:
                self._failed = True
                self.handleError(record)


def h4logger() -> ThreadFiles:
    """The handler that writes to files in `logs/$LTAG`, or in `logs/NOTAG`: one for each process and thread.

    >>> h4logger().folder.parent.name
    'logs'
    """
    return ThreadFiles(Path("logs", os.environ.get("LTAG") or "NOTAG"))


def log2file(text: object) -> None:
    """Print a text and log it, to the files in `logs/$LTAG` if to nothing else."""
    ensure_files()
    logger.info("%s", text)
    terminal.write([Line(((str(text), ""),))])
    terminal.flush()


def ensure_files() -> None:
    """Give the logger what writes to files, unless it has that."""
    # By name: a module that is loaded again has another class of this name.
    if not any(type(handler).__name__ == ThreadFiles.__name__ for handler in logger.handlers):
        logger.addHandler(h4logger())


class Lines:
    """The stream of all lines: to the terminal and to the logger, and with `LTAG` set to files without being asked."""

    def write(self, text: str) -> None:
        """Take some lines."""
        if os.environ.get("LTAG"):
            ensure_files()
        text = text.removesuffix("\n")
        for line in text.split("\n"):
            logger.info("%s", line)
        terminal.write([Line(((text, ""),))])
        terminal.flush()


terminal = Terminal(color=False)
lines = Lines()
