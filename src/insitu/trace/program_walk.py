"""The calls of a program: under the lines of the user, in the functions and the loops around them.

A statement of the user with one call is that call; one with several calls is a line. What a library does for a
statement is one row, but for what matters: calls of models, backward passes, steps of optimizers, functions of the user
that the library calls, and calls that raised or produced NaN.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from insitu.trace.bundle import Body, Bundle, Entry, EvaluatedExpression, indices, note_lone_loops
from insitu.trace.event import Call, Loop, Site
from insitu.trace.flat_walk import loop_site
from insitu.trace.forest import Node
from insitu.trace.operation import own_name
from insitu.trace.place import Place, Position
from insitu.trace.source_walk import CallFrame, SourceWalk


class ProgramWalk(SourceWalk):
    """Collects the outermost calls of a program."""

    def __init__(self, nodes: list[Node]) -> None:
        super().__init__()
        self._nodes = nodes
        self._home: str | None = None  # the file where the program begins, which may be a library's
        self._top: list[Entry] = []

    @property
    def entries(self) -> list[Entry]:
        """What was collected, without the functions around everything."""
        entries = self._top
        while len(entries) == 1:
            inner = _content(entries[0])
            if inner is None:
                break
            entries = inner
        return entries

    def add(self, index: int, position: Position) -> None:
        """Add a sibling."""
        places = position.places
        if not places:
            self._add_anywhere(index)
            return
        if self._home is None:
            self._home = places[0].site.file
        self.go(position, self._nodes[index].first)
        expression_at(self.frames[len(places) - 1], places[-1]).items.append(index)

    def _add_anywhere(self, index: int) -> None:
        """Add a sibling without a place: it belongs where the program is."""
        if not self.frames:
            self._top.append(index)
            return
        frame = self.frames[-1]
        self.leave_statement(frame)
        frame.bodies[-1].append(index)

    def open_function(self, frame: CallFrame) -> None:
        """Collect what the function does, under the expression that calls it."""
        if not self.frames:
            frame.bodies.append(self._top)
            return
        caller = self.frames[-1]
        frame.is_library = self._is_library(frame.place, caller)
        body = Body(frame.place, [], frame.place.is_comprehension or frame.is_library)
        frame.bodies.append(body.entries)
        expression_at(caller, caller.place).items.append(body)

    def _is_library(self, place: Place, caller: CallFrame) -> bool:
        """Whether a function is a library's: by its file or, if it was made without one, by its caller."""
        if place.is_generated:
            return caller.is_library
        return place.is_library and place.site.file != self._home

    def leave_statement(self, frame: CallFrame) -> None:
        """Add the statement to the body."""
        if not frame.expressions:
            return
        if frame.is_library:
            entries = library_entries(frame.expressions, self._nodes)
        elif frame.place.is_comprehension:  # a part of the statement around it
            entries = expression_entries(frame.expressions, self._nodes)
        else:
            entries = line_entries(frame.expressions, self._nodes)
        frame.bodies[-1] += entries
        frame.expressions = []

    def open_loop(self, frame: CallFrame, loop: Loop) -> None:
        """Begin a bundle for the loop, and its first pass."""
        frame.bundles.append(Bundle("loop", [], site=loop_site(frame, loop), loop=loop))
        frame.bodies.append([])

    def begin_pass(self, frame: CallFrame) -> None:
        """End the pass before."""
        self._add_pass(frame)
        frame.bodies[-1] = []

    def _add_pass(self, frame: CallFrame) -> None:
        loop, entries = frame.bundles[-1], frame.bodies[-1]
        if not entries:
            return
        if frame.is_library:
            entries = with_rest(entries, self._nodes, loop.site)
        note_lone_loops(loop, entries, self._nodes)
        loop.matters |= any(map(self._matters, entries))
        loop.entries.append(Bundle("pass", entries, site=loop.site, loop=loop.loop))

    def _matters(self, entry: Entry) -> bool:
        return matters(entry, self._nodes)

    def close_loop(self, frame: CallFrame) -> None:
        """End the last pass. A loop of a library is shown if something in it matters, and if it has several passes."""
        loop = frame.bundles[-1]
        is_over = len(loop.entries) > 0 and frame.place.is_header_of(loop.loop)
        self._add_pass(frame)
        frame.bodies.pop()
        frame.bundles.pop()
        if is_over:
            join_last_pass(loop)
        around = frame.bodies[-1]
        if not frame.is_library:
            loop.matters = True
            around.append(loop)
        elif not loop.matters:
            around += indices([loop])
        elif len(loop.entries) == 1 and isinstance(loop.entries[0], Bundle):
            around += without_rest(loop.entries[0].entries)
        else:
            around.append(loop)


