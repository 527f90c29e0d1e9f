"""The things that the rows of a page refer to, each once: texts, places in the source, modules, tensors, statistics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from insitu.trace.costs import size
from insitu.trace.event import COUNTS, NUMBERS, STATISTICS, ModuleFacts, Site, Stats, TensorFacts
from insitu.trace.kept_values import statistics_of
from insitu.view.name import module_type
from insitu.view.page.packing import PackedColumns
from insitu.view.page.pictures import VALUE_BYTES, Pictures
from insitu.view.value import kept_text, safe, short, tensor, value_text

BINS = 16
HEIGHTS = 15  # of a bar in a histogram
MOST_SOURCE = 400  # characters of a line


class Tables:
    """Numbers the things that rows refer to; 0 means that there is none."""

    def __init__(self, *, source: bool, value_bytes: int = VALUE_BYTES) -> None:
        self._source = source
        self.pictures = Pictures(value_bytes)
        self.places: Mapping[int, int] = {}
        self._run = 0
        self._texts: dict[str, int] = {"": 0}
        self._sites: dict[Site, int] = {}
        self._site_rows: list[Any] = [None]
        self._modules: dict[ModuleFacts, int] = {}
        self._module_rows: list[Any] = [None]
        self._types: dict[Any, int] = {}
        self._stats: dict[int, int] = {}
        self._stat_rows: list[Stats] = []
        self._tensors: dict[int, int] = {}
        self._tensor_rows: list[tuple[int, ...]] = [(0,) * 6]
        self._same: dict[tuple[int, int], int] = {}

    def begin(self, places: Mapping[int, int]) -> None:
        """Begin another run; `places` has the row of each event by its id, to find producers."""
        self.places = places
        self._run += 1

    def text(self, text: str | None) -> int:
        """The number of a text."""
        if text:
            return self._texts.setdefault(text, len(self._texts))
        return 0

    def site(self, site: Site | None) -> int:
        """The number of a place; its callers have numbers too."""
        if site is None:
            return 0
        number = self._sites.get(site)
        if number is not None:
            return number
        for place in site.chain():  # the outermost first, for each refers to its caller
            if place not in self._sites:
                self._sites[place] = len(self._site_rows)
                self._site_rows.append(self._place(place))
        return self._sites[site]

    def _place(self, site: Site) -> list[Any]:
        text = ""
        if self._source:
            text = short(safe(site.text), MOST_SOURCE)
        caller = 0
        if site.caller is not None:
            caller = self._sites[site.caller]
        return [safe(site.file), site.line, safe(site.function), text, site.start, site.end, caller]

    def module(self, module: ModuleFacts | None) -> int:
        """The number of a module."""
        if module is None:
            return 0
        number = self._modules.get(module)
        if number is not None:
            return number
        number = len(self._module_rows)
        self._modules[module] = number
        self._module_rows.append(_module_row(module))
        return number

    def tensor(self, facts: TensorFacts | None, *, is_gradient: bool = False) -> int:
        """The number of a tensor, with everything that the page shows about it."""
        if facts is None:
            return 0
        number = self._tensors.get(id(facts))
        if number is not None:
            return number
        number = self._tensors[id(facts)] = len(self._tensor_rows)
        self._tensor_rows.append(())
        same = self._same.setdefault((self._run, facts.id), len(self._same) + 1)
        gradient = self.tensor(facts.grad, is_gradient=True)
        row = (
            self._type(facts),
            self.place(facts.producer),
            *self._contents(number, facts, is_gradient),
            same,
            gradient,
        )
        self._tensor_rows[number] = row
        return number

    def _contents(self, number: int, facts: TensorFacts, is_gradient: bool) -> tuple[int, int]:
        """The numbers of the statistics of a tensor and of the text of what was kept; arrays become pictures."""
        if facts.kept is None:
            return self.statistics(facts.stats), 0
        stats = statistics_of(facts)
        self.pictures.add_tensor(number, facts, stats, is_gradient=is_gradient)
        return self.statistics(stats), self.text(short(kept_text(facts.kept), 200))

    def place(self, event: int | None) -> int:
        """The row of an event, 1 more than it is; 0 for an event without a row."""
        if event is None:
            return 0
        return self.places.get(event, -1) + 1

    def _type(self, facts: TensorFacts) -> int:
        key = (facts.dtype, facts.shape, facts.device, facts.requires_grad, facts.strides, facts.type)
        return self._types.setdefault(key, len(self._types) + 1)

    def statistics(self, stats: Stats | None) -> int:
        """The number of statistics."""
        if stats is None:
            return 0
        number = self._stats.get(id(stats))
        if number is None:
            self._stat_rows.append(stats)
            number = self._stats[id(stats)] = len(self._stat_rows)
        return number

    def fill(self, columns: PackedColumns) -> dict[str, Any]:
        """Add the columns of tensors and statistics; return the tables that are lists."""
        pictures = self.pictures.fill(columns, self.statistics)
        for name, numbers in zip(_TENSOR, zip(*self._tensor_rows, strict=True), strict=True):
            columns.integers(f"tensor.{name}", numbers, delta=name in ("made", "stats", "same"))
        rows = [None, *self._stat_rows]
        for row in NUMBERS:
            columns.floats(f"stats.{row.name}", [getattr(stats, row.name, None) for stats in rows])
        for row in COUNTS:
            columns.integers(f"stats.{row.name}", [getattr(stats, row.name, 0) for stats in rows])
        columns.bytes("stats.bars", b"".join([bars(getattr(stats, "histogram", ())) for stats in rows]))
        types = [None, *(_described(*key) for key in self._types)]
        statistics = [[row.name, row.label, row.kind, row.bound, row.is_alarming] for row in STATISTICS]
        return {
            "statistics": statistics,
            "pictures": pictures,
            "texts": list(self._texts),
            "sites": self._site_rows,
            "modules": self._module_rows,
            "types": types,
        }


def _module_row(module: ModuleFacts) -> list[Any]:
    settings = [f"{value_text(name)}={value_text(item)}" for name, item in module.settings.items()]
    counts = [min(count, 2**53) for count in (module.parameters, module.own_parameters, module.trainable)]
    return [safe(module.path), module_type(module), ", ".join(settings), *counts, int(module.leaf)]


_TENSOR = ("type", "made", "stats", "kept", "same", "grad")


def _described(dtype: str, shape: Any, device: str, requires_grad: bool, strides: Any, type: str) -> list[Any]:
    """A type as text, its device, its size in bytes, and other facts."""
    facts = TensorFacts(0, shape, dtype, device, type=type)
    notes: list[str] = []
    if type not in ("Tensor", "ndarray"):
        notes.append(safe(type))
    if requires_grad:
        notes.append("requires grad")
    if strides is not None:
        notes.append(f"strides {value_text(strides)}")
    return [tensor(facts), safe(device), min(size(facts), 2**53), ", ".join(notes)]


def bars(histogram: tuple[int, ...]) -> bytes:
    """A histogram as the heights of bars; a bin that is not empty has a visible bar.

    >>> list(bars((0, 1, 300)))[:4]
    [0, 1, 15, 0]
    """
    counts = [max(count, 0) for count in histogram[:BINS]]
    most = max(counts, default=0)
    heights = [0] * BINS
    if most:
        heights[: len(counts)] = [(count * HEIGHTS + most - 1) // most for count in counts]
    return bytes(heights)
