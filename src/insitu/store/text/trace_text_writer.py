"""A trace as text, for code review and version control: one line for each call, the calls inside it indented.

    insitu trace 1
    about {'subject': 'Net', 'level': 'functions'}
    module '' Net(%input:f32[2, 3]) -> %fc.linear
      module fc Linear{in_features=3, out_features=1}(%input) -> %fc.linear
        F.linear(%input, %:Parameter f32[1, 3]{grad}, None) -> %fc.linear:f32[2, 1]{grad, min -0.5, max 1.25, …}
    end

Two runs of a program give the same text, on any day and machine: there are no times, files, lines, threads, strides
and histograms in it. A tensor has a name from the call that made it, and a name means the tensor that had it last: the
arguments of a call are read when it begins, its result when it ends. So a module that is called again has the same
names again, and an additional call changes few other lines.

Statistics of floats are rounded by less than half of what `torch.testing` allows: f32 to 7 digits of the largest value,
or of the root mean square, f64 to 9, shorter ones to 5. So a mean that is zero but for rounding is 0. The brackets
`[]` after the arguments hold the facts that differ from those of the call around.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from insitu.store.format_version import TEXT_VERSION
from insitu.store.text.value_text import ValueWriter, name_text
from insitu.trace.collector import pause_collector
from insitu.trace.event import Call, Event, Mark, TensorFacts, Variable, tensors
from insitu.trace.operation import operation
from insitu.trace.trace import Trace

HEAD, FOOT = f"insitu trace {TEXT_VERSION}", "end"
KEYWORDS = {"module": "module", "op": "aten", "def": "python"}
SHORT = {"F.": "torch.nn.functional.", ".": "torch.Tensor."}
_WORDS = {kind: word for word, kind in KEYWORDS.items()}
RESERVED = frozenset({*KEYWORDS, "let", "mark", "about", FOOT})
_OVERLOAD = re.compile(r"aten\.([^.]*)\.[^.]*")
_ABOUT = ("subject", "level")

_INPUT_LABELS = {"Parameter": "param"}  # by the type of the tensor
_TOP = Call(-1, None, "function", "")  # what surrounds the outermost calls


@dataclass(frozen=True, slots=True)
class TextMoment:
    """An event with its depth in the tree; each call has two moments, its begin and its end."""

    event: Event
    depth: int
    is_end: bool

    @property
    def value(self) -> Any:
        """The values of the event that are written at this moment."""
        event = self.event
        if isinstance(event, Mark):
            return None
        if isinstance(event, Variable):
            return event.value
        if self.is_end:
            return event.result
        return (event.args, event.kwargs)


def to_text(trace: Trace) -> str:
    """The trace as text; `insitu.store.text.trace_text_reader.from_text` reads it.

    >>> print(to_text(Trace([Call(0, None, "function", "torch.nn.functional.relu", args=(1.5, "a"))])))
    insitu trace 1
    about {}
    F.relu(1.5, 'a')
    end
    """
    with pause_collector():
        about = {key: trace.about[key] for key in _ABOUT if isinstance(trace.about.get(key), str)}
        if (missing := trace.missing) is not None:
            about["missing"] = replace(missing, calls=()).plain()  # calls have no ids here
        return "\n".join([HEAD, f"about {about!r}", *_TraceWriter(trace).lines(), FOOT, ""])


def function_text(name: str) -> str:
    """The name of a torch function as people write it.

    >>> function_text("torch.nn.functional.relu"), function_text("torch.Tensor.view"), function_text("module")
    ('F.relu', '.view', "'module'")
    """
    for short, whole in SHORT.items():
        if name.startswith(whole) and name_text(name) == name:
            return short + name[len(whole) :]
    # Only a bare name is spelled out when it is read.
    if name in RESERVED or name.startswith(tuple(SHORT)):
        return repr(name)
    return name_text(name)


def _moments(trace: Trace) -> Iterator[TextMoment]:
    """The moments of a trace, each call with all that is inside it: other threads do not come between."""
    waiting = [TextMoment(root, 0, False) for root in reversed(trace.roots)]
    while waiting:
        moment = waiting.pop()
        yield moment
        if isinstance(moment.event, Call) and not moment.is_end:
            waiting.append(TextMoment(moment.event, moment.depth, True))
            inside = reversed(trace.children(moment.event))
            waiting += [TextMoment(child, moment.depth + 1, False) for child in inside]


class _Uses:
    """Where the tensors of a trace occur: the call that made them, how often they occur, and where the last time."""

    def __init__(self, moments: list[TextMoment]) -> None:
        calls = [moment.event for moment in moments if isinstance(moment.event, Call)]
        self._calls: dict[int | None, Call] = {call.id: call for call in calls}
        self.outputs: defaultdict[int, list[TensorFacts]] = defaultdict(list)  # by the call that made them
        self.count: defaultdict[int, int] = defaultdict(int)
        self.last: dict[int, int] = {}
        for position, moment in enumerate(moments):
            for facts in tensors(moment.value):
                if id(facts) not in self.last and facts.producer is not None:
                    self.outputs[facts.producer].append(facts)
                self._use(facts, position)
        self._use_forwards(moments)

    def _use_forwards(self, moments: list[TextMoment]) -> None:
        """Count the tensors that name the forward calls of backward ones."""
        for position, moment in enumerate(moments):
            output = None if moment.is_end else self.forward(moment.event)
            if output is not None:
                self._use(output, max(position, self.last[id(output)]))

    def _use(self, facts: TensorFacts, position: int) -> None:
        self.last[id(facts)] = position
        self.count[id(facts)] += 1

    def forward(self, event: Event) -> TensorFacts | None:
        """The tensor that names the forward call of a backward one: the first result of the forward call."""
        if not isinstance(event, Call):
            return None
        call = self._calls.get(event.forward)
        if call is None:
            return None
        result = next(chain(tensors(call.result), self.outputs.get(call.id, ())), None)
        if result is None:
            return None
        producer = self._calls.get(result.producer)
        if producer is None or function_of(producer, self._calls) is not call:
            return None
        return result


def function_of(call: Call, calls: Mapping[int | None, Call]) -> Call:
    """The outermost function of torch around a call; the call itself if there is none."""
    around = calls.get(call.parent)
    while around is not None and around.kind == "function":
        call = around
        around = calls.get(call.parent)
    return call


class _Names:
    """The names of tensors: a label, and a number if the same call of a module already has the label.

    A name is used again when no later line refers to the tensor that had it.
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
        """Name a tensor that occurs for the first time."""
        while True:
            self._numbers[scope, label] += 1
            name = _numbered(label, self._numbers[scope, label])
            if self._taken.get(name, -1) < position:
                break
        self._taken[name] = self._uses.last.get(id(facts), position)
        self._names[id(facts)] = name
        return name


