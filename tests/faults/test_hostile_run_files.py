"""A hostile run file is refused quickly, and no other file is opened."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from tests.faults.amount import amount
from tests.store.recorded import check, record

import insitu
from insitu.errors import StoreError
from insitu.store.run.merge import merge_journals
from insitu.store.run.run import Run

X = "vars/forward.x/values"


@pytest.fixture
def saved(tmp_path: Path) -> Any:
    expected = record(tmp_path / "run.h5.parts")
    merge_journals(tmp_path / "run.h5.parts", tmp_path / "run.h5")
    return tmp_path / "run.h5", expected


def read_all(path: Path) -> Run:
    run = insitu.load(path)
    assert isinstance(run, Run)
    with run:
        for name in run:
            _ = run[name].values, run[name].times, run[name].shapes
        _ = run.steps, run.events
    return run


def _link(name: str, link: Any) -> Callable[[h5py.File], None]:
    def spoil(file: h5py.File) -> None:
        del file[name]
        file[name] = link

    return spoil


def _replace(name: str, **how: Any) -> Callable[[h5py.File], None]:
    def spoil(file: h5py.File) -> None:
        del file[name]
        file.create_dataset(name, **how)

    return spoil


def _virtual(file: h5py.File) -> None:
    layout = h5py.VirtualLayout(shape=(12, 2, 3), dtype="f4")
    layout[:] = h5py.VirtualSource("other.h5", "data", shape=(12, 2, 3))
    del file[X]
    file.create_virtual_dataset(X, layout)


def _filtered(file: h5py.File) -> None:
    del file[X]
    file.create_dataset(X, data=np.zeros((12, 2, 3), "f4"), chunks=(12, 2, 3), fletcher32=True)


def _zeros(dtype: Any) -> Any:
    return _replace(X, data=np.zeros((12, 2, 3), dtype))


SPOILED: list[tuple[Callable[[h5py.File], Any], str]] = [
    (
        lambda file: file.attrs.update(format_version=2),
        "a newer insitu wrote it: it is a run of format version 2, and this insitu reads version 1: update",
    ),
    (lambda file: file.attrs.pop("format_version"), "format version None"),
    (lambda file: file.attrs.update(checksum=np.uint64(1)), "its checksum is not that of /about"),
    (lambda file: file.pop("about"), "/about is missing"),
    (_replace("about", data=np.zeros((2, 2), "u1")), "/about is"),
    (_replace("about", shape=(2**40,), dtype="u1", chunks=(2**16,)), "/about is"),
    (_replace("about", shape=(2**26,), dtype="u1", chunks=(2**16,)), "declares 67108864 bytes and stores 0"),
    (lambda file: file.pop("vars"), "/vars is missing"),
    (lambda file: file.pop("vars/forward.x"), "/vars/forward.x is missing"),
    (lambda file: file.pop(X), "values is missing"),
    (lambda file: file.pop("vars/weight/index"), "index is missing"),
    (lambda file: file.pop("steps"), "/steps is missing"),
    (_link("vars/forward.x", h5py.SoftLink("/vars/weight")), "a link to another place"),
    (_link(X, h5py.ExternalLink("/etc/other.h5", "/x")), "a link to another place"),
    (_link("vars", h5py.ExternalLink("other.h5", "/vars")), "a link to another place"),
    (_link("vars/forward.x", h5py.SoftLink("/")), "a link to another place"),
    (_virtual, "takes its data from other files"),
    (
        _replace(X, shape=(12, 2, 3), dtype="f4", external=[("/etc/hostname", 0, 288)]),
        "takes its data from other files",
    ),
    (_replace(X, shape=(2**45,), dtype="i1", chunks=(2**20,)), "and should be"),
    (_replace(X, shape=(12, 2, 3), dtype="f4", chunks=(12, 2, 3)), "declares 288 bytes and stores 0"),
    (_replace(X, shape=(12, 2, 3), dtype=h5py.ref_dtype), "and should be"),
    (_replace(X, shape=(12, 2, 3), dtype=h5py.string_dtype()), "and should be"),
    (_zeros("S4"), "is damaged: a value of 'forward.x' has changed"),
    (_zeros("V4"), "holds values that are not plain"),
    (_zeros("f4"), "is damaged: a value of 'forward.x' has changed"),
    (_zeros("f8"), "and should be"),
    (_filtered, "compressed with an unknown filter"),
    (lambda file: file["vars/forward.x/step"].write_direct(np.full(12, 3)), "does not have its checksum"),
    (lambda file: file["vars/weight/index"].write_direct(np.full(12, 99)), "does not have its checksum"),
    (
        lambda file: file["vars/ragged/offset"].write_direct(np.full(24 - 5 + 6, 9)[: len(file["vars/ragged/offset"])]),
        "does not have its checksum",
    ),
    (lambda file: file["vars/note/values"].__setitem__(0, b"[1]"), "a value of 'note' has changed"),
    (_replace("vars/forward.x", data=np.zeros(3)), "is not a group"),
    (lambda file: (file.pop("steps/step"), file.create_group("steps/step")), "is not a dataset"),
]


@pytest.mark.parametrize(("spoil", "message"), SPOILED, ids=range(len(SPOILED)))
def test_a_file_that_is_not_ours_is_refused(saved: Any, spoil: Callable[[h5py.File], Any], message: str) -> None:
    path, _ = saved
    with h5py.File(path, "r+") as file:
        spoil(file)
    begin = time.perf_counter()
    with pytest.raises(StoreError, match=message):
        read_all(path)
    assert time.perf_counter() - begin < 1


def test_foreign_objects_in_a_file_are_not_opened(saved: Any) -> None:
    """Objects that are not ours, cycles and links included, stay where they are."""
    path, expected = saved
    with h5py.File(path, "r+") as file:
        file["vars/extra"] = h5py.ExternalLink("/nowhere.h5", "/x")
        file["vars/cycle"] = file["/"]
        deep = file
        for _ in range(100):
            deep = deep.create_group("deep")
    with insitu.load(path) as run:
        check(run, expected)


def forged(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change what the file says of itself, with a checksum that is right."""
    import json

    from xxhash import xxh3_64_intdigest

    with h5py.File(path, "r+") as file:
        said = json.loads(file["about"][:].tobytes())
        change(said)
        text = np.frombuffer(json.dumps(said).encode(), np.uint8)
        del file["about"]
        file["about"] = text
        file.attrs["checksum"] = np.uint64(xxh3_64_intdigest(text.tobytes()))


