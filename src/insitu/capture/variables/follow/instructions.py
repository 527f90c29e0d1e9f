"""Variables as the instructions of a code object use them: names, globals, and comprehensions that run inside of it."""

from __future__ import annotations

import dis
from collections.abc import Iterator
from functools import lru_cache
from itertools import dropwhile, pairwise
from types import CodeType
from typing import Any

GLOBAL_INSTRUCTIONS = frozenset({"LOAD_GLOBAL", "STORE_GLOBAL", "DELETE_GLOBAL"})
# Modules and classes keep their variables in a dictionary.
NAME_INSTRUCTIONS = frozenset({"LOAD_NAME", "STORE_NAME", "DELETE_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})
HIDING = "LOAD_FAST_AND_CLEAR"
HIDING_STEPS = (HIDING, "SWAP", "MAKE_CELL")
# Instructions between the end of a comprehension and the one that restores its last variable.
RESTORING = frozenset({"SWAP", "END_FOR", "POP_TOP", "POP_ITER", "NOP", "COPY", "EXTENDED_ARG"})

LEADING_ON = frozenset({"NOP", "NOT_TAKEN", "EXTENDED_ARG"})


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


def stored_globals(code: CodeType) -> frozenset[str]:
    """The globals that a function binds."""
    return frozenset(_names(code, frozenset({"STORE_GLOBAL"})))


def stored_attributes(code: CodeType, owner: str) -> frozenset[str]:
    """The attributes of a variable that a function sets.

    >>> def train(self, config): self.loss = config.rate = 1
    >>> sorted(stored_attributes(train.__code__, "self"))
    ['loss']
    """
    steps = pairwise(dis.get_instructions(code))
    return frozenset(step.argval for before, step in steps if step.opname == "STORE_ATTR" and _loads(before, owner))


def _loads(step: dis.Instruction, name: str) -> bool:
    """Whether a variable is what an instruction has loaded last; since Python 3.13, one can load two."""
    if isinstance(step.argval, tuple):
        return bool(step.argval[-1] == name)
    return bool(step.argval == name)


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
        first, index = index, _end_of_hiding(steps, index)
        names = {step.argval for step in steps[first:index] if step.opname == HIDING}
        # The comprehension is guarded by a handler that restores the variables when it raises.
        handler = _handler(steps[index].offset, guarded) if names else None
        if handler is not None:
            before = [step.offset for step in steps[first + 1 : index]]
            yield names, [*before, *_places_after_hiding(steps, handler, guarded, names)]
        index += 1


def _places_after_hiding(
    steps: list[dis.Instruction], handler: int, guarded: list[Any], names: set[str]
) -> Iterator[int]:
    """The places of the instructions of a comprehension, and of those after it that restore the variables."""
    inside = _inside(steps, handler, guarded)
    yield from inside
    ends = [end for end in _ends(steps, inside) if end not in inside]
    for end in (*ends, handler):
        yield from _restoring(steps, end, names)


def _end_of_hiding(steps: list[dis.Instruction], index: int) -> int:
    """The index after the instructions that hide variables, if such begin here."""
    if steps[index].opname != HIDING:
        return index
    while steps[index].opname in HIDING_STEPS:
        index += 1
    return index


def _inside(steps: list[dis.Instruction], handler: int, guarded: list[Any]) -> dict[int, str | None]:
    """The places from which an exception reaches the handler, in order, and the unguarded jumps among them."""
    inside: dict[int, str | None] = {}
    was_inside = False
    for step in steps:
        # Jumps that the compiler put in last are not guarded: they cannot raise.
        jumps = was_inside and is_jump(step)
        was_inside = jumps or _is_guarded(step.offset, handler, guarded)
        if jumps:
            inside[step.offset] = step.opname
        elif was_inside:
            inside[step.offset] = None
    return inside


def is_jump(step: dis.Instruction) -> bool:
    """Whether an instruction only leads on to another one."""
    return "JUMP" in step.opname or step.opname in LEADING_ON


def _ends(steps: list[dis.Instruction], inside: dict[int, str | None]) -> Iterator[int]:
    """The places that come right after those inside, and the targets of jumps that lead out."""
    for before, step in pairwise(steps):
        if before.offset in inside and step.offset not in inside:
            yield step.offset
        if inside.get(step.offset) == "JUMP_FORWARD":
            yield step.argval


def _handler(place: int, guarded: list[Any]) -> int | None:
    return next((entry.target for entry in guarded if entry.start <= place < entry.end), None)


def _is_guarded(place: int, handler: int, guarded: list[Any]) -> bool:
    """Whether an exception at a place reaches the handler, perhaps through other handlers."""
    target = _handler(place, guarded)
    while target is not None and target != handler:
        target = _handler(target, guarded)
    return target is not None


def _restoring(steps: list[dis.Instruction], start: int, names: set[str]) -> Iterator[int]:
    """The places up to the instruction that restores the last of the names."""
    left = set(names)
    for step in dropwhile(lambda step: step.offset < start, steps):
        stored = _stored_variables(step)
        restores = stored or step.opname in RESTORING
        if not left or not restores:
            return
        yield step.offset
        left.difference_update(stored)


def _stored_variables(step: dis.Instruction) -> tuple[str, ...]:
    """The local variables that an instruction binds."""
    if not step.opname.startswith("STORE_FAST"):
        return ()
    if isinstance(step.argval, tuple):
        return step.argval
    return (step.argval,)
