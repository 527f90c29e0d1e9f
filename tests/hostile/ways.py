"""All the ways in which a program can be looked at from outside: each is a session around the whole of it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import FunctionType
from typing import Any

import torch
from tests.hostile.cast import Quiet
from tests.hostile.running import Session

import insitu
from tracy_nn.blocks import Blocks


def _record(*of_model: str, **options: Any) -> Session:
    return lambda model, program: insitu.record(*([model] if of_model else []), **options)


def _watch(*names: str, of_model: bool = False, **options: Any) -> Session:
    return lambda model, program: insitu.watch(*([model] if of_model else names), file=Quiet(), **options)


def small(tensor: torch.Tensor) -> Any:
    """What a function makes of each tensor: it draws random numbers on purpose not at all."""
    return tuple(tensor.shape)


@contextlib.contextmanager
def decorated(model: Any, program: Any) -> Iterator[None]:
    """Watch all functions of the program, with their variables."""
    watch = insitu.watch("x", "y", file=Quiet())
    before = {name: item for name, item in vars(program).items() if is_theirs(item, program)}
    try:
        for name, function in before.items():
            setattr(program, name, watch(function))
        yield
    finally:
        for name, function in before.items():
            setattr(program, name, function)


def is_theirs(item: Any, program: Any) -> bool:
    """Whether something is a function that the program defines."""
    return isinstance(item, FunctionType) and item.__module__ == program.__name__


def _guard(of_model: bool) -> Session:
    return lambda model, program: insitu.guard(*([model] if of_model else []), action="record")


def _record_run(**options: Any) -> Session:
    return lambda model, program: insitu.record_run(model, **options)


WAYS: dict[str, Session] = {
    "record": _record(),
    "record of a model": _record("model"),
    "record modules": _record("model", level="modules"),
    "record aten": _record(level="aten"),
    "record aten of a model": _record("model", level="aten"),
    "record python": _record(level="python"),
    "record stats": _record(level="aten", keep="stats"),
    "record stats of a model": _record("model", keep="stats"),
    "record with a function": _record(keep=small),
    "record only": _record("model", only="**.part0"),
    "record the values of a trace": _record("model", keep="values"),
    "record a run": _record_run(),
    "record a run to a function": _record_run(only=["**", "forward.x", "forward.y"], to=lambda *of: None),
    "record each other step": _record_run(keep={"**": "stats"}, every=2, when="train"),
    "watch": _watch(),
    "watch a model": _watch(of_model=True, keep="stats"),
    "watch blocks": _watch(of_model=True, view=Blocks),
    "watch code": _watch(view="code"),
    "watch table": _watch(of_model=True, view="table"),
    "watch variables": _watch("x", "y.*", "self.**"),
    "watch functions": decorated,
    "guard": _guard(False),
    "guard a model": _guard(True),
}
