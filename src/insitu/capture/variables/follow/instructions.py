"""Variables as the instructions of a code object use them: names, globals, and comprehensions that run inside of it."""

from __future__ import annotations

import dis
from collections.abc import Iterator
from functools import lru_cache
from types import CodeType
from typing import Any

GLOBAL_INSTRUCTIONS = frozenset({"LOAD_GLOBAL", "STORE_GLOBAL", "DELETE_GLOBAL"})
# Modules and classes keep their variables in a dictionary.
NAME_INSTRUCTIONS = frozenset({"LOAD_NAME", "STORE_NAME", "DELETE_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})
HIDING = "LOAD_FAST_AND_CLEAR"
# What stands between the end of a comprehension and the last variable that is given back.
RESTORING = frozenset({"SWAP", "END_FOR", "POP_TOP", "POP_ITER", "NOP", "COPY", "EXTENDED_ARG"})


@lru_cache(maxsize=256)
def global_names(code: CodeType) -> tuple[str, ...]:
    """The names that a code object reads, binds or deletes as globals, in order."""
    return _names(code, GLOBAL_INSTRUCTIONS)


@lru_cache(maxsize=256)
def dictionary_names(code: CodeType) -> tuple[str, ...]:
    """The names that the code of a module or a class reads, binds or deletes, in order."""
    return _names(code, NAME_INSTRUCTIONS | GLOBAL_INSTRUCTIONS)


def stored_names(code: CodeType) -> frozenset[str]:
    """The names that the code of a module or a class binds."""
    return frozenset(_names(code, frozenset({"STORE_NAME"})))


def _names(code: CodeType, instructions: frozenset[str]) -> tuple[str, ...]:
    found = (step.argval for step in dis.get_instructions(code) if step.opname in instructions)
    return tuple(dict.fromkeys(found))


@lru_cache(maxsize=256)
def hidden_names(code: CodeType) -> dict[int, frozenset[str]]:
    """The names that mean variables of a comprehension, by the place of the instruction that runs.

    Since Python 3.12 comprehensions run in the frame of their function. Their variables take the places of those that
    have the same names, and these come back at the end.
    """
    found: dict[int, frozenset[str]] = {}
    if HIDING in dis.opmap:
        steps = [step for step in dis.get_instructions(code) if step.opname != "CACHE"]
        for names, places in _comprehensions(steps, dis.Bytecode(code).exception_entries):  # type: ignore[attr-defined]
            found.update((place, found.get(place, frozenset()) | names) for place in places)
    return found


def _comprehensions(steps: list[dis.Instruction], guarded: list[Any]) -> Iterator[tuple[set[str], list[int]]]:
    """The names that each comprehension hides, and the places of the instructions that run meanwhile."""
    index = 0
    while index < len(steps):
        first = index + 1
        names: set[str] = set()
        while steps[index].opname in (HIDING, *(("SWAP", "MAKE_CELL") if names else ())):
            names.update({steps[index].argval} if steps[index].opname == HIDING else ())
            index += 1
        # The comprehension is guarded by a handler that gives the variables back when it raises.
        handler = _handler(steps[index].offset, guarded) if names else None
        if handler is not None:
            inside, ends = _inside(steps, handler, guarded)
            before = [step.offset for step in steps[first:index]]
            last = [place for end in (*ends, handler) for place in _restoring(steps, end, names)]
            yield names, [*before, *inside, *last]
        index += 1


def _inside(steps: list[dis.Instruction], handler: int, guarded: list[Any]) -> tuple[set[int], list[int]]:
    """The places from which one comes to the handler, and those that come right after them."""
    inside, ends, was_inside = set(), [], False
    for step in steps:
        # Jumps that the compiler put in last are not guarded: they cannot raise.
        jumps = was_inside and ("JUMP" in step.opname or step.opname in ("NOP", "NOT_TAKEN", "EXTENDED_ARG"))
        is_inside = jumps or _is_guarded(step.offset, handler, guarded)
        if is_inside:
            inside.add(step.offset)
        elif was_inside:
            ends.append(step.offset)
        if jumps and step.opname == "JUMP_FORWARD":
            ends.append(step.argval)
        was_inside = is_inside
    return inside, [end for end in ends if end not in inside]


def _handler(place: int, guarded: list[Any]) -> int | None:
    return next((entry.target for entry in guarded if entry.start <= place < entry.end), None)


def _is_guarded(place: int, handler: int, guarded: list[Any]) -> bool:
    """Whether what is raised at a place comes to the handler, maybe by way of other ones."""
    target = _handler(place, guarded)
    while target is not None and target != handler:
        target = _handler(target, guarded)
    return target is not None


def _restoring(steps: list[dis.Instruction], start: int, names: set[str]) -> Iterator[int]:
    """The places up to the instruction that gives the last of the names back."""
    left = set(names)
    for step in steps:
        if step.offset < start:
            continue
        if not left or not (step.opname in RESTORING or step.opname.startswith("STORE_FAST")):
            return
        yield step.offset
        if step.opname.startswith("STORE_FAST"):
            left.difference_update(step.argval if isinstance(step.argval, tuple) else [step.argval])
