"""The table of dtypes, against what torch and NumPy say about the same types."""

import numpy as np
import pytest
import torch

from insitu.trace.dtype import DTYPES, Dtype, dtype_named

IN_TORCH = [row for row in DTYPES if hasattr(torch, row.name)]
ALIASES = {"half", "float", "double", "chalf", "cfloat", "cdouble", "short", "int", "long", "bit"}
FLOATS = [row for row in IN_TORCH if row.kind == "float" and row.name != "float4_e2m1fn_x2"]


def of_torch(row: Dtype) -> torch.dtype:
    return getattr(torch, row.name)  # type: ignore[no-any-return]


def test_every_dtype_of_torch_has_a_row() -> None:
    names = {name for name in dir(torch) if isinstance(getattr(torch, name), torch.dtype)}
    assert names - ALIASES <= {row.name for row in DTYPES}


def test_names_are_unique() -> None:
    names = [row.name for row in DTYPES] + [row.short for row in DTYPES if row.short != row.name]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("row", IN_TORCH, ids=lambda row: row.name)
def test_size_and_kind_are_those_of_torch(row: Dtype) -> None:
    dtype = of_torch(row)
    assert row.size == dtype.itemsize
    assert (row.kind == "float", row.kind == "complex") == (dtype.is_floating_point, dtype.is_complex)
    assert row.kind != "signed" or dtype.is_signed
    assert row.kind != "unsigned" or not dtype.is_signed


@pytest.mark.parametrize("row", FLOATS, ids=lambda row: row.name)
def test_limits_of_floats_are_those_of_torch(row: Dtype) -> None:
    limits = torch.finfo(of_torch(row))
    assert row.largest == limits.max
    if row.name not in ("float8_e5m2fnuz", "float8_e8m0fnu"):  # torch gives the eps of another type, and 1 for no bits
        assert row.eps == limits.eps
    assert row.has_infinity == bool(torch.tensor(float("inf")).to(of_torch(row)).float().isinf())


@pytest.mark.parametrize("row", [row for row in DTYPES if row.storage != "no"], ids=lambda row: row.name)
def test_stored_bits_take_as_many_bytes_as_an_element(row: Dtype) -> None:
    assert np.dtype(row.bits).itemsize == row.size


@pytest.mark.parametrize(
    "row", [row for row in IN_TORCH if row.rtol and row.name != "complex32"], ids=lambda row: row.name
)
def test_tolerances_are_those_of_torch_testing(row: Dtype) -> None:
    one = torch.ones(2).to(of_torch(row))
    with pytest.raises(AssertionError) as raised:
        torch.testing.assert_close(torch.zeros(2).to(of_torch(row)), one)
    assert f"(up to {row.atol} allowed)" in str(raised.value) and f"(up to {row.rtol} allowed)" in str(raised.value)


def test_digits_are_written_only_where_values_may_differ() -> None:
    assert {row.name for row in DTYPES if row.digits} == {row.name for row in DTYPES if row.rtol}


def test_long_and_short_names_find_the_same_row() -> None:
    for row in DTYPES:
        assert dtype_named(row.name) is row and dtype_named(row.short) is row


def test_unknown_names_are_shortened_and_cut() -> None:
    assert dtype_named("float128").short == "f128"
    assert len(dtype_named("x" * 100).short) == 41
    assert dtype_named("numpy:<M8[ns]").storage == "no"
