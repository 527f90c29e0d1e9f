"""The tree: every call under the one that made it, identical blocks folded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

from insitu.trace.analysis import Fold, Forest, Node, Steps, fold, relative, steps
from insitu.trace.event import Call, Event, Mark, ModuleFacts, Site, Stats, TensorFacts, Variable, Word, tensors
from insitu.view.beside import Beside
from insitu.view.line import Column, Line, Span
from insitu.view.name import compact, is_inner, module_type, spot
from insitu.view.value import duration, holds_tensor, kept, result, safe, short, spread, tensor, union, value

COLUMNS = (Column("output"), Column("values", drop=2), Column("time", right=True, drop=3), Column("source", drop=1))
NOTHING: Span = ("", "")
# Attributes that are only looked at, many times in each step of an optimizer.
UNSEEN = frozenset({"torch.Tensor.grad", "torch.Tensor.grad=", "torch.Tensor.data"})
GUIDE = ("│  ", "   ")
BRANCH = ("├─ ", "└─ ")
INKS = {"module": "purple", "function": "cyan", "python": "teal"}

Branch = tuple[Fold, Call | None, str, str]


class Tree:
    """Shows each outermost call, once it is complete, with all that lies in it.

    Identical blocks are one row, and how torch's own leaf modules do their work is left out; `unfold` shows it all.
    Only when all events are at hand (`live=False`) can identical steps be one row too. `costs` adds own time, memory,
    parameters and operations; `backward` puts gradients and backward times beside the calls they belong to.
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
        rows = self._rows(fold([root]))
        if self._beside is None:
            return rows
        shown = list(rows)
        self._beside.forget()
        return shown

    def finish(self) -> Iterable[Line]:
        """The rows of all that was kept back, and of calls whose parents never came."""
        roots = sorted([*self._roots, *self._forest.rest()], key=lambda node: node.event.id)
        self._roots = []
        if self._beside is not None:
            self._beside.settle()
        groups = steps(roots)
        ranked = any(group.folds[0].event.rank != groups[0].folds[0].event.rank for group in groups)
        for group in groups:
            yield from self._step(group, titled=not self._live and len(groups) + group.count > 2, ranked=ranked)

    def _step(self, group: Steps, *, titled: bool, ranked: bool) -> Iterator[Line]:
        """The rows of a step, or of several that are the same; a step of one call has its number on that row."""
        if not titled:
            return self._rows(group.folds)
        title = f"step {group.first}" if group.count == 1 else f"step {group.first} … {group.last}"
        if ranked:
            title = f"rank {group.folds[0].event.rank} {title}"
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
            event = item.nodes[0].event
            if isinstance(event, Mark):
                yield _mark(event, guide + branch)
                continue
            if isinstance(event, Variable):
                yield _variable(item, guide + branch)
                continue
            name = self._name(event, item, parent)
            if before:
                name, before = (*before, *name), ()
            cells = _cells(event, item)
            if self._beside is not None:
                cells = (*cells[:-1], *self._beside.cells(item), cells[-1])
            yield Line(((guide + branch, "grey"), *name) if branch else name, cells, self._columns)
            if item.nodes[0].children:
                deeper = guide + (GUIDE[branch is BRANCH[1]] if branch else "")
                stack += self._branches(item.children(), event, deeper, nested=True)

    def _branches(self, folds: list[Fold], parent: Call | None, guide: str, *, nested: bool) -> list[Branch]:
        """The folds that are shown, the last one first."""
        shown = folds if self._unfold else [item for item in folds if not _is_hidden(item.nodes[0])]
        if self._beside is not None:
            shown = [item for item in shown if not self._beside.hides(item.event)]
        branches = [(item, parent, guide, BRANCH[0] if nested else "") for item in reversed(shown)]
        if nested and branches:
            branches[0] = (*branches[0][:3], BRANCH[1])
        return branches

    def _name(self, call: Call, item: Fold, parent: Call | None) -> tuple[Span, ...]:
        """The spans that say what was called."""
        spans: list[Span] = []
        module = call.module
        if call.kind == "module" and module is not None:
            base = parent.path if parent is not None else ""
            path = safe(relative(module.path, base))
            if item.count > 1:
                final = item.nodes[item.count - 1].event
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
    texts = ["" if variable.changes == ("deleted",) else _held(variable.value) for variable in (first, last)]
    output = short(texts[0] if texts[0] == texts[1] else " … ".join(texts), 60)
    stats = union([facts.stats for variable in every for facts in tensors(variable.value) if facts.stats is not None])
    values = _kept(last.value) if stats is None else (spread(stats), "red" if stats.nan else "")
    source = NOTHING if first.site is None else _source(first.site)
    return Line(tuple(spans), ((output, "blue"), values, NOTHING, source), COLUMNS)


def _held(item: Any) -> str:
    """What a variable holds, in the manner of a result; a text is quoted and None is None."""
    if isinstance(item, str) and not isinstance(item, Word):
        return repr(short(item, 60))
    return result(item) if holds_tensor(item) else short(value(item), 60)


def _cells(call: Call, item: Fold) -> tuple[Span, ...]:
    """Output, values, time and source of a row that may stand for many calls."""
    out, site = call.result, call.site
    if call.raised is not None:
        inputs = result(call.args) if call.kind != "python" else result(call.inputs or None)
        output = (f"✗ raised {safe(call.raised)}" + (f" ← {inputs}" if inputs else ""), "red")
    else:
        output = (tensor(out) if type(out) is TensorFacts else result(out), "blue")
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
