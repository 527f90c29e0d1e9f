"""Run a script or a module the way `python` does, inside this process."""

from __future__ import annotations

import builtins
import os
import runpy
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.machinery import PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from insitu.errors import InsituError
from insitu.tracebacks import without_own_frames

# Takes the code and the source of a script, and returns the code that is run.
Rewrite = Callable[[CodeType, bytes], CodeType]


class Program:
    """A script with its arguments, or a module after `-m`: what would follow `python` on the command line."""

    def __init__(self, command: list[str]) -> None:
        self.as_module = command[0] == "-m"
        words = command[1:] if self.as_module else command
        if not words:
            raise InsituError("-m needs the name of a module: insitu run -m package.module")
        self.name, self.arguments = words[0], words[1:]
        if not self.as_module:
            _check_script(self.name)

    @property
    def is_archive(self) -> bool:
        """Whether it is a zip file, whose code cannot be changed before it runs."""
        return not self.as_module and _is_archive(self.name)

    def source(self) -> bytes | None:
        """The source of a script; None for a module or an archive, which Python finds when it runs."""
        path = os.path.join(self.name, "__main__.py") if os.path.isdir(self.name) else self.name
        is_script = not self.as_module and not self.is_archive and os.path.isfile(path)
        if is_script:
            return Path(path).read_bytes()
        return None

    def run(self, rewrite: Rewrite = lambda code, source: code) -> None:
        """Run it as `__main__`. What it changes stays changed: threads and exit handlers outlive the script.

        `rewrite` may change the code of the script, or of the module, before it runs.
        """
        sys.argv = [self.name, *self.arguments]
        if self.as_module:
            self._set_path(os.getcwd())
            sys.argv[0] = "-m"
            with ProgramFinder(self.name, rewrite):
                runpy.run_module(self.name, run_name="__main__", alter_sys=True)
        elif os.path.isdir(self.name):
            self._set_path(os.path.abspath(self.name))
            _run_file(os.path.abspath(os.path.join(self.name, "__main__.py")), rewrite)
        elif _is_archive(self.name):
            runpy.run_path(self.name, run_name="__main__")
        else:
            self._set_path(os.path.dirname(os.path.realpath(self.name)))
            _run_file(os.path.abspath(self.name), rewrite)

    def _set_path(self, first: str) -> None:
        if not getattr(sys.flags, "safe_path", False):
            sys.path[0:1] = [first]


def _check_script(name: str) -> None:
    if not os.path.exists(name):
        raise InsituError(f"script {name!r} not found")
    if os.path.isdir(name) and not os.path.exists(os.path.join(name, "__main__.py")):
        raise InsituError(f"the folder {name!r} has no __main__.py to run")


def _is_archive(path: str) -> bool:
    if not os.path.isfile(path):  # a pipe can be read only once
        return False
    with open(path, "rb") as file:
        return file.read(4) == b"PK\x03\x04"


class ProgramFinder:
    """Waits in `sys.meta_path` for the module that `runpy` runs, and rewrites its code; imports are left alone."""

    def __init__(self, name: str, rewrite: Rewrite) -> None:
        self._names, self._rewrite = (name, f"{name}.__main__"), rewrite

    def __enter__(self) -> None:
        sys.meta_path = [self, *sys.meta_path]

    def __exit__(self, *raised: object) -> None:
        sys.meta_path = [finder for finder in sys.meta_path if finder is not self]

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> Any:
        """The spec of the module as the next finder has it, with a loader that rewrites its code for `runpy`."""
        if name not in self._names:
            return None
        spec = PathFinder.find_spec(name, path, target)
        loader = spec.loader if spec is not None else None
        if isinstance(loader, SourceFileLoader):
            rewrite_for_runpy(loader, self._rewrite)
        return spec


def rewrite_for_runpy(loader: SourceFileLoader, rewrite: Rewrite) -> None:
    """Let a loader rewrite the code that `runpy` asks it for; the code of an import stays as it is."""
    original, execute = loader.get_code, loader.exec_module

    def get_code(fullname: str) -> CodeType | None:
        code = original(fullname)
        if code is None:
            return None
        return rewrite(code, Path(loader.path).read_bytes())

    def exec_module(module: ModuleType) -> None:
        loader.get_code = original  # type: ignore[method-assign]
        execute(module)

    loader.get_code, loader.exec_module = get_code, exec_module  # type: ignore[method-assign]


def _run_file(path: str, rewrite: Rewrite) -> None:
    # runpy.run_path would set sys.argv[0] to the full path and put the old __main__ back while threads still run.
    main = ModuleType("__main__")
    facts = {"__file__": path, "__cached__": None, "__builtins__": builtins}
    main.__dict__.update(facts, __loader__=SourceFileLoader("__main__", path))
    sys.modules["__main__"] = main
    source = Path(path).read_bytes()
    exec(rewrite(compile(source, path, "exec", dont_inherit=True), source), main.__dict__)


def exit_code(failure: BaseException | None) -> int:
    """The exit code that `python` would end with; prints what `python` would print."""
    if failure is None:
        return 0
    if not isinstance(failure, SystemExit):
        _report(failure)
        if isinstance(failure, KeyboardInterrupt):
            return 130
        return 1
    if failure.code is None or isinstance(failure.code, int):
        return failure.code or 0
    print(failure.code, file=sys.stderr)
    return 1


def _report(error: BaseException) -> None:
    """Print an exception as `python` does, without the frames of this tool."""
    for part in connected(error):
        part.__traceback__ = without_own_frames(part.__traceback__)
    sys.excepthook(type(error), error, error.__traceback__)


def connected(error: BaseException) -> Iterator[BaseException]:
    """The exception, its causes and contexts, and the members of groups, each once."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        found = waiting.pop()
        if found is None or id(found) in seen:
            continue
        seen.add(id(found))
        yield found
        waiting += [found.__cause__, found.__context__]
        waiting += found.exceptions if isinstance(found, BaseExceptionGroup) else ()
