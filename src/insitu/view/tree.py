"""The tree: every call under the one that made it, identical blocks folded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import compress
from typing import Any

from insitu.trace.analysis import relative
from insitu.trace.event import Call, Event, Mark, ModuleFacts, Site, Stats, TensorFacts, Variable, tensors
from insitu.trace.folding import Columns, Fold, Steps, fold, steps
from insitu.trace.grouping import grouped
from insitu.trace.nesting import Forest, Group, Node
from insitu.view.beside import Beside
from insitu.view.line import Column, Line, Span
from insitu.view.name import compact, expression, is_inner, module_type, spot
from insitu.view.value import duration, held, holds_tensor, kept, result, safe, short, spread, tensor, union, value

COLUMNS = (Column("output"), Column("values", drop=2), Column("time", right=True, drop=3), Column("source", drop=1))
NOTHING: Span = ("", "")
MOST_FLOAT = 1e300
# Attributes that are only looked at, many times in each step of an optimizer.
UNSEEN = frozenset({"torch.Tensor.grad", "torch.Tensor.grad=", "torch.Tensor.data"})
GUIDE = ("│  ", "   ")
BRANCH = ("├─ ", "└─ ")
INKS = {"module": "purple", "function": "cyan", "python": "teal"}

Branch = tuple[Fold, Call | None, str, str]


class Tree:
    """Shows each outermost call, once it is complete, with all that lies in it.

    Identical blocks and the passes of a loop are one row, and so is what one expression does: `optimizer.step()`. How
    torch's own leaf modules do their work is left out; `unfold` shows it all. Outermost calls, and steps, can be one
    row only when all events are at hand (`live=False`). `costs` adds own time, memory, parameters and operations;
    `backward` puts gradients and backward times beside the calls they belong to.
    """

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
            spans = (*spans, (f"× {group.count} identical  ", "yellow"))
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
                spans.append((f"× {item.count} identical  ", "yellow"))
            spans.append((self._type(module), "purple"))
        else:
            spans.append((safe(call.name), "orange") if call.kind == "aten" else (compact(call), INKS[call.kind]))
            if item.count > 1:
                spans.append((f"  × {item.count} identical", "yellow"))
        if call.phase == "backward":
            of = f" of {safe(call.path)}" if call.forward is not None and call.path else ""
            spans.append((f"  backward{of}", "grey"))
        elif call.phase == "recompute":
            spans.append(("  recompute", "grey"))
        return tuple(spans)

    def _type(self, module: ModuleFacts) -> str:
        text = self._types.get(module)
        if text is None:
            text = self._types[module] = module_type(module)
        return text


def _is_hidden(node: Node) -> bool:
    """How a leaf does its work is left out, unless operators were asked for or the leaf is all there is."""
    event = node.event
    if not isinstance(event, Call) or event.raised is not None:
        return False
    if event.kind == "python":
        return False
    if event.name in UNSEEN or event.name.startswith("profiler."):
        return True
    return event.kind == "function" and not node.children and event.path != "" and is_inner(event)


def _group_name(group: Group, item: Fold) -> tuple[Span, ...]:
    """What an expression did, or the passes of a loop."""
    number: Span = (f"× {item.count} identical", "yellow")
    if group.kind == "pass":
        return (number,)
    calls: Span = (f"  {len(group.nodes)} calls", "grey")
    return ((expression(_site(group.first)), INKS["python"]), calls, *((("  ", ""), number) if item.count > 1 else ()))


def _group_cells(group: Group, item: Fold) -> tuple[Span, ...]:
    time = sum(node.event.duration for node in item.nodes if isinstance(node.event, Group))
    sites = [site for event in (group.first, group.last) if (site := _site(event)) is not None]
    places = dict.fromkeys(map(spot, sites))
    return (NOTHING, NOTHING, (duration(time), "green"), (" … ".join(places), "grey"))


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
    texts = ["" if variable.changes == ("deleted",) else held(variable.value) for variable in (first, last)]
    output = short(texts[0] if texts[0] == texts[1] else " … ".join(texts), 60)
    stats = union([facts.stats for variable in every for facts in tensors(variable.value) if facts.stats is not None])
    values = _kept(last.value) if stats is None else (spread(stats), "red" if stats.nan else "")
    source = NOTHING if first.site is None else _source(first.site)
    return Line(tuple(spans), ((output, "blue"), values, NOTHING, source), COLUMNS)


def _cells(call: Call, item: Fold) -> tuple[Span, ...]:
    """Output, values, time and source of a row that may stand for many calls."""
    out, site = call.result, call.site
    if call.raised is not None:
        inputs = result(call.args) if call.kind != "python" else result(call.inputs or None)
        output = (f"✗ raised {safe(call.raised)}" + (f" ← {inputs}" if inputs else ""), "red")
    else:
        output = (tensor(out) if type(out) is TensorFacts else _results(out, item), "blue")
    if len(item.nodes) == 1:
        time = call.duration
        stats = out.stats if type(out) is TensorFacts else union_of([call])
    else:
        calls = [node.event for node in item.nodes if isinstance(node.event, Call)]
        times = [other.duration for other in calls if other.duration is not None]
        time = sum(times) if times else None
        stats = union_of(calls)
    return (
        output,
        _kept(out) if stats is None else (spread(stats), "red" if stats.nan else ""),
        NOTHING if time is None else (duration(time), "green"),
        NOTHING if site is None else _source(site),
    )


def _results(out: Any, item: Fold) -> str:
    """What was returned; of several numbers the least and the largest."""
    if len(item.nodes) > 1 and isinstance(out, (int, float)) and not isinstance(out, bool):
        found = [node.event.result for node in item.nodes if isinstance(node.event, Call)]
        low, high = min(found), max(found)
        return f"{_few(low)} … {_few(high)}" if low != high else result(out)
    texts = {result(node.event.result): None for node in item.nodes if isinstance(node.event, Call)}
    return result(out) if len(texts) == 1 or holds_tensor(out) else f"{result(out)} and others"


def _few(number: float) -> str:
    """A number in few digits, also one that is too large for a float."""
    return f"{number:.5g}" if abs(number) < MOST_FLOAT else short(value(number), 16)


def _kept(item: Any) -> Span:
    """What was kept of the first tensor of a result: its values, or what the user's own function made of it."""
    found = next((facts.kept for facts in tensors(item) if facts.kept is not None), None)
    return NOTHING if found is None else (short(kept(found), 24), "")


def union_of(calls: list[Call]) -> Stats | None:
    """The statistics of all outputs of these calls together."""
    return union([facts.stats for call in calls for facts in tensors(call.result) if facts.stats is not None])


@lru_cache(maxsize=4096)
def _source(site: Site) -> Span:
    return (spot(site), "grey")
