"""The expressions of a graph: which function a call runs, on what."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from insitu.trace.event import TensorFacts, Word

_OPERATORS: dict[type, str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "truediv",
    ast.FloorDiv: "floordiv",
    ast.Mod: "mod",
    ast.Pow: "pow",
    ast.MatMult: "matmul",
}
_OPS = "torch.ops."
# Calls that read another part of the same memory: the kernel of their input computes them as well.
VIEWS = frozenset(
    {"_unsafe_view", "alias", "expand", "permute", "reshape", "squeeze", "t", "transpose", "unsqueeze", "view"}
)
_FACTS = re.compile(r"(?P<dtype>[a-z]+\d+\w*)\[(?P<shape>.*?)\](?:\[(?P<strides>.*?)\])?(?P<device>.*)")


@dataclass(frozen=True, slots=True)
class NodeReference:
    """The result of another call of the graph, or one of its inputs, as an argument."""

    name: str

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class GraphCall:
    """A call of a graph: the name of the function, `aten.add.Tensor`, and its arguments."""

    name: str
    args: tuple[Any, ...] = ()
    kwargs: tuple[tuple[str, Any], ...] = ()

    @property
    def operator(self) -> str:
        """The operator without its namespace and overload: `add`."""
        parts = self.name.split(".")
        if parts[0] in ("aten", "prims") and len(parts) > 1:
            return parts[1]
        return parts[-1]

    @property
    def references(self) -> tuple[str, ...]:
        """The names of the results that it uses, in order."""
        return tuple(_references([*self.args, *(item for _, item in self.kwargs)]))


@lru_cache(maxsize=65536)
def graph_call(code: str) -> GraphCall:
    """The call that an expression of a graph makes.

    >>> graph_call("torch.ops.aten.add.Tensor(x, 2)")
    GraphCall(name='aten.add.Tensor', args=(x, 2), kwargs=())
    >>> graph_call("var_mean[1]").name
    'operator.getitem'
    """
    try:
        expression = ast.parse(code, mode="eval").body
    except SyntaxError:
        return GraphCall(code)
    if isinstance(expression, ast.Call):
        return _call(expression)
    if isinstance(expression, ast.Subscript):
        return GraphCall("operator.getitem", (_value(expression.value), _value(expression.slice)))
    if isinstance(expression, ast.BinOp):
        name = _OPERATORS.get(type(expression.op), "unknown")
        return GraphCall(f"operator.{name}", (_value(expression.left), _value(expression.right)))
    return GraphCall("operator.identity", (_value(expression),))


def _call(expression: ast.Call) -> GraphCall:
    args = tuple(map(_value, expression.args))
    kwargs = tuple([(item.arg, _value(item.value)) for item in expression.keywords if item.arg is not None])
    name = dotted(expression.func)
    if name is None:
        return GraphCall(ast.unparse(expression.func), args, kwargs)
    first = name.split(".")[0]
    if first != "torch" and isinstance(expression.func, ast.Attribute):
        owner = _value(expression.func.value)
        return GraphCall(f"torch.Tensor.{expression.func.attr}", (owner, *args), kwargs)
    return GraphCall(name.removeprefix(_OPS), args, kwargs)


def dotted(expression: ast.expr) -> str | None:
    """A name with dots, such as `torch.ops.aten.add`; None for any other expression."""
    if isinstance(expression, ast.Name):
        return expression.id
    if isinstance(expression, ast.Attribute):
        owner = dotted(expression.value)
        return None if owner is None else f"{owner}.{expression.attr}"
    return None


def _value(expression: ast.expr) -> Any:
    """An argument as plain data."""
    if isinstance(expression, ast.Constant):
        return expression.value
    if isinstance(expression, ast.Name):
        return _named(expression.id)
    if isinstance(expression, ast.Tuple):
        return tuple(map(_value, expression.elts))
    if isinstance(expression, ast.List):
        return list(map(_value, expression.elts))
    if isinstance(expression, ast.UnaryOp) and isinstance(expression.op, ast.USub):
        return _negative(_value(expression.operand))
    return Word(_short_word(expression))


def _named(name: str) -> Any:
    constants = {"inf": float("inf"), "nan": float("nan")}
    if name in constants:
        return constants[name]
    return NodeReference(name)


def _negative(value: Any) -> Any:
    if isinstance(value, (int, float)):
        return operator.neg(value)
    return Word(f"-{value}")


def _short_word(expression: ast.expr) -> str:
    """`cpu` for `device(type='cpu')`; anything else as it is written."""
    if isinstance(expression, ast.Call) and dotted(expression.func) == "device":
        words = [ast.literal_eval(item.value) for item in expression.keywords if isinstance(item.value, ast.Constant)]
        return ":".join(map(str, words))
    return ast.unparse(expression)


def _references(items: Any) -> Iterator[str]:
    for item in items:
        if isinstance(item, NodeReference):
            yield item.name
        elif isinstance(item, (list, tuple)):
            yield from _references(item)


def tensor_facts(text: str, number: int, producer: int | None) -> TensorFacts | None:
    """The facts of a tensor from the text of torch; None for a number, or without a text.

    >>> facts = tensor_facts("f32[s77, 16][16, 1]cpu", 1, None)
    >>> facts, facts.device, facts.strides
    (f32[s77, 16], 'cpu', None)
    """
    found = _FACTS.fullmatch(text)
    if found is None:
        return None
    shape, strides = _sizes(found["shape"]), _sizes(found["strides"] or "")
    kept = None if not strides or strides == contiguous(shape) else strides
    return TensorFacts(number, shape, found["dtype"], found["device"], strides=kept, producer=producer)


def _sizes(text: str) -> tuple[int | str, ...]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    return tuple([int(part) if part.isdecimal() else part for part in parts])


def contiguous(shape: tuple[int | str, ...]) -> tuple[int | str, ...]:
    """The strides of a contiguous tensor, as far as its sizes are numbers."""
    strides: list[int | str] = []
    step: int | None = 1
    for size in reversed(shape):
        strides.append("?" if step is None else step)
        step = step * max(size, 1) if isinstance(size, int) and step is not None else None
    return tuple(reversed(strides))
