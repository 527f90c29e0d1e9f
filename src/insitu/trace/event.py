"""What happened, as plain data: calls, changes of variables, marks, and the facts they carry.

Nothing here knows torch. A tensor appears as `TensorFacts`, a module as `ModuleFacts`, a place in the source as a
`Site`; containers stay containers; whatever else an argument may be is an atom (int, float, str, bool, None), a
`Word` (a name that prints bare, such as torch.bfloat16), a `Fields` (a named container) or an `Opaque` (its type only).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["module", "function", "aten", "python"]
Phase = Literal["forward", "backward", "recompute"]
Mode = Literal["eager", "compiled", "vmap"]
MarkKind = Literal["step", "note", "trouble"]
Change = Literal["new", "type", "shape", "dtype", "device", "length", "values", "deleted", "yielded"]


class Word(str):
    """A name that prints bare: `torch.bfloat16`, `cpu`, `...`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


@dataclass(slots=True, frozen=True)
class Opaque:
    """An object of which only the type was looked at."""

    type: str

    def __repr__(self) -> str:
        return f"<{self.type}>"


@dataclass(slots=True, frozen=True)
class Fields:
    """A container with named items: a dataclass, a named tuple, a `ModelOutput`."""

    type: str
    items: dict[str, Any]

    def __repr__(self) -> str:
        return f"{self.type}({', '.join(f'{name}={item!r}' for name, item in self.items.items())})"


@dataclass(slots=True, frozen=True, kw_only=True)
class Stats:
    """The values of a tensor in a few numbers; min, max, mean and std are over the finite elements.

    Where no element is finite they are None. `histogram` counts the finite elements in equal bins from min to max.
    The table `STATISTICS` says how each of the numbers is shown and compared.
    """

    count: int = 0
    min: float | None = None
    max: float | None = None
    mean: float | None = None
    std: float | None = None
    nan: int = 0
    inf: int = 0
    zeros: int = 0
    histogram: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Statistic:
    """One number of `Stats`: files, tables, pages and comparisons have all of those that are in `STATISTICS`.

    `kind` is "number" for a float that can be unknown, or "count". `bound` says what two close tensors can differ by:
    a "count" must be equal; an "extreme" moves as the elements do, by a part of the largest; an "average" by a part of
    the root mean square; "detail" is compared only where the elements must be equal. `depends_on_order` says that a
    machine that adds in another order gets another number.
    """

    name: str
    label: str
    kind: Literal["number", "count"]
    bound: Literal["count", "extreme", "average", "detail"]
    is_alarming: bool = False
    depends_on_order: bool = False
    is_column: bool = True  # has a column in `Trace.to_pandas`


STATISTICS = (
    Statistic("count", "count", "count", "count", is_column=False),
    Statistic("min", "min", "number", "extreme"),
    Statistic("max", "max", "number", "extreme"),
    Statistic("mean", "mean", "number", "average"),
    Statistic("std", "std", "number", "average", depends_on_order=True),
    Statistic("nan", "NaN", "count", "count", is_alarming=True),
    Statistic("inf", "Inf", "count", "count", is_alarming=True),
    Statistic("zeros", "zeros", "count", "detail"),
)
NUMBERS = tuple(row for row in STATISTICS if row.kind == "number")
COUNTS = tuple(row for row in STATISTICS if row.kind == "count")


@dataclass(slots=True, eq=False)
class TensorFacts:
    """One tensor at one moment: an in-place operation makes new facts, with the operation as `producer`.

    `dtype` is short (`f32`, `bf16`, `i64`); a size is an int or, for a symbolic one, its text; `strides` is None for
    a contiguous tensor; `producer` is the id of the call that made it, None if it was there before the trace began;
    `kept` is what the callable given as `keep` returned, or the values of a small tensor that a watched variable or
    argument has; `grad` is its gradient, where more than facts was kept and a backward pass reached it. A NumPy array
    has the type "ndarray".
    """

    id: int
    shape: tuple[int | str, ...]
    dtype: str
    device: str
    requires_grad: bool = False
    strides: tuple[int | str, ...] | None = None
    type: str = "Tensor"
    producer: int | None = None
    stats: Stats | None = None
    kept: Any = None
    grad: TensorFacts | None = None

    def __repr__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


