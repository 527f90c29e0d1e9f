"""Where a size comes from: arithmetic on numbers, lengths, slices and choices."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, replace

from insitu.trace.explain.bindings import nodes_of
from insitu.trace.explain.expressions import called_name
from insitu.trace.explain.slices.expression_parts import (
    COMPREHENSIONS,
    USUAL_IMPORTS,
    filter_around,
    is_imported,
    is_number,
    number_of,
    owner_of,
    parts_of,
)
from insitu.trace.explain.slices.points import ANY, Point
from insitu.trace.explain.slices.resolver import Resolver
from insitu.trace.explain.slices.slice_walk import CERTAIN, POSSIBLE, REMOTE, Turn, Verdict
from insitu.trace.explain.slices.user_file import keyword_of

ROUNDING = (ast.FloorDiv, ast.Mod, ast.Pow, ast.RShift, ast.LShift)
SET_OPERATORS = (ast.Sub, ast.BitAnd, ast.BitOr, ast.BitXor)
SUMS = (ast.Add, ast.Sub)
COUNTING = frozenset(("len", "unique", "count", "nunique", "numel", "ceil", "floor", "round", "isqrt", "log2"))
RESIZING = frozenset(("pad", "reshape", "view", "resize", "repeat", "tile", "delete", "insert"))
JOINING = frozenset(("concatenate", "cat", "hstack"))
# Functions that draw numbers: their first arguments are limits, not sizes.
DRAWING = frozenset(("randint", "integers", "normal", "uniform", "random", "standard_normal", "choice"))
LISTS = (ast.List, ast.Tuple, ast.ListComp)
RANDOM = frozenset(("integers", "randint", "randrange", "choice", "sample", "uniform"))
# Arguments of these layers change the size of their input.
WINDOWS = ("stride", "padding", "kernel_size", "dilation", "output_padding", "output_size", "scale_factor")


@dataclass(slots=True, frozen=True)
class SizeRules:
    """The rules for a size: `number` for an expression that is a number, `length` for a sequence or a tensor.

    If the size is known, other numbers that are written in the source do not explain it. With `follows_filters`, the
    condition under which an item was put into a list may explain its length.
    """

    size: int | str | None = None
    follows_filters: bool = False

    def number(self, point: Point, resolver: Resolver) -> Verdict:
        """A number that is a size. The length of a sequence decides `len(x)` and `x.shape[0]`."""
        written = number_of(point.node)
        if written is not None and self.size not in (None, written):
            return Verdict()
        score, measured = _number_score(point, resolver), _measured(point.node)
        if measured is not None:
            return Verdict(score, (), (Turn(self.length, point.part(measured)),))
        if isinstance(point.node, COMPREHENSIONS):
            return Verdict(score, parts_of(point)[:1])  # the items of a loop are not the numbers that it computes
        return Verdict(score, parts_of(point))

    def length(self, point: Point, resolver: Resolver) -> Verdict:
        """A sequence, an array or a tensor whose length or shape matters, but not its values."""
        verdict = self._length(point, resolver)
        condition = filter_around(point) if self.follows_filters else None
        if condition is None:
            return verdict
        return replace(verdict, turns=(*verdict.turns, Turn(_condition, point.part(condition))))

    def _length(self, point: Point, resolver: Resolver) -> Verdict:
        node = point.node
        if isinstance(node, COMPREHENSIONS):
            is_filtered = any(loop.ifs for loop in node.generators)
            return Verdict(POSSIBLE * is_filtered, point.parts(loop.iter for loop in node.generators))
        if isinstance(node, ast.Subscript):
            bounds = point.parts(filter(None, _bounds(node)))
            return Verdict(_slice_score(node), (point.part(node.value),), self._turns(bounds))
        if isinstance(node, ast.BinOp):
            return self._joined(point, node)
        if isinstance(node, ast.Call):
            return self._made(point, node, resolver)
        if isinstance(node, ast.Attribute):
            return Verdict(0, (point.part(node.value),))
        starred = [each for each in getattr(node, "elts", ()) if isinstance(each, ast.Starred)]
        return Verdict(0, point.parts(starred))

    def _turns(self, parts: Iterable[Point]) -> tuple[Turn, ...]:
        return tuple(Turn(self.number, part) for part in parts)

    def _joined(self, point: Point, node: ast.BinOp) -> Verdict:
        """Lists that are joined or repeated; arrays that are added."""
        sides = point.parts(side for side in (node.left, node.right) if not isinstance(side, ast.Constant))
        if isinstance(node.op, ast.Mult) and has_list(node):
            numbers = point.parts(side for side in (node.left, node.right) if not isinstance(side, LISTS))
            return Verdict(POSSIBLE, (), self._turns(numbers))
        if isinstance(node.op, SET_OPERATORS) and any(map(_is_set, (node.left, node.right))):
            return Verdict(CERTAIN, sides)
        return Verdict(POSSIBLE * (isinstance(node.op, ast.Add) and has_list(node)), sides)

    def _made(self, point: Point, node: ast.Call, resolver: Resolver) -> Verdict:
        """A call that makes or changes a sequence: by its numbers, by the length of its values, or by both."""
        if resolver.behind(point) is not None:
            return Verdict()
        name = called_name(node)
        if name in DRAWING:
            return Verdict(0, (), self._turns(_drawn_sizes(point, node)))
        if name in JOINING and node.args:
            return Verdict(REMOTE, _joined_values(point, node))
        roles = SIZE_ROLES.get(name)
        if roles is None:
            return Verdict(0, measured_parts(point, node))  # it computes each element: the sizes stay
        measured = measured_parts(point, node)[: int(roles.keeps_first)]
        return Verdict(POSSIBLE * (name in RESIZING), measured, self._turns(point.parts(roles.numbers(node))))


@dataclass(slots=True, frozen=True)
class SizeRoles:
    """Which arguments of a function decide the size of its result.

    `first` is the position of the first one that is a number, counted with the owner of a method; `last` that of the
    last one. `words` are their names. With `keeps_first`, the size of the first argument goes into it.
    """

    first: int = 0
    last: int | None = None
    words: tuple[str, ...] = ()
    keeps_first: bool = False

    def numbers(self, node: ast.Call) -> list[ast.expr]:
        """The arguments that are numbers."""
        shift = int(self.keeps_first and _is_method(node))
        stop = None if self.last is None else self.last + 1 - shift
        named = [word.value for word in node.keywords if word.arg in self.words]
        return [*node.args[max(0, self.first - shift) : stop], *named]


SHAPE_WORDS = ("size", "shape")
SIZE_ROLES = {
    **dict.fromkeys(("zeros", "ones", "empty", "rand", "randn", "eye"), SizeRoles(words=SHAPE_WORDS)),
    "full": SizeRoles(0, 0, ("size", "shape")),
    **dict.fromkeys(("arange", "range"), SizeRoles(words=("start", "stop", "end", "step"))),
    **dict.fromkeys(("linspace", "logspace", "geomspace"), SizeRoles(2, 2, ("num", "steps"))),
    **dict.fromkeys(("repeat", "tile", "repeat_interleave"), SizeRoles(1, None, ("repeats", "reps"), keeps_first=True)),
    **dict.fromkeys(("reshape", "view", "resize"), SizeRoles(1, None, ("newshape", "shape"), keeps_first=True)),
    "pad": SizeRoles(1, 1, ("pad_width", "pad"), keeps_first=True),
    "interpolate": SizeRoles(1, 2, ("size", "scale_factor"), keeps_first=True),
    **dict.fromkeys(("delete", "narrow", "split", "array_split", "chunk"), SizeRoles(1, None, keeps_first=True)),
    "interp": SizeRoles(1, 0, keeps_first=True),
}


def _joined_values(point: Point, node: ast.Call) -> tuple[Point, ...]:
    """The values that a function joins: the items of its first argument."""
    values = node.args[0]
    if isinstance(values, (ast.List, ast.Tuple)):
        return point.parts(values.elts)
    return (Point(point.scope, values, (ANY,)),)


def _is_method(node: ast.Call) -> bool:
    """Whether a call is written as a method of a value: `x.repeat(3)`, and not `np.repeat(x, 3)`."""
    owner = owner_of(node)
    return owner is not None and not (isinstance(owner, ast.Name) and owner.id in USUAL_IMPORTS)


def _drawn_sizes(point: Point, node: ast.Call) -> tuple[Point, ...]:
    """The arguments of a function that draws numbers which decide how many: by name, as a tuple, or the last one."""
    named = keyword_of(node, *SHAPE_WORDS)
    if named is not None:
        return (point.part(named),)
    tuples = [each for each in node.args if isinstance(each, ast.Tuple)]
    return point.parts(tuples or node.args[-1:])


def measured_parts(point: Point, node: ast.Call) -> tuple[Point, ...]:
    """The values whose sizes go into the result of a function: the owner of a method, else the arguments."""
    owner = owner_of(node)
    if owner is not None and not is_imported(point, owner):
        return (point.part(owner),)
    return point.parts(node.args)


def _condition(point: Point, resolver: Resolver) -> Verdict:
    """The condition of a filter: it may let in what it should not. Its parts are not judged."""
    function = point.scope.function
    branches = nodes_of(function, ast.If) if function is not None else ()
    return Verdict(POSSIBLE * any(branch.test is point.node for branch in branches))


# The rules for a size that is not known.
ANY_SIZE = SizeRules()


def _measured(node: ast.expr) -> ast.expr | None:
    """The sequence or tensor whose length or size an expression is: x of `len(x)`, `x.shape[0]`, `x.size(0)`."""
    if isinstance(node, ast.Subscript) and getattr(node.value, "attr", "") == "shape":
        return node.value.value  # type: ignore[attr-defined, no-any-return]
    if isinstance(node, ast.Attribute) and node.attr == "shape":
        return node.value
    name = called_name(node)
    if name == "len" and isinstance(node, ast.Call) and node.args:
        return node.args[0]
    if name in ("size", "numel", "dim"):
        return owner_of(node)
    return None


def _is_set(node: ast.expr) -> bool:
    is_set = isinstance(node, (ast.Set, ast.SetComp)) or called_name(node) in ("set", "frozenset", "keys")
    return is_set or (isinstance(node, ast.BinOp) and _is_set(node.left))


def has_list(node: ast.BinOp) -> bool:
    """Whether an operator joins or repeats a list: `[0] * n`, `row + [0] * n`."""
    sides = [node.left, node.right, getattr(node.left, "left", None), getattr(node.right, "left", None)]
    return any(isinstance(side, LISTS) for side in sides)


def _number_score(point: Point, resolver: Resolver) -> int:
    node = point.node
    if isinstance(node, ast.BinOp):
        return _operator_score(node)
    if isinstance(node, ast.IfExp):
        return CERTAIN if is_number(node.body) or is_number(node.orelse) else POSSIBLE
    if isinstance(node, ast.Subscript):
        return _item_score(node) if _measured(node) is None else 0
    if is_number(node):
        return REMOTE
    if isinstance(node, ast.Call):
        return _call_score(point, node, resolver)
    return 0


def _operator_score(node: ast.BinOp) -> int:
    if isinstance(node.op, ROUNDING):
        return CERTAIN
    has_number = is_number(node.left) or is_number(node.right)
    if isinstance(node.op, SUMS):
        return CERTAIN if has_number else POSSIBLE
    return POSSIBLE


def _item_score(node: ast.Subscript) -> int:
    """A number that is chosen by its place: `widths[0]`."""
    is_place = isinstance(node.slice, (ast.Constant, ast.UnaryOp)) and is_number(node.slice)
    return POSSIBLE if is_place else _slice_score(node)


def _slice_score(node: ast.Subscript) -> int:
    bounds = _bounds(node)
    if isinstance(node.slice, ast.Compare):
        return POSSIBLE  # a mask decides how many are left
    if any(each is not None and not is_number(each) for each in bounds):
        return CERTAIN
    return POSSIBLE * any(each is not None for each in bounds)


def _bounds(node: ast.Subscript) -> list[ast.expr | None]:
    """The bounds of the slices in an index."""
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    return [each for part in parts if isinstance(part, ast.Slice) for each in (part.lower, part.upper, part.step)]


def _call_score(point: Point, node: ast.Call, resolver: Resolver) -> int:
    name = called_name(node)
    if resolver.behind(point) is not None:
        return 0
    if name in COUNTING and not _is_plain_length(node):
        return CERTAIN
    if name in RESIZING or name in RANDOM:
        return POSSIBLE
    if name == "int" and any(isinstance(each, ast.BinOp) for each in node.args):
        return CERTAIN  # a fraction is cut off
    if keyword_of(node, *WINDOWS) is not None:
        return REMOTE
    return REMOTE * (name in COUNTING)


def _is_plain_length(node: ast.Call) -> bool:
    """Whether a call only counts the items of a name: `len(rows)`."""
    return called_name(node) == "len" and bool(node.args) and isinstance(node.args[0], (ast.Name, ast.Attribute))
