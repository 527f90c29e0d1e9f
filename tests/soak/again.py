"""Sessions one after another: what each verb leaves behind when it is entered and left again and again."""

from __future__ import annotations

import functools
import gc
import logging
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from tests.soak.measure import handles
from tests.soak.training import Net, make
from torch import Tensor

import insitu

PARTS = 6  # the first is to get warm in
ALLOWED = 80  # blocks more in each part, however many sessions it has: Python itself gets warm for a while

Session = Callable[[], AbstractContextManager[Any]]


@dataclass(frozen=True, slots=True)
class Left:
    """What the sessions of a kind leave: blocks in each part of them, and files and threads in all."""

    name: str
    times: int
    blocks: int
    files: int
    threads: int

    @property
    def holds(self) -> bool:
        """Whether that is nothing."""
        return self.blocks < ALLOWED and not self.files and not self.threads


def kinds(model: Net, folder: Path) -> dict[str, Session]:
    """The sessions that are tried."""
    log = logging.getLogger("insitu.soak")
    log.propagate = False
    run = folder / "again.h5"
    values = {"only": ["forward.h", "head.weight.grad"], "keep": "values", "overwrite": True}
    return {
        "record": lambda: insitu.record(model),
        "record, aten, stats": lambda: insitu.record(model, level="aten", keep="stats"),
        "record to a function": lambda: insitu.record_run(model, **values, to=lambda *taken: None),
        "record to a file": lambda: insitu.record_run(model, **values, to=run),
        "guard": lambda: insitu.guard(model, action="warn"),
        "guard of a block": lambda: insitu.guard(action="record"),
        "watch a model": lambda: insitu.watch(model, file=log),
        "watch a block": lambda: insitu.watch(view="code", file=log),
        "watch a variable": lambda: insitu.watch("total", file=log),
    }


def left_by(name: str, session: Session, model: Net, times: int) -> Left:
    """Enter and leave a session so many times, with a step of the model inside."""
    batch, floors = torch.ones(2, model.body.in_features), list[int]()
    before, part = handles(), max(1, times // PARTS)
    for number in range(part * PARTS):
        with session():
            total = step(model, batch)
        del total
        if (number + 1) % part == 0:
            forget()
            floors.append(sys.getallocatedblocks())
        if number + 1 == part:
            before = handles()
    after = handles()
    grown = [later - earlier for earlier, later in pairwise(floors[1:])]
    return Left(name, part * PARTS, min(grown), after[0] - before[0], after[1] - before[1])


def forget() -> None:
    """Empty the caches, whose sizes are limited, so that what has no limit is seen."""
    gc.collect()
    for cache in caches():
        cache.cache_clear()


def caches() -> list[Any]:
    """Those of the tool; the collector does not list what is frozen, so they are looked for by name."""
    modules = [module for name, module in sys.modules.items() if name.startswith("insitu.")]
    named = [one for module in modules for one in vars(module).values()]
    inner = [getattr(one, "__func__", one) for kind in named if isinstance(kind, type) for one in vars(kind).values()]
    found = [one for one in (*named, *inner) if type(one) is functools._lru_cache_wrapper]
    return [cache for cache in found if cache.__module__.startswith("insitu.")]


def step(model: Net, batch: Tensor) -> Tensor:
    """One step."""
    total: Tensor = model(batch).square().mean()
    total.backward()
    model.zero_grad()
    return total.detach()


def again(folder: Path, times: int, *, files: int) -> list[Left]:
    """All kinds of sessions, so many times each; fewer where each makes a file."""
    model, _ = make()
    found = kinds(model, folder).items()
    return [left_by(name, session, model, files if name.endswith("file") else times) for name, session in found]
