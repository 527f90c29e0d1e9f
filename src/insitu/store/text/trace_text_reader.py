"""Reads a trace from its text. An error names the line; nothing in the text is executed."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast, get_args

from insitu.errors import StoreError
from insitu.store.format_version import TEXT_VERSION, check_version
from insitu.store.text.line_parser import GIVEN, LineError, LineParser
from insitu.store.text.trace_text_writer import FOOT, HEAD, KEYWORDS, function_of
from insitu.trace.collector import pause_collector
from insitu.trace.event import (
    Call,
    Change,
    Event,
    Kind,
    Mark,
    MarkKind,
    Mode,
    ModuleFacts,
    Phase,
    TensorFacts,
    Variable,
)
from insitu.trace.trace import Trace

_BEGINNINGS = (*KEYWORDS, "mark", "let")
# The errors that Python values raise when they are built from damaged text.
_ERRORS = (ValueError, TypeError, AttributeError, SyntaxError, OverflowError, RecursionError, MemoryError)


def from_text(text: str) -> Trace:
    """The trace that a text holds; a StoreError that names the line if it holds none.

    >>> trace = from_text("insitu trace 1\\nabout {}\\nF.relu(1.5, %:f32[3])\\nend\\n")
    >>> trace.calls[0].name, trace.calls[0].args
    ('torch.nn.functional.relu', (1.5, f32[3]))
    """
    lines = text.replace("\r\n", "\n").split("\n")
    head = re.fullmatch(r"insitu trace (\d{1,9})", lines[0])
    if head is None:
        raise StoreError(f"line 1: it does not begin with {HEAD!r}, as a trace in text form does")
    check_version("trace", int(head[1]), TEXT_VERSION)
    if lines[-2:] != [FOOT, ""]:
        raise StoreError(f"line {len(lines)}: it is cut short: the last line is not {FOOT!r}")
    with pause_collector():
        return TraceTextReader().trace(lines[1:-2])


def read(path: Path) -> Trace:
    """The trace in a file."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise StoreError("the file does not exist") from None
    except OSError as error:
        raise StoreError(error.strerror or str(error)) from None
    try:
        return from_text(content.decode())
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise StoreError(f"line {line}: it is not text in UTF-8: {error.reason}") from None


@dataclass(slots=True)
class _OpenCall:
    """A call of which the end is still to come."""

    call: Call
    line: LineParser
    number: int
    text: str


