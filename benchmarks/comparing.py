"""How long a person waits until two traces of a hundred thousand events are compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from benchmarks.measure import Effort, Row, at_most
from benchmarks.text import clocked
from insitu.trace.compare.traces import compare_traces
from insitu.trace.event import Call, Event, ModuleFacts, Site, Stats, TensorFacts
from insitu.trace.trace import Trace

EVENTS = 100_000
LAYERS = 40
OPERATIONS = ("linear", "transpose", "matmul", "div", "softmax", "matmul", "linear", "add", "gelu", "mul")


def rows(effort: Effort) -> Iterator[Row]:
    """Two equal runs, and runs that part in each of the ways that could take long."""
    whole = run()
    for name, change in CHANGES.items():
        yield _row(name, whole, Trace(change(run().events)), effort)
    for name, pair in SHORT_STEPS.items():
        yield _row(name, *pair(), effort)


def _row(name: str, a: Trace, b: Trace, effort: Effort) -> Row:
    seconds = [clocked(partial(compare_traces, a, b)) for _ in range(effort.repeats(3))]
    diff = compare_traces(a, b)
    note = f"{len(diff.causes)} causes, {len(diff.differences):,} rows"
    return Row(f"comparing 100,000 events, {name}", seconds, at_most(5), "s", note)


def run(*, scale: float = 1.0) -> Trace:
    """Steps of a model with layers that do the same operations, all with statistics and lineage."""
    events: list[Event] = []
    made = _tensor(0, None, 1.0)
    modules = [ModuleFacts(f"h.{layer}", "Block", settings={"layer": layer}, leaf=False) for layer in range(LAYERS)]
    site = Site("model.py", 12, "Block.forward", "return x + self.mlp(x)")
    step = 0
    while len(events) < EVENTS:
        root = len(events)
        events.append(Call(root, None, "module", "Net", ModuleFacts("", "Net", leaf=False), (made,), step=step))
        for module in modules:
            block = Call(len(events), root, "module", "Block", module, (made,), step=step)
            events.append(block)
            for name in OPERATIONS:
                number = len(events)
                out = _tensor(number, number, scale * (1 + number % 97))
                call = Call(number, block.id, "function", f"torch.{name}", module, (made, -1), site=site, step=step)
                call.result = made = out
                events.append(call)
            block.result = made
        step += 1
    return Trace(events)


def _tensor(number: int, producer: int | None, value: float) -> TensorFacts:
    stats = Stats(count=4608, min=-value, max=value, mean=0.1 * value, std=0.5 * value, zeros=3)
    return TensorFacts(number, (2, 24, 96), "f32", "cpu", producer=producer, stats=stats)


def without_one(events: list[Event]) -> list[Event]:
    """One operation is missing near the start."""
    return events[:55] + events[56:]


def without_a_layer(events: list[Event]) -> list[Event]:
    """One layer of each step is missing."""
    return [event for event in events if not isinstance(event, Call) or event.path != "h.17"]


def without_a_number(events: list[Event]) -> list[Event]:
    """One layer of each step is missing, and all after it have another number."""
    modules = {
        f"h.{layer}": ModuleFacts(f"h.{layer - 1}", "Block", settings={"layer": layer}, leaf=False)
        for layer in range(18, LAYERS)
    }
    left = without_a_layer(events)
    return [replace(event, module=modules.get(event.path, event.module)) for event in left if isinstance(event, Call)]


def half_the_steps() -> tuple[Trace, Trace]:
    """Short steps, of which the other run has made half."""
    whole = _short_steps()
    return whole, Trace(whole.events[: EVENTS // 2])


def an_extra_call_in_each_step() -> tuple[Trace, Trace]:
    """Short steps, in each of which the other run makes one more call, so that there are as many causes."""
    return _short_steps(), _short_steps(extra=True)


def _short_steps(*, extra: bool = False) -> Trace:
    """Steps of four operations, with lineage alone: what an extra one does is not known."""
    events: list[Event] = []
    for step in range(EVENTS // 4):
        made = TensorFacts(0, (2,), "f32", "cpu")
        for name in ("linear", *(["exp"] if extra else []), "relu", "linear", "softmax"):
            given, made = made, TensorFacts(0, (2,), "f32", "cpu", producer=len(events))
            events.append(Call(len(events), None, "function", f"torch.{name}", args=(given,), result=made, step=step))
    return Trace(events)


def otherwise(events: list[Event]) -> list[Event]:
    """Each call has another argument and another result."""
    found = run(scale=1.5).events
    for event in found:
        if isinstance(event, Call) and event.kind == "function":
            event.args = (event.args[0], 0)
    return found


def renamed(events: list[Event]) -> list[Event]:
    """No module has the name it had."""
    modules = {f"h.{layer}": ModuleFacts(f"blocks.{layer}", "Block", leaf=False) for layer in range(LAYERS)}
    return [replace(event, module=modules.get(event.path, event.module)) for event in events if isinstance(event, Call)]


def reversed_names(events: list[Event]) -> list[Event]:
    """Hardly anything is where it was."""
    names = [event.name for event in events if isinstance(event, Call)]
    calls = [event for event in events if isinstance(event, Call)]
    return [
        call if call.kind == "module" else replace(call, name=name)
        for call, name in zip(calls, reversed(names), strict=True)
    ]


CHANGES: dict[str, Callable[[list[Event]], list[Event]]] = {
    "equal": list,
    "an operation missing near the start": without_one,
    "a layer missing": without_a_layer,
    "a layer missing, and those after it with other numbers": without_a_number,
    "all modules renamed": renamed,
    "every call different": otherwise,
    "operations in another order": reversed_names,
}
SHORT_STEPS: dict[str, Callable[[], tuple[Trace, Trace]]] = {
    "half the steps": half_the_steps,
    "an extra call in each step": an_extra_call_in_each_step,
}
