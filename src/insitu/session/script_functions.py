"""The functions of a script, found by name as soon as the script has defined or imported them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

from insitu.capture.values.function_search import FunctionSearch, is_own
from insitu.capture.variables.follow.lookup import attributes_of, is_module


class ScriptFunctions:
    """Finds functions by name as soon as a script has defined or imported them; each thing is looked at once."""

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}
        self._modules: set[str] = set(sys.modules)

    def search(self, namespace: Mapping[str, Any]) -> FunctionSearch:
        """A search in what is new in the script, and in the modules of the program that were imported since."""
        new = {name: value for name, value in list(namespace.items()) if self._seen.get(name) != id(value)}
        self._seen.update((name, id(value)) for name, value in new.items())
        return FunctionSearch([new, *map(attributes_of, self._new_modules())])

    def _new_modules(self) -> Iterator[ModuleType]:
        for name in sys.modules.keys() - self._modules:
            module = sys.modules.get(name)
            if is_module(module) and module is not None and is_own(module):
                yield module
        self._modules = set(sys.modules)
