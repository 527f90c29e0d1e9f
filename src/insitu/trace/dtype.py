"""What is known about a dtype: one row of `DTYPES` for each. torch is not imported.

A new dtype is a new row: its short name, its size, how its bytes are stored and how closely values are compared all
follow from there. Names that are not in the table get a short name and a size by their digits.

>>> dtype_named("float32").short, dtype_named("bf16").name, dtype_named("i64").is_integer
('f32', 'bfloat16', True)
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

DtypeKind = Literal["float", "complex", "signed", "unsigned", "bool", "quantized", "bits", "other"]
# How NumPy reads the stored bytes: as its own type, as one of ml_dtypes, as two halves of a complex number, or as bits
# that only torch can interpret. "no" means that values of this dtype cannot be stored.
Storage = Literal["numpy", "ml_dtypes", "halves", "bits", "no"]

MOST_NAME = 40  # characters of the name of a dtype that is not in the table


@dataclass(frozen=True, slots=True)
class Dtype:
    """A dtype: `name` as torch spells it without `torch.`, `short` as it is shown; `size` is that of one element.

    `bits` is the NumPy type of the stored bytes. Floats have `exponent` and `mantissa`, both in bits, and the `largest`
    number. Values are compared within `rtol` and `atol`, as in `torch.testing`, and written with so many `digits`;
    without `digits` they must be equal.
    """

    name: str
    short: str
    size: int
    kind: DtypeKind
    storage: Storage = "no"
    bits: str = ""
    exponent: int = 0
    mantissa: int = 0
    largest: float | None = None
    has_infinity: bool = False
    rtol: float = 0.0
    atol: float = 0.0
    digits: int | None = None

    @property
    def is_integer(self) -> bool:
        """Whether its values are whole numbers; those of bool and of quantized types are not."""
        return self.kind in ("signed", "unsigned")

    @property
    def is_floating(self) -> bool:
        """Whether its values are real or complex numbers with a fraction."""
        return self.kind in ("float", "complex")

    @property
    def is_plain(self) -> bool:
        """Whether the bytes of an element are all that there is to it: not quantized, and not conjugated lazily."""
        is_number = self.kind in ("float", "signed", "unsigned", "bool")
        return is_number and self.storage in ("numpy", "ml_dtypes")

    @property
    def eps(self) -> float:
        """The distance between 1 and the next larger number; 0 for types without a fraction."""
        if self.mantissa:
            return 2.0**-self.mantissa
        return 0.0


def _float(name: str, size: int, exponent: int, mantissa: int, largest: float, **known: Any) -> Dtype:
    return _row(name, size, "float", exponent=exponent, mantissa=mantissa, largest=largest, **known)


def _row(name: str, size: int, kind: DtypeKind, **known: Any) -> Dtype:
    return Dtype(name, short_name(name), size, kind, **known)


def short_name(name: str) -> str:
    """The short form of the name of any dtype, of torch or NumPy.

    >>> [short_name(name) for name in ("float32", "bool", "float8_e4m3fn", "float4_e2m1fn_x2", "quint8")]
    ['f32', 'b8', 'f8e4m3fn', 'f4e2m1fn_x2', 'quint8']
    """
    if name == "bool":
        return "b8"
    match = re.fullmatch(r"(bfloat|float|complex|uint|int)(\d+)(?:_(.*))?", name)
    if match is None:
        if len(name) <= MOST_NAME:
            return name
        return name[:MOST_NAME] + "…"
    return f"{_LETTERS[match[1]]}{match[2]}{match[3] or ''}"


_LETTERS = {"bfloat": "bf", "float": "f", "complex": "c", "uint": "u", "int": "i"}
_IEEE: dict[str, Any] = {"storage": "numpy", "has_infinity": True}
_SHORT_IEEE: dict[str, Any] = {"storage": "ml_dtypes", "has_infinity": True}

DTYPES: tuple[Dtype, ...] = (
    _float("float64", 8, 11, 52, 1.7976931348623157e308, bits="float64", rtol=1e-7, atol=1e-7, digits=9, **_IEEE),
    _float("float32", 4, 8, 23, 3.4028234663852886e38, bits="float32", rtol=1.3e-6, atol=1e-5, digits=7, **_IEEE),
    _float("float16", 2, 5, 10, 65504.0, bits="float16", rtol=1e-3, atol=1e-5, digits=5, **_IEEE),
    _float("bfloat16", 2, 8, 7, 3.3895313892515355e38, bits="uint16", rtol=1.6e-2, atol=1e-5, digits=5, **_SHORT_IEEE),
    _float("float8_e5m2", 1, 5, 2, 57344.0, bits="uint8", **_SHORT_IEEE),
    _float("float8_e5m2fnuz", 1, 5, 2, 57344.0, bits="uint8", storage="ml_dtypes"),
    _float("float8_e4m3fn", 1, 4, 3, 448.0, bits="uint8", storage="ml_dtypes"),
    _float("float8_e4m3fnuz", 1, 4, 3, 240.0, bits="uint8", storage="ml_dtypes"),
    _float("float8_e8m0fnu", 1, 8, 0, 1.7014118346046923e38, bits="uint8", storage="ml_dtypes"),
    _float("float4_e2m1fn_x2", 1, 2, 1, 6.0, storage="bits", bits="uint8"),
    _row("complex128", 16, "complex", storage="numpy", bits="complex128", rtol=1e-7, atol=1e-7, digits=9),
    _row("complex64", 8, "complex", storage="numpy", bits="complex64", rtol=1.3e-6, atol=1e-5, digits=7),
    _row("complex32", 4, "complex", storage="halves", bits="uint32", rtol=1e-3, atol=1e-5, digits=5),
    *[_row(f"int{n}", n // 8, "signed", storage="numpy", bits=f"int{n}") for n in (8, 16, 32, 64)],
    *[_row(f"uint{n}", n // 8, "unsigned", storage="numpy", bits=f"uint{n}") for n in (8, 16, 32, 64)],
    *[_row(f"int{n}", 1, "signed", storage="bits", bits="int8") for n in range(1, 8)],
    *[_row(f"uint{n}", 1, "unsigned", storage="bits", bits="uint8") for n in range(1, 8)],
    _row("bool", 1, "bool", storage="numpy", bits="bool"),
    _row("qint8", 1, "quantized", storage="numpy", bits="int8"),
    _row("quint8", 1, "quantized", storage="numpy", bits="uint8"),
    _row("qint32", 4, "quantized", storage="numpy", bits="int32"),
    *[_row(name, 1, "quantized") for name in ("quint4x2", "quint2x4")],
    *[_row(name, 1, "bits", storage="bits", bits="uint8") for name in ("bits8", "bits1x8", "bits2x4", "bits4x2")],
    _row("bits16", 2, "bits", storage="bits", bits="uint16"),
)
_BY_NAME = {**{row.short: row for row in DTYPES}, **{row.name: row for row in DTYPES}}


@lru_cache(maxsize=256)
def dtype_named(name: str) -> Dtype:
    """The dtype with this name, long or short; of one that is not in the table, what its name tells.

    >>> dtype_named("float128").short, dtype_named("f128").size, dtype_named("datetime64[ns]").kind
    ('f128', 16, 'other')
    """
    found = _BY_NAME.get(name)
    if found is not None:
        return found
    short = short_name(name)
    bits = re.match(r"[a-z]+(\d+)", short)
    return Dtype(name, short, max(1, int(bits[1]) // 8) if bits else 1, "other")
