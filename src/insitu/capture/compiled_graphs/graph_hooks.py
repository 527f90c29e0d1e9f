"""The functions of the compiler that are replaced while a session runs.

Each calls the original first or passes its result on unchanged, so that the same is compiled, once, and runs as before.
Whatever fails in insitu's part is reported once, and the compiler goes on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

from insitu.capture.compiled_graphs.graph_session import sessions_here
from insitu.capture.compiled_graphs.graph_sources import (
    Compilation,
    GraphPrint,
    GraphSource,
    GraphSources,
    ModuleName,
    module_path,
    public_names,
)
from insitu.capture.compiled_graphs.import_watch import ImportWatch
from insitu.capture.modes import skip_all_when_compiling, skip_when_compiling
from insitu.capture.torch_compiler_internals import (
    ATEN_PRINTERS,
    BACKEND_CALL,
    COMPILED_FUNCTION,
    GLOBAL_INSTALLER,
    GRAPH_PARTS,
    INDUCTOR_CALL,
    INDUCTOR_LOADER,
    GraphPart,
    current_compilation,
    graph_break,
    graph_part_owner,
    graph_text,
    is_backward_graph,
    module_stacks,
)
from insitu.errors import tell
from insitu.operating_system import at_fork
from insitu.trace.compiled.compiled_graph import Direction, GraphBreak, GraphLine

_DIRECTIONS: dict[str, Direction] = {"Forward graph": "forward", "Backward graph": "backward"}


class GraphHooks:
    """Replaces functions of the compiler while any session that shows graphs runs."""

    def __init__(self) -> None:
        self._sessions = 0
        self._lock = threading.Lock()
        self._replaced: list[tuple[Any, str, Any]] = []
        self._observed: list[ObservedGlobal] = []
        self._watch = ImportWatch(tuple(dict.fromkeys(part.module for part in GRAPH_PARTS)), self._install)
        self._compilations: dict[str, Compilation] = {}
        self.sources = GraphSources()
        self._replacements: dict[str, Callable[[Any], Any]] = {
            BACKEND_CALL.full_name: self._backend_call,
            GLOBAL_INSTALLER.full_name: self._global_installer,
            INDUCTOR_LOADER.full_name: self._inductor_loader,
            INDUCTOR_CALL.full_name: self._inductor_call,
            **{part.full_name: self._aten_printer for part in ATEN_PRINTERS},
        }

    def begin(self) -> None:
        """A session starts."""
        with self._lock:
            self._sessions += 1
            if self._sessions == 1:
                self._watch.begin()
                self._observed = [item for item in self._observed if item.observe()]

    def end(self) -> None:
        """A session has ended."""
        with self._lock:
            self._sessions -= 1
            if self._sessions == 0:
                self._watch.end()
                self._undo()

    def abandon(self) -> None:
        """This process is the child of a fork, and whoever held the lock is not here."""
        self._lock = threading.Lock()

    def _undo(self) -> None:
        for owner, name, original in reversed(self._replaced):
            setattr(owner, name, original)
        self._replaced.clear()
        for item in self._observed:
            item.release()

    def _install(self, module: ModuleType) -> None:
        for part in GRAPH_PARTS:
            if part.module == module.__name__:
                self._replace(part, module)

    def _replace(self, part: GraphPart, module: ModuleType) -> None:
        owner = graph_part_owner(part, module)
        if owner is None:
            return
        original = getattr(owner, part.name)
        self._replaced.append((owner, part.name, original))
        setattr(owner, part.name, self._replacements[part.full_name](original))

    def _backend_call(self, original: Any) -> Any:
        """Dynamo hands a graph to the backend."""

        def call_user_compiler(output: Any, graph: Any, *args: Any, **kwargs: Any) -> Any:
            compilation = _guarded(self._begin_compilation, output, graph)
            compiled = original(output, graph, *args, **kwargs)
            if compilation is not None and compilation.is_inductor:
                compilation.graph = None
            return compiled

        return call_user_compiler

    def _begin_compilation(self, output: Any, graph: Any) -> Compilation:
        number = current_compilation()
        found = graph_break(graph)
        compilation = Compilation(
            number,
            GraphPrint(public_names(graph_text(graph)), _modules(graph)),
            _backend_name(output.compiler_fn),
            None if found is None else GraphBreak(found.reason.strip(), GraphLine(*found[1:])),
            graph=graph,
        )
        self._compilations[number] = compilation
        return compilation

    def _global_installer(self, original: Any) -> Any:
        """Dynamo makes a graph known to the compiled code; a graph of inductor is seen where inductor runs it."""

        def install_global_unsafe(output: Any, name: str, value: Any) -> Any:
            result = original(output, name, value)
            if name.startswith(COMPILED_FUNCTION):
                _guarded(self._observe_global, output.global_scope, name, value)
            return result

        return install_global_unsafe

    def _observe_global(self, scope: dict[str, Any], name: str, value: Any) -> None:
        compilation = self._compilations.get(current_compilation())
        if compilation is None or compilation.is_inductor:
            return
        item = ObservedGlobal(scope, name, value, compilation)
        item.observe()
        self._observed.append(item)

    def _aten_printer(self, original: Any) -> Any:
        """AOTAutograd may log a graph."""

        def lazy_format_graph_code(name: str, graph: Any, *args: Any, **kwargs: Any) -> Any:
            direction = _DIRECTIONS.get(name)
            if direction is not None:
                _guarded(self._add_aten, direction, graph)
            return original(name, graph, *args, **kwargs)

        return lazy_format_graph_code

    def _add_aten(self, direction: Direction, graph: Any) -> None:
        compilation = self._compilations.get(current_compilation())
        if compilation is not None:
            compilation.aten[direction] = GraphPrint(graph_text(graph), _modules(graph))

    def _inductor_loader(self, original: Any) -> Any:
        """Inductor has compiled a graph, or found it in its cache."""

        def post_compile(compiled: Any, *args: Any, **kwargs: Any) -> Any:
            _guarded(self._add_inductor, compiled, args, kwargs)
            return original(compiled, *args, **kwargs)

        return post_compile

    def _add_inductor(self, compiled: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        settings = [item for item in (*args, *kwargs.values()) if isinstance(item, dict) and "is_backward" in item]
        is_backward = is_backward_graph(compiled, {"graph_kwargs": settings[0]} if settings else {})
        compilation = self._compilations.get(current_compilation())
        if compilation is not None:
            compilation.is_inductor = True
        self.sources.add(compiled, compilation, "backward" if is_backward else "forward")

    def _inductor_call(self, original: Any) -> Any:
        """A graph of inductor runs."""

        def __call__(compiled: Any, inputs: Any) -> Any:
            sessions = sessions_here()
            if not sessions:
                return original(compiled, inputs)
            source = _guarded(self._source_of, compiled)
            runs = [run for run in (session.begin(source, inputs, compiled) for session in sessions) if run is not None]
            return _observe(runs, partial(original, compiled, inputs))

        skip_when_compiling(__call__)
        return __call__

    def _source_of(self, compiled: Any) -> GraphSource:
        """What is known of a graph; one that was compiled before any session is known from its own text alone."""
        direction: Direction = "backward" if is_backward_graph(compiled, {}) else "forward"
        return self.sources.get(compiled) or self.sources.add(compiled, None, direction)


class ObservedGlobal:
    """A graph of another backend than inductor: compiled code calls it by a name in the globals of its function."""

    def __init__(self, scope: dict[str, Any], name: str, function: Any, compilation: Compilation) -> None:
        self._scope, self._name, self._function = scope, name, function
        source = GraphSource("forward", compilation)

        def run_graph(*args: Any, **kwargs: Any) -> Any:
            found = [session.begin(source, list(args), None) for session in sessions_here()]
            return _observe([run for run in found if run is not None], partial(function, *args, **kwargs))

        skip_all_when_compiling(run_graph)
        self._observer = run_graph

    def observe(self) -> bool:
        """Let the compiled code call the observer; whether the compiled code is still there."""
        if self._scope.get(self._name) is not self._function:
            return False
        self._scope[self._name] = self._observer
        return True

    def release(self) -> None:
        """Let the compiled code call the graph itself again."""
        if self._scope.get(self._name) is self._observer:
            self._scope[self._name] = self._function


def _observe(runs: list[Any], call: Callable[[], Any]) -> Any:
    """Run a graph, and report how it ended."""
    try:
        result = call()
    except BaseException as error:
        for run in reversed(runs):
            run.fail(error)
        raise
    for run in reversed(runs):
        run.close(result)
    return result


def _modules(graph: Any) -> dict[str, ModuleName]:
    return {name: ModuleName(module_path(path), kind) for name, path, kind in module_stacks(graph)}


def _backend_name(compiler: Any) -> str:
    """The name of a backend: that under which torch knows it, or that of its function or class."""
    found = getattr(compiler, "compiler_name", None) or getattr(compiler, "__name__", "")
    if isinstance(found, str) and found.isidentifier():
        return found
    return type(getattr(compiler, "compiler_fn", None) or compiler).__name__


_reported: set[str] = set()


def _guarded(run: Callable[..., Any], *args: Any) -> Any:
    """Run insitu's part of a function of the compiler; an error in it is reported once."""
    try:
        return run(*args)
    except Exception as error:
        text = f"what is inside compiled regions is not known: {type(error).__name__}: {error}"
        if text not in _reported:
            _reported.add(text)
            tell(text)
        return None


graph_hooks = GraphHooks()
at_fork(after_in_child=graph_hooks.abandon)
skip_when_compiling(_observe, _guarded)
