"""What an expression computes, as far as the source says: numbers of Python, NumPy or torch, and their dtype."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any

from insitu.trace.explain.expressions import called_name, last_name
from insitu.trace.explain.slices.expression_parts import COMPREHENSIONS, arguments_of, owner_of
from insitu.trace.explain.slices.points import Point
from insitu.trace.explain.slices.resolver import Resolver, inside_comprehension
from insitu.trace.explain.slices.user_file import keyword_of

PYTHON, NUMPY, TORCH = "python", "numpy", "torch"
MOST_DEPTH = 25
DTYPES = {
    **{"float": "f64", "float64": "f64", "double": "f64", "float_": "f64", "d": "f64", "f8": "f64"},
    **{"float32": "f32", "single": "f32", "f": "f32", "f4": "f32", "float16": "f16", "half": "f16"},
    **{"bfloat16": "bf16", "int": "i64", "int64": "i64", "long": "i64", "int32": "i32", "int16": "i16"},
    **{"int8": "i8", "uint8": "u8", "bool": "b8", "bool_": "b8", "complex64": "c64", "complex128": "c128"},
}
# `float` means another dtype as a method of a tensor than as a type.
CASTS = {
    "float": "f32",
    "double": "f64",
    "half": "f16",
    "bfloat16": "bf16",
    "long": "i64",
    "int": "i32",
    "bool": "bool",
}
WIDTHS = ("b8", "u8", "i8", "i16", "i32", "i64", "bf16", "f16", "f32", "f64", "c64", "c128")
FLOATS = frozenset(("bf16", "f16", "f32", "f64"))
# Functions of NumPy that make numbers of 64 bits if nobody asks for others.
FLOAT_MAKERS = frozenset(
    [
        "zeros",
        "ones",
        "empty",
        "linspace",
        "geomspace",
        "logspace",
        "eye",
        "identity",
        "rand",
        "randn",
        "random",
        "normal",
        "uniform",
        "standard_normal",
        "random_sample",
        "exponential",
        "beta",
        "gamma",
        "dirichlet",
        "laplace",
        "lognormal",
        "loadtxt",
        "genfromtxt",
        "hanning",
        "hamming",
        "blackman",
        "kaiser",
        "tri",
        "fftfreq",
        "vander",
    ]
)
WHOLE_MAKERS = frozenset(
    [
        "integers",
        "randint",
        "permutation",
        "argsort",
        "argmax",
        "argmin",
        "searchsorted",
        "digitize",
        "bincount",
        "nonzero",
        "flatnonzero",
        "argwhere",
        "poisson",
        "binomial",
        "indices",
        "randperm",
        "multinomial",
        "bucketize",
        "factorize",
        "unravel_index",
        "tril_indices",
        "triu_indices",
    ]
)
# Functions that return floating point numbers for whole numbers, and else what they get.
FLOATING = frozenset(
    [
        "sqrt",
        "exp",
        "log",
        "log1p",
        "log2",
        "log10",
        "sin",
        "cos",
        "tan",
        "tanh",
        "expm1",
        "mean",
        "std",
        "var",
        "average",
        "median",
        "nanmean",
        "quantile",
        "percentile",
        "arctan2",
        "arctan",
        "arcsin",
        "arccos",
        "cbrt",
        "divide",
        "true_divide",
        "sigmoid",
        "softmax",
        "reciprocal",
        "atan2",
        "norm",
        "nanmedian",
        "nanstd",
        "hypot",
    ]
)
TORCH_MAKERS = frozenset(("zeros", "ones", "empty", "rand", "randn", "linspace", "logspace", "eye", "full", "normal"))
VIEWS = frozenset(("T", "data", "values", "real", "mT"))
TENSOR_TYPES = {"FloatTensor": "f32", "Tensor": "f32", "LongTensor": "i64", "DoubleTensor": "f64"}
ASKING = frozenset(("astype", "to", "type", "view"))
PYTHON_WHOLE = frozenset(("int", "len", "ord", "hash", "range", "round"))
PYTHON_KEEPING = frozenset(("sum", "max", "min", "abs", "list", "tuple", "sorted"))
COMPARING = frozenset(("eq", "ne", "lt", "le", "gt", "ge", "isnan", "isin", "isfinite", "logical_and", "logical_not"))
NUMPY_NAMES = frozenset(("np", "numpy", "jnp", "scipy"))
LIBRARY_NAMES = {**dict.fromkeys(NUMPY_NAMES, NUMPY), "torch": TORCH, "F": TORCH, "math": PYTHON}
GENERATORS = frozenset(("default_rng", "RandomState"))


@dataclass(slots=True, frozen=True)
class NumberKind:
    """The library of some numbers and their dtype. For plain numbers of Python, the dtype is f64 or i64."""

    library: str
    dtype: str

    @property
    def is_floating(self) -> bool:
        """Whether these are floating point numbers."""
        return self.dtype in FLOATS


def dtype_in(node: ast.expr | None) -> str:
    """The dtype that an expression names: `np.float32`, `"float32"`, `float`; empty if it names none."""
    if node is None:
        return ""
    if isinstance(node, ast.Constant):
        return DTYPES.get(str(node.value).lstrip("<>="), "")
    return DTYPES.get(last_name(node), "")


class KindReader:
    """Reads the kinds of expressions from the source; what it does not know is None."""

    def __init__(self, resolver: Resolver) -> None:
        self.resolver = resolver
        self._known: dict[tuple[object, ...], NumberKind | None] = {}
        self._depth = 0
        self._readers: dict[type[ast.AST], Callable[[Point, Any], NumberKind | None]] = {
            ast.BinOp: self._operator,
            ast.Call: self._call,
            ast.Attribute: self._view,
            ast.Compare: lambda point, node: NumberKind(PYTHON, "b8"),
            ast.UnaryOp: lambda point, node: self.kind(point.part(node.operand)),
            **dict.fromkeys((ast.List, ast.Tuple), lambda point, node: self._joint(point, node.elts)),
        }

    def kind(self, point: Point) -> NumberKind | None:
        """The kind of the numbers that a point refers to."""
        key = point.identity
        if key not in self._known:
            self._known[key] = None
            self._depth += 1
            if self._depth < MOST_DEPTH:
                self._known[key] = self._read(point)
            self._depth -= 1
        return self._known[key]

    def _read(self, point: Point) -> NumberKind | None:
        if isinstance(point.node, ast.Constant):
            return _constant_kind(point.node.value)
        if isinstance(point.node, ast.Subscript) and not point.keys:
            whole = self.kind(point.part(point.node.value))
            if whole is not None:
                return whole
        behind = self.resolver.behind(point)
        if behind is None:
            return self._computed(point)
        kinds = {self.kind(each) for each in behind} - {None}
        return kinds.pop() if len(kinds) == 1 else None  # it is one of several

    def _computed(self, point: Point) -> NumberKind | None:
        """The kind of an expression that is not just another name for something."""
        node = point.node
        if isinstance(node, COMPREHENSIONS):
            return self.kind(inside_comprehension(point, node))
        reader = self._readers.get(type(node))
        return None if reader is None else reader(point, node)

    def _view(self, point: Point, node: ast.Attribute) -> NumberKind | None:
        if node.attr not in VIEWS:
            return None
        return self.kind(point.part(node.value))

    def _joint(self, point: Point, nodes: list[ast.expr]) -> NumberKind | None:
        kinds = [self.kind(point.part(node)) for node in nodes]
        if None in kinds:
            return None
        return joint_kind([each for each in kinds if each is not None])

    def _operator(self, point: Point, node: ast.BinOp) -> NumberKind | None:
        sides = [self.kind(point.part(side)) for side in (node.left, node.right)]
        known = [side for side in sides if side is not None]
        found = joint_kind(known)
        if found is None or (len(known) < 2 and not _decides(known[0])):
            return None
        if isinstance(node.op, ast.Div) and not found.is_floating:
            return NumberKind(found.library, _usual(found.library))
        return found

    def _call(self, point: Point, node: ast.Call) -> NumberKind | None:
        readers = (self._asked, self._cast, self._converted, self._python, self._fixed, self._range, self._from_inputs)
        for reader in readers:
            found = reader(point, node)
            if found is not None:
                return found
        return None

    def _asked(self, point: Point, node: ast.Call) -> NumberKind | None:
        """The dtype that a call asks for by a word, or as the argument of `astype` and `to`."""
        word = keyword_of(node, "dtype")
        if word is None and called_name(node) in ASKING:
            word = next(iter(node.args), None)
        if word is None:
            word = next((each for each in node.args[1:] if isinstance(each, ast.Attribute) and dtype_in(each)), None)
        dtype = dtype_in(self._meaning(point, word))
        if not dtype:
            return None
        return NumberKind(TORCH if self._library(point, owner_of(node)) == TORCH else NUMPY, dtype)

    def _cast(self, point: Point, node: ast.Call) -> NumberKind | None:
        """`x.long()` for a tensor, `np.float32(x)` for a number."""
        name, owner = called_name(node), owner_of(node)
        if owner is None:
            return None
        if name in CASTS and not arguments_of(node):
            return NumberKind(TORCH, CASTS[name])
        if name in DTYPES and getattr(owner, "id", "") in NUMPY_NAMES:
            return NumberKind(NUMPY, DTYPES[name])
        return None

    def _converted(self, point: Point, node: ast.Call) -> NumberKind | None:
        """Numbers that change their library: tensors of arrays or lists, and numbers of Python."""
        name, owner = called_name(node), owner_of(node)
        if name in TENSOR_TYPES:
            return NumberKind(TORCH, TENSOR_TYPES[name])
        if name in ("tolist", "item") and owner is not None:
            return _as_python(self.kind(point.part(owner)))
        if name not in ("from_numpy", "as_tensor", "tensor") or not node.args:
            return None
        kind = self.kind(point.part(node.args[0]))
        if kind is None:
            return None
        is_plain_float = kind.library == PYTHON and kind.is_floating
        return NumberKind(TORCH, "f32" if is_plain_float else kind.dtype)

    def _python(self, point: Point, node: ast.Call) -> NumberKind | None:
        """A function without a module in front of it, as Python has them."""
        name = called_name(node)
        if owner_of(node) is not None:
            return None
        if name == "float":
            return NumberKind(PYTHON, "f64")
        if name in PYTHON_WHOLE:
            return NumberKind(PYTHON, "i64")
        if name in PYTHON_KEEPING and node.args:
            return self._joint(point, node.args)
        return None

    def _fixed(self, point: Point, node: ast.Call) -> NumberKind | None:
        """Functions that return one dtype whatever they get."""
        name, library = called_name(node), self._library(point, owner_of(node))
        if library == PYTHON:
            return None
        if name in WHOLE_MAKERS:
            return NumberKind(library or NUMPY, "i64")
        if name in COMPARING:
            return NumberKind(library or NUMPY, "b8")
        if library == TORCH and name in TORCH_MAKERS:
            return NumberKind(TORCH, "f32")
        if library == NUMPY and name in FLOAT_MAKERS:
            return NumberKind(NUMPY, "f64")
        return None

    def _meaning(self, point: Point, word: ast.expr | None) -> ast.expr | None:
        """The expression behind a name of a dtype."""
        if not isinstance(word, ast.Name) or dtype_in(word):
            return word
        ends = self.resolver.ends(point.part(word))
        return ends[0].node if ends else word

    def _library(self, point: Point, owner: ast.expr | None) -> str:
        """The library whose function is called, by the name of the module, or by the object; empty if not known."""
        if owner is None:
            return PYTHON
        root = owner
        while isinstance(root, ast.Attribute):
            root = root.value
        by_name = LIBRARY_NAMES.get(getattr(root, "id", ""))
        if by_name is not None:
            return by_name
        made_by = [called_name(end.node) for end in self.resolver.ends(point.part(owner))]
        if not GENERATORS.isdisjoint(made_by):
            return NUMPY
        kind = self.kind(point.part(owner))
        return kind.library if kind is not None else ""

    def _range(self, point: Point, node: ast.Call) -> NumberKind | None:
        """`arange`: whole numbers, unless an argument is not."""
        if called_name(node) != "arange":
            return None
        kind, library = self._joint(point, node.args), self._library(point, owner_of(node))
        if kind is None:
            return None
        return NumberKind(library, _usual(library) if kind.is_floating else "i64")

    def _from_inputs(self, point: Point, node: ast.Call) -> NumberKind | None:
        """A function that keeps the dtype of what it gets, or makes floating point numbers of whole ones."""
        name, owner = called_name(node), owner_of(node)
        inputs = self._inputs(point, node)
        kind = self._joint(point, inputs) if inputs else None
        if kind is None or owner is None:
            return None
        library = self._library(point, owner) or kind.library
        if library == PYTHON:
            return NumberKind(PYTHON, "f64")
        if name in FLOATING and not kind.is_floating:
            return NumberKind(library, _usual(library))
        return NumberKind(library, kind.dtype)

    def _inputs(self, point: Point, node: ast.Call) -> list[ast.expr]:
        """The arguments that decide the dtype of a result; for a method, its object."""
        name, owner = called_name(node), owner_of(node)
        if name == "full":
            return node.args[1:2]
        if name == "where":
            return node.args[1:]
        if owner is not None and self.kind(point.part(owner)) is not None:
            return [owner]
        return node.args[:1]


def _usual(library: str) -> str:
    """The dtype of floating point numbers if nobody asks for another."""
    return "f32" if library == TORCH else "f64"


def _as_python(kind: NumberKind | None) -> NumberKind | None:
    if kind is None:
        return None
    return NumberKind(PYTHON, "f64" if kind.is_floating else "i64")


def _constant_kind(value: object) -> NumberKind | None:
    if type(value) is float:
        return NumberKind(PYTHON, "f64")
    if type(value) is int:
        return NumberKind(PYTHON, "i64")
    if type(value) is bool:
        return NumberKind(PYTHON, "b8")
    return None


def _decides(kind: NumberKind) -> bool:
    """Whether the dtype of one side of an operator says that of the result: nothing is wider."""
    return kind.dtype == "f64" and kind.library != PYTHON


def joint_kind(kinds: list[NumberKind]) -> NumberKind | None:
    """The kind of the result of numbers of several kinds."""
    if not kinds:
        return None
    return reduce(_promoted, kinds)


def _promoted(one: NumberKind, other: NumberKind) -> NumberKind:
    """Numbers of Python take the dtype of an array or a tensor, unless they are floating and the others whole."""
    if one.library == PYTHON and other.library != PYTHON:
        one, other = other, one
    library = TORCH if TORCH in (one.library, other.library) else one.library
    if other.library == PYTHON and one.library != PYTHON:
        if other.is_floating and not one.is_floating:
            return NumberKind(library, _usual(library))
        return NumberKind(library, one.dtype)
    wider = max(one.dtype, other.dtype, key=WIDTHS.index)
    is_mixed = {one.is_floating, other.is_floating} == {True, False}
    if is_mixed and library == NUMPY and {one.dtype, other.dtype} & {"i64", "i32"}:
        wider = "f64"
    return NumberKind(library, wider)
