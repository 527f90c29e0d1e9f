"""Traces made by hand for the page: a small training run with a NaN in it, one of any size, one of hostile texts."""

from __future__ import annotations

import random
from typing import Any

from insitu.trace.event import Call, Event, Fields, Mark, ModuleFacts, Opaque, Site, Stats, TensorFacts, Variable, Word
from insitu.trace.trace import Trace

HOSTILE = (
    '</script><script>window.pwned=1</script><img src=x onerror="window.pwned=1">\'"`${window.pwned=1}'
    "\u202ertl\u202c אבג\0\ud800\n\t&lt;&#0; javascript:window.pwned=1 %%data%% --> ]]>"
)


BELL = tuple(1 + int(200 * 0.8 ** abs(place - 8)) for place in range(16))


class Program:
    """Makes events as a program would: tensors know who made them."""

    def __init__(self, seed: int = 0) -> None:
        self.events: list[Event] = []
        self.step = 0
        self._random = random.Random(seed)
        self._tensors = 0
        self._clock = 0
        self._modules: dict[str, ModuleFacts] = {}
        self._sites: dict[tuple[str, str], Site] = {}

    def site(self, text: str, line: int, mark: str = "") -> Site:
        start = text.index(mark) if mark else None
        end = start + len(mark) if start is not None else None
        caller = self._sites.setdefault(("", ""), Site("/home/me/train.py", 3, "main", "train(model)"))
        made = Site("/home/me/model.py", line, "Block.forward", text, start, end, caller)
        return self._sites.setdefault((text, mark), made)

    def tensor(self, *shape: int, producer: int | None = None, nan: int = 0, inf: int = 0) -> TensorFacts:
        low, high = sorted((self._random.gauss(-2, 1), self._random.gauss(2, 1)))
        count = 1
        for size in shape:
            count *= size
        bins = tuple(map(self._random.randrange, BELL))
        stats = Stats(
            count=count,
            min=low,
            max=high,
            mean=self._random.gauss(0, 0.1),
            std=self._random.random(),
            nan=nan,
            inf=inf,
            histogram=bins,
        )
        self._tensors += 1
        return TensorFacts(self._tensors, shape, "f32", "cpu", producer=producer, stats=stats)

    def call(self, kind: Any, name: str, parent: Call | None, *args: Any, path: str | None = None, **more: Any) -> Call:
        module = parent.module if parent is not None else None
        if path is not None:
            leaf, settings = more.pop("leaf", True), more.pop("settings", {})
            module = self._modules.setdefault(path, ModuleFacts(path, name, (name,), settings, 1200, 1200, 1200, leaf))
        shape, nan, inf = more.pop("shape", (2, 24, 96)), more.pop("nan", 0), more.pop("inf", 0)
        self._clock += self._random.randrange(2_000, 40_000)
        call = Call(
            *(len(self.events), parent.id if parent else None, kind, name, module, args),
            start=self._clock,
            step=self.step,
            **more,
        )
        call.result = self.tensor(*shape, producer=call.id, nan=nan, inf=inf)
        self.events.append(call)
        return call

    def end(self, call: Call, result: Any = None) -> Any:
        """The call is over."""
        self._clock += self._random.randrange(5_000, 90_000)
        call.duration = self._clock - call.start
        if result is not None:
            call.result = result
        return call.result

    def leaf(self, path: str, name: str, function: str, parent: Call, x: TensorFacts, **more: Any) -> TensorFacts:
        """A module with a function in it, and an operator in that; the innermost makes the tensor."""
        site = more.pop("site", None)
        outer = self.call("module", name, parent, x, path=path, site=site)
        inner = self.call("function", f"torch.nn.functional.{function}", outer, x, site=site)
        made = self.call("aten", f"aten.{function}", inner, x, site=site, flops=2048, **more)
        result: TensorFacts = self.end(made)
        return self.end(outer, self.end(inner, result))  # type: ignore[no-any-return]


