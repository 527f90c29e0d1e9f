"""Values of several ranks joined, from parts made by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from insitu.errors import RanksError
from insitu.trace.compare.closeness import Tolerance
from insitu.trace.dtype import dtype_named
from insitu.trace.event import Stats, TensorFacts, Variable
from insitu.trace.placements.joined_value import JoinedValue
from insitu.trace.placements.joiner import Joiner
from insitu.trace.placements.part import LocalPart
from insitu.trace.placements.part_layout import Mesh, PartLayout, Placement, layout_of

WHOLE = np.arange(24.0, dtype=np.float32).reshape(4, 6)
ROWS, COLUMNS, COPIES = Placement("shard", dim=0), Placement("shard", dim=1), Placement("replicate")
SUM = Placement("partial", reduction="sum")


def facts(array: Any) -> TensorFacts:
    return TensorFacts(0, tuple(array.shape), dtype_named(str(array.dtype)).short, "cpu", kept=array)


def part(rank: int, value: Any, layout: PartLayout | None = None) -> LocalPart:
    held = facts(value) if isinstance(value, (np.ndarray, np.generic)) else value
    return LocalPart(rank, Variable(rank, None, "x", held, ("values",), rank=rank), layout)


def laid_out(arrays: list[Any], *placements: Placement, shape: tuple[int, ...] = ()) -> list[LocalPart]:
    """Parts on a mesh of all ranks."""
    mesh = Mesh(shape or (len(arrays),), tuple(range(len(arrays))))
    layouts = [PartLayout(WHOLE.shape, mesh, place, placements) for place in mesh.coordinates()]
    return [part(rank, array, layouts[rank]) for rank, array in enumerate(arrays)]


def plain(arrays: list[Any]) -> list[LocalPart]:
    return [part(rank, array) for rank, array in enumerate(arrays)]


def joined(parts: list[LocalPart], whole: Any = WHOLE, path: str = "x", **options: Any) -> JoinedValue:
    return Joiner(Tolerance(), **options).joined(path, parts, whole)


@pytest.mark.parametrize(
    ("arrays", "placement"),
    [
        (np.split(WHOLE, 2), ROWS),
        (np.split(WHOLE, 3, axis=1), COLUMNS),
        (np.array_split(WHOLE, 3), ROWS),
        ([WHOLE, WHOLE[:0]], ROWS),
        ([WHOLE, WHOLE], COPIES),
        ([WHOLE - 1, np.ones_like(WHOLE)], SUM),
        ([WHOLE - 1, WHOLE + 1], Placement("partial", reduction="avg")),
        ([WHOLE, WHOLE - 1], Placement("partial", reduction="max")),
        ([WHOLE, WHOLE + 1], Placement("partial", reduction="min")),
    ],
)
def test_recorded_placements_join_the_whole(arrays: list[Any], placement: Placement) -> None:
    found = joined(laid_out(arrays, placement), whole=None)
    assert np.array_equal(found.value, WHOLE)
    assert (found.method, found.placements) == ("placements", (placement,))


def test_torch_splits_the_first_dimension_of_a_mesh_first() -> None:
    found = joined(laid_out(np.split(WHOLE, 4), ROWS, ROWS, shape=(2, 2)))
    assert np.array_equal(found.value, WHOLE)
    quarters = [half for row in np.split(WHOLE, 2) for half in np.split(row, 2, axis=1)]
    assert np.array_equal(joined(laid_out(quarters, ROWS, COLUMNS, shape=(2, 2))).value, WHOLE)


def test_copy_that_differs_is_the_joined_value() -> None:
    for arrays in ([WHOLE, WHOLE + 1], [WHOLE + 1, WHOLE]):
        found = joined(laid_out(arrays, COPIES))
        assert np.array_equal(found.value, WHOLE + 1) and not found.are_copies_equal


def test_parts_on_two_meshes_are_joined_on_each_then_by_shape() -> None:
    halves = np.split(WHOLE, 2)
    parts = []
    for group, half in enumerate(halves):
        mesh = Mesh((2,), (2 * group, 2 * group + 1))
        for place, array in enumerate(np.split(half, 2, axis=1)):
            parts.append(part(2 * group + place, array, PartLayout(half.shape, mesh, (place,), (COLUMNS,))))
    found = joined(parts)
    assert np.array_equal(found.value, WHOLE) and found.method == "shapes"


@pytest.mark.parametrize("count", [2, 3, 4])
def test_batches_without_placements_are_joined_by_their_shapes(count: int) -> None:
    found = joined(plain(np.array_split(WHOLE, count)))
    assert np.array_equal(found.value, WHOLE) and (found.method, found.placements) == ("shapes", (ROWS,))


def test_copies_in_groups_are_recognized() -> None:
    first, second = np.split(WHOLE, 2)
    found = joined(plain([first, first, second, second]))
    assert np.array_equal(found.value, WHOLE) and found.placements == (ROWS, COPIES)
    assert np.array_equal(joined(plain([first, second, first, second])).value, WHOLE)


def test_losses_and_gradients_are_averaged_and_other_values_are_not() -> None:
    loss = joined(plain([np.float32(1.0).reshape(()), np.float32(2.0).reshape(())]), np.float32(1.5).reshape(()))
    assert (float(loss.value), loss.method) == (1.5, "mean")
    gradient = joined(plain([WHOLE - 1, WHOLE + 1]), path="head.weight.grad")
    assert np.array_equal(gradient.value, WHOLE) and gradient.method == "mean"
    weight = joined(plain([WHOLE, WHOLE + 1]), path="head.weight")
    assert np.array_equal(weight.value, WHOLE + 1) and weight.method == "unequal copies"
    assert joined([part(0, 1.0), part(1, 2.0)], 1.5).value == 1.5


def test_losses_of_four_ranks_are_averaged() -> None:
    numbers = [np.array(number, np.float32) for number in (1, 2, 3, 6)]
    found = joined(plain(numbers), np.array(3, np.float32), meshes=((2, 2),))
    assert (float(found.value), found.method) == (3.0, "mean")


def test_equal_losses_stay_as_they_are() -> None:
    number = np.float32(2.0).reshape(())
    assert joined(plain([number, number]), number).method == "copies"
    assert joined([part(0, 3), part(1, 3)], 3).value == 3
    assert joined([part(0, "train"), part(1, "eval")], "train").value == "eval"


def test_value_of_one_rank_is_taken_as_it_is() -> None:
    assert joined([part(1, WHOLE)]).method == "one rank"


def test_parts_that_do_not_make_up_the_whole_are_not_joined() -> None:
    found = joined(plain([WHOLE[:, :2], WHOLE[:, :2]]))
    assert found.method == "none" and found.value.shape == (4, 2)


def test_statistics_are_joined_and_values_that_are_missing_stay_missing() -> None:
    low, high = (TensorFacts(0, (2, 6), "f32", "cpu", stats=stats_of(half)) for half in np.split(WHOLE, 2))
    whole = TensorFacts(0, WHOLE.shape, "f32", "cpu", stats=stats_of(WHOLE))
    found = joined([part(0, low), part(1, high)], whole)
    assert found.method == "statistics" and found.value.shape == WHOLE.shape
    assert found.value.stats.std == pytest.approx(float(WHOLE.std())) and found.value.stats.zeros == 1
    bare = TensorFacts(0, (2, 6), "f32", "cpu")
    assert joined([part(0, bare), part(1, bare)], whole).method == "no values"


def stats_of(array: Any) -> Stats:
    low, high, zeros = float(array.min()), float(array.max()), int((array == 0).sum())
    return Stats(count=array.size, min=low, max=high, mean=float(array.mean()), std=float(array.std()), zeros=zeros)


# --- parts that do not belong together


def recorded(kind: str = "Shard", **more: Any) -> dict[str, Any]:
    mesh = {"shape": [2], "names": ["tp"], "first": 0, "strides": [1]}
    placements = [{"kind": kind, "dim": 0, **more}]
    return {"global_shape": [4, 6], "placements": placements, "mesh": mesh, "coordinate": [1]}


def test_recorded_facts_become_a_layout() -> None:
    found = layout_of("x", 1, recorded())
    assert found == PartLayout((4, 6), Mesh((2,), (0, 1), ("tp",)), (1,), (ROWS,))
    assert layout_of("x", 1, {"source": "model.py:3"}) is None
    assert layout_of("x", 1, {**recorded(), "coordinate": None}) is None


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        (recorded("Partial", reduce_op="premul_sum"), r"'head' .* on rank 1 is Partial\(premul_sum\)"),
        (recorded("_StridedShard", split_factor=2), r"'head' .* on rank 1 is _StridedShard\(dim=0, split_factor=2\)"),
        (recorded("_MaskPartial", reduce_op="sum"), r"'head' .* on rank 1 is _MaskPartial\("),
    ],
)
def test_placement_that_cannot_be_joined_is_named(facts: dict[str, Any], text: str) -> None:
    with pytest.raises(RanksError, match=text):
        layout_of("head", 1, facts)


def test_parts_of_different_placements_are_refused() -> None:
    halves = np.split(WHOLE, 2)
    other = laid_out(halves, COLUMNS)[1]
    with pytest.raises(RanksError, match=r"placements are .*Shard\(0\).* on rank 0, .*Shard\(1\).* on rank 1"):
        joined([laid_out(halves, ROWS)[0], other])


def test_parts_of_different_tensors_are_refused() -> None:
    one, other = laid_out(np.split(WHOLE, 2), ROWS)
    assert other.layout is not None
    wrong = PartLayout((8, 6), other.layout.mesh, (1,), (ROWS,))
    with pytest.raises(RanksError, match=r"global shapes are \[4, 6\] on rank 0, \[8, 6\] on rank 1"):
        joined([one, part(1, other.value, wrong)])


def test_parts_with_the_same_coordinate_are_refused() -> None:
    one, other = laid_out(np.split(WHOLE, 2), ROWS)
    with pytest.raises(RanksError, match=r"ranks 0 and 1 have the same coordinate \(0,\) of the mesh 2"):
        joined([one, part(1, other.value, one.layout)])


def test_part_that_is_missing_is_named() -> None:
    with pytest.raises(RanksError, match=r"'x' cannot be joined at step 0.* no part was recorded on rank 1"):
        joined(laid_out(np.split(WHOLE, 2), ROWS)[:1])


def test_placements_of_some_ranks_only_are_refused() -> None:
    one, other = laid_out(np.split(WHOLE, 2), ROWS)
    with pytest.raises(RanksError, match="some ranks recorded placements, and rank 1 did not"):
        joined([one, part(1, other.value)])


def test_shapes_that_a_placement_cannot_join_are_named() -> None:
    with pytest.raises(RanksError, match=r"\[2, 6\] on rank 0, \[2, 5\] on rank 1 cannot be joined by Shard\(0\)"):
        joined(laid_out([WHOLE[:2], WHOLE[2:, :5]], ROWS))
