"""Random programs of nested loops, branches, functions and blocks, which count the passes of their loops themselves."""

from __future__ import annotations

import linecache
import random
from pathlib import Path
from typing import Any

import torch

import insitu

CALLS = ("x = x + 1", "x = torch.relu(x) * 2", "x = torch.cat([x, x])[:2]", "x = library(x)", "y = x.sum().item()")


def library(x: Any) -> Any:
    """What no row of its own is for."""
    for _ in range(2):
        x = torch.abs(x)
    return x - 1


class ProgramWriter:
    """Writes a program. `begin(3)` in it begins a pass of loop 3, `end(3)` ends the loop, `tick()` precedes a call."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)
        self._lines: list[str] = []
        self._loops = 0
        self._functions: list[tuple[str, int]] = []

    def text(self) -> str:
        """The program, with a function `main`."""
        self._function("main", 4)
        while self._functions:
            self._function(*self._functions.pop())
        return "\n".join(self._lines) + "\n"

    def _function(self, name: str, depth: int) -> None:
        self._write(0, f"def {name}(x):")
        self._block(1, depth, in_loop=False)
        self._write(1, "return x")

    def _write(self, indent: int, text: str) -> None:
        self._lines.append("    " * indent + text)

    def _block(self, indent: int, depth: int, *, in_loop: bool) -> None:
        for _ in range(self._dice.randint(1, 3)):
            kinds = [self._call]
            if depth > 0:
                kinds += [self._loop, self._loop, self._branch, self._branch, self._with, self._try, self._new_function]
            self._dice.choice(kinds)(indent, depth - 1, in_loop)

    def _call(self, indent: int, depth: int, in_loop: bool) -> None:
        self._write(indent, "tick()")
        self._write(indent, self._dice.choice(CALLS))

    def _loop(self, indent: int, depth: int, in_loop: bool) -> None:
        number, passes = self._loops, self._dice.randint(1, 4)
        self._loops += 1
        if self._dice.random() < 0.7:
            self._write(indent, f"for i{number} in range({passes}):")
        else:
            self._write(indent, f"k{number} = 0")
            self._write(indent, f"while k{number} < {passes}:")
            self._write(indent + 1, f"k{number} += 1")
        self._write(indent + 1, f"begin({number})")
        self._block(indent + 1, depth, in_loop=True)
        self._write(indent, f"end({number})")

    def _branch(self, indent: int, depth: int, in_loop: bool) -> None:
        self._write(indent, "if flip():")
        self._block(indent + 1, depth, in_loop=in_loop)
        if in_loop and self._dice.random() < 0.3:
            self._write(indent + 1, "continue")
        elif self._dice.random() < 0.5:
            self._write(indent, "else:")
            self._block(indent + 1, depth, in_loop=in_loop)

    def _with(self, indent: int, depth: int, in_loop: bool) -> None:
        self._write(indent, "with block():")
        self._block(indent + 1, depth, in_loop=in_loop)

    def _try(self, indent: int, depth: int, in_loop: bool) -> None:
        self._write(indent, "try:")
        # A `continue` there looks like an exception: no trace can tell them apart.
        self._block(indent + 1, depth, in_loop=False)
        self._write(indent + 1, "fail()")
        self._write(indent, "except ValueError:")
        self._call(indent + 1, depth, in_loop)

    def _new_function(self, indent: int, depth: int, in_loop: bool) -> None:
        name = f"f{len(self._functions)}_{len(self._lines)}"
        self._functions.append((name, depth))
        self._write(indent, f"x = {name}(x)")


class PassCounter:
    """Counts the passes of each loop in which a call was made."""

    def __init__(self) -> None:
        self.passes: dict[int, int] = {}
        self._calls = 0
        self._running: dict[int, int] = {}

    def tick(self) -> None:
        """A call is about to be made."""
        self._calls += 1

    def begin(self, loop: int) -> None:
        """A pass begins."""
        self.end(loop)
        self._running[loop] = self._calls

    def end(self, loop: int) -> None:
        """The last pass is over."""
        start = self._running.pop(loop, self._calls)
        if self._calls > start:
            self.passes[loop] = self.passes.get(loop, 0) + 1


class Block:
    """A block that does nothing."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        pass


def fail() -> None:
    """Raise the exception that a program catches."""
    raise ValueError


def run(seed: int, folder: Path) -> tuple[insitu.Trace, str, dict[int, int]]:
    """The trace of a random program, its source, and how often each loop ran."""
    path = folder / f"program{seed}.py"
    path.write_text(ProgramWriter(seed).text())
    linecache.checkcache(str(path))
    dice, counter = random.Random(seed), PassCounter()
    names = {"torch": torch, "library": library, "block": Block, "fail": fail, "flip": lambda: dice.random() < 0.5}
    names |= {"tick": counter.tick, "begin": counter.begin, "end": counter.end}
    exec(compile(path.read_text(), str(path), "exec"), names)
    with insitu.record() as trace:
        names["main"](torch.ones(2))  # type: ignore[operator]
    return trace, str(path), counter.passes
