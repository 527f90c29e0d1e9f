"""Arguments of calls as records hold them: tensors by their values, atoms as they are, other objects by their type.

The writers are dense on purpose: each runs for each event, and a Python call for each question would cost more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.nn import Parameter

from insitu.capture.atoms import ATOMS
from insitu.capture.outline import INTS, outline, shared_ints
from insitu.capture.tape import KWARGS
from insitu.capture.tensors import CPU, GIVEN, Current, ParameterValue, Table, Value, Values

ArgumentWriter = Callable[[list[Any], tuple[Any, ...], dict[str, Any] | None], None]


def make_snapshot(current: Current) -> Callable[[Any], Any]:
    """The function that makes the form in which a record holds an argument; a tensor becomes the value it has now."""

    def snapshot(item: Any) -> Any:
        kind = type(item)
        if kind is Tensor or kind is Parameter:
            return current(item)
        if kind in ATOMS:
            return item
        if kind is list and INTS.issuperset(map(type, item)):  # sizes, an argument of many operators
            return shared_ints(item)
        return outline(item, current)

    return snapshot


def make_argument_writer(values: Values) -> ArgumentWriter:
    """The function that adds the arguments of a call to its record: one call for all of them."""
    current = values.current
    snapshot = make_snapshot(current)

    def write_arguments(record: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> None:
        append = record.append
        for item in args:
            kind = type(item)
            if kind is Tensor or kind is Parameter:
                append(current(item))
            else:
                append(item if kind in ATOMS else snapshot(item))
        if kwargs:
            record[KWARGS] = 2 * len(kwargs)  # names and values in turn
            for name, item in kwargs.items():
                record += (name, snapshot(item))

    return write_arguments


def make_quick_argument_writer(table: Table, values: Values) -> ArgumentWriter:
    """The same for sessions that keep only facts, while no function mode is on: facts are read without a call.

    The facts of each tensor are compared with those that were recorded last, as `has_same_facts` does.
    """
    get, snapshot, fresh, renew, cpu = table.get, make_snapshot(values.current), values.fresh, values.renew, CPU

    def write_arguments(record: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> None:
        append = record.append
        for item in args:
            kind = type(item)
            if kind is Tensor or kind is Parameter:
                value: Any = get(id(item))
                if value is None or value() is not item:
                    append(fresh(item, GIVEN))
                    continue
                layout = value.layout
                try:
                    same = (
                        layout[1] is item.dtype
                        and value.requires_grad is item.requires_grad
                        and layout[0] == item.shape
                        and (item.is_cpu if layout[2] is cpu else layout[2] == item.device)
                        and (item.is_contiguous() if len(layout) == 3 else layout[3] == item.stride())
                        and type(value) is (Value if kind is Tensor else ParameterValue)
                    )
                except Exception:  # sparse tensors have no strides, strided nested ones no shape
                    same = False
                append(value if same else renew(value, item, None))
            else:
                append(item if kind in ATOMS else snapshot(item))
        if kwargs:
            record[KWARGS] = 2 * len(kwargs)
            for name, item in kwargs.items():
                record += (name, snapshot(item))

    return write_arguments