def is_on_accelerator(facts: TensorFacts) -> bool:
    """Whether the values of a tensor are on a device that works while the program goes on."""
    return facts.device.partition(":")[0] not in ("", "cpu", "meta")


@dataclass(slots=True, eq=False)
class ModuleFacts:
    """A module as it was seen: its clean path, its class and the bases of it, its settings, its parameters.

    `parameters` counts those of the module and of all below it, `own_parameters` those of the module alone.
    """

    path: str
    type: str
    bases: tuple[str, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)
    parameters: int = 0
    own_parameters: int = 0
    trainable: int = 0
    leaf: bool = True


@dataclass(slots=True, frozen=True)
class Loop:
    """A loop of the source: the line of its header, and the text of the header, `for x, y in loader:`."""

    line: int
    text: str


@dataclass(slots=True, frozen=True)
class Arm:
    """A branch of a condition, by the line of the condition and its number; only one branch runs at a time.

    What follows a branch that jumps away belongs to the other one. Unless the jump ends the loop or the function, a
    pass can do without it.
    """

    condition: int
    branch: int
    is_optional: bool = True


@dataclass(slots=True, frozen=True)
class Nesting:
    """What is around a place in its function: the loops and the arms of conditions, outermost first.

    `statement` is the number of the line on which the statement of the place begins, and `text` is that line. What is
    written in the first line of a block and runs after its last one (the exit of a `with`, the test of a `while` after
    each pass) has the number of that last line, and `is_end`.
    """

    statement: int
    text: str = ""
    loops: tuple[Loop, ...] = ()
    arms: tuple[Arm, ...] = ()
    is_end: bool = False


@dataclass(slots=True, eq=False)
class Site:
    """A place in the source and, through `caller`, the chain of places that led to it.

    Sites of one trace are interned: the same chain is the same object. `start` and `end` are the columns, in
    characters, of the expression on the line; None when it spans lines or is not known. `nesting` is None where the
    source was not at hand.
    """

    file: str
    line: int
    function: str
    text: str = ""
    start: int | None = None
    end: int | None = None
    caller: Site | None = None
    nesting: Nesting | None = None

    def __repr__(self) -> str:
        return f"<{self.file}:{self.line} in {self.function}>"

    def chain(self) -> list[Site]:
        """The places from the outermost caller to this one."""
        places: list[Site] = []
        site: Site | None = self
        while site is not None:
            places.append(site)
            site = site.caller
        places.reverse()
        return places


