"""The blocks of Tracy NN: leaf modules and functions, one after the other, while the model runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from insitu import Call, Event, Fields, Mark, Opaque, TensorFacts, Variable
from insitu.view import (
    Line,
    Span,
    function_name,
    holds_tensor,
    is_inner,
    key_settings,
    method_name,
    operands,
    safe,
    value_text,
)

BETWEEN = Line((("  │", "grey"),))
MIDDLE: Span = ("  ├─", "grey")
LAST: Span = ("  └─", "grey")
COMMA: Span = (", ", "")
MOST_ITEMS = 32
MOST_DEPTH = 8

Spans = tuple[Span, ...]


@dataclass(frozen=True)
class Block:
    """A heading and the labelled lines below it, with the ink of the bullet."""

    ink: str
    title: Spans
    fields: list[tuple[str, Spans]]

    def lines(self) -> Iterator[Line]:
        """The lines of the block, and the line after it."""
        yield Line((("  ", ""), ("●", self.ink), (" ", ""), *self.title))
        last = len(self.fields) - 1
        for index, (label, spans) in enumerate(self.fields):
            yield Line((LAST if index == last else MIDDLE, (f" {label}: ", ""), *spans))
        yield BETWEEN


class Blocks:
    """Shows each leaf module and each function as a block, at once; with a name, between two headings.

    Watched Python functions and variables have no block.

    >>> [str(line) for line in Blocks("MHA").begin()]
    ['  ● TRACING MHA STARTED', '  │']
    """

    def __init__(self, name: str | None = None) -> None:
        self._name = safe(name) if name is not None else None
        self._begun = name is None

    def begin(self) -> Iterable[Line]:
        """The heading, once."""
        if self._begun:
            return ()
        self._begun = True
        return (self._heading("STARTED"), BETWEEN)

    def __call__(self, event: Event) -> Iterable[Line]:
        """The block of this event, if events of its kind have one."""
        if isinstance(event, Variable):
            return ()
        lines = trouble_lines(event) if isinstance(event, Mark) else call_lines(event)
        if self._begun:
            return lines
        return (*self.begin(), *lines)

    def finish(self) -> Iterable[Line]:
        """The closing heading."""
        if self._name is None:
            return ()
        return (*self.begin(), self._heading("COMPLETE"))

    def _heading(self, word: str) -> Line:
        return Line((("  ", ""), ("●", "green"), (" ", ""), (f"TRACING {self._name} {word}", "bold")))


def trouble_lines(mark: Mark) -> tuple[Line, ...]:
    """An error of the tool itself; other marks have no line."""
    if mark.kind != "trouble":
        return ()
    return (Line((("  ! ", "red"), (safe(mark.text), ""))), BETWEEN)


def call_lines(call: Call) -> tuple[Line, ...]:
    """The block of a leaf module or of a function that is not part of how torch's own leaf modules work."""
    if call.kind == "function" and not is_inner(call):
        return tuple(function_block(call).lines())
    is_leaf = call.module is None or call.module.leaf
    if call.kind == "module" and is_leaf:
        return tuple(module_block(call).lines())
    return ()


def module_block(call: Call) -> Block:
    """The path and the class of a module with its key settings, its inputs and its output."""
    facts = call.module
    if facts is None:
        title: list[Span] = [(f"({safe(call.name)})", "purple")]
        settings: dict[str, Any] = {}
    else:
        title = [(f"{safe(facts.path)} ({safe(facts.type)})".lstrip(), "purple")]
        settings = key_settings(facts)
    sign = " ("
    for name, item in settings.items():
        title += ((f"{sign}{name}: ", "purple"), (value_text(item), "orange"))
        sign = ", "
    if settings:
        title.append((")", "purple"))
    return Block("purple", (*title, *phase_spans(call)), [*inputs(call.args, call.kwargs), outcome(call)])


def function_block(call: Call) -> Block:
    """The block of a function, a method or an operator."""
    if call.operator is not None:
        ink, name, fields = "yellow", f"Tensor.{safe(call.operator)}", operator_inputs(call)
    elif call.name.startswith("torch.Tensor."):
        ink, name = "red", f"Tensor{function_name(call.name)}{brackets(method_arguments(call))}"
        fields = inputs(call.args[:1], {})
    else:
        ink, name = "cyan", function_name(call.name) + brackets(function_arguments(call))
        fields = inputs(
            tuple(item for item in call.args if holds_tensor(item)),
            {key: item for key, item in call.kwargs.items() if holds_tensor(item)},
        )
    place = method_name(call)
    where: Spans = ((f" @ [{place}]", "grey"),) if place is not None else ()
    return Block(ink, ((name, ink), *where, *phase_spans(call)), [*fields, outcome(call)])


