"""The graphs that run in a session, on the tapes of its probes."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any

from insitu.capture.compiled_graphs.graph_interpreter import NotInterpretable
from insitu.capture.compiled_graphs.inside_run import InsideRun
from insitu.capture.modes import skip_when_compiling
from insitu.capture.modules import get_ident, patch
from insitu.capture.tape import BACKWARD, COMPILED, Raised, new_record
from insitu.errors import tell
from insitu.trace.compiled.compiled_graph import CompiledGraph, GraphNode
from insitu.trace.compiled.compiled_rows import module_facts
from insitu.trace.event import ModuleFacts, Site

if TYPE_CHECKING:
    from insitu.capture.compiled_graphs.graph_sources import GraphSource
    from insitu.capture.probe import Probe


class GraphCallee:
    """A graph, a kernel or a call of a graph, as the callee of a record; a call knows where it comes from."""

    __slots__ = ("kind", "name", "node")

    def __init__(self, kind: str, name: str, node: GraphNode | None = None) -> None:
        self.kind = kind
        self.name = name
        self.node = node

    def site(self, sites: Any, around: Site | None) -> Site | None:
        """The line of the program from which the call comes; the place around it where that is not known."""
        if self.node is None or self.node.source is None:
            return around
        source = self.node.source
        return sites.line(source.file, source.line, source.function, around)  # type: ignore[no-any-return]

    def module(self, around: ModuleFacts | None) -> ModuleFacts | None:
        """The module in which the call was captured."""
        if self.node is None:
            return around
        return module_facts(self.node, around)


class GraphSession:
    """The graphs that run in one recording: their names, and the compiled regions in which they run."""

    def __init__(self, *, inside: bool = False) -> None:
        self.inside = inside
        self._regions: dict[int, int] = {}
        self._callees: dict[int, GraphCallee] = {}
        self._sources: dict[str, GraphSource] = {}
        self._graphs: dict[str, CompiledGraph] = {}

    def enter(self, probe: Probe, at: int) -> None:
        """A compiled region begins, which is recorded at an offset, or not at all (-1)."""
        self._regions[id(probe)] = at

    def leave(self, probe: Probe) -> None:
        """The region has ended."""
        self._regions.pop(id(probe), None)

    def parent(self, probe: Probe) -> int | None:
        """The call in which a graph runs now; None if the graph is not recorded."""
        region = self._regions.get(id(probe))
        if region is not None:
            return region if region >= 0 else None
        if probe.taking or probe.follows_backward:
            return probe.parent
        return None

    def callee(self, source: GraphSource) -> GraphCallee:
        """The callee of a graph, by which its runs are named."""
        found = self._callees.get(id(source))
        if found is None:
            name = f"{source.backend}.graph_{len(self._callees)}"
            found = self._callees[id(source)] = GraphCallee("function", name)
            self._sources[name] = source
            source.learn_reason()
            backward = source.backward()
            if backward is not None:
                self._sources[f"{name}_backward"] = backward
        return found

    def graphs(self) -> list[CompiledGraph]:
        """The graphs that have run."""
        return list(map(self.graph, self._sources))

    def graph(self, name: str) -> CompiledGraph:
        """The graph with a name."""
        if name not in self._graphs:
            self._graphs[name] = self._sources[name].graph(name)
        return self._graphs[name]


class ProbeGraphs:
    """The graphs that run in the thread of a probe."""

    def __init__(self, probe: Probe, session: GraphSession) -> None:
        self._probe, self._session = probe, session

    def begin(self, source: GraphSource | None, inputs: Any, compiled: Any) -> GraphRun | None:
        """A graph begins to run; None if that is not recorded."""
        probe, session = self._probe, self._session
        parent = session.parent(probe)
        if source is None or parent is None or probe.over:
            return None
        try:
            callee = session.callee(source)
            inside = self._inside(source, callee.name, inputs) if session.inside else None
            phase = BACKWARD if source.direction == "backward" else COMPILED
            record = new_record(callee, parent, phase=phase)
            if inside is not None:
                inside.write_inputs(record)
            run = GraphRun(probe, probe.append(record), inside)
            if inside is not None and compiled is not None:
                inside.observe(compiled)
            return run
        except Exception as error:
            probe.trouble("recording a compiled graph", error)
            return None

    def _inside(self, source: GraphSource, name: str, inputs: Any) -> InsideRun | None:
        """Interpret a graph for the values inside; None if that cannot be done."""
        probe = self._probe
        taking, follows, paused = probe.taking, probe.follows_backward, probe.paused
        began = perf_counter()
        try:
            probe.taking, probe.follows_backward, probe.paused = False, False, True
            return InsideRun(probe, source, self._session.graph(name), inputs)
        except NotInterpretable as error:
            tell(f"the values inside {name} are not known: {error}")
            return None
        finally:
            probe.taking, probe.follows_backward, probe.paused = taking, follows, paused
            probe.spent += perf_counter() - began


class GraphRun:
    """A graph that runs, as one probe sees it."""

    def __init__(self, probe: Probe, at: int, inside: InsideRun | None) -> None:
        self._probe, self._at, self._inside = probe, at, inside
        # Operators that a library runs in a backward graph, where recording is not paused, are inside the graph.
        self._around, probe.parent = probe.parent, at

    def close(self, result: Any) -> None:
        """The graph has returned."""
        self._finish(None)
        try:
            if self._inside is not None and not self._probe.over:
                self._inside.record(self._at, GraphCallee)
        except Exception as error:
            self._probe.trouble("recording what is inside a compiled graph", error)

    def fail(self, error: BaseException) -> None:
        """An exception has ended the graph."""
        self._finish(Raised(error))

    def _finish(self, result: Raised | None) -> None:
        probe = self._probe
        probe.parent = self._around
        if self._inside is not None:
            self._inside.end()
        if not probe.over:
            probe.tape.finish(self._at, probe.clock(), result)


def sessions_here() -> list[ProbeGraphs]:
    """The probes of this thread whose recordings show graphs."""
    found = patch.probes.get(get_ident(), ())
    return [ProbeGraphs(probe, probe.services.graphs) for probe in found if probe.services.graphs is not None]


skip_when_compiling(sessions_here, ProbeGraphs.begin, GraphRun.close, GraphRun.fail, GraphRun._finish)