def training(steps: int = 4, blocks: int = 3, *, bad_from: int | None = 3) -> Trace:
    """Steps of a small model with a mask in it; from one on the softmax of the second block makes NaN."""
    program = Program()
    for step in range(steps):
        program.step = step
        is_bad = bad_from is not None and step >= bad_from
        root = program.call("module", "GPT", None, program.tensor(2, 24), path="", leaf=False)
        x = program.leaf("wte", "Embedding", "embedding", root, root.args[0])
        for number in range(blocks):
            x = block(program, root, f"h.{number}", x, nan=48 if is_bad and number == 1 else 0)
        program.end(root, x)
        backward = program.call("function", "torch.Tensor.backward", None, x, shape=())
        softmax = next(
            event for event in reversed(program.events) if isinstance(event, Call) and "softmax" in event.name
        )
        grad = program.call("aten", "aten._softmax_backward_data", backward, x, phase="backward", forward=softmax.id)
        program.end(grad)
        program.end(backward)
        loss = Variable(len(program.events), None, "loss", float("nan") if is_bad else 3.0 - step / 2, ("values",))
        weights = Variable(len(program.events) + 1, None, "weights", program.tensor(96), ("values",))
        for variable in (loss, weights):
            variable.step, variable.start = step, backward.start
            program.events.append(variable)
    return Trace(program.events, about={"subject": "GPT", "level": "aten", "torch": "2.13.0"})


def block(program: Program, root: Call, path: str, x: TensorFacts, *, nan: int = 0) -> TensorFacts:
    """A block: norm, a mask, a softmax; what is not finite goes on to what comes after it."""
    bad = {"nan": nan}
    if x.stats is not None and x.stats.nan:
        bad = {"nan": x.stats.nan}
    outer = program.call("module", "Block", root, x, path=path, leaf=False)
    normed = program.leaf(f"{path}.ln_1", "LayerNorm", "layer_norm", outer, x, nan=x.stats.nan if x.stats else 0)
    attn = program.call("module", "Attention", outer, normed, path=f"{path}.attn", leaf=False)
    line = "att = F.softmax(att.masked_fill(mask, -inf), dim=-1)"
    masked = program.call(
        *("function", "torch.Tensor.masked_fill", attn, normed, float("-inf")),
        site=program.site(line, 23, "att.masked_fill(mask, -inf)"),
        inf=1248,
        nan=normed.stats.nan if normed.stats else 0,
    )
    scores = program.end(masked)
    weights = program.call(
        *("function", "torch.nn.functional.softmax", attn, scores),
        kwargs={"dim": -1},
        shape=(2, 6, 24, 24),
        site=program.site(line, 23, line[6:]),
        **bad,
    )
    softmaxed = program.end(weights)
    program.end(attn, softmaxed)
    joined = program.call("function", "torch.Tensor.add", outer, x, softmaxed, operator="+", **bad)
    return program.end(outer, program.end(joined))  # type: ignore[no-any-return]


def large(events: int) -> Trace:
    """A trace of at least so many events."""
    per_step = len(training(1, 40, bad_from=None).events)
    return training(-(-events // per_step), 40, bad_from=None)


def hostile() -> Trace:
    """A trace in which every text is an attack."""
    bad = HOSTILE
    site = Site(bad, 3, bad, bad, 2, 9, Site(bad, 1, bad, bad))
    module = ModuleFacts(f"{bad}.0", bad, (bad,), {bad: bad, "n": Word(bad)}, 4, 4, 4)
    kept = TensorFacts(
        1,
        (2, bad),
        bad,
        bad,
        True,
        (1, bad),
        bad,
        None,
        Stats(count=2, min=-1.0, max=1.0, mean=0.0, std=1.0, nan=1),
        bad,
    )  # type: ignore[arg-type]
    kept.grad = TensorFacts(2, (2,), bad, bad)
    args = (kept, bad, [bad, {bad: bad}], Opaque(bad), Fields(bad, {bad: bad}), Word(bad), b"</script>", 1j)
    events: list[Event] = [
        Mark(0, None, "note", bad),
        Mark(1, None, "trouble", bad),
        Call(2, None, "module", bad, module, args, {bad: bad}, {bad: kept}, None, site, 0, 90, defined=site),
        Call(3, 2, "function", bad, module, args, {bad: kept}, bad, bad, site, 10, 20, raised=bad, message=bad),
        Call(4, 2, "aten", bad, module, (kept,), {}, [kept, bad], None, site, 30, 20, forward=3, flops=10**40),
        Call(5, None, "python", bad, None, (), {bad: bad}, kept, None, site, 95, 5, defined=site),
        Variable(6, 5, bad, bad, ("new",), site, 96),
        Variable(7, 5, bad, 1.5, ("values",), site, 97),
        Variable(8, 5, bad, kept, ("type",), site, 98, step=1),
    ]
    return Trace(events, about={bad: bad, "level": bad, "torch": bad, "started": bad})
