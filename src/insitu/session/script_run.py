"""A recorded run of an unmodified script: its variables, its functions and its models are found while it runs."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from types import CodeType, FrameType
from typing import Any

from torch import Tensor, nn

from insitu.capture.modules import ValueProbe
from insitu.capture.names import innermost_module
from insitu.capture.statistics import stats
from insitu.capture.step_rule import StepRule
from insitu.capture.updates import Updates
from insitu.capture.values.function_search import FunctionSearch, is_code
from insitu.capture.values.loop_targets import LoopTarget, own_names
from insitu.capture.values.targets import Targets, TargetSearch, join
from insitu.capture.variables.follow.instructions import global_names, stored_attributes
from insitu.capture.variables.follow.rewrite import ReportPoint
from insitu.capture.variables.reporters import recordings
from insitu.errors import Troubles, is_interrupt, outside, tell
from insitu.session.run_entry import RunEntry
from insitu.session.run_options import RunOptions, RunPlan
from insitu.session.script_functions import ScriptFunctions
from insitu.session.script_source import definitions_in, paths_in
from insitu.session.session import Session
from insitu.trace.path import Pattern, Segments, suggestion

EARLY = 5  # steps after which a pattern that names nothing is told


def number_or_statistics(tensor: Tensor) -> Any:
    """What `insitu run --keep stats` records: the statistics of a tensor, or its only number."""
    if tensor.numel() == 1:
        return tensor
    return stats(tensor)


class ScriptSteps:
    """The steps of a script: a step ends with the update of an optimizer.

    As long as the script has no optimizer, it ends with a call of a model that no other module calls; before the first
    one, it is a pass of a loop.
    """

    def __init__(self) -> None:
        self.rule = StepRule("value")
        self._updates = Updates(self.rule, lambda: None, is_fixed=False)

    def start(self, undo: ExitStack) -> None:
        """Listen to the optimizers."""
        self._updates.start(undo)


class ScriptTargets:
    """What patterns name in a script: variables of its own, of its functions, and of its models.

    A name that means a variable of the script, or one of its functions, means that; any other is looked for in models.
    The first model has the paths as they are written. In those of another one, the name of its class comes first.
    """

    def __init__(self, patterns: tuple[str, ...]) -> None:
        self._patterns = {text: Pattern.of(text).segments for text in patterns}
        self.paths: dict[str, set[str]] = {}  # where the values of the patterns go that name variables
        self.own: LoopTarget | None = None
        self._functions = ScriptFunctions()
        self._in_models: set[str] = set()
        self._models: dict[int, nn.Module] = {}
        self._names: set[str] = set()
        self.known: set[str] = set()  # paths that there are, to suggest one

    def add_own(self, code: CodeType, definitions: Collection[str]) -> LoopTarget | None:
        """The variables of the script itself; the names of its functions, classes and imports are not variables."""
        own = LoopTarget(code, None)
        for text, segments in self._patterns.items():
            if segments[0] not in definitions and (paths := own.add((), segments)):
                self.paths[text] = paths
        if own.variables:
            self.own = own
        return self.own

    def functions(self, namespace: Mapping[str, Any]) -> Iterator[LoopTarget]:
        """The functions that the script has defined or imported just now, as far as patterns name variables in them."""
        search = self._functions.search(namespace)
        found: dict[tuple[str, str], LoopTarget] = {}
        for text, segments in self._patterns.items():
            is_settled = text in self.paths or text in self._in_models
            if not is_settled or is_code(namespace.get(segments[0])):
                self.known.update(variables_near(search, segments))
                self.paths.setdefault(text, set()).update(add_function(search, segments, found))
                if not self.paths[text]:
                    del self.paths[text]
        yield from found.values()

    def unknown(self) -> list[str]:
        """The patterns that have named nothing so far."""
        return [text for text in self._patterns if text not in self.paths and text not in self._in_models]

    def model(self, module: nn.Module) -> Targets | None:
        """What the patterns name in a model that is called; None if it is known already."""
        model = innermost_module(module)
        if id(model) in self._models:
            return None
        name = self._free_name(type(model).__name__)
        self._models.update((id(part), part) for part in model.modules())
        plain, named = TargetSearch(module), TargetSearch(module, name)
        for text, segments in self._patterns.items():
            if text in self.paths:
                continue
            if segments[0] == name:
                named.add(text)
            elif text in self._in_models:
                named.add(f"{name}.{text}")
            elif plain.add(text):
                self._in_models.add(text)
        self.known.update(plain.paths())
        found = replace(plain.found)
        found.extend(named.found)
        return found

    def _free_name(self, name: str) -> str:
        number = 1
        while (free := name if number == 1 else f"{name}#{number}") in self._names:
            number += 1
        self._names.add(free)
        return free


def add_function(search: FunctionSearch, segments: Segments, found: dict[tuple[str, str], LoopTarget]) -> set[str]:
    """Add the variables that a pattern names in a function; their paths."""
    for length in range(1, len(segments)):
        for function in search.named(segments[:length]):
            new = LoopTarget(function.__code__, function)
            target = found.get(new.place, new)
            if paths := target.add(segments[:length], segments[length:]):
                found[target.place] = target
                return paths
    return set()


def variables_near(search: FunctionSearch, segments: Segments) -> Iterator[str]:
    """The paths of the variables of the functions that a pattern may begin with."""
    for length in range(1, len(segments) + 1):
        name = segments[:length]
        for function in search.named(name):
            yield from (join(*name, each) for each in variables_with_attributes(function.__code__))


def variables_with_attributes(code: CodeType) -> Iterator[str]:
    """The variables of a function without globals, and the attributes that it sets of its first argument (`self`)."""
    yield from own_names(code).difference(global_names(code))
    for owner in code.co_varnames[: code.co_argcount][:1]:
        yield from (join(owner, name) for name in stored_attributes(code, owner))


class ScriptEntry(RunEntry):
    """The recording of one script: adds what it finds while the script runs."""

    def __init__(self, options: RunOptions, found: ScriptTargets, steps: ScriptSteps) -> None:
        self._found, self._to = found, options.to
        self._finding = Troubles()
        super().__init__(options, RunPlan(Targets(), found.paths, rule=steps.rule))
        if self.is_on:
            recordings.append(self.hear)
            self.undo.callback(recordings.remove, self.hear)
            steps.rule.listeners.append(self._begin_step)
            self.undo.callback(steps.rule.listeners.remove, self._begin_step)

    def prepare(self, code: CodeType, tree: ast.Module) -> Collection[str]:
        """The script is about to run: the names of its own variables that are recorded."""
        definitions = definitions_in(tree)
        self._found.known.update(paths_in(code, definitions))
        own = self._found.add_own(code, definitions)
        if own is None:
            return ()
        self.recorder.add_loop(own)
        return own.variables

    def hear(self, point: ReportPoint, value: Any, frame: FrameType) -> None:
        """The script has defined something: look for functions that are recorded."""
        if point.moment != "defined":
            return
        try:
            for target in self._found.functions(frame.f_globals):
                self.recorder.add_loop(target)
        except Exception as error:
            if is_interrupt(error):
                raise
            self._finding("looking for functions", error)

    def _begin_step(self, training: bool | None) -> None:
        """Tell the user early what names nothing: the script may run for hours."""
        if self.recorder.step != EARLY:
            return
        for pattern in self._found.unknown():
            say = outside.say or tell
            say(f"--record {pattern}: nothing in the first {EARLY} steps had this path{self._nearest(pattern)}")

    def learn(self, module: nn.Module) -> ValueProbe | None:
        """A model is called: record it if it is new."""
        try:
            targets = self._found.model(module)
            if targets is None:
                return None
            self.recorder.add_model(module, targets)
        except Exception as error:
            if is_interrupt(error):
                raise
            self._finding("looking into a model", error)
            return None
        return self.recorder

    def summary(self) -> str:
        """What was recorded, in a line."""
        paths, steps = len(self.recorder.seen), self.recorder.step + 1
        count = f"{paths:,} variable{'s' * (paths != 1)} over {steps:,} step{'s' * (steps != 1)}"
        return f"recorded {count}: {self._to}"

    def _nearest(self, pattern: str) -> str:
        known = {*self.recorder.seen, *self._found.known}
        if pattern in known:
            return ""
        return suggestion(pattern, known)

    def _nothing_text(self, options: RunOptions) -> str:
        names = ", ".join(f"{pattern!r}{self._nearest(pattern)}" for pattern in options.only)
        return f"the script called no model, and nothing that has {names}"

    def stop(self, error: BaseException | None) -> None:
        """Hear nothing any more, and end the recording."""
        try:
            self.undo.close()
        finally:
            super().stop(error)


class ScriptRun(Session[ScriptEntry]):
    """A `with` block around a script whose values are recorded."""

    def __init__(self, options: RunOptions, steps: ScriptSteps) -> None:
        super().__init__()
        self._options, self._steps = options, steps
        self.found = ScriptTargets(options.only)

    def __enter__(self) -> ScriptEntry:
        return self.enter(None)

    def open(self, frame: FrameType | None) -> ScriptEntry:
        """Open the journal and start to record."""
        return ScriptEntry(self._options, self.found, self._steps)
