"""The blocks of Tracy NN: leaf modules and functions, one after the other, while the model runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

from insitu.trace.event import Call, Event, Fields, Mark, Opaque, TensorFacts, Variable
from insitu.view.line import Line, Span
from insitu.view.name import function_name, is_inner, is_method, key_settings, method, operands
from insitu.view.value import MOST_DEPTH, MOST_ITEMS, holds_tensor, safe, value

BETWEEN = Line((("  │", "grey"),))
MIDDLE: Span = ("  ├─", "grey")
LAST: Span = ("  └─", "grey")
COMMA: Span = (", ", "")

Labelled = tuple[str, tuple[Span, ...]]


class Classic:
    """Shows each leaf module and each function as a block, at once; with a name, between two headings.

    Watched Python functions and variables have no block.
    """

    def __init__(self, *, name: str | None = None) -> None:
        self._name = safe(name) if name is not None else None
        self._begun = name is None

    def begin(self) -> Iterable[Line]:
        """The heading, once."""
        if self._begun:
            return ()
        self._begun = True
        return (self._heading("STARTED"), BETWEEN)

    def __call__(self, event: Event) -> Iterable[Line]:
        """The block of this event, if it is one that has a block."""
        lines: tuple[Line, ...] = ()
        if isinstance(event, Mark):
            lines = (Line((("  ! ", "red"), (safe(event.text), ""))), BETWEEN) if event.kind == "trouble" else ()
        elif isinstance(event, Variable):
            return ()
        elif event.kind == "function" and not is_inner(event):
            lines = tuple(_block(*_function(event)))
        elif event.kind == "module" and (event.module is None or event.module.leaf):
            lines = tuple(_block(*_module(event)))
        return (*self.begin(), *lines) if not self._begun else lines

    def finish(self) -> Iterable[Line]:
        """The closing heading."""
        return () if self._name is None else (*self.begin(), self._heading("COMPLETE"))

    def _heading(self, word: str) -> Line:
        return Line((("  ", ""), ("●", "green"), (" ", ""), (f"TRACING {self._name} {word}", "bold")))


def _block(ink: str, title: tuple[Span, ...], labelled: list[Labelled]) -> Iterator[Line]:
    yield Line((("  ", ""), ("●", ink), (" ", ""), *title))
    last = len(labelled) - 1
    for index, (label, spans) in enumerate(labelled):
        yield Line((LAST if index == last else MIDDLE, (f" {label}: ", ""), *spans))
    yield BETWEEN


def _module(call: Call) -> tuple[str, tuple[Span, ...], list[Labelled]]:
    facts = call.module
    path, kind = (safe(facts.path), safe(facts.type)) if facts is not None else ("", safe(call.name))
    title: list[Span] = [(f"{path} ({kind})" if path else f"({kind})", "purple")]
    sign = " ("
    for name, item in (key_settings(facts) if facts is not None else {}).items():
        title += ((f"{sign}{name}: ", "purple"), (value(item), "orange"))
        sign = ", "
    if sign == ", ":
        title.append((")", "purple"))
    if call.phase != "forward":
        title.append((f" {call.phase}", "grey"))
    return "purple", tuple(title), [*_input(call.args, call.kwargs), _outcome(call)]


def _function(call: Call) -> tuple[str, tuple[Span, ...], list[Labelled]]:
    """The ink, the title and the labelled lines of a function, a method or an operator."""
    args = call.args
    if call.operator is not None:
        ink, name = "yellow", f"Tensor.{safe(call.operator)}"
        binary = len(args) == 2 and not call.operator.startswith("[]")
        left_right = zip(("Left", "Right"), operands(call), strict=True) if binary else ()
        inputs = [(label, tuple(_operand(item))) for label, item in left_right] or _input(args[:1], {})
    elif is_method(call):
        ink, name = "red", f"Tensor{function_name(call.name)}{_brackets(_method_arguments(call))}"
        inputs = _input(args[:1], {})
    else:
        found = tuple(item for item in args if holds_tensor(item))
        named = {key: item for key, item in call.kwargs.items() if holds_tensor(item)}
        ink, name = "cyan", function_name(call.name) + _brackets(_function_arguments(call))
        inputs = _input(found, named)
    title: tuple[Span, ...] = ((name, ink),)
    place = method(call)
    if place is not None:
        title = (*title, (f" @ [{place}]", "grey"))
    if call.phase != "forward":
        title = (*title, (f" {call.phase}", "grey"))
    return ink, title, [*inputs, _outcome(call)]


def _method_arguments(call: Call) -> list[str]:
    texts = [_plain(item) for item in call.args[1:]]
    return texts + [f"{safe(name)}={_plain(item)}" for name, item in call.kwargs.items()]


def _function_arguments(call: Call) -> list[str]:
    """The arguments of a function; the tensors that come first, and those with names, have a line of their own."""
    first = next((place for place, item in enumerate(call.args) if not holds_tensor(item)), len(call.args))
    end = max((place + 1 for place, item in enumerate(call.args) if item is not None), default=0)
    texts = [_plain(item) for item in call.args[first:end]]
    named = [(name, item) for name, item in call.kwargs.items() if not (item is None or name.startswith("_"))]
    return texts + [f"{safe(name)}={value(item)}" for name, item in named if not holds_tensor(item)]


def _plain(item: Any) -> str:
    return "".join([text for text, _ in _spans(item)]) if holds_tensor(item) else value(item)


def _brackets(texts: list[str]) -> str:
    return f"({', '.join(texts)})" if texts else ""


def _input(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Labelled]:
    """The line of the inputs; none when there are none, as for `torch.zeros`."""
    if not args and not kwargs:
        return []
    if not kwargs:
        return [("Input", tuple(_spans(args[0] if len(args) == 1 else list(args))))]
    if not args:
        return [("Input", tuple(_spans(kwargs if len(kwargs) > 1 else next(iter(kwargs.values())))))]
    return [("Input", (("[", ""), *_joined(args), COMMA, *_named(kwargs, 0), ("]", "")))]


def _outcome(call: Call) -> Labelled:
    if call.raised is not None:
        return "Raised", ((safe(call.raised), "red"),)
    return "Output", tuple(_spans(call.result))


def _operand(item: Any) -> Iterable[Span]:
    return _spans(item) if holds_tensor(item) else ((value(item), "grey"),)


def _spans(item: Any, depth: int = 0) -> Iterable[Span]:
    """Tensors by shape and device, however they are contained; the rest as grey text."""
    if type(item) is TensorFacts:
        return _tensor("ndarray" if item.type == "ndarray" else "Tensor", item.shape, item.device)
    if depth < MOST_DEPTH:
        if isinstance(item, (tuple, list)):
            inner = list(_joined(item, depth))
            return inner if len(item) == 1 else (("[", ""), *inner, ("]", ""))
        if isinstance(item, (dict, Fields)):
            return (("{", ""), *_named(item.items if isinstance(item, Fields) else item, depth), ("}", ""))
    return ((safe(item.type) if isinstance(item, Opaque) else value(item), "grey"),)


@lru_cache(maxsize=4096)
def _tensor(kind: str, shape: tuple[int | str, ...], device: str) -> tuple[Span, ...]:
    text = f"[{', '.join(map(str, shape))}]"
    return ((f"{kind} ", ""), (safe(text), "blue"), (" @ ", ""), (safe(device), "green"))


def _joined(items: Iterable[Any], depth: int = 0) -> Iterator[Span]:
    for index, item in enumerate(items):
        if index:
            yield COMMA
        if index == MOST_ITEMS:
            yield ("…", "grey")
            return
        yield from _spans(item, depth + 1)


def _named(items: dict[str, Any], depth: int) -> Iterator[Span]:
    for index, (name, item) in enumerate(items.items()):
        if index:
            yield COMMA
        if index == MOST_ITEMS:
            yield ("…", "grey")
            return
        yield (f"{value(name)}: ", "")
        yield from _spans(item, depth + 1)
