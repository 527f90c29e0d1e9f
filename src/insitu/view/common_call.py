"""What several calls of one row have in common: arguments and shapes, with a sign where they differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from insitu.trace.event import Call, Fields, TensorFacts, Word

OTHER = Word("…")  # the sign for something that differs from call to call


def common_call(calls: Sequence[Call]) -> Call:
    """The first of several calls, with a sign for the arguments that differ.

    >>> x = TensorFacts(0, (2, 3), "f32", "cpu")
    >>> common_call([Call(0, None, "function", "torch.mul", args=(x, number)) for number in (1, 2)]).args
    (f32[2, 3], …)
    """
    first = calls[0]
    if len(calls) == 1:
        return first
    args = _common_items([call.args for call in calls])
    kwargs = first.kwargs
    if any(call.kwargs for call in calls):
        kwargs = _common_named([call.kwargs for call in calls])
    return replace(first, args=args, kwargs=kwargs)


def _common_items(every: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
    """The arguments at each position; a sign at the end if some calls have more of them."""
    items = tuple(map(common_item, zip(*every, strict=False)))
    if any(len(args) != len(items) for args in every):
        return (*items, OTHER)
    return items


def _common_named(every: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The arguments of each name; a sign for one that some calls do not have."""
    names = dict.fromkeys(chain.from_iterable(every))
    return {name: common_item([kwargs.get(name, OTHER) for kwargs in every]) for name in names}


def common_item(items: Sequence[Any]) -> Any:
    """One of several arguments or results: itself if all are equal, tensors with the range of their sizes."""
    kinds = set(map(type, items))
    if len(kinds) > 1:
        return OTHER
    common = _COMMON.get(kinds.pop(), _common_value)
    return common(items)


def _common_value(items: Sequence[Any]) -> Any:
    """The value that all items are; something that refuses to be compared differs."""
    first, *others = items
    try:
        are_equal = all(first is item or bool(first == item) for item in others)
    except Exception:
        return OTHER
    if are_equal:
        return first
    return OTHER


def _common_sequence(items: Sequence[Any]) -> Any:
    """Tuples or lists, item by item; if nothing in them is common, neither are they."""
    kind = type(items[0])
    if len(set(map(len, items))) > 1:
        return OTHER
    parts = [common_item(parts) for parts in zip(*items, strict=True)]
    has_nothing_common = len(parts) > 1 and all(part is OTHER for part in parts)
    if has_nothing_common:
        return OTHER
    return kind(parts)


def _common_fields(items: Sequence[Fields]) -> Fields:
    """Objects, field by field."""
    return Fields(items[0].type, _common_named([item.items for item in items]))


def _common_tensor(items: Sequence[TensorFacts]) -> Any:
    """Tensors of one dtype, with the range of their sizes."""
    dtypes = {item.dtype for item in items}
    if len(dtypes) > 1:
        return OTHER
    shapes = [item.shape for item in items]
    if len(set(shapes)) == 1:
        return items[0]
    return replace(items[0], shape=common_shape(shapes))


# By the type of the items: what they have in common. Items of other types have only themselves.
_COMMON: dict[type, Callable[[Sequence[Any]], Any]] = {
    TensorFacts: _common_tensor,
    tuple: _common_sequence,
    list: _common_sequence,
    dict: _common_named,
    Fields: _common_fields,
}


def common_shape(shapes: Sequence[tuple[int | str, ...]]) -> tuple[int | str, ...]:
    """The sizes of several shapes, in the order of the calls.

    A size that only grows, or only shrinks, is shown as the first and the last; another one as the least and the
    largest.

    >>> common_shape([(1, 5, 64), (1, 6, 64), (1, 7, 64)]), common_shape([(5, 64), (500, 64), (40, 64)])
    ((1, '5→7', 64), ('5 … 500', 64))
    """
    if len(set(map(len, shapes))) > 1:
        return (OTHER,)
    return tuple(map(_common_size, zip(*shapes, strict=True)))


def _common_size(sizes: Sequence[int | str]) -> int | str:
    """A size that all shapes have, or how it goes; a size may be a range already."""
    if len(set(sizes)) == 1:
        return sizes[0]
    numbers = [size for size in sizes if isinstance(size, int)]
    if len(numbers) < len(sizes):
        return OTHER
    upwards = sorted(numbers)
    if numbers in (upwards, upwards[::-1]):
        return f"{numbers[0]}→{numbers[-1]}"
    return f"{upwards[0]} … {upwards[-1]}"
