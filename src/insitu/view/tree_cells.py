"""The cells of a row of the tree: output, inputs, values, time and source, of one call or of many that are alike."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from insitu.trace.event import Call, Site, TensorFacts, Variable, tensors
from insitu.trace.fold import Fold
from insitu.trace.forest import Group, time_of
from insitu.view.common_call import OTHER, common_item
from insitu.view.line import Column, Span
from insitu.view.number import call_time, counted_spread, finite_spread, limits
from insitu.view.ranges import UNKNOWN, Outputs, join_outputs, values_cell
from insitu.view.source_names import TO, SourceNames
from insitu.view.tree_name import site_of
from insitu.view.tree_nonfinite import NOTHING, NonFiniteRows
from insitu.view.value import holds_tensor, kept_text, result, safe, short, tensor, tensors_text

OUTPUT = Column("output", narrow=20)
MARK = Column("")  # of NaN and Inf: it is there at every width, and takes no room where all is well
INPUT = Column("input", drop=6, narrow=28)
SPARE_INPUT = Column("input", drop=0, narrow=28, is_spare=True)
VALUES = Column("values", drop=1, narrow=19)
TIME = Column("time", right=True, drop=5)
SOURCE = Column("source", narrow=22, keeps_end=True)
MOST_INPUTS = 40  # characters
MOST_NUMBER = 60  # characters of a range of numbers
MOST_KEPT = 24
FLOAT_DIGITS = 6  # of a single number
SUM = "Σ "

Cells = tuple[Span, ...]


class TreeCells:
    """Makes the cells of rows. `inputs` shows those of each call (True), of none (False), or where they fit (None).

    Where they fit, a call whose inputs have the shape and dtype of its output shows none.
    """

    def __init__(
        self, sources: SourceNames, nonfinite: NonFiniteRows, *, inputs: bool | None, more: tuple[Column, ...] = ()
    ) -> None:
        self._sources = sources
        self._nonfinite = nonfinite
        self._inputs = inputs
        self._empty = (NOTHING,) * len(more)
        self.columns = (OUTPUT, MARK, *self._input_columns(), VALUES, TIME, *more, SOURCE)

    def _input_columns(self) -> tuple[Column, ...]:
        if self._inputs is None:
            return (SPARE_INPUT,)
        return (INPUT,) * self._inputs

    def of_group(self, group: Group, item: Fold, more: Cells) -> Cells:
        """The time of a row for several calls, and where it is in the source; `more` is what is shown beside."""
        groups = [node.event for node in item.nodes if isinstance(node.event, Group)]
        return self._cells(NOTHING, time=_time(groups), more=more, source=self._stretch(group))

    def of_gap(self, times: list[int]) -> Cells:
        """The time of rows that are not shown."""
        return self._cells(NOTHING, time=_sum(times), more=self._empty, source=NOTHING)

    def of_call(self, call: Call, item: Fold, more: Cells) -> Cells:
        """The cells of a row for one call, or for many that are alike; `more` is what is shown beside."""
        if len(item.nodes) == 1 and _is_plain(call):  # as most often: be quick
            source = self._source([call])
            return ((tensor(call.result), "blue"), NOTHING, *self._input([call]), NOTHING, _time([call]), *more, source)
        calls = [node.event for node in item.nodes if isinstance(node.event, Call)]
        mark = self._nonfinite.mark(calls)
        values = _values([each.outputs for each in calls], mark) or kept_cell(call.result, len(calls))
        cells = (_output(call, calls), mark, *self._input(calls), values, _time(calls))
        return (*cells, *more, self._source(calls))

    def of_variables(self, output: Span, every: list[Variable]) -> Cells:
        """The cells of a row for one or more values of a variable."""
        mark = self._nonfinite.mark(every)
        held = [tuple(tensors(variable.value)) for variable in every if variable.changes != ("deleted",)]
        values = _values(held, mark) or kept_cell(every[-1].value)
        source = NOTHING
        if every[0].site is not None:
            source = self._place(every[0].site)
        return self._cells(output, mark, values=values, more=self._empty, source=source)

    def _cells(
        self,
        output: Span,
        mark: Span = NOTHING,
        *,
        values: Span = NOTHING,
        time: Span = NOTHING,
        more: Cells,
        source: Span,
    ) -> Cells:
        """The cells of a row without inputs."""
        no_input = (NOTHING,) * len(self._input_columns())
        return (output, mark, *no_input, values, time, *more, source)

    def _input(self, calls: list[Call]) -> Cells:
        """The inputs of a call, or of several like it, if there is a column for them."""
        if self._inputs is False:
            return ()
        call = calls[0]
        inputs = _common_inputs(calls)
        is_shown = bool(inputs) and call.raised is None  # that of a call that raised is in the output
        if self._inputs is None:
            is_shown = is_shown and not _are_like(call.inputs, call.result)
        if is_shown:
            return ((_inputs_text(tuple([(facts.type, facts.dtype, facts.shape) for facts in inputs])), "blue"),)
        return (NOTHING,)

    def _source(self, calls: list[Call]) -> Span:
        """The site of the first call, marked if others were called elsewhere."""
        site = calls[0].site
        if site is None:
            return NOTHING
        cell = self._place(site)
        if len(calls) == 1:
            return cell
        others = {call.site for call in calls if call.site is not site} - {None}
        if {cell, *map(self._place, filter(None, others))} == {cell}:
            return cell
        return (f"{cell[0]} {TO}", cell[1])

    def _place(self, site: Site) -> Span:
        return (self._sources.place(site), "grey")

    def _stretch(self, group: Group) -> Span:
        """Where a group is; one without a place of its own begins and ends with its calls."""
        if group.kind == "rest":
            return NOTHING
        if group.site is not None:
            return self._place(group.site)
        sites = [site for site in map(site_of, (group.first, group.last)) if site is not None]
        if not sites:
            return NOTHING
        return (self._sources.stretch(sites[0], sites[-1]), "grey")


def _is_plain(call: Call) -> bool:
    """Whether a call returned a tensor of which nothing but facts is known."""
    out = call.result
    return type(out) is TensorFacts and out.stats is None and out.kept is None


def _values(every: Sequence[Outputs], mark: Span) -> Span | None:
    """The ranges of the outputs, with the number of elements that are not finite unless a mark has it."""
    if mark[0]:
        return values_cell(every, finite_spread)
    return values_cell(every, counted_spread)


def _output(call: Call, calls: list[Call]) -> Span:
    """The result of a call, or the exception that it raised."""
    if call.raised is not None:
        return (f"✗ raised {safe(call.raised)}{_inputs(call)}", "red")
    out = call.result
    if type(out) is TensorFacts:
        return (common_result([each.result for each in calls]), "blue")
    return (_results(calls), "blue")


def _inputs(call: Call) -> str:
    """The inputs of a call that raised."""
    arguments: Any = call.args
    if call.kind == "python":
        arguments = call.inputs or None
    inputs = result(arguments)
    if inputs:
        return f" ← {inputs}"
    return ""


def _common_inputs(calls: list[Call]) -> Sequence[TensorFacts]:
    """The inputs of calls that are alike, sizes that differ as a range; none if the calls differ in more than sizes."""
    if len(calls) == 1:
        return calls[0].inputs
    common: Any = common_item([call.inputs for call in calls])
    if common is OTHER:
        return ()
    inputs = [facts for facts in common if type(facts) is TensorFacts]
    if len(inputs) < len(common):
        return ()
    return inputs


def _are_like(inputs: tuple[TensorFacts, ...], output: Any) -> bool:
    """Whether all inputs have the shape and dtype of the output."""
    if type(output) is not TensorFacts:
        return False
    return all(facts.shape == output.shape and facts.dtype == output.dtype for facts in inputs)


@lru_cache(maxsize=4096)
def _inputs_text(facts: tuple[tuple[str, str, tuple[int | str, ...]], ...]) -> str:
    """The types, dtypes and shapes of inputs."""
    inputs = [TensorFacts(0, shape, dtype, "", type=type) for type, dtype, shape in facts]
    return f"← {tensors_text(inputs, MOST_INPUTS)}"


def _time(events: Sequence[Call | Group]) -> Span:
    """The time of an event, or the sum of several."""
    times = [time for time in map(time_of, events) if time is not None]
    return _sum(times, is_launch=any(map(is_launch, events)))


def is_launch(event: Call | Group) -> bool:
    """Whether the time of an event is a launch time; the calls of a group are alike."""
    first = event.first if isinstance(event, Group) else event
    return isinstance(first, Call) and first.has_launch_time


def _sum(times: list[int], *, is_launch: bool = False) -> Span:
    """A time, or the sum of several."""
    if not times:
        return NOTHING
    text = call_time(sum(times), is_launch=is_launch)
    if len(times) > 1:
        return (f"{SUM}{text}", "green")
    return (text, "green")


def _results(calls: list[Call]) -> str:
    """The result of the calls; of several numbers the least and the largest, and how many are NaN."""
    found = [call.result for call in calls]
    out = found[0]
    if len(found) == 1 and isinstance(out, float):
        return f"{out:.{FLOAT_DIGITS}g}"
    if len(found) == 1:
        return result(out)
    if isinstance(out, (int, float)) and not isinstance(out, bool):
        return _number_range(found)
    text = result(out)
    if holds_tensor(out):
        return common_result(found)
    if set(map(result, found)) == {text}:
        return text
    return f"{text} and others"


def common_result(results: list[Any]) -> str:
    """Results with tensors, sizes that differ as a range."""
    common = common_item(results)
    if common is OTHER:
        return f"{result(results[0])} and others"
    return result(common)


def _number_range(numbers: list[float]) -> str:
    """The least and the largest of several numbers, and how many are NaN."""
    known = [number for number in numbers if number == number]
    parts: list[str] = []
    if known:
        parts.append(short(limits(min(known), max(known)), MOST_NUMBER))
    if len(known) < len(numbers):
        parts.append(f"{len(numbers) - len(known):,} NaN")
    return ", ".join(parts)


def kept_cell(item: Any, count: int = 1) -> Span:
    """The values of each tensor of a result, or what the user's own function returned for the tensor."""
    found = list(tensors(item))
    if all(facts.kept is None for facts in found):
        return NOTHING
    text = join_outputs([_kept(facts) for facts in found])
    if count > 1:
        return (f"{text} and others", "")
    return (text, "")


def _kept(facts: TensorFacts) -> str:
    if facts.kept is not None:
        return short(kept_text(facts.kept), MOST_KEPT)
    return UNKNOWN
