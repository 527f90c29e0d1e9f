"""How facts become text: tensors, arguments, numbers, times, sizes. Always one line, whatever a string holds."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from insitu.trace.event import Fields, Opaque, Stats, TensorFacts, Word, tensors

MOST_ITEMS = 32
MOST_DEPTH = 8
MOST_TEXT = 200
MOST_VALUES = 64  # of an array that is written out


def safe(text: str) -> str:
    """The text on one line: control characters, escape codes and broken unicode are spelled out.

    >>> safe("a\\nb\\x1b[31m")
    'a\\\\nb\\\\x1b[31m'
    """
    if text.isprintable():
        return text
    return "".join([c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text])


def short(text: str, limit: int) -> str:
    """The text, cut with … when it is longer than the limit."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def tensor(facts: TensorFacts) -> str:
    """A tensor as dtype and shape, marked if it is an array of NumPy.

    >>> tensor(TensorFacts(0, (2, 3), "f32", "cpu")), tensor(TensorFacts(0, (4,), "u8", "cpu", type="ndarray"))
    ('f32[2, 3]', 'np u8[4]')
    """
    text = _typed(facts.dtype, facts.shape)
    return f"np {text}" if facts.type == "ndarray" else text


@lru_cache(maxsize=4096)
def _typed(dtype: str, shape: tuple[int | str, ...]) -> str:
    return safe(f"{dtype}[{', '.join(map(str, shape))}]")


def value(item: Any, *, quote_tensors: bool = False) -> str:
    """An argument as text; a string stands bare, as `str` would have it.

    >>> value([1, "a", None, (2.5,)]), value("mean")
    ("[1, 'a', None, (2.5,)]", 'mean')
    """
    kind = type(item)
    if kind is TensorFacts:
        return tensor(item)
    if kind is int or kind is float or kind is bool or item is None:
        return _number(item)
    if isinstance(item, str):
        return short(safe(item), MOST_TEXT)
    return _inner(item, "'" if quote_tensors else "", 0)


def _number(item: Any) -> str:
    try:
        return str(item)
    except ValueError:  # Python refuses to print integers of many thousand digits
        return f"<int of {item.bit_length()} bits>"


def _inner(item: Any, quote: str, depth: int) -> str:
    """An item of a container, or a container."""
    if isinstance(item, TensorFacts):
        return f"{quote}{tensor(item)}{quote}"
    if isinstance(item, str):
        return safe(item) if isinstance(item, Word) else repr(short(item, MOST_TEXT))
    if item is None or isinstance(item, (int, float, complex)):
        return _number(item)
    if item is ...:
        return "..."
    if depth == MOST_DEPTH:
        return "…"
    if isinstance(item, list):
        return f"[{_items(item, quote, depth)}]"
    if isinstance(item, tuple):
        return f"({_items(item, quote, depth)}{',' if len(item) == 1 else ''})"
    if isinstance(item, dict):
        return f"{{{_named(item, ': ', quote, depth)}}}"
    if isinstance(item, Fields):
        return f"{safe(item.type)}({_named(item.items, '=', quote, depth)})"
    return safe(f"<{item.type if isinstance(item, Opaque) else type(item).__name__}>")


def _items(items: Iterable[Any], quote: str, depth: int) -> str:
    return capped([_inner(item, quote, depth + 1) for item in items])


def _named(items: dict[Any, Any], sign: str, quote: str, depth: int) -> str:
    return capped([f"{value(name)}{sign}{_inner(item, quote, depth + 1)}" for name, item in items.items()])


def capped(texts: list[str], most: int = MOST_ITEMS) -> str:
    """The texts with commas; of a long list the first ones and how many more there are."""
    if len(texts) > most:
        texts = [*texts[:most], f"… {len(texts) - most} more"]
    return ", ".join(texts)


def arguments(args: Iterable[Any], kwargs: dict[str, Any]) -> list[str]:
    """The arguments that are no tensors; what torch passes on for itself, `None` and `_stacklevel`, is left out."""
    texts = [value(item) for item in args if not (item is None or holds_tensor(item))]
    for name, item in kwargs.items():
        if not (item is None or name.startswith("_") or holds_tensor(item)):
            texts.append(f"{safe(name)}={value(item)}")
    return texts


def holds_tensor(item: Any) -> bool:
    """Whether this is a tensor or a container with one in it."""
    kind = type(item)
    if kind is TensorFacts:
        return True
    if kind is int or kind is str or kind is float or kind is bool:
        return False
    return next(tensors(item), None) is not None


def held(item: Any) -> str:
    """What a variable holds, in the manner of a result; a text is quoted and None is None."""
    if isinstance(item, str) and not isinstance(item, Word):
        return repr(short(item, 60))
    return result(item) if holds_tensor(item) else short(value(item), 60)