def _numbered(label: str, number: int) -> str:
    if number == 1:
        return label
    return f"{label}#{number}"


class _TraceWriter:
    """Writes the lines of a trace. The line of a call starts when the call begins, and gets the result at its end."""

    def __init__(self, trace: Trace) -> None:
        self._moments = list(_moments(trace))
        self._uses = _Uses(self._moments)
        self._names = _Names(self._uses)
        self._lines: list[str] = []
        self._open: list[tuple[Call, int]] = []
        self._position = 0
        self._argument: str | None = None
        self._results: set[int] = set()  # the tensors that were written as what their producer returned
        self._values = ValueWriter(self._tensor)

    def lines(self) -> list[str]:
        """One line for each event."""
        for position, moment in enumerate(self._moments):
            self._position, event = position, moment.event
            if not isinstance(event, Call):
                self._add_line(moment, self._single(event))
            elif moment.is_end:
                _, line = self._open.pop()
                self._lines[line] += self._outcome(event)
            else:
                self._add_line(moment, self._head(event))
                self._open.append((event, len(self._lines) - 1))
        return self._lines

    def _add_line(self, moment: TextMoment, head: str) -> None:
        self._lines.append("  " * moment.depth + head + self._flags_text(moment.event))

    def _single(self, event: Mark | Variable) -> str:
        if isinstance(event, Mark):
            return f"mark {event.kind} {event.text!r}"
        head = f"let {name_text(event.name)}"
        if event.changes:
            head += f" {{{', '.join(event.changes)}}}"
        return f"{head} = {self._values.text(event.value)}"

    def _head(self, call: Call) -> str:
        texts = [self._values.text(item) for item in call.args]
        for name, item in call.kwargs.items():
            self._argument = name
            texts.append(f"{name_text(name)}={self._values.text(item)}")
        self._argument = None
        return f"{self._callee(call)}({', '.join(texts)})"

    def _callee(self, call: Call) -> str:
        if call.kind == "function":
            return function_text(call.name) + _operator_text(call.operator)
        if call.kind != "module":
            return f"{_WORDS[call.kind]} {name_text(call.name)}"
        text = f"module {name_text(call.path)} {name_text(call.name)}"
        if call.module is None or not call.module.settings:
            return text
        return f"{text}{{{self._values.named(call.module.settings)}}}"

    def _outcome(self, call: Call) -> str:
        text = ""
        if call.result is not None:
            text = f" -> {self._values.text(call.result)}"
        text += _error_text(call)
        # Tensors that the call changed but does not return, as `x[0] = 1` does.
        more = [facts for facts in self._uses.outputs.get(call.id, ()) if self._names.get(facts) is None]
        if more:
            return f"{text} makes {', '.join(map(self._tensor, more))}"
        return text

    def _tensor(self, facts: TensorFacts) -> str:
        """The name of a tensor; the first time, its facts too."""
        name = self._names.get(facts)
        if name is not None:
            return f"%{name}"
        moment = self._moments[self._position]
        name = self._new_name(facts, moment)
        stats = not _is_uninitialised(moment.event)
        if not moment.is_end:
            return f"%{name}:{self._values.facts(facts, stats=stats)}"
        if facts.producer == moment.event.id:
            self._results.add(id(facts))
            return f"%{name}:{self._values.facts(facts, stats=stats)}"
        return f"%{name}:{self._values.facts(facts, 'given', stats=stats)}"

    def _new_name(self, facts: TensorFacts, moment: TextMoment) -> str:
        """A name for a tensor; an input that occurs only once gets none."""
        if not moment.is_end and self._uses.count[id(facts)] == 1:
            return ""
        return self._names.add(facts, self._label(facts, moment), self._scope(moment.event), self._position)

    def _label(self, facts: TensorFacts, moment: TextMoment) -> str:
        event = moment.event
        if isinstance(event, Variable):
            return _label("", event.name)
        if isinstance(event, Mark):
            return _label("", event.kind)
        if not moment.is_end:
            return _label(event.path, self._argument or _INPUT_LABELS.get(facts.type, "input"))
        if event.kind == "module" and event.path:
            return _label(event.path, "")
        return _label(event.path, event.name)

    def _scope(self, event: Event) -> int:
        """The number of the module call around an event, in which names are counted; at the top, of the step."""
        inner = (call.id for call, _ in reversed(self._open) if call.kind == "module" and call is not event)
        return next(inner, -1 - event.step)

    def _flags_text(self, event: Event) -> str:
        """The facts of an event that differ from those of the call around it."""
        around = self._open[-1][0] if self._open else _TOP
        flags = [f"{name} {getattr(event, name)}" for name in ("step", "rank") if _differs(event, around, name)]
        if isinstance(event, Call):
            flags += self._call_flags(event, around)
        if flags:
            return f" [{', '.join(flags)}]"
        return ""

    def _call_flags(self, call: Call, around: Call) -> Iterator[str]:
        if call.phase != around.phase:
            yield call.phase
        if call.mode != "eager":
            yield call.mode
        if call.kind != "module" and call.module is not around.module:
            yield _module_flag(call)
        forward = self._uses.forward(call)
        if forward is not None and id(forward) in self._results:
            yield f"of %{self._names.get(forward)}"


