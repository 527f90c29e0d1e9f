from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.store.example import everything, picture

from insitu.errors import StoreError
from insitu.store.trace.schema import SCHEMA, Tables, narrow
from insitu.store.trace.trace_decoder import decode
from insitu.store.trace.trace_encoder import encode
from insitu.trace.event import Call, Mark, Nesting, Site, TensorFacts
from insitu.trace.trace import Trace


def test_a_trace_comes_back_as_it_was() -> None:
    assert picture(decode(encode(everything()))) == picture(everything())


def test_an_empty_trace_comes_back() -> None:
    back = decode(encode(Trace()))
    assert back.events == [] and back.about == {}


def test_shared_objects_are_shared_after_loading() -> None:
    back = decode(encode(everything()))
    model, matmul, mm = (event for event in back.calls if event.id in (4, 8, 9))
    assert model.args[0] is matmul.args[0] is mm.args[1][1]
    assert model.module is matmul.module
    assert matmul.site is not None and matmul.site.caller is model.site
    assert mm.site is not matmul.site  # alike, but not the same


def test_encoded_tables_match_the_schema() -> None:
    tables = encode(everything())
    assert {table: list(columns) for table, columns in tables.items()} == {
        table: list(rules) for table, rules in SCHEMA.items()
    }
    assert all(column.dtype.kind in "iuf" for columns in tables.values() for column in columns.values())


def test_long_chain_of_sites_does_not_reach_recursion_limit() -> None:
    site = None
    for line in range(20_000):
        site = Site("deep.py", line, "f", caller=site)
    back = decode(encode(Trace([Call(0, None, "aten", "aten.add", site=site)])))
    assert isinstance(back[0], Call) and back[0].site is not None
    assert [place.line for place in back[0].site.chain()] == list(range(20_000))


def test_equal_calls_are_stored_in_few_bytes() -> None:
    tensors = [TensorFacts(number, (2, 3), "f32", "cpu", producer=number) for number in range(1001)]
    calls: list[Any] = [
        Call(number, None, "aten", "aten.relu", None, (tensors[number],), {}, tensors[number + 1], start=1000 * number)
        for number in range(1000)
    ]
    tables = encode(Trace(calls))
    assert len(tables["strings"]["length"]) < 12
    assert tables["rows"]["id"].dtype == np.int8
    assert tables["rows"]["start"].dtype == np.int16
    assert tables["refs"]["tensor"].dtype == np.int8


@pytest.mark.parametrize("numbers", [[0], [-128, 127], [128], [-(2**31)], [2**31], [2**63 - 1], []])
def test_narrow_keeps_the_numbers(numbers: list[int]) -> None:
    assert narrow(np.array(numbers, dtype=np.int64)).tolist() == numbers


def test_delta_encoding_keeps_the_largest_integers() -> None:
    events: list[Any] = [Mark(number, None, "note", "", start) for number, start in enumerate((2**63 - 1, -(2**63), 5))]
    assert [mark.start for mark in decode(encode(Trace(events))).marks] == [2**63 - 1, -(2**63), 5]


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (Mark(2**63, None, "note", ""), "rows.id of the trace does not fit"),
        (Mark(3, 3, "note", ""), "event 3 of the trace is its own parent"),
        (Call(0, None, "aten", "x", duration=-5), "rows.duration of the trace holds -5"),
    ],
)
def test_error_names_the_value_that_cannot_be_written(event: Any, message: str) -> None:
    with pytest.raises(StoreError, match=message):
        encode(Trace([event]))


def put(table: str, column: str, row: int, value: int) -> Callable[[Tables], None]:
    def spoil(tables: Tables) -> None:
        tables[table][column] = tables[table][column].astype(np.int64)
        tables[table][column][row] = value

    return spoil


def add_string(tables: Tables, text: bytes) -> int:
    tables["text"]["byte"] = np.append(tables["text"]["byte"], np.frombuffer(text, dtype=np.uint8))
    tables["strings"]["length"] = np.append(tables["strings"]["length"].astype(np.int64), len(text))
    return len(tables["strings"]["length"]) - 1


def put_text(table: str, column: str, row: int, text: bytes) -> Callable[[Tables], None]:
    return lambda tables: put(table, column, row, add_string(tables, text))(tables)


def shorten(table: str, column: str) -> Callable[[Tables], None]:
    return lambda tables: tables[table].update({column: tables[table][column][:-1]})


