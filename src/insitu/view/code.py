"""The lines of torch-code-tracing: source lines, and under each the operators that it ran."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

from insitu.trace.event import Call, Event, Mark, Site, Variable
from insitu.view.line import Line, Span, ViewTraits
from insitu.view.name import function_name, operands
from insitu.view.value import is_setting, safe, value_text

FINENESS = {"python": -1, "module": 0, "function": 1, "aten": 2}  # watched functions are never shown
PACKAGES = "site-packages/"


class Code:
    """Shows the source line of each operator, the lines that led there, and its arguments and result.

    What a call shares with the chain of the call before is not repeated. `succinct` compares the outer places by
    their line alone; the innermost one by its columns too, so that each operator is under its own expression.
    `native` adds the path of the module, and shows functions or modules when the trace has nothing finer. A function
    that failed before it came to an operator is always shown.
    """

    traits = ViewTraits(level="aten")

    def __init__(self, *, succinct: bool = True, native: bool = True) -> None:
        self._succinct = succinct
        self._native = native
        self._before: list[Site] = []
        self._chains: dict[Site, list[Site]] = {}
        self._places: dict[Site, tuple[Span, ...]] = {}
        self._finest = FINENESS["module"]
        if not native:
            self._finest = FINENESS["aten"]
        self._covered: set[int | None] = set()

    def begin(self) -> Iterable[Line]:
        """No lines: each line of code names its place."""
        return ()

    def __call__(self, event: Event) -> Iterable[Line]:
        """The lines of this event, if it is one of the innermost calls."""
        if isinstance(event, Mark):
            return self._mark(event)
        if isinstance(event, Variable):
            return ()
        if event.name.startswith("profiler."):  # torch makes these calls for its profiler
            return ()
        if not self._is_innermost(event):
            return ()
        self._finest = max(self._finest, FINENESS[event.kind])
        return self._lines(event)

    def _mark(self, mark: Mark) -> Iterable[Line]:
        """An error of the tool itself; the drop-in leaves it out."""
        if not self._native:
            return ()
        if mark.kind != "trouble":
            return ()
        return (Line(((f"# ! {safe(mark.text)}", "red"),)),)

    def _is_innermost(self, call: Call) -> bool:
        """Whether a call is shown because no call inside it is; the calls around it are then covered."""
        covered = call.id in self._covered
        self._covered.discard(call.id)
        innermost = not covered and self._is_fine(call)
        if covered or innermost:
            self._covered.add(call.parent)
        return innermost

    def _is_fine(self, call: Call) -> bool:
        """Whether a call is as fine as the finest so far, or failed and is one to show."""
        if FINENESS[call.kind] >= self._finest:
            return True
        if call.raised is None:
            return False
        if self._native:
            return call.kind != "python"
        return call.kind == "function"

    def finish(self) -> Iterable[Line]:
        """No lines: each call was shown when it ended."""
        return ()

    def _lines(self, call: Call) -> Iterator[Line]:
        chain = self._chain(call.site)
        start = self._shared(chain)
        self._before = chain
        last = len(chain) - 1
        for depth in range(start, len(chain)):
            yield Line((("│ " * depth, ""), *self._place(chain[depth])))
            if depth < last:
                yield Line((("│ " * (depth + 1), ""), ("⬇️", "dim")))
        what = f"# {operation(call, native=self._native)}"
        has_new_place = start < len(chain)
        if has_new_place and not self._native:
            what += ";"
        yield Line((("│ " * len(chain), ""), (what, "dim"), (self._path(call), "teal")))

    def _path(self, call: Call) -> str:
        """The path of the module around a call; a module names its own."""
        if not self._native or call.kind == "module":
            return ""
        if call.path:
            return f"  {safe(call.path)}"
        return ""

    def _chain(self, site: Site | None) -> list[Site]:
        if site is None:
            return []
        chain = self._chains.get(site)
        if chain is None:
            chain = self._chains[site] = site.chain()
        return chain

    def _shared(self, chain: list[Site]) -> int:
        """How many places, from the outermost, were shown for the call before."""
        if chain is self._before:
            return len(chain)
        last = len(chain) - 1
        for index, (site, other) in enumerate(zip(chain, self._before, strict=False)):
            if site is other:
                continue
            if not self._is_same(site, other, is_last=index == last):
                return index
        return min(len(chain), len(self._before))

    def _is_same(self, site: Site, other: Site, *, is_last: bool) -> bool:
        """Whether two sites are shown as one: on one line and, where columns count, at the same columns."""
        if site.line != other.line:
            return False
        if site.file != other.file:
            return False
        if (site.start, site.end) == (other.start, other.end):
            return True
        if not self._succinct:
            return False
        return self._native or not is_last

    def _place(self, site: Site) -> tuple[Span, ...]:
        """The line of source, its expression in colour, and where it is."""
        spans = self._places.get(site)
        if spans is None:
            function = site.function.rpartition(".")[2]
            where = f"  # {shown_file(site.file)}:{site.line} in {safe(function)}:"
            spans = self._places[site] = (*source(site), (where, "dim"))
        return spans


def operation(call: Call, *, native: bool = True) -> str:
    """An operator with its arguments and its result: `mul.Tensor(f32[2, 3], 2) -> f32[2, 3]`."""
    quote = not native  # torch-code-tracing quotes the tensors in a list
    args = [value_text(item, quote_tensors=quote) for item in operands(call)]
    outcome = _outcome(call, quote)
    is_function_of_two = call.kind == "function" and len(args) == 2
    if is_function_of_two and call.operator is not None:
        return f"{_infix(safe(call.operator), *args)} -> {outcome}"
    for name, item in call.kwargs.items():
        is_shown = call.kind == "aten" or is_setting(name, item)
        if is_shown:
            args.append(f"{safe(name)}={value_text(item, quote_tensors=quote)}")
    return f"{_name(call)}({', '.join(args)}) -> {outcome}"


def _infix(symbol: str, left: str, right: str) -> str:
    """An operator between its operands, or an index after what it indexes."""
    if symbol.startswith("[]"):
        return f"{left}[{right}]{symbol[2:]}"
    return f"{left} {symbol} {right}"


def _outcome(call: Call, quote: bool) -> str:
    if call.raised is not None:
        return f"raised {safe(call.raised)}"
    result: Any = call.result
    if isinstance(result, (tuple, list)):
        return f"({', '.join([value_text(item, quote_tensors=quote) for item in result])})"
    return value_text(result, quote_tensors=quote)


def _name(call: Call) -> str:
    """Operators of ATen without the namespace, others with it, functions and modules as people write them."""
    if call.kind == "module":
        return f"{safe(call.path)} {safe(call.name)}".strip()
    if call.kind == "function":
        return function_name(call.name)
    space, _, name = call.name.partition(".")
    if space == "aten":
        return safe(name)
    return safe(f"{space}::{name}")


def source(site: Site) -> Iterator[Span]:
    """The line of source without its indentation, the expression that ran in colour."""
    text = safe(site.text.rstrip().replace("\t", " "))
    indent = len(text) - len(text.lstrip())
    start, end = site.start, site.end
    if start is None or end is None:
        yield (text[indent:], "")
        return
    if not indent <= start < end <= len(text):
        yield (text[indent:], "")
        return
    yield (text[indent:start], "")
    yield (text[start:end], "teal")
    yield (text[end:], "")


def shown_file(path: str) -> str:
    """A file from its package on, or from the current folder if it is inside.

    >>> shown_file("/usr/lib/python3/site-packages/transformers/utils/generic.py")
    'site-packages/transformers/utils/generic.py'
    """
    slashed = path.replace("\\", "/")
    found = slashed.rfind("/" + PACKAGES)
    if found >= 0:
        return safe(slashed[found + 1 :])
    try:
        here = os.path.join(os.getcwd(), "")
    except OSError:  # the current folder is gone
        return safe(path)
    return safe(path.removeprefix(here))
