"""The view of Tensor Tracker: calls of watched functions with what goes in and out, changes of variables between."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import islice

from insitu import Call, Event, Mark, Site, Variable
from insitu.view import Line
from ttracker.values import described, results

GUIDE = "│   "
MOST_PLACES = 3
OWN = os.path.join(os.path.dirname(__file__), "")


class Tree:
    """Shows each call when it begins, each change when it happens, and how the call ends.

    >>> view, site = Tree(), Site("data.py", 283, "Data.getitem")
    >>> call = Call(0, None, "python", "Data.load", kwargs={"index": 113}, site=site, defined=Site("data.py", 176, ""))
    >>> print(*view.opened(call), *view(Variable(1, 0, "n", [1, 2], ("new",), site)), *view(call), sep=chr(10))
    ┌── [data.py:176] 函数 [Data.load] 被调用于 getitem:283 (data.py:283)
    ├─ 输入 [Var] index@0 value: 113
    │   ├─ [Var] n@283 len(value): 2
    └─ 输出 value: None
    """

    def __init__(self) -> None:
        self._depths: dict[int, int] = {}

    def begin(self) -> Iterable[Line]:
        """No lines: the head of each call names its place."""
        return ()

    def opened(self, call: Call) -> Iterator[Line]:
        """A call that begins, and its arguments without the object whose method it is."""
        if call.kind != "python":
            return
        depth = self._depths[call.id] = self._inside(call)
        yield line(depth, f"┌── {head(call)}")
        for name, value in call.kwargs.items():
            if name not in ("self", "cls"):
                yield from (line(depth, f"├─ 输入 {text}") for text in described(name, value))

    def __call__(self, event: Event) -> Iterator[Line]:
        """The lines of a change, or of the end of a call."""
        if isinstance(event, Variable):
            yield from self._changed(event)
        elif isinstance(event, Call) and event.kind == "python":
            depth = self._depths.pop(event.id, 0)
            texts = results(event.result) if event.raised is None else (f"抛出 {event.raised}",)
            yield from (line(depth, f"└─ {text if event.raised else '输出 ' + text}") for text in texts)
        elif isinstance(event, Mark) and event.kind == "trouble":
            yield line(self._inside(event), f"[WARN] {event.text}")

    def finish(self) -> Iterable[Line]:
        """No lines: a generator may go on later."""
        return ()

    def _changed(self, variable: Variable) -> Iterator[Line]:
        number = variable.site.line if variable.site is not None else 0
        depth = self._inside(variable)
        if variable.changes == ("deleted",):
            yield line(depth, f"├─ [Var] {variable.name}@{number} 已删除")
            return
        yields = variable.changes == ("yielded",)
        depth, sign = (max(depth - 1, 0), "├─ 产出") if yields else (depth, "├─")
        yield from (line(depth, f"{sign} {text}") for text in described(variable.name, variable.value, number))

    def _inside(self, event: Event) -> int:
        """How deep the things in the call around an event are indented."""
        if event.parent is None:
            return 0
        around = self._depths.get(event.parent)
        return (around if around is not None else next(reversed(self._depths.values()), -1)) + 1


def line(depth: int, text: str) -> Line:
    """A line at its depth, as long as it is."""
    return Line(((GUIDE * depth + text, ""),))


def head(call: Call) -> str:
    """Where a function is defined, its name, and who has called it.

    >>> head(Call(0, None, "python", "load", site=Site("b.py", 2, "main", caller=Site("a.py", 1, "<module>"))))
    '函数 [load] 被调用于 main:2 (b.py:2 <- a.py:1)'
    """
    defined = f"[{place(call.defined)}] " if call.defined is not None else ""
    sites = list(islice(callers(call), MOST_PLACES))
    if not sites:
        return f"{defined}函数 [{call.name}]"
    caller = f"{sites[0].function.rpartition('.')[2]}:{sites[0].line}"
    return f"{defined}函数 [{call.name}] 被调用于 {caller} ({' <- '.join(map(place, sites))})"


def callers(call: Call) -> Iterator[Site]:
    """The places that led to a call, from the innermost on, without those of this package."""
    site = call.site
    while site is not None:
        if not site.file.startswith(OWN):
            yield site
        site = site.caller


def place(site: Site) -> str:
    """File and line."""
    return f"{os.path.basename(site.file)}:{site.line}"