SPOILED: list[tuple[Callable[[Tables], Any], str]] = [
    (lambda tables: tables.pop("sites"), "sites.file is missing"),
    (lambda tables: tables["rows"].pop("step"), "rows.step is missing"),
    (shorten("rows", "name"), "rows have unequal lengths"),
    (lambda tables: tables["rows"].update(name=tables["rows"]["name"].astype(float)), "rows.name is float64"),
    (lambda tables: tables["rows"].update(name=tables["rows"]["name"][None]), "rows.name is int16 in 2|is int8 in 2"),
    (put("rows", "name", 1, 10**6), "rows.name is out of range"),
    (put("rows", "name", 1, -1), "rows.name is out of range"),
    (put("rows", "module", 1, -2), "rows.module is out of range"),
    (put("rows", "site", 1, 77), "rows.site is out of range"),
    (put("rows", "args", 1, -1), "lacks its arguments"),
    (put("rows", "phase", 1, -1), "its phase"),
    (put("rows", "duration", 1, -7), "rows.duration is out of range"),
    (put("refs", "tensor", 0, 9999), "refs.tensor is out of range"),
    (shorten("refs", "tensor"), "contradict"),
    (lambda tables: tables["refs"].update(tensor=np.append(tables["refs"]["tensor"], 0)), "more tensors than"),
    (put("tensors", "stats", 0, 99), "tensors.stats is out of range"),
    (put("stats", "bins", 0, 10**6), "a histogram has 1000000 bins"),
    (put("stats", "bins", 0, -1), "a histogram has -1 bins"),
    (put("sites", "caller", 0, 1), "site 0 is called from 1 places before it"),
    (put("sites", "caller", 1, -1), "site 1 is called from -1 places before it"),
    (put("strings", "length", 0, -5), "a string has the length -5"),
    (put("strings", "length", 0, 10**12), "the strings need 10000"),
    (shorten("text", "byte"), "the strings need"),
    (put("arrays", "length", 0, 0), "the arrays need"),
    (put_text("arrays", "dtype", 0, b"O"), "arrays of the type 'O' are not read"),
    (put_text("arrays", "dtype", 0, b"i4,i4"), "arrays of the type 'i4,i4' are not read"),
    (put_text("arrays", "dtype", 0, b"f4," * 10**6), "are not read"),
    (put_text("arrays", "shape", 0, b'{"tuple":[-1]}'), "is not a shape"),
    (put_text("arrays", "shape", 0, b'{"tuple":[999]}'), "has 48 bytes"),
    (put_text("rows", "kind", 1, b"sorcery"), "of the unknown kind 'sorcery'"),
    (put_text("rows", "phase", 1, b"sideways"), "its phase"),
    (put_text("rows", "mode", 1, b"sideways"), "its mode"),
    (put("rows", "defined", 8, 77), "rows.defined is out of range"),
    (put("rows", "changes", 9, -2), "rows.changes is out of range"),
    (put("rows", "changes", 9, -1), "variable 20 lacks its value or its changes"),
    (put("rows", "result", 9, -1), "variable 20 lacks its value or its changes"),
    (put_text("rows", "changes", 9, b"new sorcery"), "unknown changes: 'new sorcery'"),
    (put_text("rows", "changes", 9, b"new," * 10**5), "unknown changes: 'new,new,"),
    (put_text("rows", "result", 9, b"[1,"), "cannot be read"),
    (put_text("rows", "kind", 9, b"aten"), "lacks its arguments"),
    (put_text("rows", "kind", 8, b"variable"), "variable 19 lacks"),
    (put_text("rows", "args", 1, b"[]"), "is not a tuple"),
    (put_text("rows", "kwargs", 1, b"5"), "is not a dict"),
    (put_text("rows", "kwargs", 1, b'{"dict":[[[],1]]}'), "cannot be read: TypeError"),
    (put_text("rows", "result", 1, b'{"tensor":0}'), "contradict|more tensors than"),
    (put_text("rows", "result", 1, b"[1,"), "cannot be read"),
    (put_text("rows", "name", 1, b"\xff\xfe"), "contradict"),
    (put_text("tensors", "shape", 0, b"7"), "is not a tuple"),
    (put_text("tensors", "shape", 0, b'{"tuple":[[2]]}'), "is not a shape"),
    (put_text("tensors", "shape", 0, b'{"tuple":[2.5]}'), "is not a shape"),
    (put_text("modules", "bases", 0, b'{"tuple":[1]}'), "bases have the name 1, which is not text"),
    (put_text("modules", "settings", 0, b'{"dict":[[1,2]]}'), "settings have the name 1, which is not text"),
    (put_text("rows", "kwargs", 1, b'{"dict":[[1,2]]}'), "arguments have the name 1, which is not text"),
    (put_text("about", "value", 0, b'{"dict":[[1,2]]}'), "the facts about the trace have the name 1"),
    (put("rows", "id", 2, 0), "two events have the same number"),
    (put("rows", "id", 1, 2**60), "a number that none can have"),
    (put("rows", "parent", 1, -4), "an event contains itself"),
    (put("tensors", "grad", 0, 0), "gradients lead over more than 64 others"),
    (put_text("about", "value", 0, b"7"), "not one dict"),
    (lambda tables: tables["about"].update(value=tables["about"]["value"][:0]), "0 values, not one dict"),
]


@pytest.mark.parametrize(("spoil", "message"), SPOILED, ids=range(len(SPOILED)))
def test_tables_that_break_a_rule_are_refused(spoil: Callable[[Tables], Any], message: str) -> None:
    tables = encode(everything())
    spoil(tables)
    with pytest.raises(StoreError, match=message):
        decode(tables)


def test_a_small_file_cannot_fill_the_memory() -> None:
    tables = encode(Trace([Call(number, None, "aten", "x") for number in range(3000)]))
    large = add_string(tables, b"[" + b"0," * 200_000 + b"0]")
    tables["rows"]["result"] = np.full(3000, large)
    with pytest.raises(StoreError, match="arguments hold 600"):
        decode(tables)


@pytest.mark.parametrize(
    "text", ['[1,"",[],[]]', '[1,"",[[2]],[],false]', '["1","",[],[],false]', "[1,2,[],[],true]", "7"]
)
def test_damaged_nesting_of_a_site_is_refused(text: str) -> None:
    site = Site("train.py", 3, "main", nesting=Nesting(3, "x = 1"))
    tables = encode(Trace([Call(0, None, "aten", "aten.add", site=site)]))
    strings = [*text_of(tables), text]
    tables["text"]["byte"] = np.frombuffer("".join(strings).encode(), np.uint8)
    tables["strings"]["length"] = np.array([len(string) for string in strings])
    tables["sites"]["nesting"] = np.array([len(strings) - 1])
    with pytest.raises(StoreError, match="is not the nesting of a site"):
        decode(tables)


def text_of(tables: Tables) -> list[str]:
    """The strings of a trace."""
    whole, ends = tables["text"]["byte"].tobytes().decode(), np.cumsum(tables["strings"]["length"])
    return [whole[end - length : end] for end, length in zip(ends, tables["strings"]["length"], strict=True)]
