"""Programs made by hand, to be compared."""

from __future__ import annotations

from typing import Any

from tests.view.build import Run

from insitu.trace.compare.traces import compare_traces
from insitu.trace.diff import Diff
from insitu.trace.event import Site, Stats, TensorFacts


class Program(Run):
    """Calls whose outputs have values: a number stands for all of them."""

    def made(self, name: str, *args: Any, value: float | None = None, **more: Any) -> TensorFacts:
        """Call a function; what it returns."""
        number = len(self.events)
        dtype, shape = more.pop("dtype", "f32"), more.pop("shape", (2,))
        out = given(value, producer=number, dtype=dtype, shape=shape)
        more.setdefault("site", Site("model.py", number + 1, "forward"))
        self.call("function", f"torch.{name}", *args, out=out, **more)
        return out


def given(value: float | None = None, **more: Any) -> TensorFacts:
    stats = None if value is None else Stats(count=2, min=value, max=value + 1, mean=value, std=0.5)
    return TensorFacts(0, more.pop("shape", (2,)), more.pop("dtype", "f32"), "cpu", stats=stats, **more)


def compared(a: Program, b: Program, **options: Any) -> Diff:
    return compare_traces(a.trace, b.trace, **options)


def chain(*calls: tuple[str, float | None, tuple[Any, ...]], start: TensorFacts | None = None) -> Program:
    """Calls each of which takes what the one before it made."""
    run, x = Program(), start if start is not None else given(0.0)
    for name, value, args in calls:
        x = run.made(name, x, *args, value=value)
    return run


def fused(value: float) -> tuple[Program, Program]:
    """One call in the one, three in the other; what comes after shows this value."""
    a, b, x, y = Program(), Program(), given(0.0), given(0.0)
    for run, start in ((a, x), (b, y)):
        run.made("linear", start, value=1.0)
    first, second = a.events[0].result, b.events[0].result  # type: ignore[union-attr]
    for name in ("matmul", "softmax", "bmm"):
        first = a.made(name, first, value=4.0)
    second = b.made("scaled_dot_product_attention", second, value=value)
    a.made("relu", first, value=9.0)
    b.made("relu", second, value=value + 5.0)
    return a, b


def in_modules(*paths: str, value: float = 1.0, outer: str = "") -> Program:
    run, x = Program(), given(0.0)
    with run.inside(run.module(outer, "Net", x, leaf=False)):
        for number, path in enumerate(paths):
            with run.inside(run.module(path, "Linear", x)):
                x = run.made("linear", x, value=value + number)
    return run
