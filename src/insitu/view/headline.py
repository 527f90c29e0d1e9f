"""A difference in a line: the call and its place, why it differs, by how much, and where else."""

from __future__ import annotations

from insitu.trace.diff import Cause, Compared, Diff, Difference
from insitu.trace.event import Call
from insitu.view.name import compact, function_name, module_type, spot
from insitu.view.value import held_text, result, safe

MOST_PLACES = 3  # of a cause that occurs again, before only the first and the last are named


def headline(diff: Diff, cause: Cause) -> str:
    """A cause in one line: the module and the call, the lines on both sides, how often, and why."""
    event = cause.a if cause.a is not None else cause.b
    assert event is not None
    sites = [(site, label) for site, label in zip(cause.sites, diff.labels, strict=True) if site is not None]
    places = list(dict.fromkeys(spot(site) for site, _ in sites))
    if len(places) == 2:
        places = [f"{place} in {safe(label)}" for place, (_, label) in zip(places, sites, strict=True)]
    if has_steps(diff):
        places.append(f"step {event.step}")
    at = f" ({', '.join(places)})" if places else ""
    times = f" × {cause.times:,}" if cause.times > 1 else ""
    return f"{named(event)}{at}{times}: {safe(cause.why)}"


def named(event: Compared) -> str:
    """A call by its module and its name, without arguments."""
    if not isinstance(event, Call) or event.kind == "module":
        return called(event)
    name = compact(event) if event.operator is not None else function_name(event.name)
    return f"{safe(event.path)} {name}".lstrip()


def again(diff: Diff, cause: Cause) -> str:
    """Where else the same is the cause: modules, or steps if it is one module."""
    events = [a if a is not None else b for a, b in ((cause.a, cause.b), *cause.again)]
    modules = list(dict.fromkeys(called_in(event) for event in events if event is not None))
    if len(modules) > 1:
        return f"also in {_span(modules[1:])}"
    if len(events) > 1 and has_steps(diff):
        steps = dict.fromkeys(f"{event.step}" for event in events[1:] if event is not None)
        return f"also in step{'s' * (len(steps) > 1)} {_span(list(steps))}"
    return ""


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
    place = f"{spot(cause.seen_at.site)}, " if cause.seen_at.site is not None else ""
    return f"seen at {place}{called(cause.seen_at)}"


def called(event: Compared | None) -> str:
    """A call with its arguments, a module with its class, or the name of a variable."""
    if not isinstance(event, Call):
        if event is not None:
            return safe(event.name)
        return ""
    if event.kind == "module" and event.module is not None:
        return f"{safe(event.path)} {module_type(event.module)}".strip()
    if event.kind == "aten":
        return safe(event.name)
    return compact(event)


def output(event: Compared) -> str:
    """What a call returned, or the value of a variable."""
    if isinstance(event, Call):
        if event.raised is not None:
            return f"raised {safe(event.raised)}"
        return result(event.result)
    return held_text(event.value)


def delta_text(item: Cause | Difference) -> str:
    """How large a difference is, and in which measure."""
    if not item.measure or item.delta == 0:
        return ""
    if item.delta is None:
        return item.measure
    return f"{item.measure} {item.delta:.3g}"
