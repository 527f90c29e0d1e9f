"""The lines of torch-code-tracing: source lines, and under each the operators that it ran."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

from insitu.trace.event import Call, Event, Mark, Site, Variable
from insitu.view.line import Line, Span, ViewTraits
from insitu.view.name import function_name, operands
from insitu.view.value import safe, value_text

FINENESS = {"python": -1, "module": 0, "function": 1, "aten": 2}  # watched functions are never shown
PACKAGES = "site-packages/"


class Code:
    """Shows the source line of each operator, the lines that led there, and its arguments and result.

    What a call shares with the chain of the call before is not repeated. `succinct` compares the outer places by
    their line alone; the innermost one by its columns too, so that each operator stands under its own expression.
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
        self._finest = 0 if native else FINENESS["aten"]
        self._covered: set[int | None] = set()

    def begin(self) -> Iterable[Line]:
        """Nothing: the first line of code says where one is."""
        return ()

    def __call__(self, event: Event) -> Iterable[Line]:
        """The lines of this event, if it is one of the innermost calls."""
        if isinstance(event, Mark):
            return self._mark(event)
        if isinstance(event, Variable) or event.name.startswith("profiler."):  # the latter torch makes for its profiler
            return ()
        covered = event.id in self._covered
        self._covered.discard(event.id)
        innermost = not covered and self._is_fine(event)
        if event.parent is not None and (covered or innermost):
            self._covered.add(event.parent)
        if not innermost:
            return ()
        self._finest = max(self._finest, FINENESS[event.kind])
        return self._lines(event)

    def _mark(self, mark: Mark) -> Iterable[Line]:
        """An error of the tool itself; the drop-in leaves it out."""
        is_shown = mark.kind == "trouble" and self._native
        return (Line(((f"# ! {safe(mark.text)}", "red"),)),) if is_shown else ()

    def _is_fine(self, call: Call) -> bool:
        """Whether a call is as fine as the finest so far, or failed and is one to show."""
        if FINENESS[call.kind] >= self._finest:
            return True
        shown = call.kind != "python" if self._native else call.kind == "function"
        return shown and call.raised is not None

    def finish(self) -> Iterable[Line]:
        """Nothing: every line was shown when it was due."""
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
        ending = ";" if start < len(chain) and not self._native else ""
        where = f"  {safe(call.path)}" if self._native and call.path and call.kind != "module" else ""
        what = f"# {operation(call, native=self._native)}{ending}"
        yield Line((("│ " * len(chain), ""), (what, "dim"), (where, "teal")))

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
            if site.line != other.line or site.file != other.file:
                return index
            exact = not self._succinct or (index == last and not self._native)
            if exact and (site.start, site.end) != (other.start, other.end):
                return index
        return min(len(chain), len(self._before))

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
    if call.operator is not None and len(args) == 2 and call.kind == "function":
        return f"{_infix(safe(call.operator), *args)} -> {outcome}"
    named = [(name, item) for name, item in call.kwargs.items() if call.kind == "aten" or _is_setting(name, item)]
    args += [f"{safe(name)}={value_text(item, quote_tensors=quote)}" for name, item in named]
    return f"{_name(call)}({', '.join(args)}) -> {outcome}"


def _is_setting(name: str, item: Any) -> bool:
    """Whether a named argument is shown: not None, and not one that torch passes on for itself."""
    return item is not None and not name.startswith("_")


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
    if site.start is None or site.end is None:
        yield (text[indent:], "")
    elif indent <= site.start < site.end <= len(text):
        yield (text[indent : site.start], "")
        yield (text[site.start : site.end], "teal")
        yield (text[site.end :], "")
    else:
        yield (text[indent:], "")


def shown_file(path: str) -> str:
    """A file from its package on, or from the current folder if it lies there.

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
