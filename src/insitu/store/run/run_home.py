"""Where a run can be loaded from again, by another process."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from insitu.errors import StoreError

if TYPE_CHECKING:
    from insitu.store.run.run import Run


@dataclass(frozen=True, slots=True)
class RunHome:
    """The file, folder or address of a run, and its id."""

    origin: str
    run_id: str

    def load(self) -> Run:
        """The run; the last few stay open."""
        return _loaded(self)


@lru_cache(maxsize=4)
def _loaded(home: RunHome) -> Run:
    store: Any = import_module("insitu.store")  # by name: the store imports this module
    choice = {"run": home.run_id} if store.holds_shards(home.origin) else {}
    run: Run = store.load(home.origin, **choice)
    if run.id != home.run_id:
        raise StoreError(f"{home.origin!r} holds another run now")
    return run
