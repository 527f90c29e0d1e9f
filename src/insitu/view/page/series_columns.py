"""Variables over steps, as the pane that draws them reads them: a description of each, and columns of numbers.

`series_model.js` is the way back. A line is one rank of a variable, in one run: its columns are named by its number.
Lines with the same steps share one column of steps.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from insitu.view.page.packing import PackedColumns
from insitu.view.page.series_pane import SeriesPane
from insitu.view.value import safe, short

if TYPE_CHECKING:
    from insitu.trace.compared_variables import ComparedVariable
    from insitu.trace.curve import BandCurve, Curve
    from insitu.trace.variable_curves import VariableCurves

MOST_NAME = 200
MOST_TEXT = 80
MOST_NOTE = 300
RANGE, TENSOR, COUNTS = ("low", "high"), ("std", "norm"), ("nan", "inf", "zeros")


@dataclass(slots=True)
class LineColumns:
    """Adds the columns of lines to a page."""

    columns: PackedColumns
    _lines: int = 0
    _grids: dict[bytes, int] = field(default_factory=dict)

    def describe(self, pane: SeriesPane) -> dict[str, Any]:
        """Add all columns; return the description of the pane as plain data."""
        variables = [self.variable(variable) for variable in pane.variables]
        variables += [self._compared(compared) for compared in pane.compared]
        labels = None
        if pane.labels is not None:
            labels = [short(safe(label), MOST_TEXT) for label in pane.labels]
        return {
            "unit": pane.unit,
            "labels": labels,
            "state": pane.state,
            "notes": [short(safe(note), MOST_NOTE) for note in pane.notes],
            "marks": [[mark.step, mark.kind, short(safe(mark.text), MOST_NOTE)] for mark in pane.marks],
            "variables": variables,
        }

    def variable(self, variable: VariableCurves) -> dict[str, Any]:
        """A variable of one run."""
        found = variable_facts(variable)
        found["lines"] = [self.line(curve, is_tensor=variable.is_tensor) for curve in variable.curves]
        found["bands"] = list(map(band_columns, variable.bands))
        return found

    def _compared(self, compared: ComparedVariable) -> dict[str, Any]:
        """A variable of two runs."""
        a, b = compared.a, compared.b
        described = a if a.curves or a.bands else b
        found = variable_facts(described)
        found |= {"first": compared.first, "largest": compared.largest, "place": compared.place}
        if b.path != a.path:
            found["other"] = _name(b.path)
        found["lines"] = [self.line(curve, is_tensor=described.is_tensor) for curve in a.curves]
        found["lines"] += [self.line(curve, run=1, is_tensor=described.is_tensor) for curve in b.curves]
        found["bands"] = [*map(band_columns, a.bands), *(band_columns(band, run=1) for band in b.bands)]
        return found

    def line(self, curve: Curve, *, run: int = 0, is_tensor: bool, start: int = 0) -> dict[str, Any]:
        """A curve, from one of its points on; `start` is how many points the page has already."""
        number, self._lines = self._lines, self._lines + 1
        for name in _float_columns(curve, is_tensor):
            self.columns.floats(f"series.{number}:{name}", getattr(curve.numbers, name)[start:].tolist())
        counts = {name: getattr(curve.numbers, name)[start:] for name in COUNTS}
        for name, column in counts.items():
            if not _is_constant(column):
                self.columns.integers(f"series.{number}:{name}", column.tolist())
        return {
            "number": number,
            "grid": self._grid(curve, start),
            "start": start,
            "rank": curve.rank,
            "run": run,
            "width": curve.width,
            "steps": int(curve.weight.sum()),
            "isWhole": curve.is_whole,
            "oddSteps": curve.odd_steps,
            "firstOdd": curve.first_odd,
            "lastStep": curve.last_step,
            "constants": {name: int(column[0]) for name, column in counts.items() if _is_constant(column)},
        }

    def _grid(self, curve: Curve, start: int) -> int:
        """The number of the column with the steps of a curve."""
        steps = curve.steps[start:]
        key = steps.tobytes()
        if key not in self._grids:
            self._grids[key] = len(self._grids)
            self.columns.integers(f"series.grid:{self._grids[key]}", steps.tolist(), delta=True)
        return self._grids[key]


def _float_columns(curve: Curve, is_tensor: bool) -> list[str]:
    """The columns that a curve needs: a number that is alone at its step has no range."""
    names = ["mean"]
    if is_tensor or not curve.is_flat:
        names += RANGE
    if is_tensor:
        names += TENSOR
    return names


def _is_constant(column: Any) -> bool:
    """Whether a column repeats one number; one without a number does not."""
    return len(column) > 0 and bool((column == column[0]).all())


def variable_facts(variable: VariableCurves) -> dict[str, Any]:
    """What is known of a variable, without its numbers."""
    return {
        "path": _name(variable.path),
        "role": variable.role,
        "type": short(safe(variable.type), MOST_TEXT),
        "norm": variable.norm,
        "source": short(safe(variable.source), MOST_NAME),
    }


def _name(path: str) -> str:
    """A path as it is shown."""
    return short(safe(path), MOST_NAME) or "(root)"


def band_columns(curve: BandCurve, run: int = 0) -> dict[str, Any]:
    """The bands of one rank, column by column; a text that comes again is in `texts` once."""
    texts = list(dict.fromkeys(band.text for band in curve.bands))
    places = {text: place for place, text in enumerate(texts)}
    return {
        "rank": curve.rank,
        "run": run,
        "width": curve.width,
        "first": [band.first for band in curve.bands],
        "last": [band.last for band in curve.bands],
        "text": [places[band.text] for band in curve.bands],
        "count": [band.count for band in curve.bands],
        "texts": [short(safe(text), MOST_TEXT) for text in texts],
    }
