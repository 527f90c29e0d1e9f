"""How two calls are made, in words: arguments, exceptions, dtypes and devices."""

from __future__ import annotations

from typing import Any

from insitu.trace.compare.arguments import DEFAULT, Argument
from insitu.trace.compare.stops import Stop
from insitu.trace.diff import Compared
from insitu.trace.event import Call, TensorFacts
from insitu.trace.operation import UNKNOWN, Operation


def apart(what: str, a: object, b: object) -> str:
    """Something that differs, in words.

    >>> apart("eps", 1e-05, 0.001)
    'eps is 0.001 in b, 1e-05 in a'
    """
    return f"{what} is {b} in b, {a} in a"


def exception(a: Call, b: Call) -> str:
    """The exceptions that end two calls, of which not both end in the same."""
    if a.raised is not None and b.raised is not None:
        return f"raises {b.raised} in b, {a.raised} in a"
    call = a if a.raised is not None else b
    text = f": {_first_line(call.message)}" if call.message else ""
    return f"raises {call.raised}{text} in {'a' if call is a else 'b'} only"


def _first_line(text: str) -> str:
    line = text.partition("\n")[0]
    return line if len(line) <= 80 else line[:79] + "…"


def places(a: Call, b: Call) -> tuple[str, ...]:
    """The dtypes, devices and shapes that differ in what comes out."""
    one, other = a.result, b.result
    if type(one) is type(other) is TensorFacts and _has_same_layout(one, other):  # as most often
        return ()
    outs = list(zip(a.outputs, b.outputs, strict=False))
    found: list[str] = []
    for what in ("dtype", "device", "shape"):
        pairs = dict.fromkeys((getattr(left, what), getattr(right, what)) for left, right in outs)
        found += [apart(what, _size(left), _size(right)) for left, right in pairs if left != right]
    return tuple(found)


def _has_same_layout(a: TensorFacts, b: TensorFacts) -> bool:
    return a.dtype == b.dtype and a.device == b.device and a.shape == b.shape


def _size(item: Any) -> Any:
    return list(item) if isinstance(item, tuple) else item


def is_loose(a: Call, b: Call) -> bool:
    """Whether what comes out has another dtype, or another shape: then it may be close, and still not the same."""
    return any(
        left.dtype != right.dtype or left.shape != right.shape
        for left, right in zip(a.outputs, b.outputs, strict=False)
    )


def is_reshaped(a: Call, b: Call) -> bool:
    """Whether what comes out has another shape."""
    return any(left.shape != right.shape for left, right in zip(a.outputs, b.outputs, strict=False))


def texts(arguments: list[Argument], operation: Operation = UNKNOWN) -> tuple[str, ...]:
    """Arguments that differ, each as `name is right in b, left in a`."""
    found = []
    for name, left, right in arguments:
        default = operation.default(name)
        found.append(apart(name, _text(left, default), _text(right, default)))
    return tuple(found)


def _text(item: Any, default: tuple[Any, ...]) -> str:
    if item is DEFAULT and not default:
        return "the default"
    text = repr(default[0] if item is DEFAULT else item)
    return text if len(text) <= 40 else text[:39] + "…"


def draws(stop: Stop) -> bool:
    """Whether a call draws random numbers."""
    call = stop.event
    if type(call) is not Call:
        return False
    if stop.operation.draws == "if dropout_p":
        by_place = next((item for item in call.args if type(item) is float), 0.0)
        return bool(call.kwargs.get("dropout_p", by_place)) and call.kwargs.get("training") is not False
    if stop.operation.draws == "in training":
        return _regularizes(stop.operation, call)
    return stop.operation.is_random


def _regularizes(operation: Operation, call: Call) -> bool:
    """Whether a dropout is at work: by place it is given the probability, then whether it trains."""
    by_place = [item for item in call.args if type(item) is not TensorFacts]
    given = dict(zip(("p", "training"), by_place, strict=False)) if operation.base != "rrelu" else {}
    given |= {argument: call.kwargs[argument] for argument in ("p", "training") if argument in call.kwargs}
    trains = given.get("training", *operation.default("training"))
    return bool(trains) and given.get("p", 0.5) != 0


def casts(stop: Stop) -> bool:
    """Whether a call gives its tensor another dtype."""
    if type(stop.event) is not Call:
        return False
    return {facts.dtype for facts in stop.event.inputs} != {facts.dtype for facts in stop.event.outputs}


def has_nan(event: Compared) -> bool:
    """Whether there is NaN in what a call makes: whatever went in, NaN is equal to NaN."""
    outs = event.outputs if type(event) is Call else ()
    return any(facts.stats.nan > 0 if facts.stats is not None else _holds_nan(facts.kept) for facts in outs)


def _holds_nan(kept: Any) -> bool:
    if isinstance(kept, float):
        return kept != kept
    is_array_of_floats = getattr(getattr(kept, "dtype", None), "kind", "") in ("f", "c", "V")  # V: as bfloat16 has it
    return is_array_of_floats and bool((kept != kept).any())
