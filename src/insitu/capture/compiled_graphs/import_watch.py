"""Waits for the import of modules that torch imports late, and acts on them at once."""

from __future__ import annotations

import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType


class ImportWatch:
    """Calls a function with each of several modules: now for those that are imported, later for the others."""

    def __init__(self, names: Sequence[str], act: Callable[[ModuleType], None]) -> None:
        self._names, self._act = tuple(names), act
        self._waiting: set[str] = set()

    def begin(self) -> None:
        """Act on the modules that are there, and wait for the others."""
        self._waiting = {name for name in self._names if name not in sys.modules}
        for name in self._names:
            if name not in self._waiting:
                self._act(sys.modules[name])
        if self._waiting:
            sys.meta_path = [self, *sys.meta_path]

    def end(self) -> None:
        """Wait no longer."""
        self._waiting.clear()
        if self in sys.meta_path:  # another thread may be going through the list that is there
            sys.meta_path = [finder for finder in sys.meta_path if finder is not self]

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec of a module that is waited for, with a loader that reports the import."""
        if name not in self._waiting:
            return None
        self._waiting.discard(name)
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            execute, act = spec.loader.exec_module, self._act

            def exec_module(module: ModuleType) -> None:
                execute(module)
                act(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
