"""Remedies at the place where a wrong size comes from, as far back as the walk came."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from insitu.trace.advice import Advice, likely, possible
from insitu.trace.explain.bindings import nodes_of
from insitu.trace.explain.explanation import Origin, OriginKind, ShapeRow
from insitu.trace.explain.expressions import called_name
from insitu.trace.explain.remedies.call_parts import keyword, receiver
from insitu.trace.explain.remedies.situation import PRODUCING, Situation
from insitu.trace.explain.remedies.source_part import attempt, needed, only, part_at, require

SIGNS: dict[type[ast.operator], int] = {ast.Add: 1, ast.Sub: -1}


@dataclass(slots=True, frozen=True)
class WrongSize:
    """A size of one row, the size that the other row has there, and an origin that the size may come from."""

    situation: Situation
    origin: Origin
    other: ShapeRow
    size: int | str
    wanted: int | str

    @property
    def doubt(self) -> str:
        """The other size may be the wrong one."""
        name = self.other.name if self.other.name.isidentifier() else self.other.role
        return f"the {self.wanted} of {name} may be wrong instead"


def size_at_its_origin(situation: Situation) -> Advice:
    """Change the expression that introduced a size that does not fit."""
    rules = (_without_offset, _without_call, _to_size_of_other)
    found = (attempt(rule, wrong) for wrong in _wrong_sizes(situation) for rule in rules)
    return needed(next(filter(None, found), None))


def _wrong_sizes(situation: Situation) -> Iterator[WrongSize]:
    """Each of the two sizes that differ, with the origins that it may have."""
    dimension, rows = needed(situation.misfit.dimension), situation.misfit.rows
    require(len(rows) == 2, all(len(row.shape) >= -dimension for row in rows))
    for row, other in (rows, rows[::-1]):
        size = row.shape[dimension]
        about = [origin for origin in situation.origins if _is_about(origin, row, size)]
        yield from (WrongSize(situation, origin, other, size, other.shape[dimension]) for origin in about)


def _is_about(origin: Origin, row: ShapeRow, size: int | str) -> bool:
    """Whether an origin is one of a size, or of the value of a row."""
    if origin.kind is OriginKind.SIZE:
        return origin.size == size
    return origin.kind in PRODUCING and origin.name == row.name


def _without_offset(wrong: WrongSize) -> Advice:
    """`torch.zeros(n, n + 1)` as `torch.zeros(n, n)`, if the sizes differ by this 1."""
    part, difference = part_at(wrong.origin.site), int(wrong.size) - int(wrong.wanted)
    offset = only(node for node in nodes_of(part.node, ast.BinOp) if _is_offset(node, difference))
    return likely(part.inner(offset).with_value(part.text_of(offset.left)), wrong.doubt)


def _is_offset(node: ast.BinOp, difference: int) -> bool:
    """Whether an expression adds the difference of two sizes to something."""
    sign, number = SIGNS.get(type(node.op), 0), getattr(node.right, "value", None)
    return isinstance(number, int) and sign * number == difference


def _without_call(wrong: WrongSize) -> Advice:
    """Leave out a padding or a slice without which the sizes are the same."""
    part = part_at(wrong.origin.site)
    require(wrong.origin.kind is OriginKind.SIZE, len(wrong.origin.tensors) == 2)
    before, after = wrong.origin.tensors
    changed = [pair for pair in zip(before.shape, after.shape, strict=True) if pair[0] != pair[1]]
    require(changed == [(wrong.wanted, wrong.size)])
    fix = part.with_value(receiver(part).text)
    if called_name(part.node) == "pad":
        return likely(fix, wrong.doubt)
    return possible(fix, wrong.doubt)


def _to_size_of_other(wrong: WrongSize) -> Advice:
    """`F.interpolate(x, scale_factor=2)` as `F.interpolate(x, size=skip.shape[-2:])`."""
    part, name = part_at(wrong.origin.site), wrong.other.name
    word = needed(keyword(part.node, "scale_factor"))
    require(name.isidentifier(), wrong.situation.is_in_function(wrong.origin))
    sides = len(wrong.other.shape) - 2
    return likely(part.inner(word).with_text(f"size={name}.shape[-{sides}:]"), wrong.doubt)
