"""Where a dtype or a device that does not fit comes from: the call since which a tensor has it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from insitu.trace.explain.assignments import outside_site
from insitu.trace.explain.case import Case, NamedOperand
from insitu.trace.explain.device_origins import device_origins
from insitu.trace.explain.explanation import ExpressionSite, Misfit, Origin, OriginKind
from insitu.trace.explain.failed_line import FailedLine
from insitu.trace.explain.failure import Failure
from insitu.trace.explain.failure_history import FailureHistory, TensorToken
from insitu.trace.explain.slice_origins import slice_origins
from insitu.trace.explain.slice_starts import argument_start, call_start, operand_start
from insitu.trace.explain.slices.points import Point
from insitu.trace.explain.slices.rules.dtype_rule import dtype_rule
from insitu.trace.explain.value_origins import argument_origins, is_made_by_loop, operand_origins, value_origins

MOST_CALLS = 300
# "expected target dtype to be Long, but got Int"
WRONG_DTYPE = re.compile(
    r"(?:but got|but found|, got)[^A-Z]*(Int|Long|Short|Byte|Char|Bool|Half|Float|Double|BFloat16)\b"
)
DTYPE_WORDS = {
    **{"Int": "i32", "Long": "i64", "Short": "i16", "Byte": "u8", "Char": "i8", "Bool": "b8"},
    **{"Half": "f16", "Float": "f32", "Double": "f64", "BFloat16": "bf16"},
}
USUAL = ("f32", "cpu")  # what a tensor has if nobody asked for anything: the other operand is the odd one


def fact_origins(failure: Failure, line: FailedLine, case: Case, misfits: tuple[Misfit, ...]) -> Iterator[Origin]:
    """The calls since which the operands of a misfit have their dtype or device."""
    for misfit in misfits:
        if not misfit.fact:
            continue
        concerned = [operand for operand in case.operands if misfit.mentions(operand.name)]
        odd = [operand for operand in concerned if getattr(operand.facts, misfit.fact) not in USUAL]
        for operand in odd or concerned[:1]:
            yield from _fact_origin(failure, line, operand, misfit.fact)


def named_dtype_origins(
    failure: Failure, line: FailedLine, case: Case, misfits: tuple[Misfit, ...]
) -> Iterator[Origin]:
    """Where the tensors get their dtype that the message calls wrong, if no misfit says more."""
    found = WRONG_DTYPE.search(failure.message)
    if found is None or any(misfit.fact for misfit in misfits):
        return
    dtype = DTYPE_WORDS.get(found[1], "")
    operands = case.operands or line.tensors()
    for operand in [each for each in operands if each.facts.dtype == dtype]:
        yield from _fact_origin(failure, line, operand, "dtype")


def _fact_origin(failure: Failure, line: FailedLine, operand: NamedOperand, fact: str) -> Iterator[Origin]:
    """The place since which an operand has a fact, unless the operand was produced there, and what it was made from."""
    value, history = getattr(operand.facts, fact), failure.history
    found = first_call(history, operand.tensor, fact)
    if found.is_lost:
        return
    known = (line.site, history.site(history.producer(operand.tensor)))
    site = found.site(history) or _assigned(failure, operand)
    sliced = list(_sliced(failure, line, operand, found, fact))
    yield from sliced
    if site is not None and site not in known:
        yield Origin(OriginKind.FACT, site, value)
    if sliced:
        return
    made_by = found.at if found.at is not None else found.receiver
    if made_by is None or is_made_by_loop(history, made_by):
        yield from operand_origins(failure, line, operand.name)
    elif found.at is not None:
        yield from value_origins(history, found.at)
    else:
        yield from argument_origins(history, made_by, found.tensor)


def _sliced(
    failure: Failure, line: FailedLine, operand: NamedOperand, found: FirstWithFact, fact: str
) -> Iterator[Origin]:
    """Where the source of the program introduces a dtype, behind the first tensor that has it."""
    value = getattr(operand.facts, fact)
    if fact != "dtype":
        yield from device_origins(failure, line, operand, found.at, value)
        return
    yield from slice_origins([first_start(failure, line, operand, found)], dtype_rule(value), value)


def first_start(failure: Failure, line: FailedLine, operand: NamedOperand, found: FirstWithFact) -> Point | None:
    """The expression of the first tensor with a fact: the call that made it, else what the first call took."""
    history = failure.history
    if found.at is not None and not is_made_by_loop(history, found.at):
        return call_start(history, found.at)
    for step in found.way:
        start = argument_start(history, step.receiver, step.tensor)
        if start is not None:
            return start
    return operand_start(failure, line, operand.name)


def _assigned(failure: Failure, operand: NamedOperand) -> ExpressionSite | None:
    """Where a parameter or a buffer got its first values, if that was recorded."""
    if not failure.live.parameter_path(operand.tensor):
        return None
    return failure.history.site(failure.live.initializer(operand.tensor))


@dataclass(slots=True, frozen=True)
class PassedTensor:
    """A tensor, and a call that took it."""

    tensor: TensorToken
    receiver: int


@dataclass(slots=True, frozen=True)
class FirstWithFact:
    """The first tensor with a fact: `at` is the call that produced it, `receiver` the first of those that took it.

    `way` are the tensors that have the fact and the calls that took them, the earliest first. `is_lost` says that the
    walk was too long.
    """

    tensor: TensorToken
    at: int | None = None
    receiver: int | None = None
    way: tuple[PassedTensor, ...] = ()
    is_lost: bool = False

    def site(self, history: FailureHistory) -> ExpressionSite | None:
        """Where the tensor was produced or assigned."""
        if self.at is not None:
            return history.site(self.at)
        return outside_site(history, self.receiver, self.tensor) or history.site(self.receiver)


def first_call(history: FailureHistory, tensor: TensorToken, fact: str) -> FirstWithFact:
    """The first tensor with a fact, from which all later ones have it."""
    wanted = getattr(history.plain(tensor), fact)
    receiver: int | None = None
    way: tuple[PassedTensor, ...] = ()
    for _ in range(MOST_CALLS):
        at = history.producer(tensor)
        if at is None:
            return FirstWithFact(tensor, None, receiver, way)
        earlier = _input_with(history, at, fact, wanted)
        if earlier is None:
            return FirstWithFact(tensor, at, receiver, way)
        receiver, tensor = at, earlier
        way = (PassedTensor(tensor, at), *way)
    return FirstWithFact(tensor, is_lost=True)


def _input_with(history: FailureHistory, at: int, fact: str, wanted: str) -> TensorToken | None:
    """The first tensor that went into a call and has the fact already."""
    for token in history.inputs(at):
        if not history.is_array(token) and getattr(history.plain(token), fact) == wanted:
            return token
    return None
