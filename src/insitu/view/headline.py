"""A difference in a line: the call and its place, why it differs, by how much, and where else."""

from __future__ import annotations

from math import inf, isfinite

from insitu.trace.diff import Cause, Compared, Diff, Difference
from insitu.trace.event import Call
from insitu.view.name import compact, function_name, module_type, spot
from insitu.view.value import held_text, result, safe

MOST_PLACES = 3  # of a cause that occurs again, before only the first and the last are named


def headline(diff: Diff, cause: Cause) -> str:
    """A cause in one line: the module and the call, the lines on both sides, how often, and why."""
    event = _present(cause.a, cause.b)
    places = _places(diff, cause)
    if has_steps(diff):
        places.append(f"step {event.step}")
    text = name_in_module(event)
    if places:
        text += f" ({', '.join(places)})"
    if cause.times > 1:
        text += f" × {cause.times:,}"
    return f"{text}: {safe(cause.why)}"


def _present(a: Compared | None, b: Compared | None) -> Compared:
    """The call of the first run, or that of the other if the first does not make it."""
    event = b if a is None else a
    assert event is not None
    return event


def _places(diff: Diff, cause: Cause) -> list[str]:
    """The line of a cause; the lines of both runs if they are not the same."""
    labels: dict[str, str] = {}
    for site, label in zip(cause.sites, diff.labels, strict=True):
        if site is not None:
            labels.setdefault(spot(site), label)
    if len(labels) < 2:
        return list(labels)
    return [f"{place} in {safe(label)}" for place, label in labels.items()]


def name_in_module(event: Compared) -> str:
    """A call by its module and its name, without arguments."""
    if not isinstance(event, Call) or event.kind == "module":
        return called(event)
    name = function_name(event.name)
    if event.operator is not None:
        name = compact(event)
    return f"{safe(event.path)} {name}".lstrip()


def again(diff: Diff, cause: Cause) -> str:
    """Where else the same is the cause: modules, or steps if it is one module."""
    if not cause.again:
        return ""
    first = called_in(_present(cause.a, cause.b))
    others = [_present(a, b) for a, b in cause.again]
    modules = dict.fromkeys(map(called_in, others))
    modules.pop(first, None)
    if modules:
        return f"also in {_span(list(modules))}"
    if not has_steps(diff):
        return ""
    steps = dict.fromkeys([f"{event.step}" for event in others])
    return f"also in step{'s' * (len(steps) > 1)} {_span(list(steps))}"


def called_in(event: Compared) -> str:
    """The module of a call, or the name of a variable."""
    if isinstance(event, Call):
        return safe(event.path)
    return safe(event.name)


def _span(texts: list[str]) -> str:
    if len(texts) <= MOST_PLACES:
        return ", ".join(texts)
    return f"{texts[0]} … {texts[-1]}"


def has_steps(diff: Diff) -> bool:
    """Whether more than one step was compared."""
    ends = [row.events[0] for row in (diff.differences[0], diff.differences[-1])]
    return len({event.step for event in ends}) > 1


def seen(cause: Cause) -> str:
    """Where a difference shows, if not in the output of the cause."""
    if cause.seen_at is None:
        return ""
    if cause.seen_at.site is None:
        return f"seen at {called(cause.seen_at)}"
    return f"seen at {spot(cause.seen_at.site)}, {called(cause.seen_at)}"


def called(event: Compared | None) -> str:
    """A call with its arguments, a module with its class, or the name of a variable."""
    if event is None:
        return ""
    if not isinstance(event, Call):
        return safe(event.name)
    if event.kind == "module" and event.module is not None:
        return f"{safe(event.path)} {module_type(event.module)}".strip()
    if event.kind == "aten":
        return safe(event.name)
    return compact(event)


def output(event: Compared) -> str:
    """What a call returned, or the value of a variable."""
    if not isinstance(event, Call):
        return held_text(event.value)
    if event.raised is not None:
        return f"raised {safe(event.raised)}"
    return result(event.result)


def size_text(item: Cause | Difference) -> str:
    """How large a difference is, for a sentence: the relative error, and the difference that it was found by."""
    relative, delta = relative_text(item), _delta_text(item)
    if relative and delta:
        return f"relative error {relative}, {delta}"
    if relative:
        return f"relative error {relative}"
    return delta


def size_cell(item: Cause | Difference) -> str:
    """How large a difference is, for a column: the relative error if it is known, so that rows can be compared."""
    relative = relative_text(item)
    if relative:
        return f"relative {relative}"
    return _delta_text(item)


def relative_text(item: Cause | Difference) -> str:
    """The relative error of a difference, `≥` before one that may be larger; nothing if none is known.

    >>> from insitu.trace.compare.relative import RelativeError
    >>> error = RelativeError(0.25, is_bound=True)
    >>> relative_text(Difference("differs", None, None, delta=0.5, measure="Δ mean", relative=error))
    '≥ 0.25'
    """
    if not item.measure or item.relative is None:
        return ""
    size, is_bound = item.relative
    if not 0 < size < inf:
        return ""
    if is_bound:
        return f"≥ {size:.3g}"
    return f"{size:.3g}"


def _delta_text(item: Cause | Difference) -> str:
    """The difference itself, and what it is the difference of."""
    if not item.measure or item.delta == 0:
        return ""
    if item.delta is None:
        return item.measure
    if not isfinite(item.delta):
        return "NaN or Inf in one run only"
    return f"{item.measure} {item.delta:.3g}"
