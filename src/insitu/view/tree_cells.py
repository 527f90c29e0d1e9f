"""The cells of a row of the tree: output, values, time and source, of one call or of many that are alike."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from insitu.trace.event import Call, Site, TensorFacts, tensors
from insitu.trace.fold import Fold
from insitu.trace.forest import Group
from insitu.view.line import Column, Span
from insitu.view.name import spot
from insitu.view.number import duration, limits
from insitu.view.ranges import UNKNOWN, join_outputs, outputs_cell
from insitu.view.tree_name import site_of
from insitu.view.value import holds_tensor, kept_text, result, safe, short, tensor

COLUMNS = (Column("output"), Column("values", drop=2), Column("time", right=True, drop=3), Column("source", drop=1))
NOTHING: Span = ("", "")
MOST_NUMBER = 60  # characters of a range of numbers
MOST_KEPT = 24
SUM = "Σ "

Cells = tuple[Span, ...]


def group_cells(group: Group, item: Fold, more: Cells) -> Cells:
    """The time of an expression or a loop, and where it begins and ends; `more` is what is shown beside."""
    times = [node.event.duration for node in item.nodes if isinstance(node.event, Group)]
    sites = [site for site in map(site_of, (group.first, group.last)) if site is not None]
    places = dict.fromkeys(map(spot, sites))
    return (NOTHING, NOTHING, _time(times), *more, (" … ".join(places), "grey"))


def call_cells(call: Call, item: Fold, more: Cells) -> Cells:
    """The cells of a row that may stand for many calls; `more` is what is shown beside."""
    calls = [node.event for node in item.nodes if isinstance(node.event, Call)]
    times = [each.duration for each in calls if each.duration is not None]
    values = outputs_cell(calls) or kept_cell(call.result, len(calls))
    return (_output(call, calls), values, _time(times), *more, _sources(calls))


def _output(call: Call, calls: list[Call]) -> Span:
    """What was returned or raised."""
    if call.raised is not None:
        return (f"✗ raised {safe(call.raised)}{_inputs(call)}", "red")
    out = call.result
    return (tensor(out) if type(out) is TensorFacts else _results(calls), "blue")


def _inputs(call: Call) -> str:
    """The inputs of a call that raised."""
    inputs = result(call.args) if call.kind != "python" else result(call.inputs or None)
    if inputs:
        return f" ← {inputs}"
    return ""


def _time(times: list[int]) -> Span:
    """A time, or the sum of several."""
    if not times:
        return NOTHING
    text = duration(sum(times))
    return (f"{SUM}{text}" if len(times) > 1 else text, "green")


def _results(calls: list[Call]) -> str:
    """What was returned; of several numbers the least and the largest, and how many are NaN."""
    found = [call.result for call in calls]
    out = found[0]
    if len(found) == 1:
        return result(out)
    if isinstance(out, (int, float)) and not isinstance(out, bool):
        return _number_range(found)
    is_one = holds_tensor(out) or len({result(item) for item in found}) == 1
    if is_one:
        return result(out)
    return f"{result(out)} and others"


def _number_range(numbers: list[float]) -> str:
    """The least and the largest of several numbers, and how many are NaN."""
    known = [number for number in numbers if number == number]
    parts = [short(limits(min(known), max(known)), MOST_NUMBER)] if known else []
    if len(known) < len(numbers):
        parts.append(f"{len(numbers) - len(known):,} NaN")
    return ", ".join(parts)


def kept_cell(item: Any, count: int = 1) -> Span:
    """What was kept of each tensor of a result: its values, or what the user's own function returned for it."""
    found = list(tensors(item))
    if all(facts.kept is None for facts in found):
        return NOTHING
    text = join_outputs([_kept(facts) for facts in found])
    return (f"{text} and others" if count > 1 else text, "")


def _kept(facts: TensorFacts) -> str:
    if facts.kept is not None:
        return short(kept_text(facts.kept), MOST_KEPT)
    return UNKNOWN


def _sources(calls: list[Call]) -> Span:
    """The site of the first call, marked if others were called elsewhere."""
    site = calls[0].site
    if site is None:
        return NOTHING
    cell = source_cell(site)
    others = {call.site for call in calls if call.site is not site}
    is_elsewhere = any(source_cell(other) != cell for other in others if other is not None)
    if is_elsewhere:
        return (f"{cell[0]} …", cell[1])
    return cell


@lru_cache(maxsize=4096)
def source_cell(site: Site) -> Span:
    """File and line."""
    return (spot(site), "grey")
