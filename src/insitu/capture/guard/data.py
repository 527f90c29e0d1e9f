"""What the first backward pass says about the data: bytes that a layer gets as they are, a loss over each pair."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from insitu.capture.explain.reading import Reading, values
from insitu.capture.guard.clipping import calls_since
from insitu.capture.guard.cut import producers
from insitu.capture.guard.facts import facts_of, input_values
from insitu.capture.isolation import run_isolated
from insitu.capture.tensor_memory import has_values
from insitu.capture.tensors import Value
from insitu.trace.event import TensorFacts
from insitu.trace.step_findings import ShapeOrigin
from insitu.trace.step_health import BroadcastPair, ByteInput

LAYERS = frozenset({"linear", "conv1d", "conv2d", "conv3d"})
NORMS = frozenset({"batch_norm", "layer_norm", "group_norm", "instance_norm", "rms_norm"})
MOST_MOVES = 40
MOST_LOSS_CALLS = 12
MOST_ELEMENTS = 1 << 16  # of the data that are looked at
BYTE = 255
LARGE_BYTE = 128  # masks and small numbers are below
MANY_BYTES = 32  # different numbers, where the data was never known to be bytes
Shape = tuple[int | str, ...]
ENTRIES = frozenset({"factory", "conversion", "copy"})  # how data enters torch, or changes its dtype


def byte_input(reading: Reading) -> ByteInput | None:
    """The bytes that the first layer gets; None if it gets other numbers, or a normalization follows."""
    for at in calls_since(reading.tape, 0):
        if reading.operation(at).base in LAYERS and not reading.has_raised(at):
            return bytes_of(reading, at)
    return None


def bytes_of(reading: Reading, layer: int) -> ByteInput | None:
    """The bytes that a layer gets without any arithmetic."""
    chain = unchanged_values(reading, layer)
    tensor = next((there for value in chain if isinstance(there := value(), Tensor)), None)
    if tensor is None or not are_bytes(tensor, is_known=any(map(is_byte, chain))) or is_normalized(reading, layer):
        return None
    calls = [at for value in chain if (at := reading.producer(value)) is not None]
    entry = next((at for at in reversed(calls) if is_entry(reading, at)), layer)
    return ByteInput(reading.call(entry), reading.call(layer), facts_of(tensor))


def unchanged_values(reading: Reading, layer: int) -> list[Value]:
    """The input of a layer and what it was before calls that only move or convert it; empty if it is computed."""
    chain: list[Value] = []
    value = next(iter(values(reading.args(layer)[:1])), None)
    for _ in range(MOST_MOVES):
        if value is None:
            return chain
        chain.append(value)
        at = reading.producer(value)
        if at is None:
            return chain
        what = reading.operation(at)
        if not what.is_move and what.family not in ENTRIES:
            return []
        value = next(iter(input_values(reading, at)), None)
    return []


def is_entry(reading: Reading, at: int) -> bool:
    """Whether a call of the user's code makes floats of bytes, or brings data into torch."""
    return reading.operation(at).family in ENTRIES and reading.frame(at) is not None


def is_byte(value: Value) -> bool:
    """Whether a value is a tensor, or an array, of bytes."""
    there = value()
    return getattr(there, "dtype", None) in (torch.uint8, "uint8")


def are_bytes(tensor: Tensor, *, is_known: bool) -> bool:
    """Whether a tensor holds whole numbers from 0 to 255; where it is not known to come from bytes, many of them."""
    if not has_values(tensor) or not tensor.numel():
        return False
    return run_isolated(lambda: are_byte_numbers(tensor, is_known=is_known))


def are_byte_numbers(tensor: Tensor, *, is_known: bool) -> bool:
    """The same, where nobody notices."""
    part = tensor.detach().flatten()[:MOST_ELEMENTS].float()
    lowest, highest = part.min().item(), part.max().item()
    is_in_range = lowest >= 0 and LARGE_BYTE <= highest <= BYTE
    if not is_in_range or not bool((part == part.round()).all()):
        return False
    return is_known or len(set(part.tolist())) >= MANY_BYTES


def is_normalized(reading: Reading, layer: int) -> bool:
    """Whether the first call that uses the result of a layer normalizes it."""
    result = next(iter(values(reading.result(layer))), None)
    for at in calls_since(reading.tape, reading.after(layer)):
        if reading.callee(at).kind == "function" and any(value is result for value in input_values(reading, at)):
            return reading.operation(at).base in NORMS
    return False


def broadcast_pairs(reading: Reading, losses: Iterable[Value]) -> Iterator[BroadcastPair]:
    """The calls behind losses that combine a column with a row, of which one is a prediction and one a target."""
    for count, at in enumerate(producers(reading, losses, set())):
        if count == MOST_LOSS_CALLS:
            return
        pair = input_values(reading, at)[:2]
        what = reading.operation(at)
        is_pairwise = what.family in ("elementwise", "loss") and len(pair) == 2
        if not is_pairwise or pair[0].requires_grad == pair[1].requires_grad:
            continue
        shapes = tuple(shape_of(reading, value) for value in pair)
        if is_column_and_row(*shapes):
            origins = tuple(origin for value in pair for origin in shape_origins(reading, value))
            yield BroadcastPair(reading.call(at), shapes, (shapes[0][0], shapes[0][0]), origins)


def shape_origins(reading: Reading, value: Value) -> Iterator[ShapeOrigin]:
    """The call that gave a tensor its shape, and the call that made the data that it took a part of, if there is one:
    between them, calls only copy, convert, compute element by element, or select."""
    wanted = shape_of(reading, value)
    for can_select in (False, True):
        found = last_before(reading, value, wanted, can_select=can_select)
        at = reading.producer(found)
        is_sent = at is not None and reading.operation(at).base == "requires_grad"  # by another process
        if at is None or is_sent:
            return
        yield ShapeOrigin(reading.call(at), shape_of(reading, found))
        if not reading.operation(at).is_move:
            return


def last_before(reading: Reading, value: Value, shape: Shape, *, can_select: bool) -> Value:
    """The first tensor that a tensor was copied or computed from, with the same shape or as a part of it."""
    for _ in range(MOST_MOVES):
        at = reading.producer(value)
        if at is None:
            return value
        may_differ = can_select and reading.operation(at).is_move
        inputs = [each for each in input_values(reading, at) if may_differ or shape_of(reading, each) == shape]
        earlier = next((each for each in inputs if reading.producer(each) is not None), None)
        if earlier is None:
            return value
        value = earlier
    return value


def shape_of(reading: Reading, value: Value) -> Shape:
    """The shape of a value."""
    facts = reading.plain(value)
    if isinstance(facts, TensorFacts):
        return facts.shape
    return ()


def is_column_and_row(one: tuple[int | str, ...], two: tuple[int | str, ...]) -> bool:
    """Whether a shape is [n, 1] and the other one [n]: element by element, they make [n, n]."""
    column, row = sorted((one, two), key=len, reverse=True)
    is_pair = len(column) == 2 and len(row) == 1
    return is_pair and column[1] == 1 and column[0] == row[0] != 1
