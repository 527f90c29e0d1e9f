"""Regressions that mutants found: each was once a crash, a wrong value or exhausted memory."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from tests.faults.fuzz.runs import write_about
from tests.store.recorded import record
from xxhash import xxh3_64_intdigest, xxh3_128_digest

import insitu
from insitu import cli
from insitu.errors import ChoiceError, StoreError
from insitu.store.journal.journal_writer import JournalWriter
from insitu.store.json_reader import plain_value
from insitu.store.run.merge import merge_journals
from insitu.store.text.trace_text_reader import from_text
from insitu.trace.event import Call, Variable
from insitu.trace.trace import Trace


@pytest.fixture
def run(tmp_path: Path) -> Path:
    record(tmp_path / "run.h5.parts")
    merge_journals(tmp_path / "run.h5.parts", tmp_path / "run.h5")
    return tmp_path / "run.h5"


def forge(path: Path, name: str, column: str, change: Callable[[Any], Any]) -> None:
    """Another column of a variable, with a checksum that is right."""
    with h5py.File(path, "r+") as file:
        values = file[f"vars/{name}/{column}"][()]
        change(values)
        file[f"vars/{name}/{column}"][...] = values
        said = json.loads(file["about"][:].tobytes())
        described = next(found for found in said["variables"] if found["name"] == name)
        described["columns"][column] = xxh3_64_intdigest(values.tobytes())
        write_about(file, said)


def test_an_event_with_a_number_of_many_digits_is_printed() -> None:
    call = Call(0, None, "aten", "f", args=(10**5000,), kwargs={"n": 10**5000}, result=[10**5000])
    assert repr(call) == "<Call 0 aten f(<int>, n=<int>) -> <list>>"
    assert "<int>" in repr(Variable(0, None, "n", 10**5000, ("new",)))


def test_python_values_have_no_bits(run: Path) -> None:
    with insitu.load(run) as found, pytest.raises(ChoiceError, match=r"raw is for tensors and numbers: take \.values"):
        _ = found["note"].raw


@pytest.mark.parametrize(("place", "read"), [("steps/step", "steps"), ("events/marks/time", "events")])
def test_damage_of_the_structure_names_the_file(run: Path, place: str, read: str) -> None:
    with h5py.File(run) as file:
        at = h5py.h5o.get_info(file[place].id).addr
    spoiled = bytearray(run.read_bytes())
    spoiled[at + 8] ^= 1
    run.write_bytes(spoiled)
    with insitu.load(run) as found, pytest.raises(StoreError, match=rf"run\.h5' is damaged at /{read}"):
        getattr(found, read)


def test_values_that_do_not_fit_their_shapes_raise(run: Path) -> None:
    forge(run, "ragged", "shape", lambda shapes: shapes.__setitem__((-1, 0), 7))
    with insitu.load(run) as found, pytest.raises(StoreError, match="'ragged' has values of another shape"):
        _ = found["ragged"].values


def test_distant_rank_numbers_are_listed(run: Path, capsys: Any) -> None:
    forge(run, "forward.x", "rank", lambda ranks: ranks.__setitem__(slice(0, 3), [0, 1, 2**31 - 1]))
    assert cli.main(["show", str(run)]) == 0
    assert "0, 1, 21474" in capsys.readouterr().out


@pytest.mark.parametrize(("text", "message"), [(b'{"tensor":0}', "holds tensors"), (b"\xff\xff", "not text in UTF-8")])
def test_damaged_value_of_a_run_raises(run: Path, text: bytes, message: str) -> None:
    with h5py.File(run, "r+") as file:
        file["vars/note/values"][0] = text
    forge(run, "note", "digest", lambda all: all.__setitem__(0, np.frombuffer(xxh3_128_digest(text), np.uint8)))
    with insitu.load(run) as found, pytest.raises(StoreError, match=message):
        _ = found["note"].values


def test_list_as_key_of_a_dict_raises() -> None:
    with pytest.raises(StoreError, match="unhashable"):
        plain_value('{"dict":[[[],1]]}')


def test_folder_of_an_impossible_rank_raises(tmp_path: Path) -> None:
    record(tmp_path / "run.h5.parts")
    (tmp_path / "run.h5.parts" / "rank999999999").mkdir()
    with pytest.raises(StoreError, match="'rank999999999' is the folder of a rank that no run has"):
        insitu.load(tmp_path / "run.h5")


def test_more_ranks_than_a_run_has(tmp_path: Path) -> None:
    record(tmp_path / "run.h5.parts", world_size=2**24 - 1)
    with insitu.load(tmp_path / "run.h5") as found:
        assert found.world_size == 2 and found.missing == []


def test_a_number_of_calls_that_a_file_has_no_room_for_is_lost_and_told(tmp_path: Path) -> None:
    with JournalWriter(tmp_path / "run.h5.parts") as journal:
        journal.step(0, 0.0, [("x", call, "uint8", (1,), b"a") for call in (0, 2**32 - 2)])
    with insitu.load(tmp_path / "run.h5") as found:
        assert found["x"].calls.tolist() == [0] and found.missing == ["rank 0: step 0: 1 value is lost"]


@pytest.mark.parametrize("value", ["x(y=" * 200 + "1" + ")" * 200, "%:f32[1]" + "{gradient f32[1]" * 200 + "}" * 200])
def test_deeply_nested_text_raises(value: str) -> None:
    with pytest.raises(StoreError, match="line 3: it is nested more than 64 deep"):
        from_text(f"insitu trace 1\nabout {{}}\nF.relu({value})\nend\n")


def test_events_nested_in_a_cycle_raise(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="an event contains itself"):
        insitu.save(Trace([Call(0, 1, "aten", "a"), Call(1, 0, "aten", "b")]), tmp_path / "run.h5")
    assert not list(tmp_path.iterdir())
