"""Every type with every bit pattern of at most 16 bits, and the odd values of the others, to the last bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import ml_dtypes
import numpy as np
import pytest
import torch

import insitu
from insitu.store.journal.journal_writer import JournalWriter
from insitu.store.run.merge import merge_journals
from insitu.store.stored_type import stored_type

DTYPES = sorted(
    {
        str(dtype).removeprefix("torch.")
        for dtype in vars(torch).values()
        if isinstance(dtype, torch.dtype) and "quint4" not in str(dtype) and "quint2" not in str(dtype)
    }
)


def patterns(itemsize: int) -> Any:
    """All patterns of 8 or 16 bits; of more, the ones that are easily lost, and random ones."""
    if itemsize == 1:
        return np.arange(2**8, dtype=np.uint8)
    if itemsize == 2:
        return np.arange(2**16, dtype=np.uint16).view(np.uint8)
    odd = {4: np.float32, 8: np.float64, 16: np.complex128}[itemsize]
    values = np.array([np.nan, -np.nan, -0.0, np.inf, -np.inf, 5e-324, 1e-45, 2.0**40 + 1], odd)
    return np.concatenate([values.view(np.uint8), np.random.default_rng(0).integers(0, 256, 8000, np.uint8)])


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_bit_comes_back(tmp_path: Path, dtype: str) -> None:
    itemsize = stored_type(dtype).itemsize
    bits = patterns(itemsize)
    count = len(bits) // itemsize
    with JournalWriter(tmp_path / "run.h5.parts") as journal:
        journal.step(0, 0.0, [("x", 0, dtype, (count,), bits)])
        journal.step(1, 0.0, [("x", 0, dtype, (count,), bits[::-1].copy())])
        journal.step(2, 0.0, [("x", 0, dtype, (), bits[:itemsize]), ("e", 0, dtype, (0, 3), b"")])
        journal.step(3, 0.0, [("d", 0, dtype, (1, count), bits)])
    for compression in ("journal", "none", "gzip"):
        name = tmp_path / ("run.h5" if compression == "journal" else f"{compression}.h5")
        if compression != "journal":
            merge_journals(tmp_path / "run.h5.parts", name, compression=compression, keep_parts=True)
        with insitu.load(name) as run:
            one, two, three = run["x"].raw
            assert (one.tobytes(), two.tobytes()) == (bits.tobytes(), bits[::-1].tobytes())
            assert (three.shape, three.tobytes()) == ((), bits[:itemsize].tobytes())
            assert run["e"].raw.shape == (1, 0, 3) and run["e"].raw.size == 0
            assert run["d"].raw.tobytes() == bits.tobytes()
            assert len(run["x"].values) == 3 and run["d"].values.shape == (1, 1, count)
            if not dtype.startswith("q"):
                tensor = run["d"].to_torch()
                assert str(tensor.dtype) == f"torch.{dtype}" and tuple(tensor.shape) == (1, 1, count)
                assert tensor.reshape(-1).view(torch.uint8).numpy().tobytes() == bits.tobytes()


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e5m2", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e8m0fnu"])
def test_small_floats_have_their_values(tmp_path: Path, dtype: str) -> None:
    bits = patterns(stored_type(dtype).itemsize)
    true = torch.from_numpy(bits.copy()).view(getattr(torch, dtype)).float().numpy()
    with JournalWriter(tmp_path / "run.h5.parts") as journal:
        journal.step(0, 0.0, [("x", 0, dtype, true.shape, bits)])
    merge_journals(tmp_path / "run.h5.parts", tmp_path / "run.h5")
    values = insitu.load(tmp_path / "run.h5")["x"].values[0]
    assert values.dtype == getattr(ml_dtypes, dtype)
    assert np.array_equal(values.astype(np.float32), true, equal_nan=True)
    frame = insitu.load(tmp_path / "run.h5")["x"].to_pandas()
    assert frame["value"][0].dtype == values.dtype
    if dtype in ("bfloat16", "float8_e5m2"):
        with h5py.File(tmp_path / "run.h5") as file:
            assert np.array_equal(file["vars/x/values"][0].astype(np.float32), true, equal_nan=True)


def test_complex_halves_are_complex_numbers(tmp_path: Path) -> None:
    halves = np.array([1.5, -2.0, np.inf, np.nan, -0.0, 6e-8], np.float16)
    with JournalWriter(tmp_path / "run.h5.parts") as journal:
        journal.step(0, 0.0, [("x", 0, "complex32", (3,), halves.view(np.uint8))])
    values = insitu.load(tmp_path / "run.h5")["x"].values
    assert values.dtype == np.complex64 and values.view(np.float32).astype(np.float16).tobytes() == halves.tobytes()


@pytest.mark.parametrize("dtype", ["<M8[ns]", ">f8", "<U3", "|S2", "<f2", "<m8[s]"])
def test_types_that_only_numpy_has(tmp_path: Path, dtype: str) -> None:
    values = np.array([1, 2, 3, 4]).astype(dtype).reshape(2, 2)
    with JournalWriter(tmp_path / "run.h5.parts") as journal:
        journal.step(0, 0.0, [("x", 0, f"numpy:{dtype}", (2, 2), values.tobytes())])
        journal.step(1, 0.0, [("x", 0, f"numpy:{dtype}", (0,), b"")])
    merge_journals(tmp_path / "run.h5.parts", tmp_path / "run.h5")
    one, two = insitu.load(tmp_path / "run.h5")["x"].values
    assert one.dtype == values.dtype and one.tolist() == values.tolist() and two.shape == (0,)
