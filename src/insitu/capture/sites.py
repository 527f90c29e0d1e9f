"""Places in the source: (code, instruction) pairs while tracing, interned `Site`s when decoding."""

from __future__ import annotations

import linecache
import opcode
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from types import CodeType, FrameType
from typing import Any

import torch

from insitu.capture.cells import file_or_cell, is_cell
from insitu.capture.nestings import Nestings, NoNestings
from insitu.capture.torch_internals import VMAP_CODE
from insitu.trace.event import Site

# Frames of torch, of this tool and of the import system are left out of the chains: the user did not write them. The
# demo is an example, and shown.
OWN = os.path.join(os.path.dirname(os.path.dirname(__file__)), "")
HIDDEN = (*(os.path.join(folder, "") for folder in torch.__path__), OWN, "<frozen ")
DEMO = os.path.join(OWN, "demo.py")
GENERATOR_FLAGS = 0x20 | 0x80 | 0x200  # generator, coroutine, asynchronous generator
BINARY_OPERATORS: list[str] = [symbol for _, symbol in opcode._nb_ops]  # type: ignore[attr-defined]
COMPARE_SHIFT = {(3, 11): 0, (3, 12): 4}.get(sys.version_info[:2], 5)
OTHER_OPERATORS = {
    "BINARY_SUBSCR": "[]",
    "STORE_SUBSCR": "[]=",
    "DELETE_SUBSCR": "del []",
    "BINARY_SLICE": "[]",
    "STORE_SLICE": "[]=",
    "UNARY_NEGATIVE": "-",
    "UNARY_INVERT": "~",
    "UNARY_POSITIVE": "+",
}


class Base:
    """The frame in which a session was entered, by id so that it is not kept alive, and the chain above it.

    A generator's frame is no base: it may be resumed from elsewhere, and then another chain is above it.
    """

    __slots__ = ("above", "code", "id")

    def is_below(self, frame: FrameType | None) -> bool:
        """Whether the frame above is still the one it was: an id may be used again by a later call."""
        if not self.above:
            return True
        return frame is not None and frame.f_code is self.above[0] and frame.f_lasti == self.above[1]

    def __init__(self, frame: FrameType | None) -> None:
        self.id = 0
        self.code: CodeType | None = None
        self.above: list[Any] = []
        if frame is None or frame.f_code.co_flags & GENERATOR_FLAGS:
            return
        self.id, self.code = id(frame), frame.f_code
        # What `insitu run` runs has nothing above it but this tool.
        outer = frame.f_back if not is_hidden(frame.f_code.co_filename) else None
        while outer is not None:
            self.above += (outer.f_code, outer.f_lasti)
            outer = outer.f_back


def is_hidden(filename: str) -> bool:
    """Whether the frames of a file are left out."""
    return filename.startswith(HIDDEN) and filename != DEMO


MOST_DECORATORS = 100  # lines between the first decorator of a function and its `def`
INSTRUCTIONS = tuple(range(4096))
# Ends a stack that was walked to its top: nothing lies further out.
TOP = (None, 0)


HIDE, SHOW, STOP = 0, 1, 2


class Codes:
    """What to do at the frames of a code object, by its id: hide or show them, or stop at them, for these are the
    handlers that have recorded what lies above. The objects are held, so that the ids stay theirs.

    The frame of `torch.vmap` is recorded as if it was shown: decoding leaves it out, and marks the calls inside."""

    def __init__(self) -> None:
        self.shown: dict[int, int] = {}
        self._met: list[CodeType] = []
        self._handlers: tuple[CodeType, ...] = ()

    def stop_at(self, *handlers: CodeType) -> None:
        """Stop at the frames of these, too."""
        self._handlers = (*self._handlers, *handlers)
        self.shown.update((id(code), STOP) for code in handlers)

    def learn(self, code: CodeType) -> int:
        """The answer for a code object that was not met before."""
        self._met.append(code)
        show = self.shown[id(code)] = HIDE if is_hidden(code.co_filename) and code is not VMAP_CODE else SHOW
        return show

    def clear(self) -> None:
        """Let go of all but the handlers."""
        self.shown.clear()
        self._met.clear()
        self.shown.update((id(code), STOP) for code in self._handlers)


