"""A variable of a run with all that is drawn of it: what it is, and a curve or bands for each rank."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from insitu.trace.event import STATISTICS
from insitu.trace.model_paths import Role

if TYPE_CHECKING:
    from insitu.trace.curve import BandCurve, Curve

NormSource = Literal["", "values", "statistics"]


@dataclass(frozen=True, slots=True)
class VariableCurves:
    """One variable: `curves` of its numbers or `bands` of its texts, one for each rank.

    `type` is the dtype and shape, or what else is known of the values. `norm` says how the l2 norm of a tensor is
    known: from its values, or computed from its statistics; it is empty for a variable that is a number or a text.
    """

    path: str
    role: Role
    type: str = ""
    curves: tuple[Curve, ...] = ()
    bands: tuple[BandCurve, ...] = ()
    norm: NormSource = ""
    source: str = ""

    @property
    def is_tensor(self) -> bool:
        """Whether its values have elements, and so a range and a norm."""
        return self.norm != ""


def reduced(variable: VariableCurves, most: int) -> VariableCurves:
    """The variable with curves of at most so many points."""
    return replace(
        variable,
        curves=tuple(curve.reduced(most) for curve in variable.curves),
        bands=tuple(band.reduced(most) for band in variable.bands),
    )


def joined_statistics(paths: Collection[str]) -> dict[str, dict[str, str]]:
    """The variables that were recorded as statistics: for each, the path of each statistic by its name.

    `keep="stats"` writes all of them; where one is missing, the paths are those of something else.

    >>> names = [f"head.weight.{row.name}" for row in STATISTICS]
    >>> list(joined_statistics([*names, "loss.mean"])), joined_statistics(names)["head.weight"]["mean"]
    (['head.weight'], 'head.weight.mean')
    """
    known = set(paths)
    bases = dict.fromkeys(path.removesuffix(_LAST) for path in paths if path.endswith(_LAST))
    found = {base: {row.name: f"{base}.{row.name}" for row in STATISTICS} for base in bases}
    return {base: named for base, named in found.items() if base not in known and known.issuperset(named.values())}


_LAST = f".{STATISTICS[-1].name}"
