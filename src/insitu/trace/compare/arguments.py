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
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{6,}\b")
_PLACE_IN_MEMORY = re.compile(r"\d{10,20}")
# Calls whose plain arguments say nothing: the result of `to` says it all, `__deepcopy__` takes what was copied before.
_WITHOUT_ARGUMENTS = frozenset(("to", "__deepcopy__", "deepcopy"))

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
    if name in _WITHOUT_ARGUMENTS:
        return []
    one, other = _plain(a), _plain(b)
    if one == other:
        return []
    try:
        found = _remembered_differences(*_key(*one), *_key(*other))
    except TypeError:  # something that has no hash
        found = _differences(*one, *other)
    if not found:
        return []
    longer = a if len(one[0]) >= len(other[0]) else b
    return [(_name(place, longer), left, right) for place, left, right in found]


def _name(place: str | int, call: Call) -> str:
    """The name of an argument; without one its position, as people count the arguments that a call is written with.

    >>> softmax = Call(0, None, "function", "torch.softmax", args=(TensorFacts(0, (2,), "f32", "cpu"), -1))
    >>> _name(0, softmax), _name("dim", softmax)
    ('argument 2', 'dim')
    """
    if isinstance(place, str):
        return place
    first = 0 if call.name.startswith("torch.Tensor.") else 1
    positions = [position for position, item in enumerate(call.args, first) if _is_plain(item)]
    if place < len(positions):
        return f"argument {positions[place]}"
    return f"argument {place + 1}"  # an item of the only argument


def _key(places: list[Any], names: dict[str, Any]) -> tuple[Any, ...]:
    """Arguments as something with a hash, in which True is not 1."""
    return tuple(places), tuple(map(type, places)), tuple(names.items()), tuple(map(type, names.values()))


@lru_cache(maxsize=4096)
def _remembered_differences(
    places_a: Any, types_a: Any, names_a: Any, types_names_a: Any, places_b: Any, types_b: Any, names_b: Any, types: Any
) -> list[Unnamed]:
    """`_differences`, remembered: the layers of a model make the same calls again and again."""
    return _differences(list(places_a), dict(names_a), list(places_b), dict(names_b))


def differing_settings(a: Call, b: Call) -> list[Argument]:
    """The settings of two modules of one class that differ; other calls have none.

    >>> from insitu.trace.event import ModuleFacts
    >>> one, other = (ModuleFacts("ln", "LayerNorm", settings={"eps": eps}) for eps in (1e-5, 0.1))
    >>> differing_settings(Call(0, None, "module", "LayerNorm", one), Call(0, None, "module", "LayerNorm", other))
    [('eps', 1e-05, 0.1)]
    """
    if a.kind != "module" or a.name != b.name:
        return []
    one, other = _settings(a), _settings(b)
    if one == other:
        return []
    if not one or not other:  # a class of the user's own: nothing is known of its settings
        return []
    found = _differences_by_name(one, other)
    return [(str(name), _setting(left), _setting(right)) for name, left, right in found]


def _settings(call: Call) -> dict[str, Any]:
    if call.module is None:
        return {}
    return call.module.settings


def _setting(item: Any) -> Any:
    """A setting as the trace has it: None and what is not plain is left out."""
    if item is DEFAULT:
        return UNRECORDED
    return item


def _plain(call: Call) -> tuple[list[Any], dict[str, Any]]:
    """The arguments without tensors, by place and by name; sizes may be given as one tuple or one by one."""
    places = [item for item in call.args if _is_plain(item)]
    if len(places) == 1 and type(places[0]) in (tuple, list):
        places = list(places[0])
    if not call.kwargs:
        return places, {}
    public = [item for item in call.kwargs.items() if not item[0].startswith("_")]
    return places, {name: item for name, item in public if _is_plain(item)}


# Types without tensors in them, and those that are not compared.
_PLAIN_TYPES = frozenset((int, float, bool))
_OTHER_TYPES = frozenset((TensorFacts, type(None)))


def _is_plain(item: Any) -> bool:
    """Whether an argument has a value that holds no tensor."""
    kind = type(item)
    if kind in _PLAIN_TYPES:
        return True
    if kind in _OTHER_TYPES or _is_memo(item):
        return False
    return next(tensors(item), None) is None


def _is_memo(item: Any) -> bool:
    """Whether an argument says which objects were copied before, by where in memory they are."""
    return type(item) is dict and bool(item) and all(map(_is_address, item))


def _is_address(key: Any) -> bool:
    """Whether a key is the place of an object in memory, as a number or as the text of one."""
    return isinstance(key, (int, str)) and _PLACE_IN_MEMORY.fullmatch(str(key)) is not None


def _differences(
    places_a: list[Any], names_a: dict[str, Any], places_b: list[Any], names_b: dict[str, Any]
) -> list[Unnamed]:
    """What differs, where one side may give by place what the other gives by name."""
    if _same([*places_a, *names_a.values()], [*places_b, *names_b.values()]):
        return []
    only_a, only_b = _without(names_a, names_b), _without(names_b, names_a)
    shared = min(len(places_a), len(places_b))
    pairs: list[Unnamed] = list(zip(range(shared), places_a, places_b, strict=False))
    for item in places_a[shared:]:
        name, other = _take_only(only_b, shared)
        pairs.append((name, item, other))
    for item in places_b[shared:]:
        name, other = _take_only(only_a, shared)
        pairs.append((name, other, item))
    by_place = [pair for pair in pairs if not _same(pair[1], pair[2])]
    both = names_a.keys() & names_b.keys()
    left = _with_names(names_a, both | only_a.keys())
    right = _with_names(names_b, both | only_b.keys())
    return by_place + _differences_by_name(left, right)


def _with_names(items: dict[str, Any], names: set[str]) -> dict[str, Any]:
    """The items that have one of these names, in their order."""
    return {name: item for name, item in items.items() if name in names}


def _without(items: dict[str, Any], others: dict[str, Any]) -> dict[str, Any]:
    """The items whose names the others do not have."""
    return {name: item for name, item in items.items() if name not in others}


def _take_only(items: dict[str, Any], place: int) -> tuple[str | int, Any]:
    """Take out the only item, with its name; where there is not exactly one, the place has the default."""
    if len(items) == 1:
        return items.popitem()
    return place, DEFAULT


def _differences_by_name(a: dict[str, Any], b: dict[str, Any]) -> list[Unnamed]:
    found: list[Unnamed] = []
    for name in dict.fromkeys([*a, *b]):
        left, right = a.get(name, DEFAULT), b.get(name, DEFAULT)
        if not _same(left, right):
            found.append((name, left, right))
    return found


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, str) and isinstance(b, str):
        return _are_same_texts(a, b)
    found = close_plain(a, b, _ROUNDING, 0.0)
    if found is None:
        return True
    return found.same is not False


def _are_same_texts(a: str, b: str) -> bool:
    """Whether texts say the same: a device is not compared, nor where in memory an object is."""
    if a == b:
        return True
    if _DEVICE.fullmatch(a) and _DEVICE.fullmatch(b):
        return True
    return _ADDRESS.sub("", a) == _ADDRESS.sub("", b)
