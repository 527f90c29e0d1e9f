"""A trace as text, for code review and version control: one line for each call, the calls inside it indented.

    insitu trace 1
    about {'subject': 'Net', 'level': 'functions'}
    module '' Net(%input:f32[2, 3]) -> %fc.linear
      module fc Linear{in_features=3, out_features=1}(%input) -> %fc.linear
        F.linear(%input, %:Parameter f32[1, 3]{grad}, None) -> %fc.linear:f32[2, 1]{grad, min -0.5, max 1.25, …}
    end

Two runs of a program give the same text, on any day and machine: there are no times, files, lines, threads, strides
and histograms in it. A tensor has a name from the call that made it, and a name means what it last stood for: the
arguments of a call are read when it begins, its result when it ends. So a module that is called again makes the same
names again, and a call more changes few lines besides its own.

Statistics of floats are rounded by less than half of what `torch.testing` allows: f32 to 7 digits of the largest value,
or of the root mean square, f64 to 9, shorter ones to 5. So a mean that is zero but for rounding is 0. What stands in
`[]` after the arguments is not as in the call around.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any

from insitu.store.format_version import TEXT_VERSION
from insitu.store.text.value_text import ValueWriter, name_text
from insitu.trace.collector import collector_paused
from insitu.trace.event import Call, Event, Mark, TensorFacts, Variable, tensors
from insitu.trace.operation import operation
from insitu.trace.trace import Trace

HEAD, FOOT = f"insitu trace {TEXT_VERSION}", "end"
KEYWORDS = {"module": "module", "op": "aten", "def": "python"}
SHORT = {"F.": "torch.nn.functional.", ".": "torch.Tensor."}
_WORDS = {kind: word for word, kind in KEYWORDS.items()}
RESERVED = frozenset({*KEYWORDS, "let", "mark", "about", FOOT})
_ABOUT = ("subject", "level")

# An event with its depth in the tree; each call comes twice, when it begins and when it ends.
Moment = tuple[Event, int, bool]


def to_text(trace: Trace) -> str:
    """The trace as text; `insitu.store.text.trace_text_reader.from_text` reads it.

    >>> print(to_text(Trace([Call(0, None, "function", "torch.nn.functional.relu", args=(1.5, "a"))])))
    insitu trace 1
    about {}
    F.relu(1.5, 'a')
    end
    """
    with collector_paused():
        about = {key: trace.about[key] for key in _ABOUT if isinstance(trace.about.get(key), str)}
        if (missing := trace.missing) is not None:
            about["missing"] = replace(missing, calls=()).plain()  # calls have no ids here
        return "\n".join([HEAD, f"about {about!r}", *_Writer(trace).lines(), FOOT, ""])


def function_text(name: str) -> str:
    """The name of a torch function as people write it.

    >>> function_text("torch.nn.functional.relu"), function_text("torch.Tensor.view"), function_text("module")
    ('F.relu', '.view', "'module'")
    """
    for short, whole in SHORT.items():
        if name.startswith(whole) and name_text(name) == name:
            return short + name[len(whole) :]
    # Only a bare name is spelled out when it is read.
    return repr(name) if name in RESERVED or name.startswith(tuple(SHORT)) else name_text(name)


def _moments(trace: Trace) -> Iterator[Moment]:
    """What happens in a trace, each call with all that lies in it: other threads do not get between."""
    waiting: list[Moment] = [(root, 0, False) for root in reversed(trace.roots)]
    while waiting:
        event, depth, ends = moment = waiting.pop()
        yield moment
        if isinstance(event, Call) and not ends:
            waiting.append((event, depth, True))
            waiting += [(child, depth + 1, False) for child in reversed(trace.children(event))]


def _held(event: Event, ends: bool) -> Any:
    """What is written of an event at a moment."""
    if isinstance(event, Call):
        return event.result if ends else (event.args, event.kwargs)
    return event.value if isinstance(event, Variable) else None


class _Uses:
    """Where tensors are met in a trace: who made them, how often they are met, and when for the last time."""

    def __init__(self, moments: list[Moment]) -> None:
        self._calls = {event.id: event for event, _, ends in moments if ends and isinstance(event, Call)}
        self.made: defaultdict[int, list[TensorFacts]] = defaultdict(list)
        self.count: defaultdict[int, int] = defaultdict(int)
        self.last: dict[int, int] = {}
        for position, (event, _, ends) in enumerate(moments):
            for facts in tensors(_held(event, ends)):
                if id(facts) not in self.last and facts.producer is not None:
                    self.made[facts.producer].append(facts)
                self._use(facts, position)
        for position, (event, _, ends) in enumerate(moments):
            if not ends and (made := self.forward(event)) is not None:
                self._use(made, max(position, self.last[id(made)]))

    def _use(self, facts: TensorFacts, position: int) -> None:
        self.last[id(facts)] = position
        self.count[id(facts)] += 1

    def forward(self, event: Event) -> TensorFacts | None:
        """A tensor that stands for the forward call of a backward one: the first of its results."""
        call = self._calls.get(event.forward) if isinstance(event, Call) and event.forward is not None else None
        if call is None:
            return None
        result = next(chain(tensors(call.result), self.made.get(call.id, ())), None)
        made = self._calls.get(result.producer) if result is not None and result.producer is not None else None
        return result if made is not None and function_of(made, self._calls) is call else None


def function_of(call: Call, calls: Mapping[int, Event]) -> Call:
    """The outermost function of torch in which a call lies; itself if it lies in none."""
    while call.parent is not None and isinstance(around := calls.get(call.parent), Call) and around.kind == "function":
        call = around
    return call


class _Names:
    """The names of tensors: a label, and a number if the same call of a module has the label already.

    A name is taken again when nothing that follows refers to what it stood for.
    """

    def __init__(self, uses: _Uses) -> None:
        self._uses = uses
        self._numbers: defaultdict[tuple[int, str], int] = defaultdict(int)
        self._taken: dict[str, int] = {}
        self._names: dict[int, str] = {}

    def get(self, facts: TensorFacts) -> str | None:
        """The name of a tensor that has one."""
        return self._names.get(id(facts))

    def add(self, facts: TensorFacts, label: str, scope: int, position: int) -> str:
        """Name a tensor that is met for the first time."""
        while True:
            number = self._numbers[scope, label] = self._numbers[scope, label] + 1
            name = label if number == 1 else f"{label}#{number}"
            if self._taken.get(name, -1) < position:
                break
        self._taken[name] = self._uses.last.get(id(facts), position)
        self._names[id(facts)] = name
        return name


class _Writer:
    """Writes the lines of a trace. The line of a call is begun when it begins and gets its result when it ends."""

    def __init__(self, trace: Trace) -> None:
        self._moments = list(_moments(trace))
        self._uses = _Uses(self._moments)
        self._names = _Names(self._uses)
        self._lines: list[str] = []
        self._open: list[tuple[Call, int]] = []
        self._position = 0
        self._argument: str | None = None
        self._made: set[int] = set()  # the tensors that were written as what their producer returned
        self._values = ValueWriter(self._tensor)

    def lines(self) -> list[str]:
        """One line for each event."""
        for position, (event, depth, ends) in enumerate(self._moments):
            self._position = position
            if ends and isinstance(event, Call):
                _, line = self._open.pop()
                self._lines[line] += self._outcome(event)
                continue
            head = self._head(event) if isinstance(event, Call) else self._single(event)
            self._lines.append("  " * depth + head + self._flags(event))
            if isinstance(event, Call):
                self._open.append((event, len(self._lines) - 1))
        return self._lines

    def _single(self, event: Mark | Variable) -> str:
        if isinstance(event, Mark):
            return f"mark {event.kind} {event.text!r}"
        changes = f" {{{', '.join(event.changes)}}}" if event.changes else ""
        return f"let {name_text(event.name)}{changes} = {self._values.text(event.value)}"

    def _head(self, call: Call) -> str:
        texts = [self._values.text(item) for item in call.args]
        for name, item in call.kwargs.items():
            self._argument = name
            texts.append(f"{name_text(name)}={self._values.text(item)}")
        self._argument = None
        return f"{self._called(call)}({', '.join(texts)})"

    def _called(self, call: Call) -> str:
        if call.kind == "function":
            symbol = repr(call.operator) if " " in (call.operator or "") else call.operator
            return function_text(call.name) + (f" {symbol}" if symbol is not None else "")
        if call.kind != "module":
            return f"{_WORDS[call.kind]} {name_text(call.name)}"
        settings = self._values.named(call.module.settings) if call.module is not None else ""
        return f"module {name_text(call.path)} {name_text(call.name)}" + (f"{{{settings}}}" if settings else "")

    def _outcome(self, call: Call) -> str:
        text = f" -> {self._values.text(call.result)}" if call.result is not None else ""
        if call.raised is not None:
            text += f" raised {name_text(call.raised)}" + (f" {call.message!r}" if call.message is not None else "")
        # What it changed but does not return, as `x[0] = 1` does.
        more = [facts for facts in self._uses.made.get(call.id, ()) if self._names.get(facts) is None]
        return text + (f" makes {', '.join(map(self._tensor, more))}" if more else "")

    def _tensor(self, facts: TensorFacts) -> str:
        """The name of a tensor; where it is met for the first time, what it is too."""
        name = self._names.get(facts)
        if name is not None:
            return f"%{name}"
        event, _, ends = self._moments[self._position]
        given = ["given"] if ends and facts.producer != event.id else []
        if ends and not given:
            self._made.add(id(facts))
        name = ""  # one that is given, and never met again, needs none
        if ends or self._uses.count[id(facts)] > 1:
            name = self._names.add(facts, self._label(facts, event, ends), self._scope(event), self._position)
        return f"%{name}:{self._values.facts(facts, *given, stats=not _is_uninitialised(event))}"

    def _label(self, facts: TensorFacts, event: Event, ends: bool) -> str:
        if not isinstance(event, Call):
            return _label("", event.name if isinstance(event, Variable) else event.kind)
        if not ends:
            return _label(event.path, self._argument or ("param" if facts.type == "Parameter" else "input"))
        return _label(event.path, "" if event.kind == "module" and event.path else event.name)

    def _scope(self, event: Event) -> int:
        """The call of a module in which an event lies: in each, names are counted anew. At the top each step does."""
        inner = (call.id for call, _ in reversed(self._open) if call.kind == "module" and call is not event)
        return next(inner, -1 - event.step)

    def _flags(self, event: Event) -> str:
        """What of an event is not as in the call around it."""
        around = self._open[-1][0] if self._open else None
        flags = [f"step {event.step}"] if event.step != (around.step if around else 0) else []
        flags += [f"rank {event.rank}"] if event.rank != (around.rank if around else 0) else []
        if isinstance(event, Call):
            flags += [event.phase] if event.phase != (around.phase if around else "forward") else []
            if event.kind != "module" and event.module is not (around.module if around else None):
                module = event.module
                flags.append(
                    f"in {name_text(module.path)} {name_text(module.type)}" if module is not None else "outside"
                )
            made = self._uses.forward(event)
            flags += [f"of %{self._names.get(made)}"] if made is not None and id(made) in self._made else []
        return f" [{', '.join(flags)}]" if flags else ""


def _is_uninitialised(event: Event) -> bool:
    """Whether it is the call of `torch.empty` or the like: what is in the memory is another thing each time."""
    return isinstance(event, Call) and operation(event.kind, event.name).is_uninitialized


def _label(path: str, name: str) -> str:
    """What a tensor is called for: the path of the module, and the function without what stands around its name.

    >>> _label("h.0", "torch.Tensor.__getitem__"), _label("", "aten.mm.default"), _label("my block", "bias")
    ('h.0.getitem', 'mm', 'my_block.bias')
    """
    parts = name.removesuffix(".__get__").split(".")
    last = parts[-2] if len(parts) == 3 and parts[0] == "aten" else parts[-1]
    if last.startswith("__") and last.endswith("__"):
        last = last.strip("_") or last
    return re.sub(r"[^\w.]", "_", f"{path}.{last}" if path and last else path or last) or "_"