def phase_spans(call: Call) -> Spans:
    """The phase of a call that is not part of the forward pass."""
    if call.phase != "forward":
        return ((f" {call.phase}", "grey"),)
    return ()


def operator_inputs(call: Call) -> list[tuple[str, Spans]]:
    """The operands of a binary operator, else the tensor that is indexed or negated."""
    is_index = call.operator is not None and call.operator.startswith("[]")
    if len(call.args) != 2 or is_index:
        return inputs(call.args[:1], {})
    return [(label, operand(item)) for label, item in zip(("Left", "Right"), operands(call), strict=True)]


def operand(item: Any) -> Spans:
    """A tensor, or a plain value in grey."""
    if holds_tensor(item):
        return tuple(spans(item))
    return ((value_text(item), "grey"),)


def method_arguments(call: Call) -> list[str]:
    """The arguments of a method, without the tensor whose method it is."""
    texts = [plain(item) for item in call.args[1:]]
    return texts + [f"{safe(name)}={plain(item)}" for name, item in call.kwargs.items()]


def function_arguments(call: Call) -> list[str]:
    """The arguments of a function; the tensors that come first, and those with names, have a line of their own."""
    first = next((place for place, item in enumerate(call.args) if not holds_tensor(item)), len(call.args))
    end = max((place + 1 for place, item in enumerate(call.args) if item is not None), default=0)
    texts = [plain(item) for item in call.args[first:end]]
    return texts + [f"{safe(name)}={value_text(item)}" for name, item in call.kwargs.items() if is_setting(name, item)]


def is_setting(name: str, item: Any) -> bool:
    """Whether a named argument is shown: not None, not one that torch passes on for itself, and not a tensor."""
    return item is not None and not name.startswith("_") and not holds_tensor(item)


def plain(item: Any) -> str:
    """An argument without ink."""
    if holds_tensor(item):
        return "".join([text for text, _ in spans(item)])
    return value_text(item)


def brackets(texts: list[str]) -> str:
    """The texts in brackets; nothing if there are none."""
    if texts:
        return f"({', '.join(texts)})"
    return ""


def inputs(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[str, Spans]]:
    """The line of the inputs; none when there are none, as for `torch.zeros`."""
    if args and kwargs:
        return [("Input", (("[", ""), *joined(args), COMMA, *named(kwargs, 0), ("]", "")))]
    if kwargs:
        return [("Input", tuple(spans(only(kwargs.values()) if len(kwargs) == 1 else kwargs)))]
    if args:
        return [("Input", tuple(spans(args[0] if len(args) == 1 else list(args))))]
    return []


def only(items: Iterable[Any]) -> Any:
    """The one item there is."""
    (item,) = items
    return item


def outcome(call: Call) -> tuple[str, Spans]:
    """The line of the output, or of the exception."""
    if call.raised is not None:
        return "Raised", ((safe(call.raised), "red"),)
    return "Output", tuple(spans(call.result))


def spans(item: Any, depth: int = 0) -> Iterable[Span]:
    """Tensors by shape and device, at any depth of containers; the rest as grey text."""
    if type(item) is TensorFacts:
        return tensor_spans("ndarray" if item.type == "ndarray" else "Tensor", item.shape, item.device)
    if depth < MOST_DEPTH:
        if isinstance(item, Fields):
            return (("{", ""), *named(item.items, depth), ("}", ""))
        if isinstance(item, dict):
            return (("{", ""), *named(item, depth), ("}", ""))
        if isinstance(item, (tuple, list)):
            inner = tuple(joined(item, depth))
            if len(item) == 1:
                return inner
            return (("[", ""), *inner, ("]", ""))
    return ((safe(item.type) if isinstance(item, Opaque) else value_text(item), "grey"),)


@lru_cache(maxsize=4096)
def tensor_spans(kind: str, shape: tuple[int | str, ...], device: str) -> Spans:
    """A tensor by shape and device."""
    text = f"[{', '.join(map(str, shape))}]"
    return ((f"{kind} ", ""), (safe(text), "blue"), (" @ ", ""), (safe(device), "green"))


def joined(items: Iterable[Any], depth: int = 0) -> Iterator[Span]:
    """Items with commas between them; of many the first ones."""
    for index, item in enumerate(items):
        if index:
            yield COMMA
        if index == MOST_ITEMS:
            yield ("…", "grey")
            return
        yield from spans(item, depth + 1)


def named(items: dict[str, Any], depth: int) -> Iterator[Span]:
    """Items with their names; of many the first ones."""
    for index, (name, item) in enumerate(items.items()):
        if index:
            yield COMMA
        if index == MOST_ITEMS:
            yield ("…", "grey")
            return
        yield (f"{value_text(name)}: ", "")
        yield from spans(item, depth + 1)
