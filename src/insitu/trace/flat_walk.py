"""The calls inside a call: one after the other, but for the loops that they are in."""

from __future__ import annotations

from insitu.trace.bundle import Bundle, Entry, indices, note_lone_loops
from insitu.trace.event import Call, Loop, Site
from insitu.trace.forest import Node
from insitu.trace.place import Position
from insitu.trace.source_walk import CallFrame, SourceWalk


class FlatWalk(SourceWalk):
    """Collects siblings with the loops around them; the functions between them are left out."""

    def __init__(self, nodes: list[Node]) -> None:
        super().__init__()
        self._nodes = nodes
        self.entries: list[Entry] = []

    def add(self, index: int, position: Position) -> None:
        """Add a sibling."""
        if not position.places:
            self._body().append(index)
            return
        self.go(position, self._nodes[index].first)
        self.frames[len(position.places) - 1].bodies[-1].append(index)

    def _body(self) -> list[Entry]:
        """Where the next entry goes."""
        if self.frames:
            return self.frames[-1].bodies[-1]
        return self.entries

    def open_function(self, frame: CallFrame) -> None:
        """Collect where the caller does."""
        frame.bodies.append(self._body())

    def open_loop(self, frame: CallFrame, loop: Loop) -> None:
        """Begin a bundle for the loop, and its first pass."""
        bundle = Bundle("loop", [], site=loop_site(frame, loop), loop=loop)
        frame.bodies[-1].append(bundle)
        frame.bundles.append(bundle)
        frame.bodies.append([])
        self._add_pass(frame)

    def begin_pass(self, frame: CallFrame) -> None:
        """Begin a pass."""
        self._add_pass(frame)

    def _add_pass(self, frame: CallFrame) -> None:
        """Add an empty pass to the innermost loop: what comes next goes there."""
        loop = frame.bundles[-1]
        step = Bundle("pass", [], site=loop.site, loop=loop.loop)
        loop.entries.append(step)
        frame.bodies[-1] = step.entries

    def close_loop(self, frame: CallFrame) -> None:
        """End the loop. One that calls another module in each pass is how a model is built: it is left out."""
        frame.bodies.pop()
        bundle = frame.bundles.pop()
        for step in bundle.entries:
            if isinstance(step, Bundle):
                note_lone_loops(bundle, step.entries, self._nodes)
        around = frame.bodies[-1]
        modules = [self._module(step) for step in bundle.entries if isinstance(step, Bundle)]
        is_row_of_modules = None not in modules and len(set(modules)) == len(modules)
        if is_row_of_modules and around[-1] is bundle:
            around[-1:] = list(indices([bundle]))

    def _module(self, step: Bundle) -> str | None:
        """The path of the module that a pass calls, if it does nothing else."""
        if len(step.entries) != 1 or not isinstance(step.entries[0], int):
            return None
        event = self._nodes[step.entries[0]].event
        if isinstance(event, Call) and event.kind == "module":
            return event.path
        return None


def loop_site(frame: CallFrame, loop: Loop) -> Site:
    """The site of the header of a loop."""
    site = frame.place.site
    return Site(site.file, loop.line, site.function, loop.text)
