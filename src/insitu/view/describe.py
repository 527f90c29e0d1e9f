"""The value of a variable in a few words: tensors with their values or statistics, containers by their size."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache, singledispatch
from itertools import islice
from typing import Any

from insitu.trace.event import Fields, Stats, TensorFacts, Word
from insitu.view.line import Span
from insitu.view.number import figure, is_whole, limits, nonfinite_counts
from insitu.view.value import kept_text, safe, short, tensor, value_text

MOST_NAMES = 8
MOST_TEXT = 72
SETS = ("set", "frozenset")
FEW, MOST_SHORT = 6, 48
NUMBERS = frozenset({int, float, type(None)})
PLAIN = NUMBERS | {bool, str}
CUT = re.compile(r"… (\d+) more")


def describe(item: Any) -> tuple[Span, ...]:
    """The spans for one value.

    >>> describe([1, 2, 3]), describe({"a": [1], "b": None})
    ((('[1, 2, 3]', ''),), (('dict, len 2: a, b', ''),))
    """
    kind = type(item)
    if kind is TensorFacts:
        return _tensor(item)
    if kind in NUMBERS:
        return ((value_text(item), ""),)
    return ((short(_text(item), MOST_TEXT), ""),)


@singledispatch
def _text(item: Any) -> str:
    return value_text(item)


@_text.register
def _(item: str) -> str:
    return repr(short(item, MOST_TEXT))


@_text.register
def _(item: Word) -> str:
    return value_text(item)


@_text.register
def _(item: dict) -> str:  # type: ignore[type-arg]
    if is_short(item.values()):
        return value_text(item)
    return _with_names(f"dict, len {len(item):,}", item)


@_text.register
def _(item: Fields) -> str:
    if item.type in SETS:
        return f"{item.type}, len {length_of(list(item.items.values())):,}"
    return _with_names(f"{safe(item.type)}, {len(item.items):,} fields", item.items)


@_text.register(list)
@_text.register(tuple)
def _(items: list[Any] | tuple[Any, ...]) -> str:
    """A short list of plain values as it is, another by its length, with the tensors in it; equal ones are counted."""
    if is_short(items):
        return value_text(items)
    length = _length(items)
    found = [tensor(item) for item in items if type(item) is TensorFacts]
    if not found:
        return length
    is_uniform = len(found) == len(items) and len(set(found)) == 1
    if is_uniform and len(items) > 1:
        return f"{length}: {len(items)} × {tensor(items[0])}"
    return f"{length}: {_capped([_item(item) for item in items[:MOST_NAMES]], len(items))}"


def is_short(items: Collection[Any]) -> bool:
    """Whether a container is so small that it is shown whole."""
    if not 0 < len(items) <= FEW:
        return False
    if not all(type(item) in PLAIN for item in items):
        return False
    return sum(len(value_text(item)) + 2 for item in items) <= MOST_SHORT


def _item(item: Any) -> str:
    """Something in a list; a container only by its size, because containers nest without end."""
    if type(item) is TensorFacts:
        return tensor(item)
    if isinstance(item, (list, tuple)):
        return _length(item)
    if isinstance(item, Fields):
        return safe(item.type)
    if isinstance(item, dict):
        return "dict"
    return _text(item)


def _length(items: list[Any] | tuple[Any, ...]) -> str:
    length = length_of(items)
    if isinstance(items, list):
        return f"list, len {length:,}"
    return f"tuple, len {length:,}"


def length_of(items: list[Any] | tuple[Any, ...]) -> int:
    """How many items there were: a long list holds its first items, and a word for how many more there were.

    >>> length_of([0, 1, Word("… 98 more")])
    100
    """
    if not items:
        return 0
    last = items[-1]
    if type(last) is not Word:
        return len(items)
    cut = CUT.fullmatch(last)
    if cut is None:
        return len(items)
    return len(items) - 1 + int(cut[1])


def _with_names(form: str, items: dict[Any, Any]) -> str:
    if not items:
        return form
    texts = [_named(name, item) for name, item in islice(items.items(), MOST_NAMES)]
    return f"{form}: {_capped(texts, len(items))}"


def _named(name: Any, item: Any) -> str:
    if type(item) is TensorFacts:
        return f"{value_text(name)} {tensor(item)}"
    return value_text(name)


def _capped(texts: list[str], count: int) -> str:
    if count > MOST_NAMES:
        texts = [*texts, f"… {count - MOST_NAMES:,} more"]
    return ", ".join(texts)


def _tensor(facts: TensorFacts) -> tuple[Span, ...]:
    """Dtype, shape and device, the class if it is not a plain tensor, and the values or the statistics."""
    head: Span = (tensor(facts), "blue")
    where = _where(facts.type, facts.device)
    if facts.kept is not None:
        text = short(kept_text(facts.kept), MOST_TEXT)
        if text:
            return (head, where, _kept_span(text))
    if facts.stats is None:
        return (head, where)
    return (head, where, *_statistics(facts.stats, facts.dtype))


def _kept_span(text: str) -> Span:
    """The values of a tensor, in red if one is NaN."""
    if "nan" in text:
        return (f"  {text}", "red")
    return (f"  {text}", "")


@lru_cache(maxsize=256)
def _where(type: str, device: str) -> Span:
    """The device, which is left out for an array on the CPU, and the class of a tensor that is not a plain one."""
    if (type, device) == ("ndarray", "cpu"):
        return ("", "green")
    if type in ("ndarray", "Tensor"):
        return (f" {safe(device)}", "green")
    return (f" {safe(device)} {safe(type)}", "green")


def _statistics(stats: Stats, dtype: str) -> list[Span]:
    """The range and the mean of the finite elements, and how many are not finite."""
    text = ""
    if stats.min is not None and stats.max is not None:
        text = f"  {limits(stats.min, stats.max, whole=is_whole(dtype))}"
    if stats.mean is not None:
        text += f"  mean {figure(stats.mean)}"
    odd = nonfinite_counts(stats)
    if odd:
        return [(text, ""), (f"  ✗ {odd}", "red")]
    return [(text, "")]
