"""Events made by hand, in the order they began, as a trace has them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from insitu.trace.event import Call, Change, Event, Kind, Mark, ModuleFacts, Site, Stats, TensorFacts, Variable
from insitu.trace.trace import Trace


def tensor(*shape: int | str, dtype: str = "f32", device: str = "cpu", **more: Any) -> TensorFacts:
    """A tensor of this shape."""
    return TensorFacts(more.pop("id", 0), shape, dtype, device, **more)


def stats(low: float | None, high: float | None, *, nan: int = 0, inf: int = 0) -> Stats:
    """The statistics of a tensor with this range."""
    return Stats(count=10, min=low, max=high, mean=0.0, std=1.0, nan=nan, inf=inf)


class Run:
    """Collects events as if a program ran: `with run.module(...)` nests."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._open: list[Call] = []
        self._modules: dict[str, ModuleFacts] = {}
        self._sites: dict[tuple[int, str], Site] = {}
        self.step = 0

    @property
    def trace(self) -> Trace:
        return Trace(self.events)

    def call(self, kind: Kind, name: str, *args: Any, out: Any = None, **more: Any) -> Call:
        """Add a call; its parent and module are those that are open."""
        parent = self._open[-1] if self._open else None
        more.setdefault("module", parent.module if parent is not None else None)
        more.setdefault("step", self.step)
        call = Call(len(self.events), parent.id if parent else None, kind, name, args=args, result=out, **more)
        self.events.append(call)
        return call

    @contextmanager
    def inside(self, call: Call) -> Iterator[Call]:
        """All calls in the block lie in this one."""
        self._open.append(call)
        yield call
        self._open.pop()

    def module(self, path: str, type: str, *args: Any, leaf: bool = True, settings: Any = None, **more: Any) -> Call:
        """Add the call of a module."""
        bases, parameters = more.pop("bases", (type, "Module")), more.pop("parameters", 0)
        facts = self._modules.setdefault(path, ModuleFacts(path, type, bases, settings or {}, parameters, leaf=leaf))
        return self.call("module", type, *args, module=facts, **more)

    def python(self, name: str, *, line: int = 1, file: str = "data.py", **more: Any) -> Call:
        """Add the call of a watched function, which is defined at this line; `given` is its arguments."""
        more["kwargs"] = more.pop("given", {})
        return self.call("python", name, defined=Site(file, line, name), **more)

    def variable(
        self, name: str, value: Any, *changes: Change, line: int = 1, within: str = "", **more: Any
    ) -> Variable:
        """Add a change of a variable in the call that is open, or in a function that it calls."""
        call = self._open[-1] if self._open else None
        place = Site("data.py", line, within or (call.name if call is not None else "f"))
        more.setdefault("site", self._sites.setdefault((place.line, place.function), place))
        parent = more.pop("parent", call.id if call is not None else None)
        variable = Variable(len(self.events), parent, name, value, changes, **more)
        self.events.append(variable)
        return variable

    def mark(self, kind: Any, text: str) -> Mark:
        """Add a mark."""
        mark = Mark(len(self.events), self._open[-1].id if self._open else None, kind, text)
        self.events.append(mark)
        return mark


def linear(run: Run, path: str, inputs: int, outputs: int, x: TensorFacts, **more: Any) -> Call:
    """A Linear and the function in it."""
    out = tensor(*x.shape[:-1], outputs, stats=more.pop("stats", None))
    settings = {"in_features": inputs, "out_features": outputs}
    call = run.module(path, "Linear", x, settings=settings, out=out, **more)
    with run.inside(call):
        run.call(
            "function", "torch.nn.functional.linear", x, tensor(outputs, inputs), None, out=out, site=more.get("site")
        )
    return call


def site(
    text: str, line: int, function: str, caller: Site | None = None, file: str = "model.py", mark: str = ""
) -> Site:
    """A place; `mark` is the part of the text whose columns are meant."""
    start = text.index(mark) if mark else None
    return Site(file, line, function, text, start, start + len(mark) if start is not None else None, caller)
