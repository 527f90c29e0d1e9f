"""A recorded run as lines: what is wrong with it, then each variable with its range, mean, last value and course."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from insitu.errors import PatternError
from insitu.trace.dtype import dtype_named
from insitu.trace.path import Pattern
from insitu.trace.run import RunEvent, RunSummary, VariableSummary
from insitu.view.line import Column, Line, Span
from insitu.view.number import count_text, figure, limits
from insitu.view.value import safe, short

COURSE = "over steps"
COLUMNS = (
    Column("values", drop=5),
    Column("steps", drop=4),
    Column("ranks", drop=3),
    Column("range", drop=9),
    Column("mean", drop=2),
    Column("last", drop=8),
    Column("norm", drop=6),
    Column(COURSE, drop=7),
    Column("source", drop=1),
)
TROUBLES = ("raised", "error", "trouble")  # kinds of events that come before everything else
FLAG = "bool"  # the dtype of Python flags
BARS = "▁▂▃▄▅▆▇█"
MOST_RANKS, MOST_SOURCE, MOST_TEXT = 12, 40, 16  # characters


def run_lines(run: RunSummary) -> Iterator[Line]:
    """The missing parts and the errors of a run, then its variables.

    The last column shows the mean over the steps or, for a gradient, the norm: the mean of a gradient is mostly noise.
    """
    for text in troubles(run.missing, run.events):
        yield Line(((f"! {safe(text)}", "red"),))
    for text in remarks(run):
        yield Line(((safe(text), "grey"),))
    if odd := first_odd_text(run.variables):
        yield Line(((odd, "red"),))
    if not run.variables:
        yield Line((("nothing was recorded", "grey"),))
        return
    has_ranks = any(summary.ranks != (0,) for summary in run.variables)
    rows = [tuple(variable_cells(summary, has_ranks=has_ranks).values()) for summary in run.variables]
    yield Line((("path", "bold"),), tuple(map(_heading, COLUMNS, zip(*rows, strict=True))), COLUMNS)
    for summary, cells in zip(run.variables, rows, strict=True):
        yield Line(((safe(summary.path) or "(root)", "bold"),), cells, COLUMNS)


def first_odd_text(variables: Sequence[VariableSummary]) -> str:
    """The variables in which the first NaN or Inf of a run appeared; empty if there is none."""
    odd = {summary.path: summary.first_odd for summary in variables if summary.first_odd is not None}
    if not odd:
        return ""
    step = min(odd.values())
    first, *others = [path for path, own in odd.items() if own == step]
    more = f" and {len(others):,} other{'s' * (len(others) > 1)}" if others else ""
    where = f"step {step} in {safe(first) or '(root)'}{more}"
    if any(summary.sampled for summary in variables):
        return f"✗ NaN or Inf: {where}; it may have begun earlier, in steps that were not read to show this"
    return f"✗ first NaN or Inf: {where}"


def _heading(column: Column, cells: Iterable[Span]) -> Span:
    """The name of a column; an empty column, and its name, are left out."""
    if any(text for text, _ in cells):
        return (column.name, "bold")
    return ("", "bold")


def run_facts(run: RunSummary) -> dict[str, Any]:
    """The facts about a run as plain data, for JSON."""
    return {
        "missing": list(run.missing),
        "others": list(run.others),
        "troubles": _trouble_texts(run.events),
        "variables": [asdict(summary) for summary in run.variables],
    }


def points_in(width: int) -> int:
    """How many means of a variable fit into a line of this width."""
    return max(8, min(32, width // 5))


def matching_paths(paths: Sequence[str], only: Sequence[str]) -> list[str]:
    """The recorded paths that the patterns name, in their order; one that names none is an error with the nearest.

    >>> matching_paths(["forward.x", "loss"], ["forward.*"]), matching_paths(["loss"], [])
    (['forward.x'], ['loss'])
    """
    patterns = [Pattern.of(text) for text in only]
    for pattern in patterns:
        if not any(map(pattern.match, paths)):
            raise PatternError(f"{pattern.text!r} was not recorded{pattern.nearest(paths) or _examples(paths)}")
    if not patterns:
        return list(paths)
    found: dict[str, None] = {}
    for pattern in patterns:
        found |= dict.fromkeys(filter(pattern.match, paths))
    return list(found)


def matching_variables(names: Sequence[str], paths: Sequence[str], only: Sequence[str]) -> list[str]:
    """The variables that the patterns name; and statistics, where a pattern names them and not their variable.

    >>> paths = ["w", "w.mean", "w.max"]
    >>> matching_variables(["w"], paths, ["**"]), matching_variables(["w"], paths, ["*.mean"])
    (['w'], ['w.mean'])
    """
    if not only:
        return list(names)
    found = matching_paths(paths, only)
    known = set(names).intersection(found)
    return [path for path in found if path in known or path.rpartition(".")[0] not in known]


def _examples(paths: Sequence[str]) -> str:
    """A few of the recorded paths."""
    few = ", ".join(map(repr, paths[:5]))
    return f"; there is {few or 'nothing'}"


def troubles(missing: Iterable[str], events: Iterable[RunEvent]) -> Iterator[str]:
    """A sentence for each thing that is missing, and for each error."""
    yield from missing
    yield from _trouble_texts(events)


def _trouble_texts(events: Iterable[RunEvent]) -> list[str]:
    return [str(event) for event in events if event.kind in TROUBLES]


def remarks(run: RunSummary) -> Iterator[str]:
    """The attempts of a run that was restarted, and the runs beside it, each as a sentence."""
    if len(run.attempts) > 1:
        yield from map(str, run.attempts)
        yield "a step that several attempts recorded is counted in each; the means are those of the last"
    yield from (f"{other} is in the same folder, and not shown" for other in run.others)


def variable_cells(summary: VariableSummary, *, has_ranks: bool = True) -> dict[str, Span]:
    """The cells of a variable by the names of their columns; the ranks of a run with one rank say nothing."""
    cells: tuple[Span, ...] = (
        (f"{summary.rows:,} × {_type(summary)}", "blue"),
        (_span(*summary.steps), ""),
        (_ranks(summary.ranks) if has_ranks else "", ""),
        _range_span(summary),
        (_mean(summary), ""),
        _last(summary),
        (_number(summary.norm, summary), ""),
        (sparkline(course(summary)), "green"),
        (short(safe(summary.source or ""), MOST_SOURCE), "grey"),
    )
    return {column.name: cell for column, cell in zip(COLUMNS, cells, strict=True)}


def course(summary: VariableSummary) -> Sequence[float | None]:
    """The numbers over the steps: of a gradient the norms, of a flag none."""
    if summary.dtype == FLAG:
        return ()
    if summary.role == "gradient" and summary.norms:
        return summary.norms
    return summary.means


def _mean(summary: VariableSummary) -> str:
    """The mean of all values; that of flags says nothing."""
    if summary.dtype == FLAG:
        return ""
    return _number(summary.mean, summary)


def _number(number: float | None, summary: VariableSummary) -> str:
    """A number, marked if it comes from a sample; empty if it is not known."""
    if number is None:
        return ""
    return _marked("≈", figure(number), summary)


def _last(summary: VariableSummary) -> Span:
    """The value of the last step: of a tensor its mean, of a text the text."""
    if isinstance(summary.last, str):
        return short(safe(summary.last), MOST_TEXT), ""
    if summary.last is not None:
        return _last_number(summary.last, summary), ""
    if summary.means and summary.means[-1] is None:
        return "✗ not finite", "red"
    return "", ""


def _last_number(number: float, summary: VariableSummary) -> str:
    """The last number; flags are recorded as 0 and 1."""
    if summary.dtype == FLAG and 0 < number < 1:
        return "False, True"  # the values of the step differ, in a loop or between ranks
    if summary.dtype == FLAG:
        return str(bool(number))
    return figure(number)


def _span(least: int, largest: int) -> str:
    """Two ends, or the one number that they are.

    >>> _span(3, 3), _span(3, 7)
    ('3', '3–7')
    """
    if least == largest:
        return f"{least}"
    return f"{least}–{largest}"


def _type(summary: VariableSummary) -> str:
    """Dtype and shape, or what else was recorded."""
    if summary.elements is not None:
        return _elements(*summary.elements)
    if not summary.shapes:
        return {"json": "Python value"}.get(summary.dtype, summary.dtype)
    least, largest = summary.shapes
    text = safe(dtype_named(summary.dtype).short)
    if len(least) != len(largest):
        return f"{text}[…]"
    return f"{text}[{', '.join(map(_span, least, largest))}]"


def _elements(least: int, largest: int) -> str:
    """How many elements a tensor has."""
    if least == largest == 1:
        return "1 element"
    if least == largest:
        return f"{least:,} elements"
    return f"{least:,}–{largest:,} elements"


def _ranks(ranks: tuple[int, ...]) -> str:
    """The numbers of the ranks; of several without a gap, the first and the last."""
    has_gap = ranks[-1] - ranks[0] != len(ranks) - 1
    if has_gap or len(ranks) < 3:
        return short(", ".join(map(str, ranks)), MOST_RANKS)
    return _span(ranks[0], ranks[-1])


def _range_span(summary: VariableSummary) -> Span:
    """The range of the values, in red if there is NaN."""
    text = _range(summary)
    if summary.nan:
        return (text, "red")
    return (text, "")


def _range(summary: VariableSummary) -> str:
    """The range of the values, or how many of them are not finite; marked if only a sample was looked at."""
    odd = count_text({"NaN": summary.nan, "Inf": summary.inf})
    if odd:
        return f"✗ {_marked('≥', odd, summary)}"
    if summary.low is None or summary.high is None:
        return ""
    if summary.dtype == FLAG:
        return _flags(summary.low, summary.high)
    return _marked("≈", limits(summary.low, summary.high), summary)


def _flags(low: float, high: float) -> str:
    """The values of a flag."""
    if low == high:
        return str(bool(low))
    return "False, True"


def _marked(sign: str, text: str, summary: VariableSummary) -> str:
    """A text with a sign before it, if it comes from a sample of the values."""
    if summary.sampled:
        return f"{sign} {text}"
    return text


def sparkline(means: Sequence[float | None]) -> str:
    """Numbers as bars, from the least to the largest; a dot where no number is finite.

    >>> sparkline([0.0, 1.0, None, 7.0]), sparkline([2.0, 2.0])
    ('▁▂·█', '▄▄')
    """
    known = [mean for mean in means if mean is not None]
    if not known:
        return ""
    low, high = min(known), max(known)
    return "".join([_bar(mean, low, high) for mean in means])


def _bar(mean: float | None, low: float, high: float) -> str:
    """The bar of one number between the least and the largest."""
    if mean is None:
        return "·"
    half = high / 2 - low / 2  # halves, because the whole may be too large for a float
    if not half:
        return BARS[3]
    return BARS[round((mean / 2 - low / 2) / half * 7)]
