"""The first NaN and the first Inf of a trace in one line each: the call, its place, and why, if that is known.

The terminal ends a tree with this line; other views can show the same. Where it began is decided in
`trace/nonfinite.py`, by the same rule as a guard's, and why in `view/hint.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import singledispatch
from typing import Literal

from insitu.trace.event import Call, Event, Mark, Site, TensorFacts, Variable, tensors
from insitu.trace.findings import NonFinite, NonFiniteInput, NonFiniteLiteral
from insitu.trace.first_findings import first_origins, nonfinite_finding
from insitu.trace.kept_values import statistics_of
from insitu.trace.nonfinite import NonFiniteEvent, NonFiniteSearch
from insitu.trace.order import completion_order
from insitu.trace.origin import literals
from insitu.view.headline import name_in_module
from insitu.view.hint import hint
from insitu.view.name import spot
from insitu.view.value import safe


@dataclass(frozen=True, slots=True)
class FirstNonFinite:
    """The event in which the first NaN or Inf began, how many elements are affected there, why, and where.

    The event is a call, or a variable if no call is known that produced its value. The reason is empty where it is not
    known.
    """

    event: Call | Variable
    what: Literal["NaN", "Inf"]
    count: int
    reason: str
    site: Site | None

    @property
    def text(self) -> str:
        """One sentence, as `first NaN: h.2.attn torch.log (make.py:66): the logarithm of a number below 0 is NaN`."""
        return self.text_at(spot(self.site) if self.site is not None else "")

    def text_at(self, place: str) -> str:
        """The sentence, with the place as another view names it."""
        where = ", ".join(filter(None, (place, _step(self.event))))
        name = _name(self.event)
        if where:
            name = f"{name} ({where})"
        return ": ".join(filter(None, (f"first {self.what}", name, self.reason)))


def first_nonfinites(events: Iterable[Event]) -> list[FirstNonFinite]:
    """The first NaN of a trace and, if that began earlier, the first Inf; empty if all is well, or nothing is known.

    Masks of `-inf` and memory that nobody has written are not counted.

    >>> from insitu.trace.event import Stats
    >>> low = TensorFacts(0, (2,), "f32", "cpu", stats=Stats(count=2, min=-3.0, max=-1.0, mean=-2.0, std=1.0))
    >>> bad = TensorFacts(1, (2,), "f32", "cpu", stats=Stats(count=2, nan=2))
    >>> first_nonfinites([Call(0, None, "function", "torch.log", args=(low,), result=bad)])[0].text
    'first NaN: torch.log: the logarithm of a number below 0 is NaN: the smallest input is -3'
    """
    search, known = NonFiniteSearch(), dict[int, Call | Variable]()
    for event in completion_order(events):
        if not isinstance(event, Mark):
            search.add(event)
            known[event.id] = event
    return first_among(search.result(), known)


def first_among(found: Mapping[int, NonFiniteEvent], events: Mapping[int, Call | Variable]) -> list[FirstNonFinite]:
    """The same for events that were searched already; `events` are those that are still known, by id."""
    known = {id: event for id, event in found.items() if id in events}
    return [_first(events[id], events) for id in first_origins(known)]


def _first(event: Call | Variable, events: Mapping[int, Call | Variable]) -> FirstNonFinite:
    if isinstance(event, Variable):
        return _first_in(event, tensors(event.value), "")
    finding = nonfinite_finding(event, events)
    return _first_in(event, [finding.output] if finding.output is not None else (), reason(finding))


def _first_in(event: Call | Variable, outputs: Iterable[TensorFacts], reason: str) -> FirstNonFinite:
    """What is not finite in the tensors of an event; a variable that is a number has none."""
    stats = [found for facts in outputs if (found := statistics_of(facts)) is not None]
    nan, inf = sum(each.nan for each in stats), sum(each.inf for each in stats)
    if nan:
        return FirstNonFinite(event, "NaN", nan, reason, event.site)
    if inf:
        return FirstNonFinite(event, "Inf", inf, reason, event.site)
    what: Literal["NaN", "Inf"] = "NaN"
    if isinstance(event, Variable) and not literals(event.value).nan:
        what = "Inf"
    return FirstNonFinite(event, what, 1, reason, event.site)


@singledispatch
def reason(finding: NonFinite) -> str:
    """Why a call has a NaN or Inf that no call before it has, in a few words; nothing where that is not known."""
    return hint(finding)


@reason.register
def _(finding: NonFiniteInput) -> str:
    return "an input already contained it"


@reason.register
def _(finding: NonFiniteLiteral) -> str:
    return "the call introduced it, as an argument or as data"


def _name(event: Call | Variable) -> str:
    if isinstance(event, Variable):
        return safe(event.name)
    name = name_in_module(event)
    if event.phase == "backward":
        return f"{name} in the backward pass"
    return name


def _step(event: Call | Variable) -> str:
    if event.step:
        return f"step {event.step}"
    return ""