def _content(entry: Entry) -> list[Entry] | None:
    """The entries inside one that says nothing of its own: a call of a function of the user, a loop of one pass."""
    if not isinstance(entry, Bundle):
        return None
    if entry.is_call:
        return entry.entries
    if len(entry.entries) != 1:
        return None
    (inner,) = entry.entries
    if not isinstance(inner, Bundle):
        return None
    if entry.kind in ("loop", "function"):
        return inner.entries
    if entry.kind == "line" and inner.kind == "function":
        return entry.entries
    return None


def join_last_pass(loop: Bundle) -> None:
    """Add what a `for` loop did to find out that it is over to the last pass of its body."""
    *_, body, end = loop.entries
    assert isinstance(body, Bundle) and isinstance(end, Bundle)
    loop.entries.pop()
    rest = list(indices([end]))
    header = body.entries[0]
    if isinstance(header, Bundle) and header.kind == "expression":
        header.entries += rest
    else:
        body.entries += rest


def expression_at(frame: CallFrame, place: Place) -> EvaluatedExpression:
    """The expression of the statement that a function is at."""
    if not frame.expressions or frame.expressions[-1].place is not place:
        frame.expressions.append(EvaluatedExpression(place))
    return frame.expressions[-1]


def line_entries(expressions: list[EvaluatedExpression], nodes: list[Node]) -> list[Entry]:
    """A statement of the user as entries: a single call, or a line around several."""
    entries = expression_entries(expressions, nodes)
    if len(entries) < 2:
        return entries
    if any(isinstance(entry, int) and nodes[entry].marks for entry in entries):
        return entries  # what matters has a row of its own
    return [Bundle("line", _with_arguments(entries), site=_line_site(expressions), matters=True)]


def _with_arguments(entries: list[Entry]) -> list[Entry]:
    """The entries of a statement. If the last one is a call of a library, and the others its arguments, without it."""
    *others, last = entries
    if not isinstance(last, Bundle) or last.is_call or last.site is None:
        return entries
    starts = [entry.site.start for entry in others if isinstance(entry, Bundle) and entry.site is not None]
    is_around = last.site.start is None or all(start is None or start >= last.site.start for start in starts)
    if not is_around:
        return entries
    if last.kind == "expression":
        return [*others, Bundle("rest", last.entries, site=last.site)]
    if last.kind == "line":
        return [*others, *last.entries]
    return entries


def expression_entries(expressions: list[EvaluatedExpression], nodes: list[Node]) -> list[Entry]:
    """The expressions of a statement as entries, one after the other."""
    return [entry for expression in expressions for entry in _entries_of(expression, nodes)]


def _entries_of(expression: EvaluatedExpression, nodes: list[Node]) -> list[Entry]:
    place, items = expression.place, expression.items
    if len(items) == 1 and isinstance(items[0], int):
        return [items[0]]
    calls = [item for item in items if isinstance(item, int)]
    if len(calls) == len(items):
        if all(_is_written(nodes[index], place) for index in calls):
            return [*calls]
    elif len(items) == 1 and isinstance(items[0], Body) and not items[0].is_transparent:
        return [_function_entry(items[0], place)]
    entries = with_rest(_spread(items), nodes, place.site)
    if len(entries) == 1 and isinstance(entries[0], Bundle) and entries[0].kind == "rest":
        return [Bundle("expression", entries[0].entries, site=place.site, matters=True)]
    return [Bundle("line", entries, site=place.site, matters=True)]


