"""Gradients that are clipped while they are scaled: the calls from a backward pass to a step, on the tape."""

from __future__ import annotations

from collections.abc import Container, Iterator

from insitu.capture.explain.reading import Reading, values
from insitu.capture.tape import Tape
from insitu.capture.tensors import Value

UNSCALED = "check_and_unscale"  # how the name of the function ends with which a scaler divides gradients
NORMS = frozenset({"norm", "vector_norm", "matrix_norm"})
FACTORS = frozenset({"mul", "div"})
CLAMPS = frozenset({"clamp", "clamp_min", "clamp_max", "clip"})
LARGE_LIMIT = 1e3  # nobody limits a norm to this, unless the limit is scaled like the gradients
MOST_CALLS = 1 << 14


def calls_since(tape: Tape, begin: int) -> Iterator[int]:
    """The calls on a tape from an offset on; a guard writes nothing but calls."""
    for _ in range(MOST_CALLS):
        if begin >= len(tape):
            return
        yield begin
        begin = tape.end_of(begin)


def clip_before_unscaling(reading: Reading, begin: int, gradients: Container[int]) -> int | None:
    """The call that clips gradients, by their ids, which a scaler has not unscaled; None if no scaler unscales them."""
    clip: int | None = None
    has_norm = False
    for at in calls_since(reading.tape, begin):
        name = bare_name(reading, at)
        if name.endswith(UNSCALED):
            return clip
        has_norm = has_norm or name in NORMS
        if is_scaled_limit(reading, at, has_norm=has_norm):
            return None
        if clip is None and changes_gradient(reading, at, gradients) and is_clip(reading, at, name, has_norm=has_norm):
            clip = at
    return None


def bare_name(reading: Reading, at: int) -> str:
    """The name of a function without what marks a private one, and one for lists of tensors."""
    return reading.operation(at).base.strip("_").removeprefix("foreach_")


def changes_gradient(reading: Reading, at: int, gradients: Container[int]) -> bool:
    """Whether a call changes one of some gradients in place."""
    if not reading.callee_facts(at).in_place:
        return False
    return any(id(value()) in gradients for value in values(reading.args(at)[:1]))


def is_clip(reading: Reading, at: int, name: str, *, has_norm: bool) -> bool:
    """Whether a call limits numbers: each of them, or all by a factor that follows from their norm."""
    is_factor = has_norm and name in FACTORS and has_tensor_factor(reading, at)
    return is_factor or name in CLAMPS


def has_tensor_factor(reading: Reading, at: int) -> bool:
    """Whether a call multiplies by a tensor, as by a factor that follows from a norm."""
    return isinstance(reading.args(at)[-1], Value)


def is_scaled_limit(reading: Reading, at: int, *, has_norm: bool) -> bool:
    """Whether a call divides a limit by a norm, and the limit is so large that it is scaled itself."""
    what = reading.operation(at)
    if not has_norm or not what.is_reflected:
        return False
    return any(isinstance(item, float) and item >= LARGE_LIMIT for item in reading.args(at))
