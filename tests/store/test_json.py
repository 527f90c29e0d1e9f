from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from tests.store.example import ARRAYS, VALUES, _draw

from insitu.errors import StoreError
from insitu.store.json_reader import from_json, plain_value, plain_values
from insitu.store.json_writer import JsonWriter, Repr
from insitu.trace.event import TensorFacts


def round_trip(value: Any) -> Any:
    arrays: list[Any] = []
    return from_json(JsonWriter(arrays).json(value), arrays).build(iter(()))


@pytest.mark.parametrize("value", VALUES + ARRAYS, ids=lambda value: type(value).__name__)
def test_a_value_comes_back_as_it_was(value: Any) -> None:
    assert _draw(round_trip(value), {}) == _draw(value, {})


def test_stored_value_is_standard_json() -> None:
    def refuse(name: str) -> None:
        raise AssertionError(name)

    for value in VALUES:
        json.loads(JsonWriter([]).json(value), parse_constant=refuse)


def test_equal_calls_with_other_tensors_have_equal_texts() -> None:
    one, two = TensorFacts(1, (2,), "f32", "cpu"), TensorFacts(2, (3,), "f32", "cpu")
    tensors: list[TensorFacts] = []
    writer = JsonWriter([], tensors)
    assert writer.json((one, {"mask": two})) == writer.json((two, {"mask": one}))
    assert tensors == [one, two, two, one]
    rebuilt = from_json(writer.json((one, {"mask": two})), []).build(iter([one, two]))
    assert rebuilt[0] is one and rebuilt[1]["mask"] is two


def test_each_read_builds_new_containers() -> None:
    template = from_json(JsonWriter([]).json([{"a": []}]), [])
    first, second = template.build(iter(())), template.build(iter(()))
    first[0]["a"].append(1)
    assert second == [{"a": []}]


class Stranger:
    def __init__(self, text: str = "", error: bool = False) -> None:
        self.text, self.error = text, error

    def __repr__(self) -> str:
        if self.error:
            raise RuntimeError("no")
        return self.text

    def __reduce__(self) -> Any:
        raise AssertionError("nothing is ever pickled")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Stranger("<a stranger>"), "<a stranger>"),
        (Stranger("x" * 1000), "x" * 199 + "…"),
        (Stranger(error=True), "<Stranger: its repr raised RuntimeError>"),
        (np.array([object], dtype=object), "array([<class 'object'>], dtype=object)"),
        (np.zeros(2, dtype=[("a", "i4")]), "array([(0,), (0,)], dtype=[('a', '<i4')])"),
        (TensorFacts(1, (2,), "f32", "cpu"), "f32[2]"),
        ({1}, "{1}"),
    ],
)
def test_other_objects_are_stored_as_their_repr(value: Any, text: str) -> None:
    assert round_trip([value]) == [Repr(type(value).__name__, text)]


def test_subclass_of_str_is_stored_as_text() -> None:
    class Version(str):
        pass

    assert type(round_trip(Version("2.13"))) is str


def test_container_that_contains_itself_is_cut() -> None:
    loop: list[Any] = [1]
    loop += [loop, loop]
    deep: Any = ()
    for _ in range(500):
        deep = (deep,)
    for value in (loop, deep):
        rebuilt = round_trip((5, value))
        assert rebuilt[0] == 5
        while not isinstance(rebuilt, Repr):
            rebuilt = rebuilt[-1]


def test_tensors_of_a_cut_container_are_not_stored() -> None:
    tensor = TensorFacts(1, (2,), "f32", "cpu")
    loop: list[Any] = [tensor]
    loop.append(loop)
    tensors: list[TensorFacts] = []
    template = from_json(JsonWriter([], tensors).json(loop), [])
    remaining = iter(tensors)
    template.build(remaining)
    assert next(remaining, None) is None


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "NaN", "[Infinity]", "{}", '{"a":1}', '{"tuple":1}', '{"tuple":[],"list":[]}', '{"word":1}'),
        *('{"float":"x"}', '{"float":1.0}', '{"int":"xyz"}', '{"bytes":"?"}', '{"complex":[1]}', '{"array":0}'),
        *(
            '{"array":-1}',
            '{"scalar":"0"}',
            '{"fields":[1,[]]}',
            '{"fields":["A",[[1,2]]]}',
            '{"dict":[1]}',
            '{"repr":[1,2]}',
        ),
        *("[" * 70 + "]" * 70, "[" * 100_000, "1" * 5000),
    ],
    ids=lambda text: text[:20],
)
def test_text_that_no_writer_produces_is_refused(text: str) -> None:
    with pytest.raises(StoreError, match="cannot be read"):
        from_json(text, [])


@pytest.mark.parametrize(
    "texts",
    [
        [b"1", b"0.5", b"true", b"null"],
        [b'{"float":"inf"}', b"-3", b'"1,2"', b'{"tuple":[1,"a"]}', b"[]"],
        [b"1" + b"0" * 40, b'{"int":"ffff"}'],
        [],
    ],
)
def test_many_texts_are_read_as_each_of_them(texts: list[bytes]) -> None:
    assert plain_values(texts) == [plain_value(text) for text in texts]


@pytest.mark.parametrize("texts", [[b"1,2", b""], [b"1", b'2,"a', b'b"'], [b"NaN"], [b"1,2", b"3"], [b" [1", b"2]"]])
def test_texts_that_are_values_only_together_are_damaged(texts: list[bytes]) -> None:
    with pytest.raises(StoreError, match="cannot be read"):
        plain_values(texts)
