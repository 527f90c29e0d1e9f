"""A call on a card: its name and module, its line of source, what went in, what came out."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

from insitu.trace.event import Call, Stats, TensorFacts, tensors
from insitu.view.card import Card, Fact
from insitu.view.describe import describe
from insitu.view.line import Span
from insitu.view.name import compact, module_type, named_arguments
from insitu.view.number import call_time, figure, operations
from insitu.view.value import is_setting, safe, short

MOST_TENSORS = 8  # of a container
MOST_INPUTS = 12
MOST_MESSAGE = 200


def call_card(call: Call) -> Card:
    """The card of a call."""
    facts = (*_inputs(call), *_outcome(call), *_circumstances(call))
    return Card(_title(call), call.site, facts, severity="error" if call.raised is not None else "")


def _title(call: Call) -> tuple[Span, ...]:
    """The name of the call and the path of its module; a module has its class behind its path."""
    if call.kind == "module" and call.module is not None:
        return ((safe(call.path) or "(root)", "bold"), ("  ", ""), (module_type(call.module), "purple"))
    name: Span = (compact(call), "bold")
    if not call.path:
        return (name,)
    return (name, ("  in ", "grey"), (safe(call.path), "purple"))


def _inputs(call: Call) -> Iterator[Fact]:
    """The arguments: each tensor by itself."""
    kwargs = call.kwargs
    if call.kind == "python":
        kwargs = named_arguments(call)
    positional = chain.from_iterable(_value_facts("in", "", item) for item in call.args)
    found = [*positional, *_keyword_facts(kwargs)]
    yield from found[:MOST_INPUTS]
    if len(found) > MOST_INPUTS:
        yield Fact("", ((f"… {len(found) - MOST_INPUTS:,} more", "grey"),))


def _keyword_facts(kwargs: dict[str, Any]) -> Iterator[Fact]:
    for name, item in kwargs.items():
        if is_setting(name, item):
            yield from _value_facts("in", f"{safe(name)}=", item)


def _value_facts(label: str, name: str, item: Any) -> Iterator[Fact]:
    """A value; the tensors of a container one by one."""
    lead: tuple[Span, ...] = ((name, "bold"),) if name else ()
    if isinstance(item, TensorFacts):
        yield _tensor_fact(label, lead, item)
        return
    yield Fact(label, (*lead, *describe(item)))
    inside = list(tensors(item))
    for facts in inside[:MOST_TENSORS]:
        yield _tensor_fact("", (), facts)
    if len(inside) > MOST_TENSORS:
        yield Fact("", ((f"… {len(inside) - MOST_TENSORS:,} more tensors", "grey"),))


def _tensor_fact(label: str, lead: tuple[Span, ...], facts: TensorFacts) -> Fact:
    return Fact(label, (*lead, *describe(facts), *_more(facts)), facts)


def _more(facts: TensorFacts) -> tuple[Span, ...]:
    """The statistics that are not in the description of a tensor, and whether it needs a gradient."""
    texts = [*_spread(facts.stats)]
    if facts.requires_grad:
        texts.append("requires grad")
    return (("".join(f"  {text}" for text in texts), "grey"),)


def _spread(stats: Stats | None) -> Iterator[str]:
    if stats is None:
        return
    if stats.std is not None:
        yield f"std {figure(stats.std)}"
    if stats.zeros:
        yield f"{stats.zeros:,} of {stats.count:,} are 0"


def _outcome(call: Call) -> Iterator[Fact]:
    """The result, and its gradient; or the exception."""
    if call.raised is not None:
        message = short(safe((call.message or "").strip().partition("\n")[0]), MOST_MESSAGE)
        text = f"{safe(call.raised)}: {message}".removesuffix(": ")
        yield Fact("raised", ((f"✗ {text}", "red"),))
        return
    yield from _value_facts("out", "", call.result)
    for facts in call.outputs:
        if facts.grad is not None:
            yield Fact("grad", (*describe(facts.grad), *_more(facts.grad)), facts.grad)


def _circumstances(call: Call) -> Iterator[Fact]:
    """When it ran, and how long."""
    texts: list[str] = []
    if call.duration is not None:
        texts.append(call_time(call.duration, is_launch=call.has_launch_time))
    if call.flops:
        texts.append(f"FLOPs {operations(call.flops)}")
    texts.append(f"step {call.step}")
    if call.rank:
        texts.append(f"rank {call.rank}")
    if call.phase != "forward":
        texts.append(call.phase)
    yield Fact("when", ((" · ".join(texts), ""),))
