"""How facts become text: tensors, arguments, numbers, times, sizes. Always one line, whatever a string holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import groupby
from types import EllipsisType, NoneType
from typing import Any

from insitu.trace.dtype import dtype_named
from insitu.trace.event import Fields, Opaque, Stats, TensorFacts, Word, tensors

PLAIN = frozenset({int, float, bool, NoneType})
# Below how many nanoseconds a time has which unit, in nanoseconds, and which form.
DURATIONS = (
    (99_950, 1e3, "%.1fµs"),
    (999_500, 1e3, "%.0fµs"),
    (99_950_000, 1e6, "%.1fms"),
    (999_500_000, 1e6, "%.0fms"),
)
MOST_ITEMS = 32
MOST_RESULT = 60  # characters of a result
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
    if len(text) <= limit:
        return text
    return text[: limit - 1] + "…"


def tensor(facts: TensorFacts) -> str:
    """A tensor as dtype and shape, marked if it is an array of NumPy.

    >>> tensor(TensorFacts(0, (2, 3), "f32", "cpu")), tensor(TensorFacts(0, (4,), "u8", "cpu", type="ndarray"))
    ('f32[2, 3]', 'np u8[4]')
    """
    text = _typed(facts.dtype, facts.shape)
    if facts.type == "ndarray":
        return f"np {text}"
    return text


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
    if kind in PLAIN:
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
    """An item of a container, or a container; `quote` is put around tensors."""
    kind = type(item)
    if kind is TensorFacts:  # as most often
        return f"{quote}{tensor(item)}{quote}"
    form = FORMS.get(kind) or _inherited_form(kind)
    if form is not None:
        return form(item)
    return _container_within(item, quote, depth)


def _container_within(item: Any, quote: str, depth: int) -> str:
    if depth == MOST_DEPTH:
        return "…"
    return _container(item, quote, depth + 1)


def _quoted(text: str) -> str:
    return repr(short(text, MOST_TEXT))


# How an item without items of its own is written, by its class.
FORMS: dict[type, Callable[[Any], str]] = {
    int: _number,
    bool: _number,
    float: _number,
    complex: _number,
    NoneType: _number,
    str: _quoted,
    Word: safe,
    EllipsisType: lambda item: "...",
    Opaque: lambda item: safe(f"<{item.type}>"),
}
CONTAINERS = (list, tuple, dict, Fields)


def _inherited_form(kind: type) -> Callable[[Any], str] | None:
    """The form of the nearest base class; None for a container."""
    if issubclass(kind, CONTAINERS):
        return None
    return next((FORMS[base] for base in kind.__mro__ if base in FORMS), _stranger)


def _stranger(item: Any) -> str:
    return safe(f"<{type(item).__name__}>")


def _container(item: Any, quote: str, depth: int) -> str:
    """A container in the signs that Python has for it."""
    if isinstance(item, Fields):
        return f"{safe(item.type)}({_named(item.items, '=', quote, depth)})"
    if isinstance(item, dict):
        return f"{{{_named(item, ': ', quote, depth)}}}"
    text = join_capped([_inner(part, quote, depth) for part in item])
    if isinstance(item, list):
        return f"[{text}]"
    if len(item) == 1:
        return f"({text},)"
    return f"({text})"


def _named(items: dict[Any, Any], sign: str, quote: str, depth: int) -> str:
    return join_capped([f"{value_text(name)}{sign}{_inner(item, quote, depth)}" for name, item in items.items()])


def join_capped(texts: list[str], most: int = MOST_ITEMS) -> str:
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
    for same, items in groupby(args[: last + 1], key=_tensor_key):
        if same is None:
            texts += [argument(item, brief) for item in items]
        else:
            texts.append(_counted(list(items), brief))
    named = [(name, item) for name, item in kwargs.items() if item is not None and not name.startswith("_")]
    return texts + [f"{safe(name)}={argument(item, brief)}" for name, item in named]


def _tensor_key(item: Any) -> str | None:
    """What equal tensors share; None for anything else."""
    if type(item) is TensorFacts:
        return tensor(item)
    return None


def _counted(items: list[TensorFacts], brief: bool) -> str:
    """Equal tensors that follow each other."""
    text = argument(items[0], brief)
    if len(items) > 1:
        return f"{len(items)} × {text}"
    return text


def argument(item: Any, brief: bool = False) -> str:
    """One argument, or a part of an index: tensors by dtype and shape, `brief` by dtype alone."""
    if type(item) is TensorFacts:
        if brief:
            return safe(f"{item.dtype}[…]")
        return tensor(item)
    if not isinstance(item, (list, tuple)) or len(item) < 2:
        return value_text(item)
    if any(type(part) is not TensorFacts for part in item):
        return value_text(item)
    texts = {argument(part, brief) for part in item}
    if len(texts) == 1:
        return f"[{len(item)} × {texts.pop()}]"
    return value_text(item)


def holds_tensor(item: Any) -> bool:
    """Whether this is a tensor or a container with one in it."""
    kind = type(item)
    if kind is TensorFacts:
        return True
    if kind in PLAIN or kind is str:
        return False
    return next(tensors(item), None) is not None


def held_text(item: Any) -> str:
    """What a variable holds, in the manner of a result; a text is quoted and None is None."""
    if isinstance(item, str) and not isinstance(item, Word):
        return repr(short(item, MOST_RESULT))
    if holds_tensor(item):
        return result(item)
    return short(value_text(item), MOST_RESULT)


def result(item: Any, limit: int = MOST_RESULT) -> str:
    """The tensors of a result: `f32[2, 3]`, `3 × f32[2, 3]`, `f32[2], i64[2]`, `logits: f32[2], loss: f32[]`."""
    if type(item) is TensorFacts:
        return tensor(item)
    if item is None:
        return ""
    if isinstance(item, Fields):
        return _named_results(item.items, limit)
    if isinstance(item, dict):
        return _named_results(item, limit)
    found = [tensor(facts) for facts in tensors(item)]
    if not found:
        return short(value_text(item), limit)
    if len(found) > 1 and len(set(found)) == 1:
        return f"{len(found)} × {found[0]}"
    return short(join_capped(found), limit)


def _named_results(items: dict[Any, Any], limit: int) -> str:
    parts = [f"{value_text(name)}: {result(part)}" for name, part in items.items() if part is not None]
    return short(join_capped(parts), limit)


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
    if odd:
        return f"{text}, {odd}"
    return text


def nonfinite_counts(stats: Stats) -> str:
    """How many values are NaN and Inf; empty if none is.

    >>> nonfinite_counts(Stats(count=4, min=0.0, max=1.0, mean=0.5, std=1.0, nan=2, inf=1))
    '2 NaN, 1 Inf'
    """
    if stats.nan or stats.inf:
        return count_text({"NaN": stats.nan, "Inf": stats.inf})
    return ""


def count_text(counts: dict[str, int]) -> str:
    """How many there are of each thing, without those of which there are none.

    >>> count_text({"NaN": 1200, "Inf": 0})
    '1,200 NaN'
    """
    return ", ".join([f"{count:,} {name}" for name, count in counts.items() if count])


def kept_text(item: Any) -> str:
    """What was kept of a tensor: a number, the values of a small array, else the text of whatever it is.

    >>> kept_text(0.123456), kept_text("two\\nlines")
    ('0.1235', 'two\\\\nlines')
    """
    try:
        size = getattr(item, "size", None)
        if type(size) is int and hasattr(item, "tolist"):
            if size <= MOST_VALUES:
                return _values(item.tolist())
            return ""
        return _element(item)
    except Exception as error:  # the user's own object: its text may do anything
        return safe(f"<{type(item).__name__}: {type(error).__name__}>")


def _values(item: Any) -> str:
    if isinstance(item, list):
        return f"[{', '.join(map(_values, item))}]"
    return _element(item)


def _element(item: Any) -> str:
    if isinstance(item, float):
        return figure(item, 4)
    if isinstance(item, complex):
        return f"{item:.4g}"
    return safe(str(item))


def duration(nanoseconds: int) -> str:
    """A time with about three digits.

    >>> [duration(n) for n in (900, 3_400, 340_000, 2_200_000, 170_000_000, 3_000_000_000)]
    ['0.9µs', '3.4µs', '340µs', '2.2ms', '170ms', '3.00s']
    """
    for limit, unit, form in DURATIONS:
        if nanoseconds < limit:
            return form % (nanoseconds / unit)
    return f"{nanoseconds / 1e9:.2f}s"


def amount(bytes: int) -> str:
    """A number of bytes.

    >>> [amount(n) for n in (12, 3_400, 18_874_368)]
    ['12 B', '3.3 KiB', '18.0 MiB']
    """
    if bytes < 1024:
        return f"{bytes} B"
    scaled, unit = _scaled(bytes / 1024, 1024, 1024, ("KiB", "MiB", "GiB", "TiB"))
    return f"{scaled:.1f} {unit}"


def operations(flops: int) -> str:
    """A number of floating-point operations.

    >>> [operations(n) for n in (12, 3_400, 46_596_096, 2_100_000_000_000)]
    ['12', '3.4 k', '46.6 M', '2.1 T']
    """
    scaled, unit = _scaled(float(flops), 1000, 999.5, ("", " k", " M", " G", " T", " P", " E"))
    return f"{scaled:.3g}{unit}"


def _scaled(number: float, base: int, limit: float, units: Sequence[str]) -> tuple[float, str]:
    """A number in the first unit in which it is below the limit, or in the last one."""
    *smaller, last = units
    for unit in smaller:
        if number < limit:
            return number, unit
        number /= base
    return number, last
