"""Which kept values a page carries, and in how much detail."""

from __future__ import annotations

from typing import Any

import numpy
import pytest
from tests.view.build import Run, tensor
from tests.view.test_html import carried

from insitu.trace.compare.traces import compare_traces
from insitu.trace.event import TensorFacts
from insitu.trace.trace import Trace

TENSOR, PAIR, NAME, SHAPE, FORM, START = 0, 1, 3, 7, 14, 15


def array(*shape: int, seed: int = 0) -> Any:
    return numpy.random.default_rng(seed).normal(size=shape).astype("f4")


def layer(count: int = 1, size: int = 16) -> Trace:
    """Calls that take what the one before them made, and a weight of their own."""
    run, x = Run(), tensor(size, size, id=0, kept=array(size, size))
    for number in range(count):
        weight = tensor(size, size, id=100 + number, kept=array(size, size, seed=number), type="Parameter")
        out = tensor(size, size, id=number + 1, kept=array(size, size, seed=50 + number), producer=number)
        run.call("function", f"torch.f{number}", x, weight, out=out)
        x = out
    return run.trace


def test_a_tensor_that_is_used_again_has_one_picture() -> None:
    found = carried(layer(3))
    assert len(found["pictures"]) == 7  # an input, three weights, three outputs
    assert len({picture[TENSOR] for picture in found["pictures"]}) == 7 and found["unshown"] == []


def test_outputs_come_before_what_was_given() -> None:
    found = carried(layer(4), value_bytes=4 * 256)
    made = set(found["made"])
    shown = {picture[TENSOR] for picture in found["pictures"]}
    assert shown and shown <= made and len(found["unshown"]) == 9 - len(shown)


@pytest.mark.parametrize(("room", "form"), [(20_000, "single"), (2_400, "half"), (1_200, "levels"), (300, "levels")])
def test_the_detail_is_the_finest_that_fits(room: int, form: str) -> None:
    found = carried(layer(2), value_bytes=room)
    forms = {picture[FORM] for picture in found["pictures"] if picture[TENSOR] in found["made"]}
    assert forms == {form}
    assert len(found["values"]) <= room


def test_all_pictures_together_keep_to_their_room() -> None:
    for room in (0, 100, 5_000, 100_000):
        found = carried(layer(20, 40), value_bytes=room)
        assert len(found["values"]) <= room
        starts = [picture[START] for picture in found["pictures"]]
        assert starts == sorted(starts)


def test_a_difference_has_a_picture_and_calls_that_are_the_same_come_last() -> None:
    traces = [layer(3), layer(3)]
    last = traces[1].calls[-1].outputs[0]
    last.kept = last.kept + 1
    diff = compare_traces(*traces)
    found = carried(diff, value_bytes=3_000)
    assert [picture[PAIR] for picture in found["pictures"] if picture[PAIR]] == [3]
    row = found["pair.a"][2] - 1
    first_made = sum(found["row.returned"][:row])
    shown = {picture[TENSOR] for picture in found["pictures"]}
    assert found["made"][first_made] in shown
    everything = carried(compare_traces(layer(3), layer(3)))
    assert not any(picture[PAIR] for picture in everything["pictures"])


def test_statistics_of_kept_values_are_in_the_table() -> None:
    found = carried(layer())
    numbers = [found["tensor.stats"][number] for number in found["made"]]
    assert all(numbers) and found["stats.count"][numbers[0]] == 256


class Strange:
    """An object that looks like an array."""

    shape, size = (2, 2), 4

    def astype(self, *_: Any) -> Any:
        raise RuntimeError("no")

    @property
    def dtype(self) -> Any:
        raise RuntimeError("no")

    def __str__(self) -> str:
        return "strange"


def test_objects_that_look_like_arrays_are_texts() -> None:
    run = Run()
    kept: list[Any] = [Strange(), [Strange()], numpy.array([[object()] * 2]), "text"]
    for number, item in enumerate(kept):
        run.call("function", "torch.f", out=TensorFacts(number, (2, 2), "f32", "cpu", kept=item))
    found = carried(run.trace)
    assert found["pictures"] == [] and "strange" in found["texts"]
