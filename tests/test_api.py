"""The public API is what `api.txt` says: a name, a parameter or an option cannot come, change or go unnoticed.

`pytest tests/test_api.py --update` writes it anew; its difference is what a changelog has to tell.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import insitu
import insitu.cli
import insitu.view

PINNED = Path(__file__).with_name("api.txt")
# What is public besides `import insitu` itself: what the docs name, and the interfaces of the other tools.
MODULES = {
    "insitu": insitu.__all__,
    "insitu.view": insitu.view.__all__,
    "insitu.integrations.huggingface": ["HuggingFaceCallback"],
    "insitu.integrations.lightning": ["LightningCallback"],
    "insitu.integrations.tensorboard": ["LiveScalars", "write"],
    "tracy_nn": None,
    "torch_code_tracing": None,
    "tensortrace": None,
    "ttracker": None,
}
# Those of Python's own methods that a user calls by what they stand for.
OPERATORS = ("__enter__", "__call__", "__getitem__", "__iter__", "__len__", "__contains__", "__bool__")


def test_the_api_is_the_one_that_is_pinned(request: pytest.FixtureRequest) -> None:
    found = "".join(f"{line}\n" for line in (*module_lines(), *command_lines()))
    if request.config.getoption("--update"):
        PINNED.write_text(found, encoding="utf-8")
    assert found == PINNED.read_text(encoding="utf-8")


def module_lines() -> Iterator[str]:
    for module_name, names in MODULES.items():
        module = importlib.import_module(module_name)
        yield f"# {module_name}"
        for name in sorted(module.__all__ if names is None else names):
            yield from item_lines(name, getattr(module, name))


def item_lines(name: str, item: Any) -> Iterator[str]:
    if inspect.isclass(item):
        yield f"class {name}({', '.join(base.__name__ for base in item.__bases__ if base is not object)})"
        for member in sorted(member for member in vars(item) if is_public(member)):
            yield from (f"    {line}" for line in item_lines(member, inspect.getattr_static(item, member)))
    elif isinstance(item, (staticmethod, classmethod)):
        yield f"def {name}{inspect.signature(item.__func__)}"
    elif inspect.isfunction(item):
        yield f"def {name}{inspect.signature(item)}"
    else:
        yield name


def is_public(member: str) -> bool:
    return member in OPERATORS if member.startswith("__") else not member.startswith("_")


def command_lines() -> Iterator[str]:
    yield "# the command insitu"
    for name, parser in sorted(subparsers(insitu.cli._parser()).items()):
        options = [option_text(action) for action in parser._actions if "--help" not in action.option_strings]
        yield f"insitu {' '.join([name, *options])}"


def subparsers(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    (action,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return action.choices  # type: ignore[return-value]


def option_text(action: argparse.Action) -> str:
    value = "" if action.nargs == 0 else action.metavar or f"{{{','.join(action.choices or [action.dest])}}}"
    return " ".join(filter(None, ["|".join(action.option_strings), str(value)]))
