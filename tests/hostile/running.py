"""Runs a generated program, which is its source, and tells all that can be seen of it from outside."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import io
import itertools
import linecache
import os
import random
import sys
import warnings
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import torch
from tests.capture.oracle import gradients, nothing_left
from tests.hostile import cast
from tests.hostile.plain import facts_of, plain

from insitu.errors import InsituWarning

numbers = itertools.count()


@dataclasses.dataclass
class Outcome:
    """What a program did, as plain data."""

    result: Any = None
    error: Any = None
    seen: Any = None
    gradients: Any = None
    state: Any = None
    hooks: Any = None
    random: Any = None
    printed: str = ""
    warned: list[str] = dataclasses.field(default_factory=list)
    alive: int = 0


@dataclasses.dataclass
class Run:
    """An outcome, what the tool told, and the traces: of the session around, and of those that the program began."""

    outcome: Outcome
    told: list[str]
    traces: list[Any]


Session = Callable[[Any, Any], Any]  # of the model and the loaded program: a context manager


def run(source: str, folder: Path, session: Session | None = None) -> Run:
    """Run a program, in a session or with the tool switched off; nothing is left behind."""
    with every_warning() as warned, nothing_left(), off(session is None):
        outcome, traces, refs = played(source, folder, session or (lambda model, program: contextlib.nullcontext()))
        gc.collect()
        outcome.alive = sum(ref() is not None for ref in refs)
    ours = [str(item.message) for item in warned if issubclass(item.category, InsituWarning)]
    outcome.warned = [str(item.message) for item in warned if not issubclass(item.category, InsituWarning)]
    return Run(outcome, ours, traces)


def played(source: str, folder: Path, session: Session) -> tuple[Outcome, list[Any], list[weakref.ref[Any]]]:
    """What a program does, the traces, and weak references to what it made."""
    outcome, printed, result, around = Outcome(), io.StringIO(), None, None
    torch.manual_seed(0), random.seed(0), np.random.seed(0)
    with loaded(source, folder) as program, contextlib.redirect_stdout(printed):
        world, model = program.world, program.build()
        world.model = model
        codes = codes_of(program)
        try:
            with session(model, program) as around:
                try:
                    result = program.main(model, torch.randn(3, 4))
                finally:
                    world.end()
        except BaseException as error:
            outcome.error = facts_of(error)
        world.traces.insert(0, around)
        outcome.random = random_state()
        world.after()
        assert codes_of(program) == codes, "the code of a function is another one"
        outcome.result, outcome.seen = plain(result), world.seen
        outcome.gradients = plain(gradients(model))
        outcome.state = plain(dict(model.state_dict()))
        outcome.hooks = [hooks_of(module) for module in model.modules()]
        outcome.printed = printed.getvalue()
        world.refs += map(weakref.ref, (model, *model.modules(), *model.parameters()))
        world.model = None
        # A guard is its own session, which may begin again with its model: of that, only the findings.
        return outcome, [getattr(found, "findings", found) for found in world.traces], world.refs


@contextlib.contextmanager
def every_warning() -> Iterator[list[warnings.WarningMessage]]:
    """All warnings, also those that torch gives once in the life of a process."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        torch.set_warn_always(True)
        try:
            yield warned
        finally:
            torch.set_warn_always(False)


@contextlib.contextmanager
def loaded(source: str, folder: Path) -> Iterator[Any]:
    """The program as a module, which can be found by its name for as long as it runs."""
    name = f"hostile_{next(numbers)}"
    path = folder / name / "program.py"  # each has its own: sources are remembered by file
    path.parent.mkdir()
    path.write_text(source)
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module
    try:
        module.world = cast.World()  # type: ignore[attr-defined]
        exec(compile(source, str(path), "exec"), module.__dict__)
        yield module
    finally:
        del sys.modules[name]
        module.__dict__.clear()
        linecache.cache.pop(str(path), None)


@contextlib.contextmanager
def off(switched_off: bool) -> Iterator[None]:
    """The tool is off, or on."""
    before = os.environ.get("INSITU")
    os.environ["INSITU"] = "0" if switched_off else "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["INSITU"]
        else:
            os.environ["INSITU"] = before


def codes_of(program: Any) -> list[Any]:
    """The code of every function of the program."""
    classes = [
        item for item in vars(program).values() if isinstance(item, type) and item.__module__ == program.__name__
    ]
    owners = [program, cast, *classes]
    return [item.__code__ for owner in owners for item in list(vars(owner).values()) if isinstance(item, FunctionType)]


def hooks_of(module: Any) -> list[int]:
    """How many hooks of each kind a module has."""
    return [len(item) for name, item in sorted(vars(module).items()) if "hooks" in name and isinstance(item, dict)]


def random_state() -> Any:
    """Where all generators of random numbers are."""
    return plain(torch.get_rng_state()), random.getstate(), np.random.get_state()[1].tobytes()
