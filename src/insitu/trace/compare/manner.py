"""How two calls are made differently: arguments, settings, exceptions, dtypes, devices and shapes."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from insitu.trace.compare.arguments import Argument, differing_arguments, differing_settings
from insitu.trace.compare.change import DEFAULT, SAME_MANNER, Aspect, Change, Changes, Manner
from insitu.trace.compare.pairs import Pair
from insitu.trace.event import Call, TensorFacts
from insitu.trace.operation import Operation

_LAYOUT: tuple[Aspect, ...] = ("dtype", "device", "shape")


def manner_of_calls(pair: Pair, a: Call, b: Call, counts: tuple[int, int]) -> Manner:
    """How two calls are made differently; `counts` is how many tensors go into them."""
    changes: Changes = argument_changes(a, b, pair.a[0].operation)
    layout: Changes = _layout_changes(a, b)
    if counts[0] != counts[1]:
        changes += (Change("tensor count", a=counts[0], b=counts[1]),)
    if a.kind == "module":
        changes += setting_changes(a, b)
    changes += exception_changes(a, b)
    if a.kind == "module" and a.name != b.name:
        changes += (Change("class", a=a.name, b=b.name),)
    elif pair.a[0].name != pair.b[0].name:
        layout = (Change("call", a=pair.a[0].name, b=pair.b[0].name), *layout)
    if not changes and not layout:
        return SAME_MANNER
    return Manner(changes, layout)


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
    is_one_tensor = type(a.result) is type(b.result) is TensorFacts
    if is_one_tensor and _layout(a.result) == _layout(b.result):  # as most often
        return ()
    found: dict[Change, None] = {}
    for place, aspect in enumerate(_LAYOUT):
        for left, right in zip(map(_layout, a.outputs), map(_layout, b.outputs), strict=False):
            if left[place] != right[place]:
                found[Change(aspect, "", left[place], right[place])] = None
    return tuple(found)


_layout = attrgetter(*_LAYOUT)