def _differs(event: Event, around: Event, name: str) -> bool:
    """Whether a field of an event differs from that of the call around it."""
    return bool(getattr(event, name) != getattr(around, name))


def _module_flag(call: Call) -> str:
    if call.module is None:
        return "outside"
    return f"in {name_text(call.module.path)} {name_text(call.module.type)}"


def _operator_text(operator: str | None) -> str:
    if operator is None:
        return ""
    if " " in operator:
        return f" {operator!r}"
    return f" {operator}"


def _error_text(call: Call) -> str:
    if call.raised is None:
        return ""
    if call.message is None:
        return f" raised {name_text(call.raised)}"
    return f" raised {name_text(call.raised)} {call.message!r}"


def _is_uninitialised(event: Event) -> bool:
    """Whether an event is a call of `torch.empty` or the like, whose memory has other values each time."""
    return isinstance(event, Call) and operation(event.kind, event.name).is_uninitialized


def _label(path: str, name: str) -> str:
    """The label of a tensor: the path of the module and the last name of the function, without underscores around it.

    >>> _label("h.0", "torch.Tensor.__getitem__"), _label("", "aten.mm.default"), _label("my block", "bias")
    ('h.0.getitem', 'mm', 'my_block.bias')
    """
    known = filter(None, (path, _last_name(name)))
    return re.sub(r"[^\w.]", "_", ".".join(known)) or "_"


def _last_name(function: str) -> str:
    """The name of a function without its module, its overload and the underscores of a special method."""
    overload = _OVERLOAD.fullmatch(function)
    if overload is not None:
        return overload[1]
    last = function.removesuffix(".__get__").rpartition(".")[2]
    if last.startswith("__") and last.endswith("__"):
        return last.strip("_") or last
    return last
