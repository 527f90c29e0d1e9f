"""Shapes that must fit from the right: equal sizes, or 1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from insitu.trace.explain.explanation import Misfit, ShapeRow

Size = int | str
Shape = tuple[Size, ...]


@dataclass(slots=True, frozen=True)
class SizeConflict:
    """The last dimension, counted from the right, in which sizes differ and none of them is 1."""

    dimension: int
    sizes: tuple[Size, ...]

    @property
    def text(self) -> str:
        """What is wrong with the two first of the sizes."""
        return f"dimension {self.dimension}: {self.sizes[0]} and {self.sizes[1]} differ and neither is 1"


def conflict_misfit(shapes: Sequence[Shape], rows: tuple[ShapeRow, ...]) -> Misfit | None:
    """The misfit of shapes that do not broadcast."""
    conflict = size_conflict(shapes)
    if conflict is None:
        return None
    return Misfit(conflict.text, rows, conflict.dimension)


def size_conflict(shapes: Sequence[Shape]) -> SizeConflict | None:
    """The conflict of shapes that do not broadcast.

    >>> size_conflict([(2, 3), (4, 3)]), size_conflict([(2, 3), (1, 3)])
    (SizeConflict(dimension=-2, sizes=(2, 4)), None)
    """
    for dimension in range(-1, -max(map(len, shapes)) - 1, -1):
        sizes = sizes_at(shapes, dimension)
        if len(sizes) > 1:
            return SizeConflict(dimension, sizes)
    return None


def sizes_at(shapes: Sequence[Shape], dimension: int) -> tuple[Size, ...]:
    """The different sizes of one dimension, without 1, in the order of the shapes."""
    sizes = dict.fromkeys(shape[dimension] for shape in shapes if len(shape) >= -dimension)
    sizes.pop(1, None)
    return tuple(sizes)


def fits_into(shape: Shape, room: Shape) -> bool:
    """Whether a shape can be broadcast to another one."""
    if len(shape) > len(room):
        return False
    return all(size in (1, space) for size, space in zip(reversed(shape), reversed(room), strict=False))