def _variable(name: str, /, **facts: Any) -> Callable[[dict[str, Any]], None]:
    def change(said: dict[str, Any]) -> None:
        next(found for found in said["variables"] if found["name"] == name).update(facts)

    return change


FORGED: list[tuple[Callable[[dict[str, Any]], Any], str]] = [
    (_variable("forward.x", rows=2**60), "declares 1152921504606846976 rows in a file of"),
    (_variable("forward.x", stored=2**60), "rows in a file of"),
    (_variable("forward.x", rows=-1), "rows in a file of"),
    (_variable("forward.x", stored=3), "12 rows and 3 values"),
    (_variable("forward.x", shape=[2**40, 2**40]), "no value has the shape"),
    (_variable("forward.x", shape=[2, -3]), "is not a shape"),
    (_variable("forward.x", shape="no"), "is not a shape"),
    (_variable("forward.x", shape=[3, 2]), "and should be"),
    (_variable("forward.x", dtype="float64"), "and should be"),
    (_variable("forward.x", dtype="object"), "values of the type 'object' cannot be stored"),
    (_variable("forward.x", dtype="numpy:O"), "arrays of the type 'O' cannot be stored"),
    (_variable("forward.x", form="pickle"), "stored in an unknown form"),
    (_variable("forward.x", facts={"a": '{"b":1}'}), "cannot be read"),
    (_variable("note", width=2**40), "stored in an unknown form"),
    (_variable("forward.x", name="../x"), "is missing"),
    (lambda said: said.update(variables={}), ""),
    (lambda said: said.update(variables=[1]), "damaged, or another program wrote it"),
    (lambda said: said.update(shards=[1]), "damaged, or another program wrote it"),
    (lambda said: said["shards"][0].update(rank=-1), "rank -1 of 2"),
    (lambda said: said["shards"][0].update(attempt=2**40), "attempt 1099511627776"),
    (lambda said: said["shards"][0].update(world_size=2**40), "rank 0 of 1099511627776"),
    (lambda said: said["shards"][0].update(last="5"), "have last='5'"),
    (lambda said: said["shards"].append(said["shards"][0]), "holds a rank twice"),
    (lambda said: said.update(run="../../elsewhere"), "is not the id of a run"),
    (lambda said: said.update(steps=10**9), "and should be"),
    (lambda said: said.update(events=[10**9, 3, 3]), "and should be"),
    (lambda said: said.update(about="[" * 100_000), "cannot be read"),
]


@pytest.mark.parametrize(("change", "message"), FORGED, ids=range(len(FORGED)))
def test_wrong_metadata_of_a_file_is_refused(saved: Any, change: Callable[[Any], Any], message: str) -> None:
    path, _ = saved
    forged(path, change)
    begin = time.perf_counter()
    if message:
        with pytest.raises(StoreError, match=message):
            read_all(path)
    else:
        assert len(read_all(path)) == 0
    assert time.perf_counter() - begin < 1


@pytest.mark.slow
def test_a_flipped_bit_never_gives_another_value(saved: Any) -> None:
    path, expected = saved
    whole, dice, refused = path.read_bytes(), random.Random(0), 0
    for _ in range(amount(300, 3000)):
        spoiled = bytearray(whole)
        spoiled[dice.randrange(len(whole))] ^= 1 << dice.randrange(8)
        path.write_bytes(spoiled)
        try:
            with insitu.load(path) as run:
                check(run, expected)
        except StoreError:
            refused += 1
    assert refused > 30


@pytest.mark.slow
def test_a_file_cut_short_anywhere_is_refused(saved: Any) -> None:
    path, _ = saved
    whole = path.read_bytes()
    for length in range(0, len(whole), max(1, len(whole) // amount(60, 1000))):
        path.write_bytes(whole[:length])
        with pytest.raises(StoreError):
            read_all(path)


@pytest.mark.parametrize("name", ["run.h5.parts", "run.h5"])
def test_folder_without_a_run_raises(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(StoreError, match="cannot be loaded"):
        insitu.load(tmp_path / name)
    (tmp_path / name / "rank00000").mkdir()
    (tmp_path / name / "rank00000" / f"00000-{'0' * 16}.journal").symlink_to("/etc/hostname")
    if name.endswith("parts"):
        run = insitu.load(tmp_path / name)
        assert run.paths == [] and run.missing[0].startswith("rank 0 did not end: it was killed, or still")


def test_a_journal_that_is_a_pipe_or_a_link_is_not_opened(tmp_path: Path) -> None:
    record(tmp_path / "run.h5.parts")
    os.mkfifo(tmp_path / "run.h5.parts" / "rank00000" / f"00009-{'1' * 16}.journal")
    (tmp_path / "run.h5.parts" / "rank00007").symlink_to(tmp_path)
    assert insitu.load(tmp_path / "run.h5").complete
