"""The arguments of two calls that are not tensors: which of them differ."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from insitu.trace.compare.change import DEFAULT, UNRECORDED
from insitu.trace.compare.closeness import close_plain
from insitu.trace.event import Call, TensorFacts, tensors

_ROUNDING = 1e-9
_DEVICE = re.compile(r"(cpu|cuda|mps|xpu|hpu|meta|xla|mtia)(:\d+)?")

Argument = tuple[str, Any, Any]
Unnamed = tuple[str | int, Any, Any]  # by name, or by place among the arguments that are not tensors


def differing_arguments(a: Call, b: Call, name: str) -> list[Argument]:
    """The arguments with another value: their name, and the value on either side.

    How an argument is given does not matter, nor a device, nor what torch passes on for itself.

    >>> one = Call(0, None, "function", "torch.softmax", args=(TensorFacts(0, (2,), "f32", "cpu"), -1))
    >>> other = Call(0, None, "function", "softmax", args=one.args[:1], kwargs={"dim": 0, "_stacklevel": 3})
    >>> differing_arguments(one, other, "softmax")
    [('dim', -1, 0)]
    """
    if name == "to":  # what it makes of the tensor says it all
        return []
    (places_a, names_a), (places_b, names_b) = _plain(a), _plain(b)
    if places_a == places_b and names_a == names_b:
        return []
    try:
        found = _known(*_key(places_a, names_a), *_key(places_b, names_b))
    except TypeError:  # something that has no hash
        found = _apart(places_a, names_a, places_b, names_b)
    longer = a if len(places_a) >= len(places_b) else b
    return [(_name(place, longer), left, right) for place, left, right in found]


def _name(place: str | int, call: Call) -> str:
    """The name of an argument; without one its position, as people count the arguments that a call is written with.

    >>> softmax = Call(0, None, "function", "torch.softmax", args=(TensorFacts(0, (2,), "f32", "cpu"), -1))
    >>> _name(0, softmax), _name("dim", softmax)
    ('argument 2', 'dim')
    """
    if isinstance(place, str):
        return place
    before_tensor = 1 if call.name.startswith("torch.Tensor.") else 0
    positions = [index - before_tensor for index, item in enumerate(call.args, 1) if _is_plain(item)]
    is_one_tuple = len(positions) <= place
    return f"argument {place + 1 if is_one_tuple else positions[place]}"


def _key(places: list[Any], names: dict[str, Any]) -> tuple[Any, ...]:
    """Arguments as something with a hash, in which True is not 1."""
    return tuple(places), tuple(map(type, places)), tuple(names.items()), tuple(map(type, names.values()))


@lru_cache(maxsize=4096)
def _known(
    places_a: Any, types_a: Any, names_a: Any, types_names_a: Any, places_b: Any, types_b: Any, names_b: Any, types: Any
) -> list[Unnamed]:
    # the layers of a model make the same calls again and again
    return _apart(list(places_a), dict(names_a), list(places_b), dict(names_b))


def differing_settings(a: Call, b: Call) -> list[Argument]:
    """The settings of two modules of one class that differ; other calls have none.

    >>> from insitu.trace.event import ModuleFacts
    >>> one, other = (ModuleFacts("ln", "LayerNorm", settings={"eps": eps}) for eps in (1e-5, 0.1))
    >>> differing_settings(Call(0, None, "module", "LayerNorm", one), Call(0, None, "module", "LayerNorm", other))
    [('eps', 1e-05, 0.1)]
    """
    if a.kind != "module" or a.module is None or b.module is None or a.name != b.name:
        return []
    if a.module.settings == b.module.settings:
        return []
    if not (a.module.settings and b.module.settings):  # a class of the user's own: nothing is known of its settings
        return []
    pairs = _named(a.module.settings, b.module.settings)
    return [(name, _noted(left), _noted(right)) for name, left, right in pairs]


def _noted(item: Any) -> Any:
    """A setting as it was noted: None and what is not plain is left out."""
    return UNRECORDED if item is DEFAULT else item


def _plain(call: Call) -> tuple[list[Any], dict[str, Any]]:
    """The arguments without tensors, by place and by name; sizes may be given as one tuple or one by one."""
    places = [item for item in call.args if _is_plain(item)]
    if len(places) == 1 and type(places[0]) in (tuple, list):
        places = list(places[0])
    if not call.kwargs:
        return places, {}
    return places, {
        name: item
        for name, item in call.kwargs.items()
        if item is not None and not name.startswith("_") and not _holds_tensor(item)
    }


def _is_plain(item: Any) -> bool:
    return item is not None and not _holds_tensor(item)


def _holds_tensor(item: Any) -> bool:
    kind = type(item)
    if kind is TensorFacts:
        return True
    return kind is not int and kind is not float and kind is not bool and next(tensors(item), None) is not None


def _apart(places_a: list[Any], names_a: dict[str, Any], places_b: list[Any], names_b: dict[str, Any]) -> list[Unnamed]:
    """What differs, where one side may give by place what the other gives by name."""
    if _same([*places_a, *names_a.values()], [*places_b, *names_b.values()]):
        return []
    shared = min(len(places_a), len(places_b))
    pairs = enumerate(zip(places_a[:shared], places_b[:shared], strict=True))
    found: list[Unnamed] = [(index, left, right) for index, (left, right) in pairs if not _same(left, right)]
    own_a = {name: item for name, item in names_a.items() if name not in names_b}
    own_b = {name: item for name, item in names_b.items() if name not in names_a}
    for item in places_a[shared:]:
        name, other = own_b.popitem() if len(own_b) == 1 else (shared, DEFAULT)
        found += [] if _same(item, other) else [(name, item, other)]
    for item in places_b[shared:]:
        name, other = own_a.popitem() if len(own_a) == 1 else (shared, DEFAULT)
        found += [] if _same(other, item) else [(name, other, item)]
    both = {name: item for name, item in names_a.items() if name in names_b}
    return found + _named({**both, **own_a}, {**{name: names_b[name] for name in both}, **own_b})


def _named(a: dict[str, Any], b: dict[str, Any]) -> list[Argument]:
    names = dict.fromkeys([*a, *b])
    pairs = [(name, a.get(name, DEFAULT), b.get(name, DEFAULT)) for name in names]
    return [(name, left, right) for name, left, right in pairs if not _same(left, right)]


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, str) and isinstance(b, str) and a != b:
        return _DEVICE.fullmatch(a) is not None and _DEVICE.fullmatch(b) is not None
    found = close_plain(a, b, _ROUNDING, 0.0)
    return found is None or found.same is not False
