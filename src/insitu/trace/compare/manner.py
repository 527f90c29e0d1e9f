"""How two calls are made, in words: arguments, exceptions, dtypes and devices."""

from __future__ import annotations

from typing import Any

from insitu.trace.compare.arguments import Argument
from insitu.trace.compare.operation import DROPPING, RANDOM
from insitu.trace.compare.stops import Stop
from insitu.trace.event import Call, TensorFacts


def exception(a: Call, b: Call) -> str:
    """The exceptions that end two calls, of which not both end in the same."""
    if a.raised is not None and b.raised is not None:
        return f"raises {a.raised} | {b.raised}"
    call = a if a.raised is not None else b
    text = f": {_first_line(call.message)}" if call.message else ""
    return f"raises {call.raised}{text} in {'a' if call is a else 'b'} only"


def _first_line(text: str) -> str:
    line = text.partition("\n")[0]
    return line if len(line) <= 80 else line[:79] + "…"


def places(a: Call, b: Call) -> tuple[str, ...]:
    """The dtypes and devices in which what comes out is another one."""
    one, other = a.result, b.result
    if type(one) is type(other) is TensorFacts and one.dtype == other.dtype and one.device == other.device:
        return ()
    outs = list(zip(a.outputs, b.outputs, strict=False))
    found: list[str] = []
    for what in ("dtype", "device"):
        after = dict.fromkeys((getattr(left, what), getattr(right, what)) for left, right in outs)
        found += [f"{what} {left} | {right}" for left, right in after if left != right]
    return tuple(found)


def texts(arguments: list[Argument]) -> tuple[str, ...]:
    """Arguments that differ, each as `name: left | right`."""
    return tuple([f"{name}: {_text(left)} | {_text(right)}" for name, left, right in arguments])


def _text(item: Any) -> str:
    text = repr(item)
    return text if len(text) <= 40 else text[:39] + "…"


def draws(stop: Stop) -> bool:
    """Whether a call draws random numbers."""
    call = stop.event
    if type(call) is not Call or stop.name not in DROPPING:
        return type(call) is Call and stop.name in RANDOM
    by_place = next((item for item in call.args if type(item) is float), 0.0)
    return bool(call.kwargs.get("dropout_p", by_place)) and call.kwargs.get("training") is not False


def casts(stop: Stop) -> bool:
    """Whether a call gives its tensor another dtype."""
    if type(stop.event) is not Call:
        return False
    return {facts.dtype for facts in stop.event.inputs} != {facts.dtype for facts in stop.event.outputs}
