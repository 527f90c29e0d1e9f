"""What a variable holds, in a few words: tensors with their values or statistics, containers by their size."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache
from itertools import islice
from typing import Any

from insitu.trace.event import Fields, Stats, TensorFacts, Word
from insitu.view.line import Span
from insitu.view.value import figure, is_whole, kept, limits, safe, short, tensor, value
from insitu.view.words import Words

MOST_NAMES = 8
MOST_TEXT = 72
SETS = ("set", "frozenset")
FEW, MOST_SHORT = 6, 48
PLAIN = frozenset({int, float, bool, str, type(None)})
CUT = re.compile(r"… (\d+) more")


def describe(item: Any, words: Words) -> tuple[Span, ...]:
    """The spans for one value.

    >>> from insitu.view.words import WORDS
    >>> describe([1, 2, 3], WORDS["en"]), describe({"a": [1], "b": None}, WORDS["en"])
    ((('[1, 2, 3]', ''),), (('dict, len 2: a, b', ''),))
    """
    kind = type(item)
    if kind is TensorFacts:
        return _tensor(item, words)
    if kind is int or kind is float or item is None:
        return ((value(item), ""),)
    return ((short(_plain(item, words), MOST_TEXT), ""),)


def _plain(item: Any, words: Words) -> str:
    if isinstance(item, (list, tuple)):
        return _sequence(item, words)
    if isinstance(item, dict) and is_short(item.values()):
        return value(item)
    if isinstance(item, dict):
        return _named(words.keys.format(type="dict", count=f"{len(item):,}"), item, words)
    if isinstance(item, Fields) and item.type in SETS:
        return words.length.format(type=item.type, count=f"{length_of(list(item.items.values())):,}")
    if isinstance(item, Fields):
        form = words.fields.format(type=safe(item.type), count=f"{len(item.items):,}")
        return _named(form, item.items, words)
    if isinstance(item, str) and not isinstance(item, Word):
        return repr(short(item, MOST_TEXT))
    return value(item)


def is_short(items: Collection[Any]) -> bool:
    """Whether a container is so small that it is shown whole."""
    if not 0 < len(items) <= FEW or not all(type(item) in PLAIN for item in items):
        return False
    return sum(len(value(item)) + 2 for item in items) <= MOST_SHORT


def _item(item: Any, words: Words) -> str:
    """Something in a list; a container only by its size, because they may be nested without end."""
    if type(item) is TensorFacts:
        return tensor(item)
    if isinstance(item, (list, tuple)):
        return _length(item, words)
    return safe(item.type) if isinstance(item, Fields) else "dict" if isinstance(item, dict) else _plain(item, words)


def _length(items: list[Any] | tuple[Any, ...], words: Words) -> str:
    return words.length.format(type="list" if isinstance(items, list) else "tuple", count=f"{length_of(items):,}")


def _sequence(items: list[Any] | tuple[Any, ...], words: Words) -> str:
    """A short list of plain values as it is, another by its length, with the tensors in it; equal ones are counted."""
    if is_short(items):
        return value(items)
    length = _length(items, words)
    kinds = {tensor(item) if type(item) is TensorFacts else None for item in items}
    if kinds <= {None}:
        return length
    if len(items) > 1 and len(kinds) == 1:
        return f"{length}: {len(items)} × {tensor(items[0])}"
    return f"{length}: {_listed([_item(item, words) for item in items[:MOST_NAMES]], len(items), words)}"


def length_of(items: list[Any] | tuple[Any, ...]) -> int:
    """How many items there were: of a long list the first ones are noted, and how many more there are.

    >>> length_of([0, 1, Word("… 98 more")])
    100
    """
    last = items[-1] if items else None
    cut = CUT.fullmatch(last) if type(last) is Word else None
    return len(items) if cut is None else len(items) - 1 + int(cut[1])


def _named(form: str, items: dict[Any, Any], words: Words) -> str:
    if not items:
        return form
    texts = [
        f"{value(name)} {tensor(item)}" if type(item) is TensorFacts else value(name)
        for name, item in islice(items.items(), MOST_NAMES)
    ]
    return f"{form}: {_listed(texts, len(items), words)}"


def _listed(texts: list[str], count: int, words: Words) -> str:
    if count > MOST_NAMES:
        texts = [*texts, words.more.format(count=f"{count - MOST_NAMES:,}")]
    return ", ".join(texts)


def _tensor(facts: TensorFacts, words: Words) -> tuple[Span, ...]:
    """Dtype, shape and device, the class if it is one of its own, and the values or what is known of them."""
    head: Span = (tensor(facts), "blue")
    where = _where(facts.type, facts.device)
    if facts.kept is not None:
        text = short(kept(facts.kept), MOST_TEXT)
        if text:
            return (head, where, ("  " + text, "red" if "nan" in text else ""))
    return (head, where) if facts.stats is None else (head, where, *_statistics(facts.stats, facts.dtype, words))


@lru_cache(maxsize=256)
def _where(type: str, device: str) -> Span:
    """The device, which goes without saying for an array, and the class, for a tensor that is no plain one."""
    if type == "ndarray":
        return ("" if device == "cpu" else f" {safe(device)}", "green")
    return (f" {safe(device)}" + ("" if type == "Tensor" else f" {safe(type)}"), "green")


def _statistics(stats: Stats, dtype: str, words: Words) -> list[Span]:
    """The range and the mean of the finite elements, and how many are not."""
    text = ""
    if stats.min is not None and stats.max is not None:
        text = f"  {limits(stats.min, stats.max, whole=is_whole(dtype))}"
    if stats.mean is not None:
        text += f"  {words.mean} {figure(stats.mean)}"
    spans: list[Span] = [(text, "")]
    if not (stats.nan or stats.inf):
        return spans
    odd = [f"{count:,} {name}" for count, name in ((stats.nan, "NaN"), (stats.inf, "Inf")) if count]
    return [*spans, (f"  ✗ {', '.join(odd)}", "red")]
