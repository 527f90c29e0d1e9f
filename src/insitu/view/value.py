"""How facts become text: tensors, arguments, numbers, times, sizes. Always one line, whatever a string holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any

from insitu.trace.dtype import dtype_named
from insitu.trace.event import Fields, Opaque, Stats, TensorFacts, Word, tensors

MOST_ITEMS = 32
MOST_DEPTH = 8
MOST_TEXT = 200
MOST_VALUES = 64  # of an array that is written out
MOST_WRITTEN = 1e5  # from here on numbers that are not integers have an exponent
MOST_EXACT = 2**53  # of the integers that a float holds exactly


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


def value_text(item: Any, *, quote_tensors: bool = False) -> str:
    """An argument as text; a string stands bare, as `str` would have it.

    >>> value_text([1, "a", None, (2.5,)]), value_text("mean")
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
    return capped([f"{value_text(name)}{sign}{_inner(item, quote, depth + 1)}" for name, item in items.items()])


def capped(texts: list[str], most: int = MOST_ITEMS) -> str:
    """The texts with commas; of a long list the first ones and how many more there are."""
    if len(texts) > most:
        texts = [*texts[:most], f"… {len(texts) - most} more"]
    return ", ".join(texts)


def arguments(args: Sequence[Any], kwargs: dict[str, Any], *, brief: bool = False) -> list[str]:
    """The arguments as they were given; what torch passes on for itself is left out: None at the end, `_stacklevel`.

    Tensors stand for themselves by dtype and shape, `brief` by dtype alone; equal ones that follow each other are
    counted.

    >>> x = TensorFacts(0, (2, 3), "f32", "cpu")
    >>> arguments((1, x, x, None, 0.5, None), {"out": x, "dim": None})
    ['1', '2 × f32[2, 3]', 'None', '0.5', 'out=f32[2, 3]']
    """
    last = max((place for place, item in enumerate(args) if item is not None), default=-1)
    texts: list[str] = []
    for is_tensor, same in groupby(args[: last + 1], key=lambda item: tensor(item) if _is_tensor(item) else None):
        items = list(same)
        if is_tensor and len(items) > 1:
            texts.append(f"{len(items)} × {argument(items[0], brief)}")
        else:
            texts += [argument(item, brief) for item in items]
    for name, item in kwargs.items():
        if not (item is None or name.startswith("_")):
            texts.append(f"{safe(name)}={argument(item, brief)}")
    return texts


def argument(item: Any, brief: bool = False) -> str:
    """One argument, or a part of an index: tensors by dtype and shape, `brief` by dtype alone."""
    if _is_tensor(item):
        return safe(f"{item.dtype}[…]") if brief else tensor(item)
    has_tensors = isinstance(item, (list, tuple)) and len(item) > 1 and all(map(_is_tensor, item))
    if has_tensors and len({argument(part, brief) for part in item}) == 1:
        return f"[{len(item)} × {argument(item[0], brief)}]"
    return value_text(item)


def _is_tensor(item: Any) -> bool:
    return type(item) is TensorFacts


def holds_tensor(item: Any) -> bool:
    """Whether this is a tensor or a container with one in it."""
    kind = type(item)
    if kind is TensorFacts:
        return True
    if kind is int or kind is str or kind is float or kind is bool:
        return False
    return next(tensors(item), None) is not None


def held_text(item: Any) -> str:
    """What a variable holds, in the manner of a result; a text is quoted and None is None."""
    if isinstance(item, str) and not isinstance(item, Word):
        return repr(short(item, 60))
    return result(item) if holds_tensor(item) else short(value_text(item), 60)


