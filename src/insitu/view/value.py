"""How facts become text: tensors, arguments, results, containers. Always one line, whatever a string holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import accumulate, groupby, takewhile
from types import EllipsisType, NoneType
from typing import Any

from insitu.trace.event import Fields, Opaque, TensorFacts, Word, tensors
from insitu.view.number import figure, number_text

PLAIN = frozenset({int, float, bool, NoneType})
BARE = PLAIN | {str}
MOST_ITEMS = 32
MOST_RESULT = 60  # characters of a result
MOST_DEPTH = 8
MOST_TEXT = 200
MOST_VALUES = 64  # of an array that is written out


def safe(text: str) -> str:
    """The text on one line: control characters, escape codes and broken unicode are spelled out.

    >>> safe("a\\nb\\x1b[31m")
    'a\\\\nb\\\\x1b[31m'
    """
    if text.isprintable():
        return text
    return "".join(map(_safe_character, text))


def _safe_character(character: str) -> str:
    if character.isprintable():
        return character
    return character.encode("unicode_escape").decode("ascii")


def short(text: str, limit: int) -> str:
    """The text, cut with … when it is longer than the limit."""
    if len(text) <= limit:
        return text
    return text[: limit - 1] + "…"


def tensor(facts: TensorFacts) -> str:
    """A tensor as dtype and shape, marked if it is an array of NumPy.

    >>> tensor(TensorFacts(0, (2, 3), "f32", "cpu")), tensor(TensorFacts(0, (4,), "u8", "cpu", type="ndarray"))
    ('f32[2, 3]', 'np u8[4]')
    """
    text = _typed(facts.dtype, facts.shape)
    if facts.type == "ndarray":
        return f"np {text}"
    return text


@lru_cache(maxsize=4096)
def _typed(dtype: str, shape: tuple[int | str, ...]) -> str:
    return safe(f"{dtype}[{', '.join(map(str, shape))}]")


def value_text(item: Any, *, quote_tensors: bool = False) -> str:
    """An argument as text; a string has no quotes, as `str` would have it.

    >>> value_text([1, "a", None, (2.5,)]), value_text("mean")
    ("[1, 'a', None, (2.5,)]", 'mean')
    """
    kind = type(item)
    if kind is TensorFacts:
        return tensor(item)
    if kind in PLAIN:
        return number_text(item)
    if isinstance(item, str):
        return short(safe(item), MOST_TEXT)
    if quote_tensors:
        return _inner(item, "'", 0)
    return _inner(item, "", 0)


def _inner(item: Any, quote: str, depth: int) -> str:
    """An item of a container, or a container; `quote` is put around tensors."""
    kind = type(item)
    if kind is TensorFacts:  # as most often
        return f"{quote}{tensor(item)}{quote}"
    form = FORMS.get(kind) or _inherited_form(kind)
    if form is not None:
        return form(item)
    return _container_within(item, quote, depth)


def _container_within(item: Any, quote: str, depth: int) -> str:
    if depth == MOST_DEPTH:
        return "…"
    return _container(item, quote, depth + 1)


def _quoted(text: str) -> str:
    return repr(short(text, MOST_TEXT))


# How an item without items of its own is written, by its class.
FORMS: dict[type, Callable[[Any], str]] = {
    int: number_text,
    bool: number_text,
    float: number_text,
    complex: number_text,
    NoneType: number_text,
    str: _quoted,
    Word: safe,
    EllipsisType: lambda item: "...",
    Opaque: lambda item: safe(f"<{item.type}>"),
}
CONTAINERS = (list, tuple, dict, Fields)


def _inherited_form(kind: type) -> Callable[[Any], str] | None:
    """The form of the nearest base class; None for a container."""
    if issubclass(kind, CONTAINERS):
        return None
    return next((FORMS[base] for base in kind.__mro__ if base in FORMS), _stranger)


def _stranger(item: Any) -> str:
    return safe(f"<{type(item).__name__}>")


def _container(item: Any, quote: str, depth: int) -> str:
    """A container in the signs that Python has for it."""
    if isinstance(item, Fields):
        return f"{safe(item.type)}({_named(item.items, '=', quote, depth)})"
    if isinstance(item, dict):
        return f"{{{_named(item, ': ', quote, depth)}}}"
    text = join_capped([_inner(part, quote, depth) for part in item])
    if isinstance(item, list):
        return f"[{text}]"
    if len(item) == 1:
        return f"({text},)"
    return f"({text})"


def _named(items: dict[Any, Any], sign: str, quote: str, depth: int) -> str:
    return join_capped([f"{value_text(name)}{sign}{_inner(item, quote, depth)}" for name, item in items.items()])


def join_capped(texts: list[str], most: int = MOST_ITEMS) -> str:
    """The texts with commas; of a long list the first ones and how many more there are."""
    if len(texts) > most:
        texts = [*texts[:most], f"… {len(texts) - most} more"]
    return ", ".join(texts)


def arguments(args: Sequence[Any], kwargs: dict[str, Any], *, brief: bool = False) -> list[str]:
    """The arguments as they were given; what torch passes on for itself is left out: None at the end, `_stacklevel`.

    Tensors are written as dtype and shape, with `brief` as dtype alone; equal ones that follow each other are
    counted.

    >>> x = TensorFacts(0, (2, 3), "f32", "cpu")
    >>> arguments((1, x, x, None, 0.5, None), {"out": x, "dim": None})
    ['1', '2 × f32[2, 3]', 'None', '0.5', 'out=f32[2, 3]']
    """
    count = len(args)
    while count and args[count - 1] is None:
        count -= 1
    texts: list[str] = []
    for same, items in groupby(args[:count], key=_tensor_key):
        if same is None:
            texts += [argument(item, brief) for item in items]
        else:
            texts.append(_counted(list(items), brief))
    for name, item in kwargs.items():
        if is_setting(name, item):
            texts.append(f"{safe(name)}={argument(item, brief)}")
    return texts


def is_setting(name: str, item: Any) -> bool:
    """Whether a named argument is shown: not None, and not one that torch passes on for itself."""
    if item is None:
        return False
    return not name.startswith("_")


def _tensor_key(item: Any) -> str | None:
    """The text by which equal tensors are grouped; None for anything else."""
    if type(item) is TensorFacts:
        return tensor(item)
    return None


def _counted(items: list[TensorFacts], brief: bool) -> str:
    """Equal tensors that follow each other."""
    text = argument(items[0], brief)
    if len(items) > 1:
        return f"{len(items)} × {text}"
    return text


def argument(item: Any, brief: bool = False) -> str:
    """One argument, or a part of an index: tensors by dtype and shape, `brief` by dtype alone."""
    if type(item) is TensorFacts:
        if brief:
            return safe(f"{item.dtype}[…]")
        return tensor(item)
    if not isinstance(item, (list, tuple)):
        return value_text(item)
    if not _are_several_tensors(item):
        return value_text(item)
    texts = {argument(part, brief) for part in item}
    if len(texts) == 1:
        return f"[{len(item)} × {texts.pop()}]"
    return value_text(item)


def _are_several_tensors(items: Sequence[Any]) -> bool:
    """Whether there are two or more items, all of them tensors."""
    if len(items) < 2:
        return False
    return set(map(type, items)) == {TensorFacts}


def holds_tensor(item: Any) -> bool:
    """Whether this is a tensor or a container with one in it."""
    kind = type(item)
    if kind is TensorFacts:
        return True
    if kind in BARE:
        return False
    return next(tensors(item), None) is not None


def held_text(item: Any) -> str:
    """The value of a variable, written like a result; a text is quoted, and None is `None`."""
    is_text = isinstance(item, str) and not isinstance(item, Word)
    if is_text:
        return repr(short(item, MOST_RESULT))
    if holds_tensor(item):
        return result(item)
    return short(value_text(item), MOST_RESULT)


def result(item: Any, limit: int = MOST_RESULT) -> str:
    """The tensors of a result: `f32[2, 3]`, `3 × f32[2, 3]`, `f32[2], i64[2]`, `logits: f32[2], loss: f32[]`."""
    if type(item) is TensorFacts:
        return tensor(item)
    if item is None:
        return ""
    if isinstance(item, Fields):
        return _named_results(item.items, limit)
    if isinstance(item, dict):
        return _named_results(item, limit)
    found = list(tensors(item))
    if not found:
        return short(value_text(item), limit)
    return tensors_text(found, limit)


def tensors_text(every: Sequence[TensorFacts], limit: int) -> str:
    """Tensors by dtype and shape; equal ones that follow each other are counted.

    >>> x, y = TensorFacts(0, (2, 3), "f32", "cpu"), TensorFacts(1, (4,), "i64", "cpu")
    >>> tensors_text([x, x, y], 60), tensors_text([x, y] * 8, 24)
    ('2 × f32[2, 3], i64[4]', 'f32[2, 3], … 15 more')
    """
    texts: list[str] = []
    for text, items in groupby(map(tensor, every)):
        count = len(list(items))
        texts.append(text if count == 1 else f"{count} × {text}")
    return join_within(texts, limit)


def join_within(texts: Sequence[str], limit: int) -> str:
    """The texts with commas; of a long list as many as fit, and how many more there are.

    >>> [join_within(["f32[2, 3]", "f32[4]", "i64[]"], limit) for limit in (30, 20, 12)]
    ['f32[2, 3], f32[4], i64[]', 'f32[2, 3], … 2 more', 'f32[2, 3], …']
    """
    if not texts:
        return ""
    lengths = accumulate([len(text) + len(", ") for text in texts])
    fitting = sum(1 for _ in takewhile(lambda length: length <= limit + len(", "), lengths))
    if fitting == len(texts):
        return ", ".join(texts)
    for count in range(fitting, 0, -1):
        text = ", ".join([*texts[:count], f"… {len(texts) - count:,} more"])
        if len(text) <= limit:
            return text
    return short(", ".join(texts[:2]), limit)


def _named_results(items: dict[Any, Any], limit: int) -> str:
    texts = [f"{value_text(name)}: {result(part)}" for name, part in items.items() if part is not None]
    return join_within(texts, limit)


def kept_text(item: Any) -> str:
    """The kept value of a tensor: a number, the values of a small array, else the text of the object.

    >>> kept_text(0.123456), kept_text("two\\nlines")
    ('0.1235', 'two\\\\nlines')
    """
    try:
        size: Any = getattr(item, "size", None)
        is_array = type(size) is int and hasattr(item, "tolist")
        if not is_array:
            return _element(item)
        if size > MOST_VALUES:
            return ""
        return _values(item.tolist())
    except Exception as error:  # the user's own object: its text may do anything
        return safe(f"<{type(item).__name__}: {type(error).__name__}>")


def _values(item: Any) -> str:
    if isinstance(item, list):
        return f"[{', '.join(map(_values, item))}]"
    return _element(item)


def _element(item: Any) -> str:
    if isinstance(item, float):
        return figure(item, 4)
    if isinstance(item, complex):
        return f"{item:.4g}"
    return safe(str(item))
