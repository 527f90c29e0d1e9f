"""Where a NaN or Inf began: one rule on plain data, for guards, for pages and for comparisons.

A `Passage` is one call as far as NaN and Inf are concerned. `beginning` answers for one of its outputs, in this order:

    NOWHERE   the output is finite
    MEMORY    the call allocates memory that nobody has written yet: it may hold anything
    LITERAL   the program wrote the number down: `x[0] = nan`, `masked_fill(mask, -inf)`, `loss * inf`
    DATA      the call has no tensor inputs: data is loaded, or generated
    EARLIER   an input contains it
    MASK      `-inf` from an input that holds the least number of its dtype, or from converting it: scores are masked so
    HERE      the call produced it

The guard, the page and compare once had rules of their own. Where they differed, this is the rule, and why:
- An infinite literal explains Inf and not NaN; a NaN literal explains both. (The page let a NaN literal begin "here",
  and the guard let it pass: it began where it was written down, and whether that is wrong depends on where it gets to.)
- Inf is new only if all inputs are finite: NaN among the inputs already explains any output. (The page looked for Inf
  alone among the inputs, and so blamed `nan_to_num(x, nan=inf)`.)
- The least number of a dtype in an input makes `-inf` a mask. Statistics do not tell the sign of an infinity: there, an
  infinity counts as `-inf`, for a least number is a mask far more often than a number that overflows. (Only the guard
  knew masks.)
- NaN and Inf may heal: `Reach` says what they must reach to count. A guard waits for all of them, and asks
  `reach_beyond_repair`: it knows the share of bad elements, and looks after the gradients. In a trace, Inf in a tensor
  without a gradient may heal, and NaN outside of modules (`may_heal`, `reach_of`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from math import inf, isnan
from typing import Any, NamedTuple, Protocol, TypeVar

from insitu.trace.event import Fields, Stats, TensorFacts
from insitu.trace.findings import Reach
from insitu.trace.kept_values import has_all_values, is_array, real_numbers
from insitu.trace.operation import Operation

MOST_DEPTH = 8  # containers in each other that are searched for numbers


class Finiteness(NamedTuple):
    """Which numbers that are not finite a tensor contains.

    >>> Finiteness(minus_inf=True).is_finite, Finiteness().is_finite
    (False, True)
    """

    nan: bool = False
    inf: bool = False
    minus_inf: bool = False

    @property
    def is_finite(self) -> bool:
        """Whether it contains none of them."""
        return self == FINITE

    @property
    def is_minus_inf(self) -> bool:
        """Whether it contains -inf and nothing else, as masks do."""
        return self == MINUS_INF


FINITE = Finiteness()
MINUS_INF = Finiteness(minus_inf=True)


def union(items: Iterable[Finiteness]) -> Finiteness:
    """What several tensors contain together.

    >>> union([Finiteness(nan=True), Finiteness(inf=True)])
    Finiteness(nan=True, inf=True, minus_inf=False)
    """
    columns = zip(*items, strict=True)
    return Finiteness(*map(any, columns))


def finiteness(stats: Stats | None) -> Finiteness:
    """What statistics tell. They do not tell the sign of an infinity: it counts as -inf."""
    if stats is None:
        return FINITE
    return Finiteness(nan=stats.nan > 0, minus_inf=stats.inf > 0)


def finiteness_of_values(facts: TensorFacts) -> Finiteness:
    """What the values that were kept of a tensor tell; nothing if they are not all of its values, or not numbers.

    >>> finiteness_of_values(TensorFacts(0, (), "f32", "cpu", kept=-inf))
    Finiteness(nan=False, inf=False, minus_inf=True)
    """
    if not has_all_values(facts):
        return FINITE
    if is_array(facts.kept):
        return _finiteness_of_array(facts.kept)
    return literals(facts.kept)


def _finiteness_of_array(array: Any) -> Finiteness:
    import numpy as np

    numbers = real_numbers(array)
    if numbers is None or numbers.dtype.kind != "f" or bool(np.isfinite(numbers).all()):
        return FINITE
    has_nan = bool(np.isnan(numbers).any())
    return Finiteness(nan=has_nan, inf=bool((numbers == inf).any()), minus_inf=bool((numbers == -inf).any()))


def literals(item: Any, depth: int = 0) -> Finiteness:
    """The numbers that are not finite among the arguments of a call: the program wrote them down.

    >>> literals(((3, 4), {"fill_value": float("-inf")}))
    Finiteness(nan=False, inf=False, minus_inf=True)
    """
    if isinstance(item, float):
        return Finiteness(nan=isnan(item), inf=item == inf, minus_inf=item == -inf)
    parts = _parts(item)
    if not parts or depth >= MOST_DEPTH:
        return FINITE
    return union(literals(part, depth + 1) for part in parts)


def _parts(item: Any) -> Sequence[Any]:
    if isinstance(item, Fields):
        return list(item.items.values())
    if isinstance(item, dict):
        return list(item.values())
    if isinstance(item, (tuple, list)):
        return item
    return ()


# One call.


class Beginning(Enum):
    """Where a NaN or Inf in the output of a call began."""

    NOWHERE = "the output is finite"
    MEMORY = "in memory that nobody has written yet"
    LITERAL = "in a number that the program wrote down"
    DATA = "in data"
    EARLIER = "before the call"
    MASK = "in the least number of a dtype, which masks scores"
    HERE = "in the call"


@dataclass(frozen=True, slots=True)
class Passage:
    """One call as far as NaN and Inf are concerned.

    `inputs` are the tensors that it reads, as they were before it, `outputs` those that it returns or changes.
    `literals` are numbers among its arguments. `has_least` says that an input holds the least number of its dtype.
    """

    operation: Operation
    inputs: tuple[Finiteness, ...] = ()
    outputs: tuple[Finiteness, ...] = ()
    literals: Finiteness = FINITE
    has_least: bool = False

    @property
    def incoming(self) -> Finiteness:
        """What the inputs contain together."""
        return union(self.inputs)

    @property
    def outgoing(self) -> Finiteness:
        """What the outputs contain together."""
        return union(self.outputs)

    @property
    def has_finite_inputs(self) -> bool:
        """Whether everything that went in is finite."""
        return self.incoming.is_finite and self.literals.is_finite

    @property
    def is_literal(self) -> bool:
        """Whether a number among the arguments explains the outputs: an infinity does not explain NaN."""
        if self.literals.nan:
            return True
        return not self.literals.is_finite and not self.outgoing.nan


def beginning(passage: Passage, output: Finiteness) -> Beginning:
    """Where the NaN or Inf in one output of a call began: the rule of this module."""
    if output.is_finite:
        return Beginning.NOWHERE
    if passage.operation.is_uninitialized:
        return Beginning.MEMORY
    if passage.is_literal:
        return Beginning.LITERAL
    if not passage.inputs:
        return Beginning.DATA
    if not is_new(output, passage.incoming):
        return Beginning.EARLIER
    if is_mask(passage, output):
        return Beginning.MASK
    return Beginning.HERE


def origin_output(passage: Passage) -> int | None:
    """The index of the first output in which a NaN or Inf began."""
    found = (index for index, output in enumerate(passage.outputs) if beginning(passage, output) is Beginning.HERE)
    return next(found, None)


def is_new(output: Finiteness, incoming: Finiteness) -> bool:
    """Whether an output contains NaN where no input does, or Inf where all inputs are finite."""
    if output.nan:
        return not incoming.nan
    return incoming.is_finite


def is_mask(passage: Passage, output: Finiteness) -> bool:
    """Whether -inf comes from the least number of a dtype, with which scores are masked."""
    is_conversion = passage.operation.family == "conversion"
    return output.is_minus_inf and (is_conversion or passage.has_least)


# What may heal.


def may_heal(output: Finiteness, *, has_gradient: bool, is_in_model: bool) -> bool:
    """Whether a NaN or Inf may be gone before it matters.

    It matters at once where a gradient flows through it. NaN in a model hardly ever heals; outside of one it may be a
    metric: the mean over a class without samples.
    """
    if has_gradient:
        return False
    return not (output.nan and is_in_model)


def reach_of(passage: Passage, *, is_nan: bool, is_in_model: bool) -> Reach | None:
    """What a NaN (`is_nan`) or Inf that may heal has reached when it goes into a call and does not heal there.

    `is_in_model` says that the call is in a module, or that a gradient flows through its outputs. None if it may still
    heal.
    """
    if passage.outgoing.is_finite:  # it was returned as a number or an array
        return "number"
    if passage.outgoing.nan and is_new(passage.outgoing, passage.incoming):
        return "nan"
    if is_nan and is_in_model:
        return "model"
    return None


# What waits while a program runs.

MOST_PASSES = 8  # calls that may pass a NaN on before it counts as one that nobody repairs


@dataclass(frozen=True, slots=True)
class Contact:
    """A call that got a NaN or Inf that waits, and that does not return finite tensors.

    `before` and `after` are the shares of the elements that are not finite, in the input with most of them and in the
    output with most of them. `passes` counts the calls that have passed NaN on up to here.
    """

    passage: Passage
    before: float
    after: float
    passes: int

    @property
    def makes_nan(self) -> bool:
        """Whether the call computed NaN from Inf."""
        return self.passage.outgoing.nan and is_new(self.passage.outgoing, self.passage.incoming)

    @property
    def spreads(self) -> bool:
        """Whether the NaN is now in numbers that were sound: a mask that fits the input no longer finds them all."""
        is_elementwise = self.passage.operation.family in ("elementwise", "write", "join")
        return self.passage.outgoing.nan and self.after > self.before and not is_elementwise


def reach_beyond_repair(contact: Contact) -> Reach | None:
    """What a NaN or Inf has reached that goes into a call and does not heal there; None if it may still heal."""
    outgoing = contact.passage.outgoing
    if outgoing.is_finite:  # it was returned as a number or an array
        return "number"
    if contact.spreads:
        return "spread"
    if outgoing.nan and contact.passes > MOST_PASSES:
        return "calls"
    return None


# Gradients.


class GradientOrigin(Enum):
    """Where a NaN or Inf in a gradient began."""

    NODE = "in the autograd node"
    UNCHECKED = "in a call that was not checked"
    KNOWN = "before the node, and it is known or excused"


def gradient_origin(outgoing: Finiteness, incoming: Finiteness, *, is_known: bool, is_scaled: bool) -> GradientOrigin:
    """Where the NaN or Inf in a gradient that leaves an autograd node began.

    `is_known` says that this backward pass met NaN or Inf before. With a gradient scaler (`is_scaled`) Inf is expected:
    the optimizer skips that step.
    """
    is_excused = is_scaled and not (outgoing.nan and incoming.is_finite)
    if outgoing.is_finite or is_excused:
        return GradientOrigin.KNOWN
    if is_new(outgoing, incoming):
        return GradientOrigin.NODE
    if is_known:
        return GradientOrigin.KNOWN
    return GradientOrigin.UNCHECKED


def explains(earlier: Finiteness, *, nan: bool) -> bool:
    """Whether what was there earlier explains NaN (`nan`) or Inf: NaN is only explained by NaN."""
    if nan:
        return earlier.nan
    return not earlier.is_finite


# Many calls.

Item = TypeVar("Item")


class CallHistory(Protocol[Item]):
    """The calls behind some tensors, as far as they are known. Calls are numbers that grow; tensors are `Item`s."""

    def producer(self, tensor: Item) -> int:
        """The call that produced a tensor; negative if none is known."""

    def inputs(self, call: int) -> Sequence[Item]:
        """The tensors that went into a call."""

    def is_unchecked(self, call: int) -> bool:
        """Whether nobody looked at the outputs of a call when it returned."""

    def can_produce(self, call: int) -> bool:
        """Whether a call does more than to pass on what it gets."""

    def is_suspect(self, tensor: Item) -> bool:
        """Whether a tensor is not finite or, where it is gone, was not checked."""

    def is_bad(self, tensor: Item) -> bool:
        """Whether a tensor is known not to be finite."""

    def is_unknown(self, tensor: Item) -> bool:
        """Whether nobody has looked at a tensor, and nobody can any more."""

    def entry(self, call: int) -> Passage | None:
        """A call of a function with its literals; None for other calls."""


def unchecked_source(history: CallHistory[Item], tensor: Item) -> tuple[Item, bool]:
    """The tensor in which a NaN or Inf began behind calls that were not checked, and whether such a call produced it.

    A tensor that went into a call and is gone by now was finite, unless it came from a call that was not checked
    either. Where several such tensors went into a call, the one behind which a tensor is known not to be finite counts.
    """
    sources = list(_sources(history, tensor))
    known = [source for source in sources if history.is_bad(source[0])]
    return (known or sources)[0]


def _sources(history: CallHistory[Item], tensor: Item) -> Iterator[tuple[Item, bool]]:
    """The tensors in which a NaN or Inf may have begun, and whether an unchecked call produced each."""
    waiting = [tensor]
    seen: set[int] = set()
    while waiting:
        tensor = waiting.pop(0)
        call = history.producer(tensor)
        if call < 0 or not history.is_unchecked(call):
            yield tensor, False
            continue
        if call in seen:
            continue
        seen.add(call)
        suspects = [each for each in history.inputs(call) if history.is_suspect(each)]
        earlier = [each for each in suspects if history.producer(each) < call]
        waiting += earlier
        if not earlier:
            yield tensor, history.can_produce(call)


class Doubt(Enum):
    """How doubtful it is that a call introduced a NaN or Inf, the most certain first."""

    NONE = 0
    INFINITE_LITERAL = 1  # an infinity is not NaN, but may become NaN
    MEMORY = 2


def entry_call(history: CallHistory[Item], tensor: Item, *, nan: bool) -> int | None:
    """The call that introduced the NaN or Inf in a tensor, as a literal or as data; None if it is not known.

    The search goes backwards, first through tensors that are known not to be finite.
    """
    waiting: list[tuple[int, bool]] = [(history.producer(tensor), True)]
    seen: set[int] = set()
    found: dict[Doubt, int] = {}
    while waiting and Doubt.NONE not in found:
        call, is_certain = waiting.pop()
        if call < 0 or call in seen:
            continue
        seen.add(call)
        earlier = [each for each in history.inputs(call) if history.producer(each) < call]
        known = [(history.producer(each), True) for each in filter(history.is_bad, earlier)]
        if known:
            waiting += known
            continue
        waiting += [(history.producer(each), False) for each in filter(history.is_unknown, earlier)]
        doubt = doubt_of(history.entry(call), is_certain=is_certain, nan=nan)
        if doubt is not None:
            found.setdefault(doubt, call)
    return next((found[doubt] for doubt in Doubt if doubt in found), None)


def doubt_of(passage: Passage | None, *, is_certain: bool, nan: bool) -> Doubt | None:
    """How doubtful it is that a call introduced NaN (`nan`) or Inf; None if it introduces nothing of its own.

    `is_certain` says that its result is known not to be finite.
    """
    if passage is None:
        return None
    is_data = is_certain and not passage.inputs
    if is_data or explains(passage.literals, nan=nan):
        return Doubt.NONE
    if not passage.literals.is_finite:
        return Doubt.INFINITE_LITERAL
    if passage.operation.is_uninitialized:
        return Doubt.MEMORY
    return None