def _function_entry(body: Body, caller: Place) -> Bundle:
    """A function of the user, named by the expression that calls it, or by its own name if something else does."""
    if caller.calls(body.place.function_name):
        return Bundle("line", body.entries, site=caller.site, matters=True, is_call=True)
    return Bundle("function", [_pass(body)], site=body.place.site, matters=True)


def _pass(body: Body) -> Bundle:
    return Bundle("pass", body.entries, site=body.place.site)


def library_entries(expressions: list[EvaluatedExpression], nodes: list[Node]) -> list[Entry]:
    """A statement of a library: the calls, and what it does for an optimizer's step as one entry."""
    entries: list[Entry] = []
    for expression in expressions:
        spread = _spread(expression.items)
        if expression.place.calls("step"):
            spread = _with_step(spread, nodes, expression.place.site)
        entries += spread
    return entries


def _with_step(entries: list[Entry], nodes: list[Node], site: Site) -> list[Entry]:
    plain = [entry for entry in entries if not matters(entry, nodes)]
    if len(plain) < 2:
        return entries
    important = [entry for entry in entries if matters(entry, nodes)]
    return [*important, Bundle("expression", plain, site=site, matters=True)]


def _spread(items: list[int | Body]) -> list[Entry]:
    """The entries of an expression: what libraries do without the functions around it."""
    found: list[Entry] = []
    for item in items:
        if not isinstance(item, Body):
            found.append(item)
        elif item.is_transparent:
            found += item.entries
        else:
            found.append(Bundle("function", [_pass(item)], site=item.place.site, matters=True))
    return found


def _each_function_once(entries: list[Entry]) -> list[Entry]:
    """Entries in which all calls of one function are together, where the first of them is."""
    found: list[Entry] = []
    functions: dict[tuple[str, str], Bundle] = {}
    for entry in entries:
        if not isinstance(entry, Bundle) or entry.kind != "function" or entry.site is None:
            found.append(entry)
            continue
        function = (entry.site.file, entry.site.function)
        if function in functions:
            functions[function].entries += entry.entries
        else:
            functions[function] = entry
            found.append(entry)
    return found


def with_rest(entries: list[Entry], nodes: list[Node], site: Site | None) -> list[Entry]:
    """The entries that matter, and one for all others."""
    important = _each_function_once([entry for entry in entries if matters(entry, nodes)])
    rest = list(indices(entry for entry in entries if not matters(entry, nodes)))
    if rest:
        return [*important, Bundle("rest", [*rest], site=site)]
    return important


def without_rest(entries: list[Entry]) -> list[Entry]:
    """The entries with the calls that were put aside, which belong to what is around."""
    found: list[Entry] = []
    for entry in entries:
        if isinstance(entry, Bundle) and entry.kind == "rest":
            found += entry.entries
        else:
            found.append(entry)
    return found


def matters(entry: Entry, nodes: list[Node]) -> bool:
    """Whether a row of a library must not hide an entry."""
    if isinstance(entry, Bundle):
        return entry.matters
    return nodes[entry].marks != 0


def _is_written(node: Node, place: Place) -> bool:
    """Whether the expression names the function or uses an operator: then a library did not call it."""
    call = node.event
    if not isinstance(call, Call) or call.kind != "function":
        return True
    if call.operator is not None or place.site.text == "":
        return True
    name = own_name(call.kind, call.name)
    return name.startswith("__") or place.calls(name)


def _line_site(expressions: list[EvaluatedExpression]) -> Site:
    """The site of a whole statement; that of the expression if there is only one."""
    first = expressions[0].place.site
    if len(expressions) == 1:
        return first
    return _whole_line(first)


@lru_cache(maxsize=4096)
def _whole_line(site: Site) -> Site:
    nesting = site.nesting
    if nesting is None or nesting.is_end:
        return replace(site, start=None, end=None)
    return replace(site, line=nesting.statement, text=nesting.text, start=None, end=None)
