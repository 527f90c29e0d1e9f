"""Traces that make trouble: one with every string that some format takes for more than text, and a long one."""

from __future__ import annotations

from insitu.trace.event import Call, Event, Mark, ModuleFacts, Site, Stats, TensorFacts, Variable
from insitu.trace.trace import Trace

STRINGS = (
    *('"]; evil [label="x', "</script><script>boom()</script>", "<img src=x onerror=boom()>", "\\N\\G\\", "&lt;&amp;"),
    *("a\nb\x1b[31m\0", "\ud800", "%%{init: {}}%%", "`**md**`", "style:#f;", "end", "1. list", "- x", "a/b", "#quot;"),
    *('=HYPERLINK("http://x")', "+1", "@SUM(A1)", "\t=1", 'click m0 "javascript:boom()"', "; //", "{a|b}", "' or", ""),
)


def hostile_trace() -> Trace:
    """Each of the strings in every field that can hold one, in a chain of modules that give to each other."""
    whole = ModuleFacts("", STRINGS[1], leaf=False)
    events: list[Event] = [Call(0, None, "module", STRINGS[1], whole, start=0, duration=100_000)]
    x = TensorFacts(0, (2, STRINGS[0]), "f32", STRINGS[2])
    for number, text in enumerate(STRINGS):
        module, place = ModuleFacts(text, text, settings={"n": 1}), Site(text, number, text, text)
        id, start = len(events), number * 1000
        out = TensorFacts(number + 1, (number, text), text, text, type=text, producer=id + 1)
        operator, raised = (text, None) if number % 2 else (None, text)
        events += [
            Call(id, 0, "module", text, module, (x, text), {text: text}, out, None, place, start, 900),
            Call(
                id + 1, id, "function", text, module, (x, text), {text: text}, out, operator, place, start, 90, raised
            ),
        ]
        x = out
    count = len(events)
    events += [Mark(count, None, "note", STRINGS[1]), Variable(count + 1, 0, STRINGS[0], STRINGS, ("new",))]
    return Trace(events, about={"subject": STRINGS[0], STRINGS[1]: STRINGS[2]})


def long_trace(count: int) -> Trace:
    """Many steps of a hundred modules, no step like another, so that nothing is folded."""
    whole, place = ModuleFacts("", "Net", leaf=False), Site("model.py", 3, "Net.forward", "x = self.h[i](x)")
    weight = TensorFacts(-1, (3, 3), "f32", "cpu", type="Parameter")
    known = Stats(count=6, min=0.0, max=1.0, mean=0.5, std=0.1)
    x = TensorFacts(0, (2, 3), "f32", "cpu")
    events: list[Event] = []
    for step in range(count // 201):
        top, now = len(events), step * 4_000_000
        events.append(Call(top, None, "module", "Net", whole, start=now, duration=3_000_000, step=step))
        for number in range(100):
            module = ModuleFacts(f"h.{number}", "Linear", settings={"in_features": number, "out_features": step})
            id, start = len(events), now + 10 + number * 20_000
            out = TensorFacts(id, (2, 3 + number), "f32", "cpu", producer=id + 1, stats=known)
            name = "torch.nn.functional.linear"
            events += [
                Call(id, top, "module", "Linear", module, (x,), {}, out, None, place, start, 9000, step=step),
                Call(id + 1, id, "function", name, module, (x, weight), {}, out, None, place, start, 90, step=step),
            ]
            x = out
    return Trace(events)