@dataclass(slots=True, eq=False)
class Call:
    """One call of a module, of a torch function, of an ATen operator, or of a Python function that is watched.

    `module` is the called module itself, or the innermost one that was running; `operator` is the symbol when the
    source used one (`@`, `+`, `[]`); `start` and `duration` are nanoseconds from the start of the trace; `raised` is
    the name of the exception that ended the call and `message` its text; `phase` is "backward" for what autograd's
    engine ran, and then `forward` is the id of the call whose gradient it computes, if that is in the trace, and
    `module` the module of that call; it is "recompute" for forward code that runs again in the backward pass, as
    checkpointing does. `mode` is "compiled" for a compiled region, inside which nothing is recorded, and "vmap" for a
    call inside `torch.vmap`, whose shapes are those of one sample. `flops` are counted by torch's own formulas, None
    where it has none. The call of a watched Python function has all its arguments in `kwargs`, by the names of its
    parameters, and `defined` is where it is defined.
    """

    id: int
    parent: int | None
    kind: Kind
    name: str
    module: ModuleFacts | None = None
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    result: Any = None
    operator: str | None = None
    site: Site | None = None
    start: int = 0
    duration: int | None = None
    raised: str | None = None
    phase: Phase = "forward"
    thread: int = 0
    step: int = 0
    rank: int = 0
    defined: Site | None = None
    message: str | None = None
    forward: int | None = None
    flops: int | None = None
    mode: Mode = "eager"

    def __repr__(self) -> str:
        given = ", ".join([*map(_shown, self.args), *(f"{name}={_shown(item)}" for name, item in self.kwargs.items())])
        outcome = f"raised {self.raised}" if self.raised is not None else f"-> {_shown(self.result)}"
        where = f" at {self.site.file}:{self.site.line}" if self.site is not None else ""
        return f"<Call {self.id} {self.path or self.kind} {self.name}({given:.200}) {outcome:.200}{where}>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        from insitu.view.notebook import call_forms  # only a notebook needs it

        return call_forms(self, include, exclude)

    @property
    def path(self) -> str:
        """The path of the module that was called, or in which the call was made."""
        if self.module is not None:
            return self.module.path
        return ""

    @property
    def inputs(self) -> tuple[TensorFacts, ...]:
        """Every tensor among the arguments, in order, however deep."""
        if not self.kwargs and _FLAT.issuperset(map(type, self.args)):  # as most often
            return tuple([item for item in self.args if type(item) is TensorFacts])
        return (*tensors(self.args), *tensors(self.kwargs))

    @property
    def outputs(self) -> tuple[TensorFacts, ...]:
        """Every tensor in the result, in order, however deep."""
        if type(self.result) is TensorFacts:
            return (self.result,)
        return tuple(tensors(self.result))

    @property
    def has_launch_time(self) -> bool:
        """Whether its duration is a launch time: an accelerator does the work, and may not have done it by the end.

        >>> Call(0, None, "function", "f", result=TensorFacts(1, (2,), "f32", "cuda:0")).has_launch_time
        True
        """
        return any(is_on_accelerator(facts) for facts in (*self.outputs, *self.inputs))


@dataclass(slots=True, eq=False)
class Mark:
    """A moment rather than a call: the start of a step, a note, trouble of the tool itself."""

    id: int
    parent: int | None
    kind: MarkKind
    text: str
    start: int = 0
    thread: int = 0
    step: int = 0
    rank: int = 0


@dataclass(slots=True, eq=False)
class Variable:
    """A watched variable after it changed, at `site`: the line that changed it.

    `name` is the variable or what is followed inside of it (`state.step`, `self.cache.0`), `changes` what is different:
    "new" alone for one that was not there before, else some of "type", "shape", "dtype", "device", "length", "values";
    "deleted" alone, with the value None; "yielded" alone for what a watched generator yields. `parent` is the call
    of the watched function.
    """

    id: int
    parent: int | None
    name: str
    value: Any
    changes: tuple[Change, ...]
    site: Site | None = None
    start: int = 0
    thread: int = 0
    step: int = 0
    rank: int = 0

    def __repr__(self) -> str:
        where = f" at {self.site.file}:{self.site.line}" if self.site is not None else ""
        return f"<Variable {self.id} {self.name} = {_shown(self.value):.200} ({', '.join(self.changes)}){where}>"


Event = Call | Mark | Variable


def _shown(value: Any) -> str:
    try:
        return repr(value)
    except ValueError:  # Python refuses to print integers of many thousand digits
        return f"<{type(value).__name__}>"


def tensors(value: Any) -> Iterator[TensorFacts]:
    """Every tensor in nested containers, in order."""
    if isinstance(value, TensorFacts):
        yield value
        return
    if isinstance(value, dict):
        value = value.values()
    elif isinstance(value, Fields):
        value = value.items.values()
    elif not isinstance(value, (tuple, list)):
        return
    for item in value:
        if type(item) is TensorFacts:
            yield item
        elif type(item) not in _ATOMS:
            yield from tensors(item)


_ATOMS = frozenset({int, float, bool, str, type(None)})
_FLAT = _ATOMS | {TensorFacts}
