"""Kept values as pictures of a page: chosen and reduced so that all of them together fit into a number of bytes."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import Any

from insitu.trace.event import Stats, TensorFacts
from insitu.trace.kept_values import (
    Array,
    difference_of,
    has_numbers,
    kept_arrays,
    real_numbers,
    statistics_of_values,
)
from insitu.trace.planes import FORM_BYTES, Form, Planes, Pooling, is_image, plane_layout, planes
from insitu.view.page.packing import PackedColumns
from insitu.view.value import safe, short

VALUE_BYTES = 4_000_000  # of kept values in a page, before they are packed
LATER_SHARE = 4  # the part of the bytes that is left to pictures of lower rank: one in so many
MOST_NAME = 60


class Rank(IntEnum):
    """The order of pictures if not all of them fit: what calls made, what was there before, and the rest."""

    MADE = 0
    GIVEN = 1
    OTHER = 2


@dataclass(frozen=True)
class Detail:
    """How much of an array a page carries: cells of a side, cells of all planes, and how a cell is written."""

    most_side: int
    most_cells: int
    form: Form

    def size(self, shape: tuple[int, ...]) -> int:
        """The bytes of an array of this shape."""
        layout = plane_layout(shape, most_side=self.most_side, most_cells=self.most_cells)
        return layout.cells * FORM_BYTES[self.form]


# From the most detail to the least. All pictures of one rank have the same.
DETAILS = (
    Detail(256, 2**18, "single"),
    Detail(256, 2**18, "half"),
    Detail(256, 2**18, "levels"),
    Detail(128, 2**16, "levels"),
    Detail(64, 2**14, "levels"),
    Detail(32, 2**12, "levels"),
)


@dataclass(frozen=True)
class Owner:
    """What a picture belongs to: a tensor by its number, or an output of a pair of calls whose difference it shows."""

    tensor: int = 0
    pair: int = 0
    output: int = 0


@dataclass(frozen=True)
class WantedPicture:
    """An array that a page would show. `load` returns it, because a difference is an array only when it is needed."""

    owner: Owner
    name: str
    shape: tuple[int, ...]
    load: Callable[[], Array | None]
    rank: Rank
    stats: Stats | None = None


class Pictures:
    """Collects the arrays that tensors have kept, and packs those for which the page has room.

    If `first` is given, the tensors with these ids come first: `id` of their facts.
    """

    def __init__(self, value_bytes: int = VALUE_BYTES) -> None:
        self._room = value_bytes
        self._wanted: list[WantedPicture] = []
        self.first: Container[int] | None = None

    def add_tensor(self, number: int, facts: TensorFacts, stats: Stats | None, *, is_gradient: bool = False) -> None:
        """Add the arrays that were kept of a tensor; `stats` are those of its values, if they are known."""
        rank = self._rank(facts, is_gradient)
        for name, array in kept_arrays(facts.kept):
            if not _is_visible(array):
                continue
            shape = tuple(array.shape)
            own_stats = stats if not name and shape == facts.shape else None
            name = short(safe(name), MOST_NAME)
            self._wanted.append(
                WantedPicture(Owner(tensor=number), name, shape, partial(_same, array), rank, own_stats)
            )

    def add_difference(self, pair: int, output: int, a: Array, b: Array) -> None:
        """Add the difference of two arrays of the same shape: an output of a pair of calls, both by their numbers."""
        owner = Owner(pair=pair, output=output)
        self._wanted.append(WantedPicture(owner, "", tuple(a.shape), partial(difference_of, a, b), Rank.MADE))

    def _rank(self, facts: TensorFacts, is_gradient: bool) -> Rank:
        if self.first is not None and id(facts) not in self.first:
            return Rank.OTHER
        if is_gradient:
            return Rank.OTHER
        if facts.producer is None:
            return Rank.GIVEN
        return Rank.MADE

    def fill(self, columns: PackedColumns, number_stats: Callable[[Stats | None], int]) -> list[Any]:
        """Add the columns of values; return the description of each picture. `number_stats` numbers statistics."""
        data: list[bytes] = []
        described: list[Any] = []
        shown: set[int] = set()
        start = 0
        for wanted, detail in self._chosen():
            picture = _picture(wanted, detail)
            if picture is None:
                continue
            described.append(picture.described(start, number_stats(picture.stats)))
            data.append(picture.planes.data)
            start += len(picture.planes.data)
            shown.add(wanted.owner.tensor)
        columns.bytes("values", b"".join(data))
        columns.integers("unshown", sorted({wanted.owner.tensor for wanted in self._wanted} - shown), delta=True)
        return described

    def _chosen(self) -> Iterable[tuple[WantedPicture, Detail]]:
        """The pictures that fit, those of the first rank first, and in how much detail."""
        room = self._room
        ranks = [[wanted for wanted in self._wanted if wanted.rank == rank] for rank in Rank]
        for place, every in enumerate(ranks):
            own_room = _own_room(room, every, ranks[place + 1 :])
            detail = _finest(every, own_room)
            for wanted in every:
                size = detail.size(wanted.shape)
                if size > own_room:
                    continue
                own_room -= size
                room -= size
                yield wanted, detail


def _own_room(room: int, every: Sequence[WantedPicture], later: list[list[WantedPicture]]) -> int:
    """The bytes for the pictures of one rank: all that is left, but for a share of those of later ranks if all fit."""
    share = min(sum(_total(others, DETAILS[-1]) for others in later), room // LATER_SHARE)
    if _total(every, DETAILS[-1]) > room - share:
        return room
    return room - share


def _total(every: Sequence[WantedPicture], detail: Detail) -> int:
    return sum(detail.size(wanted.shape) for wanted in every)


def _finest(every: Sequence[WantedPicture], room: int) -> Detail:
    """The most detail in which all pictures fit, else the least."""
    for detail in DETAILS:
        if _total(every, detail) <= room:
            return detail
    return DETAILS[-1]


def _is_visible(array: Array) -> bool:
    """Whether an array can be a picture: it has more than one number."""
    try:
        return has_numbers(array) and array.size > 1
    except Exception:  # what a user's function kept may look like an array and be anything
        return False


def _same(array: Array) -> Array:
    return array


@dataclass(frozen=True)
class Picture:
    """The planes of an array, and what there is to say about them."""

    owner: Owner
    name: str
    kind: str
    planes: Planes
    stats: Stats | None
    is_image: bool

    def described(self, start: int, stats: int) -> list[Any]:
        """The description for the page, in the order in which `heatmap_values.js` reads it."""
        layout, owner, cells = self.planes.layout, self.owner, self.planes
        return [
            *(owner.tensor, owner.pair, owner.output, self.name, self.kind, int(self.is_image), stats),
            *(layout.shape, layout.leading, layout.rows, layout.columns, layout.block_rows, layout.block_columns),
            *(layout.pooling, cells.form, start, int(cells.is_exact), cells.low, cells.step, cells.scale),
        ]


def _picture(wanted: WantedPicture, detail: Detail) -> Picture | None:
    """The picture of an array; None if it has no numbers after all."""
    array = wanted.load()
    if array is None:
        return None
    numbers = real_numbers(array)
    if numbers is None:
        return None
    is_photo = is_image(numbers)
    pooling: Pooling = "mean" if is_photo else "farthest"
    layout = plane_layout(wanted.shape, most_side=detail.most_side, most_cells=detail.most_cells, pooling=pooling)
    stats = wanted.stats or statistics_of_values(numbers)
    kind = _KINDS.get(array.dtype.kind, "real")
    return Picture(wanted.owner, wanted.name, kind, planes(numbers, layout, detail.form), stats, is_photo)


_KINDS = {"b": "bool", "i": "integer", "u": "integer", "c": "complex"}
