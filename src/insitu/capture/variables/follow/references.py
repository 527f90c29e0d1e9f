"""What the code of a function refers to: globals, its variables and their attributes, read from its instructions."""

from __future__ import annotations

import opcode
import sys
from collections.abc import Iterator
from functools import lru_cache
from types import CodeType
from typing import Literal, NamedTuple


class Reference(NamedTuple):
    """A name and the attributes that follow it: `self.layer.forward`; for `super().x` the name is that of `x`."""

    kind: Literal["global", "local", "super"]
    name: str
    attributes: tuple[str, ...] = ()

    @property
    def is_super(self) -> bool:
        """Whether it is the builtin `super`."""
        return self.kind == "global" and self.name == "super"

    def attribute(self, name: str) -> Reference:
        """The reference to an attribute of this one."""
        return Reference(self.kind, self.name, (*self.attributes, name))


def _codes(*names: str) -> frozenset[int]:
    return frozenset(opcode.opmap[name] for name in names if name in opcode.opmap)


CACHE, EXTENDED = 0, opcode.opmap["EXTENDED_ARG"]
# The lowest bits of some arguments say how the value is to be called.
GLOBALS = {**dict.fromkeys(_codes("LOAD_GLOBAL"), 1), **dict.fromkeys(_codes("LOAD_NAME"), 0)}
ATTRIBUTES = {
    **dict.fromkeys(_codes("LOAD_ATTR"), int(sys.version_info >= (3, 12))),
    **dict.fromkeys(_codes("LOAD_METHOD"), 0),
}
SUPER = _codes("LOAD_SUPER_ATTR")
LOCALS = _codes("LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_DEREF", "LOAD_CLASSDEREF")
# Two variables in one argument: the second is the one that is on top of the stack.
PAIRS = _codes("LOAD_FAST_LOAD_FAST", "STORE_FAST_LOAD_FAST")
CALLS = _codes("CALL", "PRECALL")


@lru_cache(maxsize=4096)
def references(code: CodeType) -> tuple[Reference, ...]:
    """Everything that a code object refers to, each once; code nested in it left out.

    >>> def area(shape):
    ...     return float(shape.size.width)
    >>> [".".join((reference.name, *reference.attributes)) for reference in references(area.__code__)]
    ['float', 'shape.size.width']
    """
    return tuple(dict.fromkeys(_chains(code)))


def _chains(code: CodeType) -> Iterator[Reference]:
    chain: Reference | None = None
    super_called = called = False
    for operation, argument in _instructions(code.co_code):
        if operation in ATTRIBUTES:
            name = code.co_names[argument >> ATTRIBUTES[operation]]
            if chain is not None:
                chain = chain.attribute(name)
            elif super_called and called:
                yield Reference("super", name)
                super_called = False
            continue
        if chain is not None:
            super_called = super_called or chain.is_super
            yield chain
        if operation in SUPER:
            yield Reference("super", code.co_names[argument >> 2])
            super_called = False
        chain = _base(code, operation, argument)
        called = operation in CALLS
    if chain is not None:
        yield chain


def _base(code: CodeType, operation: int, argument: int) -> Reference | None:
    """The variable that an instruction loads; None if it loads none."""
    if operation in GLOBALS:
        return Reference("global", code.co_names[argument >> GLOBALS[operation]])
    if operation in PAIRS:
        return Reference("local", _variable(code, argument & 15))
    if operation in LOCALS:
        return Reference("local", _variable(code, argument))
    return None


def _variable(code: CodeType, index: int) -> str:
    name: str = code._varname_from_oparg(index)  # type: ignore[attr-defined]
    return name


def _instructions(bytecode: bytes) -> Iterator[tuple[int, int]]:
    """Operations with their whole arguments; `dis` would be twenty times slower."""
    extended = 0
    for operation, argument in zip(bytecode[::2], bytecode[1::2], strict=True):
        if operation == CACHE:
            continue
        if operation == EXTENDED:
            extended = (argument | extended) << 8
        else:
            yield operation, argument | extended
            extended = 0