def result(item: Any, limit: int = 60) -> str:
    """The tensors of a result: `f32[2, 3]`, `3 × f32[2, 3]`, `f32[2], i64[2]`, `logits: f32[2], loss: f32[]`."""
    if type(item) is TensorFacts:
        return tensor(item)
    if isinstance(item, (dict, Fields)):
        items = item.items if isinstance(item, Fields) else item
        parts = [f"{value(name)}: {result(part)}" for name, part in items.items() if part is not None]
        return short(capped(parts), limit)
    if item is None:
        return ""
    found = [tensor(facts) for facts in tensors(item)]
    if not found:
        return short(value(item), limit)
    if len(found) > 1 and len(set(found)) == 1:
        return f"{len(found)} × {found[0]}"
    return short(capped(found), limit)


def union(every: list[Stats]) -> Stats | None:
    """The statistics of several tensors taken as one; mean, deviation and histogram are left out."""
    if len(every) < 2:
        return every[0] if every else None
    low = [stats.min for stats in every if stats.min is not None]
    high = [stats.max for stats in every if stats.max is not None]
    count, nan, inf, zeros = (sum(getattr(stats, name) for stats in every) for name in ("count", "nan", "inf", "zeros"))
    return Stats(count, min(low, default=None), max(high, default=None), None, None, nan, inf, zeros)


def spread(stats: Stats) -> str:
    """The range of the values, or what is wrong with them.

    >>> spread(Stats(4, -2.2, 2.271, 0.0, 1.0, 0, 0, 0)), spread(Stats(4, 0.0, 1.0, 0.5, 1.0, 2, 0, 0))
    ('-2.2 … 2.27', '✗ 2 NaN')
    """
    if stats.nan:
        return f"✗ {stats.nan:,} NaN" + (f", {stats.inf:,} Inf" if stats.inf else "")
    inf = f"{stats.inf:,} Inf" if stats.inf else ""
    if stats.min is None or stats.max is None:
        return inf
    return f"{stats.min:.3g} … {stats.max:.3g}" + (f", {inf}" if inf else "")


def kept(item: Any) -> str:
    """What was kept of a tensor: a number, the values of a small array, else the text of whatever it is.

    >>> kept(0.123456), kept("two\\nlines")
    ('0.1235', 'two\\\\nlines')
    """
    try:
        size = getattr(item, "size", None)
        if type(size) is int and hasattr(item, "tolist"):
            return _values(item.tolist()) if size <= MOST_VALUES else ""
        return _element(item)
    except Exception as error:  # the user's own object: its text may do anything
        return safe(f"<{type(item).__name__}: {type(error).__name__}>")


def _values(item: Any) -> str:
    return f"[{', '.join(map(_values, item))}]" if isinstance(item, list) else _element(item)


def _element(item: Any) -> str:
    return f"{item:.4g}" if isinstance(item, (float, complex)) else safe(str(item))


def duration(nanoseconds: int) -> str:
    """A time with about three digits.

    >>> [duration(n) for n in (900, 3_400, 340_000, 2_200_000, 170_000_000, 3_000_000_000)]
    ['0.9µs', '3.4µs', '340µs', '2.2ms', '170ms', '3.00s']
    """
    if nanoseconds < 99_950:
        return f"{nanoseconds / 1e3:.1f}µs"
    if nanoseconds < 999_500:
        return f"{nanoseconds / 1e3:.0f}µs"
    if nanoseconds < 99_950_000:
        return f"{nanoseconds / 1e6:.1f}ms"
    return f"{nanoseconds / 1e6:.0f}ms" if nanoseconds < 999_500_000 else f"{nanoseconds / 1e9:.2f}s"


def amount(bytes: int) -> str:
    """A number of bytes.

    >>> [amount(n) for n in (12, 3_400, 18_874_368)]
    ['12 B', '3.3 KiB', '18.0 MiB']
    """
    if bytes < 1024:
        return f"{bytes} B"
    scaled, unit = bytes / 1024, "KiB"
    for larger in ("MiB", "GiB", "TiB"):
        if scaled < 1024:
            break
        scaled, unit = scaled / 1024, larger
    return f"{scaled:.1f} {unit}"


def operations(flops: int) -> str:
    """A number of floating-point operations.

    >>> [operations(n) for n in (12, 3_400, 46_596_096, 2_100_000_000_000)]
    ['12', '3.4 k', '46.6 M', '2.1 T']
    """
    scaled, unit = float(flops), ""
    for larger in (" k", " M", " G", " T", " P", " E"):
        if scaled < 999.5:
            break
        scaled, unit = scaled / 1000, larger
    return f"{scaled:.3g}{unit}"
