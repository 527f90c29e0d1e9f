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
    """The result of a call, or the exception that it raised."""
    if call.raised is not None:
        return (f"✗ raised {safe(call.raised)}{_inputs(call)}", "red")
    out = call.result
    if type(out) is TensorFacts:
        return (tensor(out), "blue")
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


def _time(times: list[int]) -> Span:
    """A time, or the sum of several."""
    if not times:
        return NOTHING
    text = duration(sum(times))
    if len(times) > 1:
        return (f"{SUM}{text}", "green")
    return (text, "green")


def _results(calls: list[Call]) -> str:
    """The result of the calls; of several numbers the least and the largest, and how many are NaN."""
    found = [call.result for call in calls]
    out = found[0]
    if len(found) == 1:
        return result(out)
    if isinstance(out, (int, float)) and not isinstance(out, bool):
        return _number_range(found)
    text = result(out)
    if holds_tensor(out):
        return text
    if set(map(result, found)) == {text}:
        return text
    return f"{text} and others"


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


def _sources(calls: list[Call]) -> Span:
    """The site of the first call, marked if others were called elsewhere."""
    site = calls[0].site
    if site is None:
        return NOTHING
    cell = source_cell(site)
    if len(calls) == 1:
        return cell
    others = {call.site for call in calls if call.site is not site}
    if {cell, *map(source_cell, filter(None, others))} == {cell}:
        return cell
    return (f"{cell[0]} …", cell[1])


@lru_cache(maxsize=4096)
def source_cell(site: Site) -> Span:
    """File and line."""
    return (spot(site), "grey")
