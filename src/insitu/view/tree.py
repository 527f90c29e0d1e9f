"""The tree: every call under the one that made it, blocks that are alike folded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import compress
from typing import Any

from insitu.trace.analysis import relative
from insitu.trace.event import Call, Event, Mark, ModuleFacts, Site, TensorFacts, Variable, tensors
from insitu.trace.folding import Columns, Fold, Steps, fold, steps
from insitu.trace.grouping import grouped
from insitu.trace.nesting import Forest, Group, Node
from insitu.trace.operation import operation
from insitu.view.beside import Beside
from insitu.view.line import Column, Line, Span, ViewTraits
from insitu.view.name import compact, expression, is_inner, module_type, spot
from insitu.view.ranges import UNKNOWN, listed, outputs_cell, values_cell
from insitu.view.value import duration, held, holds_tensor, kept, limits, result, safe, short, tensor

COLUMNS = (Column("output"), Column("values", drop=2), Column("time", right=True, drop=3), Column("source", drop=1))
NOTHING: Span = ("", "")
MOST_HELD = 60  # characters of what a variable held
MOST_KEPT = 24
SUM = "Σ "
GUIDE = ("│  ", "   ")
BRANCH = ("├─ ", "└─ ")
INKS = {"module": "purple", "function": "cyan", "python": "teal"}

Branch = tuple[Fold, Call | None, str, str]


class Tree:
    """Shows each outermost call, once it is complete, with all that lies in it.

    Blocks that are alike but for their values, and the passes of a loop, are one row, and so is what one expression
    does: `optimizer.step()`. Such a row has the range of all values and, behind a Σ, the sum of all times. How torch's
    own leaf modules do their work is left out; `unfold` shows it all. Outermost calls, and steps, can be one row only
    when all events are at hand (`live=False`). `costs` adds own time, memory, parameters and operations; `backward`
    puts gradients and backward times beside the calls they belong to.
    """

    traits = ViewTraits(
        replay={"live": False},
        flags={
            "unfold": "show each call of loops, expressions and blocks that are alike",
            "costs": "own time, memory, parameters and FLOPs of each call",
            "backward": "gradients and backward times beside the calls (recorded with --level aten)",
        },
    )

    def __init__(self, *, unfold: bool = False, live: bool = True, costs: bool = False, backward: bool = False) -> None:
        self._unfold = unfold
        self._beside = Beside(costs=costs, backward=backward) if costs or backward else None
        self._live = live and not backward  # the backward pass comes after what it stands beside
        self._columns = COLUMNS if self._beside is None else (*COLUMNS[:-1], *self._beside.columns, COLUMNS[-1])
        self._forest = Forest(folding=not unfold)
        self._roots: list[Node] = []
        self._types: dict[ModuleFacts, str] = {}

    def begin(self) -> Iterable[Line]:
        """A heading, where there are more columns than explain themselves."""
        if self._beside is None:
            return ()
        return (Line((("call", "grey"),), tuple((column.name, "grey") for column in self._columns), self._columns),)

    def __call__(self, event: Event) -> Iterable[Line]:
        """The rows of a tree that this event completes."""
        if type(event) is Mark and event.kind == "step":
            return ()
        if self._beside is not None:
            self._beside.add(event)
        root = self._forest.add(event)
        if root is None:
            return ()
        if not self._live:
            self._roots.append(root)
            return ()
        self._forest.forget()
        rows = self._rows(fold(self._arranged([[root]])[0]))
        if self._beside is None:
            return rows
        shown = list(rows)
        self._beside.forget()
        return shown

    def left_out(self, event: Event) -> None:
        """An event without a row: those around it cost what it costs."""
        if self._beside is not None:
            self._beside.add(event)

    def finish(self) -> Iterable[Line]:
        """The rows of all that was kept back, and of calls whose parents never came."""
        roots = sorted([*self._roots, *self._forest.rest()], key=lambda node: node.first.id)
        self._roots = []
        if self._beside is not None:
            self._beside.settle()
        groups = steps(self._arranged([roots])[0]) if roots else []
        ranked = len({fold.nodes[0].first.rank for group in groups for fold in group.folds}) > 1
        for group in groups:
            yield from self._step(group, titled=not self._live and len(groups) + group.count > 2, ranked=ranked)
        if self._beside is not None and (missing := self._beside.missing) is not None:
            yield Line(((missing, "grey"),), (), self._columns)

    def _step(self, group: Steps, *, titled: bool, ranked: bool) -> Iterator[Line]:
        """The rows of a step, or of several that are the same; a step of one call has its number on that row."""
        if not titled:
            return self._rows(group.folds)
        title = f"step {group.first}" if group.count == 1 else f"step {group.first} … {group.last}"
        if ranked:
            title = f"rank {group.folds[0].nodes[0].first.rank} {title}"
        spans: tuple[Span, ...] = ((title + "  ", "grey"),)
        if group.count > 1:
            spans = (*spans, (f"× {group.count} alike  ", "yellow"))
        if len(group.folds) == 1:
            return self._rows(group.folds, before=spans)
        return self._titled(group, spans)

    def _titled(self, group: Steps, spans: tuple[Span, ...]) -> Iterator[Line]:
        yield Line((*spans[:-1], (spans[-1][0].rstrip(), spans[-1][1])), (), self._columns)
        yield from self._rows(group.folds, nested=True)

    def _rows(self, folds: list[Fold], *, nested: bool = False, before: tuple[Span, ...] = ()) -> Iterator[Line]:
        """One row for each fold and for all that lies in it; a stack, because programs recurse deeper than Python."""
        stack = self._branches(folds, None, "", nested=nested)
        while stack:
            item, parent, guide, branch = stack.pop()
            event = item.event
            if isinstance(event, Mark):
                yield _mark(event, guide + branch)
                continue
            if isinstance(event, Variable):
                yield _variable(item, guide + branch)
                continue
            name, cells = (
                (_group_name(event, item), _group_cells(event, item))
                if isinstance(event, Group)
                else (self._name(event, item, parent), _cells(event, item))
            )
            if before:
                name, before = (*before, *name), ()
            if self._beside is not None:
                cells = (*cells[:-1], *self._beside.cells(item), cells[-1])
            yield Line(((guide + branch, "grey"), *name) if branch else name, cells, self._columns)
            if isinstance(event, Group):
                stack += self._below(item, parent, guide, branch) if event.kind == "pass" else []
            elif item.nodes[0].children:
                stack += self._below(item, event, guide, branch)

    def _below(self, item: Fold, parent: Call | None, guide: str, branch: str) -> list[Branch]:
        deeper = guide + (GUIDE[branch is BRANCH[1]] if branch else "")
        return self._branches(item.children(self._arranged), parent, deeper, nested=True)

    def _branches(self, folds: list[Fold], parent: Call | None, guide: str, *, nested: bool) -> list[Branch]:
        """The folds, the last one first."""
        branches = [(item, parent, guide, BRANCH[0] if nested else "") for item in reversed(folds)]
        if nested and branches:
            branches[0] = (*branches[0][:3], BRANCH[1])
        return branches

    def _arranged(self, columns: Columns, path: str = "") -> Columns:
        """Siblings without those that are not shown, and in groups."""
        if self._unfold and self._beside is None:
            return columns
        shown = [self._is_shown(node) for node in columns[0]]
        if not all(shown):
            columns = [list(compress(nodes, shown)) for nodes in columns]
        return columns if self._unfold else grouped(columns, path)

    def _is_shown(self, node: Node) -> bool:
        if self._beside is not None and self._beside.hides(node.event):
            return False
        return self._unfold or not _is_hidden(node)

    def _name(self, call: Call, item: Fold, parent: Call | None) -> tuple[Span, ...]:
        """The spans that say what was called."""
        spans: list[Span] = []
        module = call.module
        if call.kind == "module" and module is not None:
            base = parent.path if parent is not None else ""
            path = safe(relative(module.path, base))
            if item.near > 1:
                final = item.nodes[item.near - 1].event
                other = safe(relative(final.path, base)) if isinstance(final, Call) else path
                path = f"{path} … {other}" if other != path else path
            if path:
                spans.append((path + "  ", "bold"))
            if item.count > 1:
                spans.append((f"× {item.count} alike  ", "yellow"))
            spans.append((self._type(module), "purple"))
        else:
            spans.append((safe(call.name), "orange") if call.kind == "aten" else (compact(call), INKS[call.kind]))
            if item.count > 1:
                spans.append((f"  × {item.count} alike", "yellow"))
        if call.phase == "backward":
            of = f" of {_paths(item)}" if call.forward is not None and call.path else ""
            spans.append((f"  backward{of}", "grey"))
        elif call.phase == "recompute":
            spans.append(("  recompute", "grey"))
        return tuple(spans)

    def _type(self, module: ModuleFacts) -> str:
        text = self._types.get(module)
        if text is None:
            text = self._types[module] = module_type(module)
        return text


def _paths(item: Fold) -> str:
    """The path of the module, or of the first and the last of several."""
    ends = [node.event for node in (item.nodes[0], item.nodes[-1]) if isinstance(node.event, Call)]
    return " … ".join(dict.fromkeys(safe(call.path) for call in ends))


def _is_hidden(node: Node) -> bool:
    """How a leaf does its work is left out, unless operators were asked for or the leaf is all there is."""
    event = node.event
    if not isinstance(event, Call) or event.raised is not None:
        return False
    if event.kind == "python":
        return False
    if operation(event.kind, event.name).is_incidental:
        return True
    return event.kind == "function" and not node.children and event.path != "" and is_inner(event)


def _group_name(group: Group, item: Fold) -> tuple[Span, ...]:
    """What an expression did, or the passes of a loop."""
    number: Span = (f"× {item.count} alike", "yellow")
    if group.kind == "pass":
        return (number,)
    calls: Span = (f"  {len(group.nodes)} calls", "grey")
    return ((expression(_site(group.first)), INKS["python"]), calls, *((("  ", ""), number) if item.count > 1 else ()))


def _group_cells(group: Group, item: Fold) -> tuple[Span, ...]:
    times = [node.event.duration for node in item.nodes if isinstance(node.event, Group)]
    sites = [site for event in (group.first, group.last) if (site := _site(event)) is not None]
    places = dict.fromkeys(map(spot, sites))
    return (NOTHING, NOTHING, _time(times), (" … ".join(places), "grey"))


def _time(times: list[int]) -> Span:
    """A time, or the sum of several."""
    if not times:
        return NOTHING
    return (f"{SUM if len(times) > 1 else ''}{duration(sum(times))}", "green")


def _site(event: Event) -> Site | None:
    return None if isinstance(event, Mark) else event.site


def _mark(mark: Mark, guide: str) -> Line:
    trouble = mark.kind == "trouble"
    text = f"{'!' if trouble else '#'} {safe(mark.text)}"
    return Line(((guide, "grey"), (text, "red" if trouble else "green")), (), COLUMNS)


def _variable(item: Fold, guide: str) -> Line:
    """A variable, or several changes of it on one line of a loop: the first value and the last."""
    every = [node.event for node in item.nodes if isinstance(node.event, Variable)]
    first, last = every[0], every[-1]
    changes = tuple(dict.fromkeys(change for variable in every for change in variable.changes))
    name, word, ink = f"{safe(first.name)} =", f"{', '.join(changes)} changed", "yellow"
    if changes == ("yielded",):
        name, word = "yield", ""
    elif changes == ("deleted",):
        name, word, ink = safe(first.name), "deleted", "red"
    elif changes == ("new",) or not changes:
        word, ink = "".join(changes), "green"
    spans: list[Span] = [(guide, "grey"), (name, "bold")]
    if item.count > 1:
        spans.append((f"  × {item.count}", "yellow"))
    if word:
        spans.append((f"  {word}", ink))
    every_value = [variable.value for variable in every if variable.changes != ("deleted",)]
    values = values_cell([tuple(tensors(item)) for item in every_value]) or _kept(last.value)
    source = NOTHING if first.site is None else _source(first.site)
    return Line(tuple(spans), ((_course(every), "blue"), values, NOTHING, source), COLUMNS)


def _course(every: list[Variable]) -> str:
    """What a variable held first and last, and how often it was NaN between."""
    texts = ["" if variable.changes == ("deleted",) else held(variable.value) for variable in (every[0], every[-1])]
    text = short(" → ".join(filter(None, dict.fromkeys(texts))), MOST_HELD)
    odd = _nan([variable.value for variable in every]) if len(every) > 2 else 0
    return f"{text}, {odd:,} NaN" if odd else text


def _cells(call: Call, item: Fold) -> tuple[Span, ...]:
    """Output, values, time and source of a row that may stand for many calls."""
    out = call.result
    calls = [node.event for node in item.nodes if isinstance(node.event, Call)]
    if call.raised is not None:
        inputs = result(call.args) if call.kind != "python" else result(call.inputs or None)
        output = (f"✗ raised {safe(call.raised)}" + (f" ← {inputs}" if inputs else ""), "red")
    else:
        output = (tensor(out) if type(out) is TensorFacts else _results(calls), "blue")
    return (
        output,
        outputs_cell(calls) or _kept(out, len(calls)),
        _time([each.duration for each in calls if each.duration is not None]),
        _sources(calls),
    )


def _results(calls: list[Call]) -> str:
    """What was returned; of several numbers the least and the largest, and how many are NaN."""
    out, found = calls[0].result, [call.result for call in calls]
    if len(found) > 1 and isinstance(out, (int, float)) and not isinstance(out, bool):
        return _number_range(found)
    texts = {result(item): None for item in found}
    return result(out) if len(texts) == 1 or holds_tensor(out) else f"{result(out)} and others"


def _number_range(numbers: list[float]) -> str:
    known = [number for number in numbers if number == number]
    odd = f"{len(numbers) - len(known):,} NaN" if len(known) < len(numbers) else ""
    text = short(limits(min(known), max(known)), MOST_HELD) if known else ""
    return ", ".join(filter(None, (text, odd)))


def _nan(items: list[Any]) -> int:
    return sum(isinstance(item, float) and item != item for item in items)


def _kept(item: Any, count: int = 1) -> Span:
    """What was kept of each tensor of a result: its values, or what the user's own function made of it."""
    found = list(tensors(item))
    if all(facts.kept is None for facts in found):
        return NOTHING
    text = listed([short(kept(facts.kept), MOST_KEPT) if facts.kept is not None else UNKNOWN for facts in found])
    return (text + (" and others" if count > 1 else ""), "")


def _sources(calls: list[Call]) -> Span:
    """Where the calls stand; of several places the first."""
    site = calls[0].site
    if site is None:
        return NOTHING
    text, ink = _source(site)
    is_elsewhere = any(
        call.site is not site and call.site is not None and _source(call.site)[0] != text for call in calls
    )
    return (f"{text} …", ink) if is_elsewhere else (text, ink)


@lru_cache(maxsize=4096)
def _source(site: Site) -> Span:
    return (spot(site), "grey")