def result(item: Any, limit: int = 60) -> str:
    """The tensors of a result: `f32[2, 3]`, `3 × f32[2, 3]`, `f32[2], i64[2]`, `logits: f32[2], loss: f32[]`."""
    if type(item) is TensorFacts:
        return tensor(item)
    if isinstance(item, (dict, Fields)):
        items = item.items if isinstance(item, Fields) else item
        parts = [f"{value_text(name)}: {result(part)}" for name, part in items.items() if part is not None]
        return short(capped(parts), limit)
    if item is None:
        return ""
    found = [tensor(facts) for facts in tensors(item)]
    if not found:
        return short(value_text(item), limit)
    if len(found) > 1 and len(set(found)) == 1:
        return f"{len(found)} × {found[0]}"
    return short(capped(found), limit)


def is_whole(dtype: str) -> bool:
    """Whether the values of a dtype are integers.

    >>> [is_whole(dtype) for dtype in ("i64", "u8", "f32", "b8", "int")]
    [True, True, False, False, False]
    """
    return dtype_named(dtype).is_integer


def figure(number: float, digits: int = 3, *, whole: bool = False) -> str:
    """A number in a few digits, of which none before the point is lost up to 100,000; integers are exact.

    A `whole` number that is too large for a float to hold it exactly is marked.

    >>> [figure(number) for number in (0.12345, 4096.0, 8034.7, 131072, 131072.0)]
    ['0.123', '4096', '8035', '131072', '1.31e+05']
    >>> figure(131072.0, whole=True), figure(2.0**63, whole=True)
    ('131072', '≈ 9.22e+18')
    """
    if isinstance(number, int):
        return _number(number)
    if whole and abs(number) <= MOST_EXACT:
        return str(int(number))
    if 10 ** (digits - 1) <= abs(number) < MOST_WRITTEN:
        return f"{number:.0f}"
    return f"{'≈ ' if whole else ''}{number:.{digits}g}"


def limits(low: float, high: float, *, whole: bool = False) -> str:
    """A range, with as many digits as tell its ends apart; one number where they are equal.

    >>> limits(-2.2, 2.271), limits(3.0, 3.0), limits(0.9999, 1.0001)
    ('-2.2 … 2.27', '3', '0.9999 … 1.0001')
    """
    if low == high:
        return figure(low, whole=whole)
    ends = figure(low, whole=whole), figure(high, whole=whole)
    if ends[0] == ends[1]:
        ends = figure(low, 5, whole=whole), figure(high, 5, whole=whole)
    return " … ".join(ends)


def spread(stats: Stats, dtype: str = "") -> str:
    """The range of the values, or what is wrong with them; those of an integer dtype are exact.

    >>> spread(Stats(count=4, min=-2.2, max=2.271)), spread(Stats(count=4, min=0.0, max=1.0, nan=2))
    ('-2.2 … 2.27', '✗ 2 NaN')
    >>> spread(Stats(count=2, min=8031.0, max=122801.0, mean=0.0, std=1.0), "i64")
    '8031 … 122801'
    """
    odd = nonfinite_counts(stats)
    if stats.nan:
        return f"✗ {odd}"
    if stats.min is None or stats.max is None:
        return odd
    text = limits(stats.min, stats.max, whole=is_whole(dtype))
    return f"{text}, {odd}" if odd else text


def nonfinite_counts(stats: Stats) -> str:
    """How many values are NaN and Inf; empty if none is.

    >>> nonfinite_counts(Stats(count=4, min=0.0, max=1.0, mean=0.5, std=1.0, nan=2, inf=1))
    '2 NaN, 1 Inf'
    """
    if not (stats.nan or stats.inf):
        return ""
    return ", ".join([f"{count:,} {name}" for count, name in ((stats.nan, "NaN"), (stats.inf, "Inf")) if count])


def kept_text(item: Any) -> str:
    """What was kept of a tensor: a number, the values of a small array, else the text of whatever it is.

    >>> kept_text(0.123456), kept_text("two\\nlines")
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
    if isinstance(item, float):
        return figure(item, 4)
    return f"{item:.4g}" if isinstance(item, complex) else safe(str(item))


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
