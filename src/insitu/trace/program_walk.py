"""The calls of a program: under the lines of the user, in the functions and the loops around them.

The walk goes through the calls of a program in order, and collects the expressions of the statement that runs.
`statement_entries.py` decides what a statement is in the tree.
"""

from __future__ import annotations

from collections.abc import Callable

from insitu.trace.bundle import Body, Bundle, Entry, EvaluatedExpression, indices, note_lone_loops, only_bundle
from insitu.trace.event import Loop
from insitu.trace.flat_walk import loop_site
from insitu.trace.forest import Node
from insitu.trace.place import Place, Position
from insitu.trace.source_walk import CallFrame, SourceWalk
from insitu.trace.statement_entries import (
    expression_entries,
    library_entries,
    line_entries,
    matters,
    with_rest,
    without_rest,
)
from insitu.trace.token_loops import makes_tokens, token_entries


class ProgramWalk(SourceWalk):
    """Collects the outermost calls of a program."""

    def __init__(self, nodes: list[Node]) -> None:
        super().__init__()
        self._nodes = nodes
        self._home: str | None = None  # the file where the program begins, which may be a library's
        self._top: list[Entry] = []

    @property
    def entries(self) -> list[Entry]:
        """What was collected, without the functions and loops around everything."""
        entries = self._top
        inside = _inside_only_bundle(entries)
        while inside is not None:
            entries = inside
            inside = _inside_only_bundle(entries)
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
        """Add a sibling whose place is not known, where the program is now."""
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
        """Whether a function is a library's: by its file or, if a program wrote it, by its caller."""
        if place.is_generated:
            return caller.is_library
        return place.is_library and place.site.file != self._home

    def leave_statement(self, frame: CallFrame) -> None:
        """Add the statement to the body."""
        if frame.expressions:
            make_entries = _make_entries(frame)
            frame.bodies[-1] += make_entries(frame.expressions, self._nodes)
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
        """Add what the body of the innermost loop did to the loop, if it did anything."""
        loop, entries = frame.bundles[-1], frame.bodies[-1]
        if not entries:
            return
        if frame.is_library:
            entries = with_rest(entries, self._nodes, loop.site)
        note_lone_loops(loop, entries, self._nodes)
        loop.matters |= any(matters(entry, self._nodes) for entry in entries)
        loop.entries.append(Bundle("pass", entries, site=loop.site, loop=loop.loop))

    def close_loop(self, frame: CallFrame) -> None:
        """End the last pass, and add the loop to what is around it."""
        loop = frame.bundles[-1]
        # A loop that ends in its header has a last pass that only looked for another item.
        ends_in_header = len(loop.entries) > 0 and frame.place.is_header_of(loop.loop)
        self._add_pass(frame)
        frame.bodies.pop()
        frame.bundles.pop()
        if ends_in_header:
            join_last_pass(loop)
        if self._has_tokens(frame, loop):
            frame.bodies[-1][:] = token_entries(frame.bodies[-1], loop, self._nodes)
        elif frame.is_library:
            frame.bodies[-1] += _library_loop(loop)
        else:
            loop.matters = True
            frame.bodies[-1].append(loop)

    def _has_tokens(self, frame: CallFrame, loop: Bundle) -> bool:
        """Whether a loop, which is over, makes tokens by a model: the outermost one of its function may."""
        is_outermost = not frame.bundles
        return is_outermost and loop.matters and makes_tokens(frame.place)


def _make_entries(frame: CallFrame) -> Callable[[list[EvaluatedExpression], list[Node]], list[Entry]]:
    """The function that makes entries of a statement in this frame."""
    if frame.is_library:
        return library_entries
    if frame.place.is_comprehension:  # a part of the statement around it
        return expression_entries
    return line_entries


def _library_loop(loop: Bundle) -> list[Entry]:
    """A loop of a library: it is shown if something in it matters, and if it has several passes."""
    if not loop.matters:
        return [*indices([loop])]
    only_pass = only_bundle(loop.entries)
    if only_pass is not None:
        return without_rest(only_pass.entries)
    return [loop]


def _inside_only_bundle(entries: list[Entry]) -> list[Entry] | None:
    """What is in the only entry, if that says nothing of its own: a function of the user, a loop of one pass."""
    bundle = only_bundle(entries)
    if bundle is None:
        return None
    if bundle.is_function_body:
        return bundle.entries
    inner = only_bundle(bundle.entries)
    if inner is None:
        return None
    if bundle.kind in ("loop", "function"):
        return inner.entries
    if bundle.kind == "line" and inner.kind == "function":
        return bundle.entries
    return None


def join_last_pass(loop: Bundle) -> None:
    """Add what a `for` loop did to find out that it is over to the last pass of its body."""
    *_, body, end = loop.entries
    assert isinstance(body, Bundle)
    assert isinstance(end, Bundle)
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
