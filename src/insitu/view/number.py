"""How numbers become text: ranges of values, counts, times, sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import nan
from typing import Any

from insitu.trace.dtype import dtype_named
from insitu.trace.event import Stats

# Below how many nanoseconds a time has which unit, in nanoseconds, and which form.
DURATIONS = (
    (99_950, 1e3, "%.1fµs"),
    (999_500, 1e3, "%.0fµs"),
    (99_950_000, 1e6, "%.1fms"),
    (999_500_000, 1e6, "%.0fms"),
)
BYTES = ("KiB", "MiB", "GiB", "TiB")
FLOPS = ("", " k", " M", " G", " T", " P", " E")
MOST_WRITTEN = 1e5  # from here on numbers that are not integers have an exponent
MOST_EXACT = 2**53  # of the integers that a float holds exactly


def unless_zero(form: Callable[[int], str], number: int) -> str:
    """A number in a form, and nothing for 0.

    >>> unless_zero(amount, 12), unless_zero(amount, 0)
    ('12 B', '')
    """
    if number:
        return form(number)
    return ""


def number_or_nan(number: float | None) -> float:
    """A number, and NaN for None."""
    if number is None:
        return nan
    return number


def grouped_digits(number: int) -> str:
    """An integer with commas between its thousands."""
    return f"{number:,}"


def number_text(item: Any) -> str:
    """A number, or one of Python's constants, as `str` writes it."""
    try:
        return str(item)
    except ValueError:  # Python refuses to print integers of many thousand digits
        return f"<int of {item.bit_length()} bits>"


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
        return number_text(number)
    if whole and abs(number) <= MOST_EXACT:
        return str(int(number))
    if 10 ** (digits - 1) <= abs(number) < MOST_WRITTEN:
        return f"{number:.0f}"
    text = f"{number:.{digits}g}"
    if whole:
        return f"≈ {text}"
    return text


def limits(low: float, high: float, *, whole: bool = False) -> str:
    """A range, with as many digits as tell its ends apart; one number where they are equal.

    >>> limits(-2.2, 2.271), limits(3.0, 3.0), limits(0.9999, 1.0001)
    ('-2.2 … 2.27', '3', '0.9999 … 1.0001')
    """
    if low == high:
        return figure(low, whole=whole)
    first = figure(low, whole=whole)
    last = figure(high, whole=whole)
    if first == last:
        first = figure(low, 5, whole=whole)
        last = figure(high, 5, whole=whole)
    return f"{first} … {last}"


def spread(stats: Stats, dtype: str = "") -> str:
    """The range of the values, or what is wrong with them; those of an integer dtype are exact.

    >>> spread(Stats(count=4, min=-2.2, max=2.271)), spread(Stats(count=4, min=0.0, max=1.0, nan=2))
    ('-2.2 … 2.27', '✗ 2 NaN')
    >>> spread(Stats(count=2, min=8031.0, max=122801.0, mean=0.0, std=1.0), "i64")
    '8031 … 122801'
    """
    if stats.nan:
        return f"✗ {nonfinite_counts(stats)}"
    return counted_spread(stats, dtype)


def counted_spread(stats: Stats, dtype: str = "") -> str:
    """The range of the finite values, and how many are not finite.

    >>> counted_spread(Stats(count=4, min=0.0, max=1.0, nan=2)), counted_spread(Stats(count=2, inf=2))
    ('0 … 1, 2 NaN', '2 Inf')
    """
    return ", ".join(filter(None, (finite_spread(stats, dtype), nonfinite_counts(stats))))


def finite_spread(stats: Stats, dtype: str = "") -> str:
    """The range of the finite values; empty if none is finite.

    >>> finite_spread(Stats(count=4, min=0.0, max=1.0, nan=2)), finite_spread(Stats(count=2, nan=2))
    ('0 … 1', '')
    """
    if stats.min is None or stats.max is None:
        return ""
    return limits(stats.min, stats.max, whole=is_whole(dtype))


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


def duration(nanoseconds: int) -> str:
    """A time with about three digits.

    >>> [duration(n) for n in (900, 3_400, 340_000, 2_200_000, 170_000_000, 3_000_000_000)]
    ['0.9µs', '3.4µs', '340µs', '2.2ms', '170ms', '3.00s']
    """
    for limit, unit, form in DURATIONS:
        if nanoseconds < limit:
            return form % (nanoseconds / unit)
    return f"{nanoseconds / 1e9:.2f}s"


def call_time(nanoseconds: int, *, is_launch: bool) -> str:
    """How long a call took, or how long it took to launch it: an accelerator works on while the program goes on.

    >>> call_time(3_400, is_launch=True)
    '3.4µs launch'
    """
    if is_launch:
        return f"{duration(nanoseconds)} launch"
    return duration(nanoseconds)


def amount(bytes: int) -> str:
    """A number of bytes.

    >>> [amount(n) for n in (12, 3_400, 18_874_368)]
    ['12 B', '3.3 KiB', '18.0 MiB']
    """
    if bytes < 1024:
        return f"{bytes} B"
    scaled, unit = _scaled(bytes / 1024, 1024, 1024, BYTES)
    return f"{scaled:.1f} {unit}"


def operations(flops: int) -> str:
    """A number of floating-point operations.

    >>> [operations(n) for n in (12, 3_400, 46_596_096, 2_100_000_000_000)]
    ['12', '3.4 k', '46.6 M', '2.1 T']
    """
    scaled, unit = _scaled(float(flops), 1000, 999.5, FLOPS)
    return f"{scaled:.3g}{unit}"


def _scaled(number: float, base: int, limit: float, units: Sequence[str]) -> tuple[float, str]:
    """A number in the first unit in which it is below the limit, or in the last one."""
    *smaller, last = units
    for unit in smaller:
        if number < limit:
            return number, unit
        number /= base
    return number, last
