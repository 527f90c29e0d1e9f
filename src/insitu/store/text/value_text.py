"""Writes arguments, results and facts as text that can be read back, like Python where that is possible.

None, True, 1, 0.5, inf, 'text', b'bytes', (1,), [1], {'a': 1}    themselves
torch.bfloat16, w'slice(0, 3, None)'      a `Word`, in quotes if it could be mistaken
Output(loss=1.5)                          a `Fields`
<Generator>                               an `Opaque`, and any object that has no other form
c'1+2j', a'<f4[2]' [0.5, 1.0]             a complex number, an array of NumPy
%a.relu, %a.relu:f32[2, 3]{grad, …}       a tensor that occurred before, and a new one
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from math import floor, hypot, inf, log10, prod
from typing import Any

from insitu.trace.dtype import dtype_named
from insitu.trace.event import COUNTS, NUMBERS, Fields, Opaque, Statistic, Stats, TensorFacts, Word

DEEPEST = 64
_ARRAYS = "biufc"  # the kinds of arrays that are written
_LONGEST_INT = 10**4000  # Python refuses to write much longer ones in decimal
_NAME = re.compile(r"[\w.]+")
_WORD = re.compile(r"[^\W\d][\w.]*(:\d+)?|\.\.\.")
NOT_WORDS = frozenset({"None", "True", "False", "nan", "inf"})


@lru_cache(maxsize=4096)
def name_text(name: str) -> str:
    """A name, in quotes if it has other characters than letters, digits and dots.

    >>> name_text("h.0.attn"), name_text(""), name_text("f.<locals>.g")
    ('h.0.attn', "''", "'f.<locals>.g'")
    """
    if _NAME.fullmatch(name):
        return name
    return repr(name)


def word_text(word: str) -> str:
    """A word, in quotes if it could be mistaken for another value."""
    if _WORD.fullmatch(word) and word not in NOT_WORDS:
        return str(word)
    return f"w{str(word)!r}"


class ValueWriter:
    """Writes values; the function `tensor` writes the tensors in them."""

    def __init__(self, tensor: Callable[[TensorFacts], str]) -> None:
        self._tensor = tensor
        self._depth = 0

    def text(self, value: Any) -> str:
        """A value as text.

        >>> ValueWriter(repr).text({"p": (0.5, Word("cpu"), None), "x": Fields("Out", {"loss": [b"a", 1j]})})
        "{'p': (0.5, cpu, None), 'x': Out(loss=[b'a', c'1j'])}"
        """
        if type(value) is TensorFacts:
            return self._tensor(value)
        if self._depth > DEEPEST:  # such as a list that contains itself
            return f"<{name_text(type(value).__name__)}>"
        self._depth += 1
        try:
            return self._container(value)
        finally:
            self._depth -= 1

    def _container(self, value: Any) -> str:
        write = _CONTAINERS.get(type(value))
        if write is not None:
            return write(self, value)
        if _is_array(value):
            return self._array(value)
        return _atom(value)

    def _tuple(self, value: tuple[Any, ...]) -> str:
        if len(value) == 1:
            return f"({self._items(value)},)"
        return f"({self._items(value)})"

    def _list(self, value: list[Any]) -> str:
        return f"[{self._items(value)}]"

    def _dict(self, value: dict[Any, Any]) -> str:
        items = [f"{self.text(key)}: {self.text(item)}" for key, item in value.items()]
        return f"{{{', '.join(items)}}}"

    def _fields(self, value: Fields) -> str:
        return f"{name_text(value.type)}({self.named(value.items)})"

    def _array(self, value: Any) -> str:
        if not value.shape:
            return self.text(value.tolist())
        sizes = ", ".join(map(str, value.shape))
        return f"a'{value.dtype.str}[{sizes}]' {self.text(_flat(value))}"

    def _items(self, values: Iterable[Any]) -> str:
        return ", ".join([self.text(value) for value in values])

    def named(self, values: dict[str, Any]) -> str:
        """Values by name: `p=0.5, inplace=False`."""
        return ", ".join([f"{name_text(str(name))}={self.text(item)}" for name, item in values.items()])

    def facts(self, facts: TensorFacts, *more: str, stats: bool = True) -> str:
        """The facts of a tensor; the device only if it is not the CPU."""
        sizes = ", ".join(map(_size_text, facts.shape))
        text = f"{name_text(facts.dtype)}[{sizes}]"
        if facts.type != "Tensor":
            text = f"{name_text(facts.type)} {text}"
        details = ", ".join(self._details(facts, more, stats))
        if details:
            return f"{text}{{{details}}}"
        return text

    def _details(self, facts: TensorFacts, more: Iterable[str], stats: bool) -> Iterator[str]:
        if facts.requires_grad:
            yield "grad"
        yield from more
        if facts.device != "cpu":
            yield f"on {word_text(facts.device)}"
        if facts.stats is not None and stats:
            yield from _stats(facts.stats, facts)
        if facts.kept is not None:
            yield f"kept {self.text(facts.kept)}"
        if facts.grad is not None:
            yield f"gradient {self.facts(facts.grad)}"


_CONTAINERS: dict[type, Callable[[ValueWriter, Any], str]] = {
    tuple: ValueWriter._tuple,
    list: ValueWriter._list,
    dict: ValueWriter._dict,
    Fields: ValueWriter._fields,
}


def _size_text(size: int | str) -> str:
    if type(size) is int:
        return str(size)
    return name_text(str(size))


def _is_array(value: Any) -> bool:
    dtype = getattr(value, "dtype", None)
    return hasattr(value, "tolist") and getattr(dtype, "kind", "O") in _ARRAYS


def _atom(value: Any) -> str:
    write = _ATOMS.get(type(value))
    if write is not None:
        return write(value)
    if isinstance(value, str):
        return repr(str(value))
    return f"<{name_text(type(value).__name__)}>"


def _integer(value: int) -> str:
    if -_LONGEST_INT < value < _LONGEST_INT:
        return str(value)
    return hex(value)


_ATOMS: dict[type, Callable[[Any], str]] = {
    **dict.fromkeys((type(None), bool, float, bytes, str), repr),
    int: _integer,
    complex: lambda value: f"c'{str(value).strip('()')}'",
    Word: word_text,
    Opaque: lambda value: f"<{name_text(value.type)}>",
}


def _flat(array: Any) -> Any:
    """The numbers of an array; short floats with as few digits as tell them apart."""
    short = array.dtype.kind == "f" and array.dtype.itemsize <= 4
    if short:
        return [float(str(number)) for number in array.ravel()]
    return array.ravel().tolist()


def _stats(stats: Stats, facts: TensorFacts) -> list[str]:
    numbers = _numbers(stats, dtype_named(facts.dtype).digits)
    counts = {row.name: getattr(stats, row.name) for row in COUNTS if row.name != "count"}
    known = numbers | {name: count for name, count in counts.items() if count}
    is_partial = stats.count != expected_count(facts.shape)
    if is_partial or not known:
        known["count"] = stats.count
    return [f"{name} {number}" for name, number in known.items()]


def _numbers(stats: Stats, digits: int | None) -> dict[str, Any]:
    """The statistics that are known, rounded as their type allows.

    >>> _numbers(Stats(count=9, min=-2 / 3, max=1.0, mean=1.5e-9, std=0.3333333333), 7)
    {'min': '-0.666667', 'max': '1', 'mean': '0', 'std': '0.3333333'}
    """
    known = {row: getattr(stats, row.name) for row in NUMBERS if getattr(stats, row.name) is not None}
    if digits is None:  # whole numbers must be the same
        exact = {row.name: number for row, number in known.items() if not row.depends_on_order}
        return {name: repr(number).removesuffix(".0") for name, number in exact.items()}
    scales = {"extreme": _largest(known), "average": hypot(*_of(known, "average"))}
    return {row.name: _rounded(number, scales.get(row.bound, abs(number)), digits) for row, number in known.items()}


def _of(known: dict[Statistic, float], bound: str) -> list[float]:
    return [number for row, number in known.items() if row.bound == bound]


def _largest(known: dict[Statistic, float]) -> float:
    return max(map(abs, _of(known, "extreme")), default=0.0)


def _rounded(number: float, scale: float, digits: int) -> str:
    """A number, rounded to so many digits of the scale, which is not smaller.

    >>> _rounded(1 / 3, 1.0, 7), _rounded(1 / 3, 1234.0, 7), _rounded(-1e-9, 2.0, 7), _rounded(4e-20, 4e-20, 7)
    ('0.333333', '0.333', '0', '4e-20')
    """
    if not 0 < scale < inf:
        return f"{number:.{digits}g}"
    short = round(number, digits - 1 - floor(log10(scale)))
    return f"{short or 0.0:.{digits}g}"


def expected_count(shape: tuple[int | str, ...]) -> int:
    """How many elements a tensor of this shape has; -1 if a size is not known."""
    known = [size for size in shape if type(size) is int]
    if len(known) == len(shape):
        return prod(known)
    return -1