class TraceTextReader:
    """Reads line by line; the result of a call is read after the events inside the call."""

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._calls: dict[int | None, Call] = {}
        self._open: list[_OpenCall] = []
        self._tensors: dict[str, TensorFacts] = {}
        self._count = 0
        self._producer: int | None = None
        self._modules: dict[tuple[str, str, str], ModuleFacts] = {}
        self._known: dict[tuple[str, str], ModuleFacts] = {}

    def trace(self, lines: list[str]) -> Trace:
        """The trace of the lines between the first and the last one."""
        number, text = 2, lines[0] if lines else ""
        try:
            about = self._about(text)
            for number, text in enumerate(lines[1:], 3):
                # An error in this line must not be blamed on the calls that it ends: check it before they end.
                depth, line = self._depth(text), self._line(text)
                self._close(depth)
                self._read(line, text, number)
        except _ERRORS as error:
            raise _located(number, text, error) from None
        self._close(0)
        return Trace(self._events, about=about)

    def _line(self, text: str) -> LineParser:
        line = LineParser(text.lstrip(" "), self._tensor)
        if line.called is None and not line.sees(*_BEGINNINGS):
            raise LineError("it is not an event")
        return line

    def _about(self, text: str) -> dict[str, Any]:
        line = LineParser(text, self._tensor)
        line.expect("about")
        about = line.value()
        if type(about) is not dict:
            raise LineError("it does not say what the trace is about")
        line.finish()
        return about

    def _depth(self, text: str) -> int:
        spaces = len(text) - len(text.lstrip(" "))
        if spaces % 2 or spaces // 2 > len(self._open):
            raise LineError(f"it is indented by {spaces} spaces, and no call before it is {spaces - 2} spaces deep")
        return spaces // 2

    def _close(self, depth: int) -> None:
        """End the calls that the next line is not inside of."""
        while len(self._open) > depth:
            ended = self._open.pop()
            try:
                self._end(ended.call, ended.line)
            except _ERRORS as error:
                raise _located(ended.number, ended.text, error) from None

    def _read(self, line: LineParser, text: str, number: int) -> None:
        around = self._open[-1].call if self._open else None
        event = self._event(line, len(self._events), around)
        if around is not None:
            event.parent, event.step, event.rank = around.id, around.step, around.rank
        if line.takes("["):
            line.many(lambda: self._flag(event, line), "]")
        self._events.append(event)
        if isinstance(event, Call):
            self._calls[event.id] = event
            self._open.append(_OpenCall(event, line, number, text))
        else:
            line.finish()

    def _event(self, line: LineParser, number: int, around: Call | None) -> Event:
        if line.called is None and line.takes("mark"):
            kind = cast(MarkKind, line.expect(*get_args(MarkKind)))
            return Mark(number, None, kind, line.string() or "")
        if line.called is None and line.takes("let"):
            return self._variable(line, number)
        return self._call(line, number, around)

    def _variable(self, line: LineParser, number: int) -> Variable:
        name, changes = line.name(), list[Any]()
        if line.takes("{"):
            line.many(lambda: changes.append(line.expect(*get_args(Change))), "}")
        line.expect("=")
        return Variable(number, None, name, line.value(), tuple(changes))

    def _call(self, line: LineParser, number: int, around: Call | None) -> Call:
        call = Call(number, None, "function", "")
        if around is not None:
            call.module, call.phase = around.module, around.phase
        if line.called is not None:
            call.name, call.operator = line.called
        else:
            self._read_callee(line, call)
        call.args, call.kwargs = line.arguments()
        return call

    def _read_callee(self, line: LineParser, call: Call) -> None:
        """Read what a call is of, after the keyword."""
        call.kind = cast(Kind, KEYWORDS[line.expect(*KEYWORDS)])
        if call.kind != "module":
            call.name = line.name()
            return
        path, call.name = line.name(), line.name()
        settings = line.named("}") if line.takes("{") else {}
        call.module = self._module(path, call.name, settings)

    def _module(self, path: str, name: str, settings: dict[str, Any]) -> ModuleFacts:
        # No module is a leaf, so that no view leaves out the calls inside.
        found = self._modules.get((path, name, repr(settings)))
        if found is None:
            found = ModuleFacts(path, name, settings=settings, leaf=False)
            self._modules[path, name, repr(settings)] = found
            self._known.setdefault((path, name), found)
        return found

    def _flag(self, event: Event, line: LineParser) -> None:
        if not isinstance(event, Call):
            setattr(event, line.expect(*_NUMBER_FLAGS), line.integer())
            return
        flag = line.expect(*_NUMBER_FLAGS, *_CALL_FLAGS, *_PHASES, *_MODES)
        if flag in _NUMBER_FLAGS:
            setattr(event, flag, line.integer())
        elif flag in _CALL_FLAGS:
            field, read = _CALL_FLAGS[flag]
            setattr(event, field, read(self, line))
        elif flag in _MODES:
            event.mode = cast(Mode, flag)
        else:
            event.phase = cast(Phase, flag)

    def _module_around(self, line: LineParser) -> ModuleFacts:
        path, name = line.name(), line.name()
        return self._known.get((path, name)) or self._module(path, name, {})

    def _no_module(self, line: LineParser) -> None:
        return None

    def _forward(self, line: LineParser) -> int:
        """The number of the forward call of a backward one, which the line names by a result of that call."""
        result = line.value()
        if not isinstance(result, TensorFacts) or result.producer is None:
            raise LineError("'of' must be followed by a tensor that a call produced")
        return function_of(self._calls[result.producer], self._calls).id

    def _end(self, call: Call, line: LineParser) -> None:
        self._producer = call.id
        if line.takes("->"):
            call.result = line.value()
        if line.takes("raised"):
            call.raised, call.message = line.name(), line.string()
        if line.takes("makes"):
            line.value()
            while line.takes(","):
                line.value()
        line.finish()
        self._producer = None

    def _tensor(self, name: str, facts: TensorFacts | None) -> TensorFacts:
        if facts is None:
            if name not in self._tensors:
                raise LineError(f"%{name} is not the name of a tensor before this")
            return self._tensors[name]
        facts.id, self._count = self._count, self._count + 1
        is_given = facts.producer == GIVEN
        facts.producer = None if is_given else self._producer
        if name:
            self._tensors[name] = facts
        return facts


# What may be in the brackets after the arguments: a number of any event; for a call, a field and how it is read.
_NUMBER_FLAGS = ("step", "rank")
_PHASES = get_args(Phase)
_MODES = get_args(Mode)
_CALL_FLAGS: dict[str, tuple[str, Callable[[TraceTextReader, LineParser], Any]]] = {
    "in": ("module", TraceTextReader._module_around),
    "outside": ("module", TraceTextReader._no_module),
    "of": ("forward", TraceTextReader._forward),
}


def _located(number: int, text: str, error: BaseException) -> StoreError:
    why = str(error) if isinstance(error, LineError) else repr(error)
    return StoreError(f"line {number}: {why}: {text.strip()[:80]!r}")