class Sites:
    """Turns chains of (code, instruction) pairs into interned sites.

    `with_nestings` says whether the loops and branches around each site matter: to find them, its file is parsed.
    """

    def __init__(self, *, with_nestings: bool = True) -> None:
        self._places: dict[tuple[int, int], tuple[CodeType, Site | None]] = {}
        self._sites: dict[tuple[int, int, int], Site | None] = {}
        self._operators: dict[tuple[int, int], str | None] = {}
        self._lines: dict[tuple[str, int, str, int], Site] = {}
        self._positions: dict[int, tuple[CodeType, list[tuple[int | None, ...]]]] = {}
        self._has_vmap = False
        self._nestings = Nestings() if with_nestings else NoNestings()

    def outside(self, pairs: Sequence[Any]) -> Site | None:
        """The site of the innermost of the pairs above a session; what is around them does not matter there."""
        return Sites(with_nestings=False).chain(pairs, None)

    def chain(self, pairs: Sequence[Any], caller: Site | None) -> Site | None:
        """The site of the innermost of the pairs, which come innermost first; `caller` is what lies further out."""
        for index in range(len(pairs) - 2, -1, -2):
            code = pairs[index]
            caller = self._site(code, pairs[index + 1], caller) if code is not None else None
        return caller

    def is_vmapped(self, pairs: Sequence[Any]) -> bool:
        """Whether one of the pairs, whose chain is known, is in the code that runs the function of a `torch.vmap`."""
        return self._has_vmap and any(code is VMAP_CODE for code in pairs[::2])

    def line(self, file: str, line: int, function: str, caller: Site | None) -> Site:
        """A line, where no instruction is known."""
        key = (file, line, function, id(caller))
        if key not in self._lines:
            text = linecache.getline(file, line).rstrip("\n")
            nesting = self._nestings.of_line(file, line)
            self._lines[key] = Site(file_or_cell(file), line, function, text, caller=caller, nesting=nesting)
        return self._lines[key]

    def definition(self, code: CodeType) -> Site:
        """Where a function is defined: the line of its `def`, not of its decorators."""
        first = code.co_firstlineno
        lines = linecache.getlines(code.co_filename)[first - 1 : first - 1 + MOST_DECORATORS]
        heading = re.compile(rf"\s*(async\s+)?def\s+{re.escape(code.co_name)}\b")
        below = next((index for index, text in enumerate(lines) if heading.match(text)), 0)
        return self.line(code.co_filename, first + below, code.co_qualname, None)

    def operator(self, pairs: Sequence[Any]) -> str | None:
        """The symbol when the innermost visible frame was executing an operator."""
        for index in range(0, len(pairs), 2):
            code, lasti = pairs[index], pairs[index + 1]
            if code is not None and self._place(code, lasti) is not None:
                key = (id(code), lasti)
                if key not in self._operators:
                    self._operators[key] = operator_symbol(code.co_code, lasti)
                return self._operators[key]
        return None

    def _site(self, code: CodeType, lasti: int, caller: Site | None) -> Site | None:
        key = (id(code), lasti, id(caller))
        try:
            return self._sites[key]
        except KeyError:
            site = self._sites[key] = self._new_site(code, lasti, caller)
            return site

    def _new_site(self, code: CodeType, lasti: int, caller: Site | None) -> Site | None:
        """The site of an instruction; that of the caller for a hidden frame. A cell of a notebook has no caller."""
        place = self._place(code, lasti)
        if place is None:
            return caller
        if is_cell(code):
            caller = None
        return replace(place, caller=caller)

    def _place(self, code: CodeType, lasti: int) -> Site | None:
        """The site of an instruction without its caller; None for a hidden frame."""
        key = (id(code), lasti)
        if key not in self._places:
            shown = None if is_hidden(code.co_filename) else self._read(code, lasti)
            self._places[key] = (code, shown)  # the code is held so that its id stays its own
            self._has_vmap = self._has_vmap or code is VMAP_CODE
        return self._places[key][1]

    def _read(self, code: CodeType, lasti: int) -> Site:
        line, end_line, start, end = self._position(code, lasti)
        text = linecache.getline(code.co_filename, line).rstrip("\n") if line else ""
        site = Site(file_or_cell(code.co_filename), line or 0, code.co_qualname, text)
        if start is not None and end is not None and line == end_line:
            encoded = text.encode()
            site.start = len(encoded[:start].decode(errors="ignore"))
            site.end = len(encoded[:end].decode(errors="ignore"))
        site.nesting = self._nestings.of_instruction(code, lasti, self._positions_of(code))
        return site

    def _position(self, code: CodeType, lasti: int) -> tuple[int | None, ...]:
        positions = self._positions_of(code)
        index = lasti // 2
        if 0 <= index < len(positions):
            return positions[index]
        return (code.co_firstlineno, None, None, None)

    def _positions_of(self, code: CodeType) -> list[tuple[int | None, ...]]:
        """The positions of all instructions."""
        if id(code) not in self._positions:
            self._positions[id(code)] = (code, list(code.co_positions()))
        return self._positions[id(code)][1]


def operator_symbol(bytecode: bytes, lasti: int) -> str | None:
    """The symbol of the instruction when it is an operator: `@`, `+=`, `[]`, `<`."""
    if not 0 <= lasti < len(bytecode) - 1:
        return None
    name, argument = opcode.opname[bytecode[lasti]], bytecode[lasti + 1]
    if name == "BINARY_OP":
        return BINARY_OPERATORS[argument]
    if name == "COMPARE_OP":
        return opcode.cmp_op[argument >> COMPARE_SHIFT]
    return OTHER_OPERATORS.get(name)
