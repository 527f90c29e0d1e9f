"""What a program prints to a terminal, with its colours: some programs print something else to a file."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import termios
from pathlib import Path


def printed_in_a_terminal(command: list[str], folder: Path, *, columns: int, rows: int = 50) -> str:
    """What a command prints, with the codes of its colours."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONIOENCODING": "utf-8", "TERM": "xterm-256color"}
    environment["OMP_NUM_THREADS"] = "1"  # several threads are slower for small models
    for name in ("COLUMNS", "LINES", "NO_COLOR"):
        environment.pop(name, None)
    program = subprocess.Popen(command, cwd=folder, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    text = _read_all(ours).decode().replace("\r\n", "\n")
    os.close(ours)
    if program.wait():
        raise ChildProcessError(f"{' '.join(command)} failed:\n{text}")
    return text


def _read_all(descriptor: int) -> bytes:
    """All that is written until the program closes the terminal."""
    found = b""
    while True:
        try:
            part = os.read(descriptor, 65536)
        except OSError:  # so Linux says that the terminal is closed
            return found
        if not part:
            return found
        found += part
