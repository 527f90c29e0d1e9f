"""Real processes that begin at once: a server has imported everything, and forks one for each program that is to run.

`python -m tests.forking` reads requests from its input, a line of JSON each, and answers each with a line. All the
processes it forks have it as their parent, as those of a shell would.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


class Forking:
    """The server, as a test sees it: `begin` runs a program as a process of its own."""

    def __init__(self, *modules: str) -> None:
        command = [sys.executable, "-m", "tests.forking", *modules]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        self._server = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def begin(self, program: str, folder: Path, *arguments: str, **environment: str) -> Forked:
        """A process that runs a program in a folder; what it says goes to a file there."""
        request = {"program": program, "folder": str(folder), "arguments": arguments, "environment": environment}
        return Forked(self, self.ask(request), folder)

    def ask(self, request: dict[str, Any]) -> int:
        """What the server answers."""
        assert self._server.stdin is not None and self._server.stdout is not None
        print(json.dumps(request), file=self._server.stdin, flush=True)
        return int(self._server.stdout.readline())

    def close(self) -> None:
        """End the server."""
        self._server.communicate()


class Forked:
    """One of the processes."""

    def __init__(self, server: Forking, pid: int, folder: Path) -> None:
        self._server, self.pid = server, pid
        self._said = folder / f"said-{pid}"

    def send(self, number: int) -> None:
        """Send a signal."""
        os.kill(self.pid, number)

    def wait(self, seconds: float = 60.0) -> int:
        """How it ended, as `subprocess` has it."""
        deadline = time.monotonic() + seconds
        while (code := self._server.ask({"poll": self.pid})) == _RUNNING:
            assert time.monotonic() < deadline, f"it still runs after {seconds} s: {self.said}"
            time.sleep(0.01)
        return code

    @property
    def said(self) -> str:
        """What it printed."""
        return self._said.read_text() if self._said.exists() else ""


_RUNNING = 1000


def serve() -> None:
    """Answer requests until there are no more."""
    for module in sys.argv[1:]:
        importlib.import_module(module)
    ended: dict[int, int] = {}
    for line in sys.stdin:
        request = json.loads(line)
        if "poll" in request:
            pid = request["poll"]
            if pid not in ended:
                found, status = os.waitpid(pid, os.WNOHANG)
                if found:
                    ended[pid] = os.waitstatus_to_exitcode(status)
            print(ended.get(pid, _RUNNING), flush=True)
        elif (child := os.fork()) == 0:
            _run(request)
        else:
            print(child, flush=True)


def _run(request: dict[str, Any]) -> None:
    """Run the program of a request as if it were alone."""
    code = 1
    try:
        os.chdir(request["folder"])
        said = os.open(f"said-{os.getpid()}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for number, file in enumerate((nothing, said, said)):
            os.dup2(file, number)
        os.environ.update(request["environment"])
        sys.argv = ["program.py", *request["arguments"]]
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        exec(compile(request["program"], "program.py", "exec"), {"__name__": "__main__"})
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    serve()
