"""How two calls are made differently: arguments, settings, exceptions, dtypes, devices and shapes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from insitu.trace.compare.arguments import Argument, differing_arguments, differing_settings
from insitu.trace.compare.change import DEFAULT, SAME_MANNER, Aspect, Change, Changes, Manner
from insitu.trace.compare.pairs import Pair
from insitu.trace.event import Call, TensorFacts
from insitu.trace.operation import Operation

_LAYOUT: tuple[Aspect, ...] = ("dtype", "device", "shape")


def manner_of_calls(pair: Pair, a: Call, b: Call, counts: tuple[int, int]) -> Manner:
    """How two calls are made differently; `counts` is how many tensors go into them."""
    name, other = pair.a[0].name, pair.b[0].name
    changes: Changes = argument_changes(a, b, pair.a[0].operation)
    layout: Changes = _layout_changes(a, b)
    if counts[0] != counts[1]:
        changes += (Change("tensor count", a=counts[0], b=counts[1]),)
    if a.kind == "module":
        changes += setting_changes(a, b)
    changes += exception_changes(a, b)
    if a.kind == "module" and a.name != b.name:
        changes += (Change("class", a=a.name, b=b.name),)
    elif name != other:
        layout = (Change("call", a=name, b=other), *layout)
    if changes or layout:
        return Manner(changes, layout)
    return SAME_MANNER


def argument_changes(a: Call, b: Call, operation: Operation) -> Changes:
    """The arguments that differ, with the default of torch where it is known and the argument is not given.

    >>> from insitu.trace.operation import operation
    >>> calls = [Call(0, None, "function", "torch.layer_norm", kwargs=kwargs) for kwargs in ({}, {"eps": 0.1})]
    >>> argument_changes(*calls, operation("function", "torch.layer_norm"))
    (Change(aspect='argument', name='eps', a=1e-05, b=0.1),)
    """
    found = differing_arguments(a, b, operation.name)
    if found:
        return tuple([_argument_change(argument, operation) for argument in found])
    return ()


def _argument_change(argument: Argument, operation: Operation) -> Change:
    name, a, b = argument
    default = operation.default(name)
    return Change("argument", name, _given(a, default), _given(b, default))


def _given(item: Any, default: tuple[Any, ...]) -> Any:
    if item is DEFAULT and default:
        return default[0]
    return item


def setting_changes(a: Call, b: Call) -> Changes:
    """The settings of two modules that differ."""
    return tuple([Change("setting", *setting) for setting in differing_settings(a, b)])


def exception_changes(a: Call, b: Call) -> Changes:
    """The exceptions that end two calls, unless both end in the same or in none."""
    if a.raised == b.raised:
        return ()
    return (Change("exception", a=_exception(a), b=_exception(b)),)


def _exception(call: Call) -> tuple[str, str] | None:
    if call.raised is None:
        return None
    return (call.raised, call.message or "")


def _layout_changes(a: Call, b: Call) -> Changes:
    """The dtypes, devices and shapes that differ in what comes out."""
    one, other = a.result, b.result
    if type(one) is type(other) is TensorFacts and _has_same_layout(one, other):  # as most often
        return ()
    return tuple(_layouts(list(zip(a.outputs, b.outputs, strict=False))))


def _layouts(outputs: list[tuple[TensorFacts, TensorFacts]]) -> Iterator[Change]:
    for aspect in _LAYOUT:
        pairs = dict.fromkeys((getattr(left, aspect), getattr(right, aspect)) for left, right in outputs)
        yield from (Change(aspect, "", left, right) for left, right in pairs if left != right)


def _has_same_layout(a: TensorFacts, b: TensorFacts) -> bool:
    return a.dtype == b.dtype and a.device == b.device and a.shape == b.shape
