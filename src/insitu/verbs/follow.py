"""The page of a run that is being recorded, and what changes in it: for `insitu open --follow`."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any

from insitu.errors import InsituError
from insitu.view.html import page
from insitu.view.page.packing import PackedColumns
from insitu.view.page.series_columns import LineColumns, band_columns, variable_facts
from insitu.view.page.series_pane import SeriesPane, pane_of_run

if TYPE_CHECKING:
    from insitu.trace.curve import Curve
    from insitu.trace.variable_curves import VariableCurves

LEAST_PAUSE = 0.4  # seconds between two looks at the disk, however many tabs ask
FIRST = 1  # the revision of a page that was just made


@dataclass
class LineHistory:
    """A curve, and the revision in which each of its points changed last; those of later points are not lower."""

    curve: Curve
    changed: list[int] = field(default_factory=list)

    def replace(self, curve: Curve, revision: int) -> None:
        """Take the curve as it is now; of one that is shorter, the last point is sent again, and ends it."""
        common = self.curve.common_points(curve)
        if len(curve) < len(self.curve):
            common = max(0, min(common, len(curve) - 1))
        self.changed = [*self.changed[:common], *[revision] * (len(curve) - common)]
        self.curve = curve

    def start(self, after: int) -> int:
        """The first point that changed after a revision."""
        for place in range(len(self.changed), 0, -1):
            if self.changed[place - 1] <= after:
                return place
        return 0


class FollowedPage:
    """A run that is being recorded as a page, which asks for its changes."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        # h5py and numpy take a tenth of a second to import.
        from insitu.store.run.followed_run import FollowedRun

        self._run = FollowedRun(path)
        self._lock = Lock()
        self._revision = FIRST
        self._lines: dict[tuple[str, int], LineHistory] = {}
        self._bands: dict[str, tuple[Any, int]] = {}
        self._looked = time.monotonic()
        self._trouble = ""
        self._run_id = self._run.id
        self._note_changes()

    @property
    def state(self) -> str:
        """Whether the run goes on: "running", "ended", "killed" or "unknown"."""
        return self._run.state

    def close(self) -> None:
        """Close the files of the run."""
        self._run.close()

    def text(self) -> str:
        """The page as it is now."""
        with self._lock:
            self._look()
            return page(None, series=self._pane(), title=self._run.path.name, revision=self._revision)

    def update(self, after: int) -> str:
        """What has changed after a revision, packed as the data of a page are."""
        with self._lock:
            self._look()
            columns = PackedColumns()
            lines = LineColumns(columns)
            header = lines.describe(self._pane(with_variables=False))
            variables = [self._change(lines, variable, after) for variable in self._run.variables.values()]
            header["variables"] = [change for change in variables if change is not None]
            header["revision"] = self._revision
            header["isOther"] = self._run.id != self._run_id
            return columns.packed({"series": header})

    def _look(self) -> None:
        """Look for news on the disk, unless that was done a moment ago."""
        if time.monotonic() - self._looked < LEAST_PAUSE:
            return
        try:
            self._run.poll()
            self._trouble = ""
        except (InsituError, OSError) as error:  # the files of the run are being merged, or moved
            self._trouble = f"the run cannot be read now: {error}"
        self._looked = time.monotonic()
        self._note_changes()

    def _note_changes(self) -> None:
        """Give the points that have changed the next revision."""
        revision = self._revision + 1
        for variable in self._run.variables.values():
            for curve in variable.curves:
                self._note_curve(variable.path, curve, revision)
            if self._bands.get(variable.path, (None, 0))[0] != variable.bands:
                self._bands[variable.path] = variable.bands, revision
        self._revision = revision

    def _note_curve(self, path: str, curve: Curve, revision: int) -> None:
        known = self._lines.get((path, curve.rank))
        if known is None:
            self._lines[path, curve.rank] = LineHistory(curve, [revision] * len(curve))
        elif known.curve is not curve:
            known.replace(curve, revision)

    def _change(self, lines: LineColumns, variable: VariableCurves, after: int) -> dict[str, Any] | None:
        """What has changed in a variable; None if nothing has."""
        starts = {curve.rank: self._lines[variable.path, curve.rank].start(after) for curve in variable.curves}
        changed = [curve for curve in variable.curves if starts[curve.rank] < len(curve)]
        has_other_bands = self._bands[variable.path][1] > after
        if not changed and not has_other_bands:
            return None
        found = variable_facts(variable)
        is_tensor = variable.is_tensor
        found["lines"] = [lines.line(curve, is_tensor=is_tensor, start=starts[curve.rank]) for curve in changed]
        found["bands"] = list(map(band_columns, variable.bands))
        return found

    def _pane(self, *, with_variables: bool = True) -> SeriesPane:
        variables = list(self._run.variables.values()) if with_variables else []
        pane = pane_of_run(variables, self._run.condition, self._run.state)
        if self._trouble:
            return SeriesPane(pane.variables, notes=[self._trouble, *pane.notes], marks=pane.marks, state=pane.state)
        return pane
