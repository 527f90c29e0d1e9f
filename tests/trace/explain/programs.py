"""Failures made by hand: a source, the calls that were recorded in it, and the line that failed. No torch is needed."""

from __future__ import annotations

import linecache
from collections.abc import Iterator
from dataclasses import dataclass, field
from textwrap import dedent
from types import CodeType
from typing import Any

from insitu.trace.event import Call, TensorFacts
from insitu.trace.explain.failure import Failure, FrameSnapshot, LiveTensors
from insitu.trace.explain.failure_history import CalleeFacts, FailureHistory, Instruction


def tensor(*shape: int, requires_grad: bool = False, dtype: str = "f32") -> TensorFacts:
    return TensorFacts(0, shape, dtype, "cpu", requires_grad)


@dataclass
class PastCall:
    """A recorded call."""

    callee: CalleeFacts
    text: str = ""  # its expression in the source; empty if torch made the call
    args: tuple[Any, ...] = ()
    result: Any = None
    parent: int | None = None
    kwargs: dict[str, Any] = field(default_factory=dict)
    raised: bool = False
    makes_node: int | None = None
    backward_node: int | None = None


class Source:
    """A source text that is known to linecache under a file name of its own."""

    def __init__(self, text: str, file: str = "/home/user/model.py") -> None:
        self.file, self.text = file, dedent(text).lstrip("\n")
        linecache.cache[file] = (len(self.text), None, self.text.splitlines(keepends=True), file)
        self.code = compile(self.text, file, "exec", dont_inherit=True)

    def at(self, text: str) -> Instruction:
        """The instruction of an expression: its last one that stands exactly there."""
        line = next(index for index, each in enumerate(self.text.splitlines(), 1) if text in each)
        start = self.text.splitlines()[line - 1].index(text)
        wanted = (line, line, start, start + len(text))
        found = [(code, lasti) for code in _codes(self.code) for lasti in _instructions(code, wanted)]
        return found[-1]


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _instructions(code: CodeType, wanted: tuple[int, int, int, int]) -> list[int]:
    return [index * 2 for index, position in enumerate(code.co_positions()) if position == wanted]


class WrittenHistory(FailureHistory):
    """A history that a test has written; the facts of a tensor are its token."""

    def __init__(self, source: Source, *calls: PastCall) -> None:
        self.source, self.calls = source, calls

    def before(self, end: int) -> Iterator[int]:
        return iter(range(min(end, len(self.calls))))

    def after(self, at: int) -> int:
        return at + 1

    def parent(self, at: int) -> int | None:
        return self.calls[at].parent

    def callee_facts(self, at: int) -> CalleeFacts:
        return self.calls[at].callee

    def args(self, at: int) -> list[Any]:
        return list(self.calls[at].args)

    def kwargs(self, at: int) -> dict[str, Any]:
        return self.calls[at].kwargs

    def result(self, at: int) -> Any:
        return self.calls[at].result

    def has_raised(self, at: int) -> bool:
        return self.calls[at].raised

    def frame(self, at: int) -> Instruction | None:
        return self.source.at(self.calls[at].text) if self.calls[at].text else None

    def backward_node(self, at: int) -> int | None:
        return self.calls[at].backward_node

    def maker(self, node: int, end: int) -> int | None:
        return next((at for at in self.before(end) if self.calls[at].makes_node == node), None)

    def is_tensor(self, item: Any) -> bool:
        return isinstance(item, TensorFacts)

    def is_array(self, tensor: TensorFacts) -> bool:
        return tensor.type == "ndarray"

    def producer(self, tensor: TensorFacts) -> int | None:
        return next((at for at, call in enumerate(self.calls) if call.result is tensor), None)

    def plain(self, item: Any) -> Any:
        return item

    def call(self, at: int) -> Call:
        past = self.calls[at]
        return Call(at, past.parent, "function", past.callee.name, args=past.args, kwargs=past.kwargs)


def function(name: str) -> CalleeFacts:
    return CalleeFacts("function", name, name, runs_backward=name.endswith("backward"))


def module(path: str, type: str) -> CalleeFacts:
    return CalleeFacts("module", "", path or type, type)


def in_frame(source: Source, text: str, message: str, /, *calls: PastCall, **names: Any) -> Failure:
    """A failure in the user's frame, at an expression, with the values of the frame's names."""
    code, lasti = source.at(text)
    frame = FrameSnapshot(code, lasti, names)
    history = WrittenHistory(source, *calls)
    return Failure("RuntimeError", message, history, end=len(calls), own=frame, inner=frame)


def in_call(source: Source, message: str, /, *calls: PastCall, live: LiveTensors | None = None) -> Failure:
    """A failure of the last recorded call."""
    history = WrittenHistory(source, *calls)
    return Failure("RuntimeError", message, history, len(calls) - 1, len(calls), live=live or LiveTensors())
