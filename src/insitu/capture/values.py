"""Values of a model, step by step: what path patterns name in it, taken while an unchanged training loop runs.

A step is one outermost call of the model, or what `begin_step` says. What was taken in it is handed on when the next
one begins: parameters and buffers are read then, after the update. Gradients are read when an optimizer is about to
use them. Nothing here waits for another process.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack
from threading import RLock, get_ident
from time import time
from types import FrameType
from typing import Any

import numpy
import torch
from torch import Tensor, nn

from insitu.capture.changes import Print, print_of
from insitu.capture.compiled import regions
from insitu.capture.giving import Giver
from insitu.capture.gradients import Gradients
from insitu.capture.inside import children, parts
from insitu.capture.keep import Small, has_values, local, unnoticed
from insitu.capture.modes import skip_when_compiling
from insitu.capture.modules import patch
from insitu.capture.names import unwrapped, wrapping
from insitu.capture.reporters import hearers
from insitu.capture.swaps import swaps
from insitu.capture.targets import Method, Rest, Targets
from insitu.follow.rewrite import Point

# The path, which value of it this is in the step, and the value: a tensor or array of its own, or a small Python value.
Taken = tuple[str, int, Any]
Sink = Callable[[int, float, list[Taken]], None]
Keep = Callable[[Any], Any]

SMALL = (int, float, bool, str, type(None), complex)
PLAIN = (Tensor, nn.Parameter)
WHOLE = frozenset[Rest]([()])
MOST_FRAMES = 1000
MOST_LEAVES = 1000
MOST_PARTS = 10_000  # that are looked at to find them
MOST_BYTES = 2**32  # that a step may hold until it is written


class Taking:
    """Takes the values of one session in this process.

    `keep_of` says what is made of each tensor, by its path and that of the whole it is an item of.
    """

    def __init__(
        self,
        model: nn.Module,
        targets: Targets,
        *,
        keep_of: Callable[[str, str], Keep | None],
        every: int,
        when: str | None,
        sink: Sink,
        trouble: Callable[[str, Exception], None],
    ) -> None:
        self.root, self.targets = unwrapped(model), targets
        # The model, and what is wrapped around it: the outermost one that is called makes the step.
        self._roots = {id(module) for module in wrapping(model)}
        self.modules: dict[int, dict[str, set[Rest]] | None] = {**targets.outputs}
        self.modules.update(dict.fromkeys(self._roots, targets.outputs.get(id(self.root))))
        self.step, self.seen = -1, set[str]()
        # What is to be known of a path besides its values: of a shard, what it is a part of.
        self.facts: dict[str, dict[str, Any]] = {}
        self._keep_of, self._every, self._when, self._sink, self.trouble = keep_of, every, when, sink, trouble
        self.is_active = self._said = False  # whether this step is one that is recorded
        self._fitting = 0
        self._taken: list[Taken] = []
        self._counts: dict[str, int] = {}
        self._bytes = 0
        self._inside: set[int] = set()
        self._lock = RLock()
        self._undo = ExitStack()
        self.gradients = Gradients(self)
        self.variables = Variables(self)

    def start(self) -> None:
        """Begin to take."""
        with ExitStack() as undo:
            regions.begin()  # what is compiled meanwhile must be the original
            undo.callback(regions.end)
            patch.take(self)
            undo.callback(patch.drop, self)
            self.gradients.start(undo)
            self.variables.start(undo)
            self._undo = undo.pop_all()

    def stop(self) -> None:
        """Hand on the last step and undo everything."""
        try:
            self._finish_step()
        finally:
            self._undo.close()

    def begin_step(self, number: int | None = None) -> None:
        """A step begins here, with this number or the next one; from now on a call of the model does not say so."""
        self._said = True
        self._begin(self.root, number)

    def end_step(self) -> None:
        """The step is over: what comes before the next one begins is in none."""
        self._said = True
        self._finish_step()

    def on_module(self, run: Callable[..., Any], module: nn.Module, /, *args: Any, **kwargs: Any) -> Any:
        """Run a module and take its output."""
        is_step = id(module) in self._roots and self.enter(module)
        try:
            result = run(module, *args, **kwargs)
        finally:
            if is_step:
                self._inside.discard(get_ident())
        if self.is_active:
            self._take_output(module, result, is_step=is_step)
        return result

    def enter(self, module: nn.Module) -> bool:
        """A module is called; whether it is the outermost call of the model in this thread, which makes a step."""
        ident = get_ident()
        if id(module) not in self._roots or ident in self._inside:
            return False
        with self._lock:
            if not self._inside and not self._said:  # calls of several threads at a time are one step
                self._begin(module)
            self._inside.add(ident)
        return True

    def leave(self, module: nn.Module, result: Any, error: BaseException | None, *, is_step: bool) -> None:
        """The call of a module, with which `enter` was called, has ended."""
        if is_step:
            self._inside.discard(get_ident())
        if error is None and self.is_active:
            self._take_output(module, result, is_step=is_step)

    def _take_output(self, module: nn.Module, result: Any, *, is_step: bool) -> None:
        if id(module) in self._roots and not is_step:
            return  # what is wrapped around the model is called, too, and gives the same
        for path, rests in (self.modules.get(id(module)) or {}).items():
            self.take(path, result, rests)

    def _begin(self, module: nn.Module, number: int | None = None) -> None:
        self._finish_step()
        self.step = self.step + 1 if number is None else number
        fits = self._when is None or module.training == (self._when == "train")
        self.is_active = fits and self._fitting % self._every == 0
        self._fitting += fits

    def _finish_step(self) -> None:
        with self._lock:
            if not self.is_active:
                return
            try:
                for module, name, path in self.targets.parameters:
                    self.take(path, getattr(module, name))
                self.gradients.finish()
                taken, self._taken = self._taken, []
                self._sink(self.step, time(), taken)
            except Exception as error:
                self.trouble("recording a step", error)
            finally:
                self.is_active = False
                self._taken, self._bytes = [], 0
                self._counts.clear()
                if not self._inside:
                    self.variables.forget()

    def release(self) -> None:
        """All is over: let go of the model."""
        self.root, self.targets = nn.Module(), Targets()
        self.modules = {}
        self._keep_of, self._sink = lambda path, whole: None, lambda step, moment, taken: None
        self.gradients, self.variables = Gradients(self), Variables(self)

    def take(self, path: str, value: Any, rests: Collection[Rest] = WHOLE) -> None:
        """Take a value, or what the rests name in it; of a container each of the values in it."""
        if not self.is_active:
            return
        try:
            with self._lock:
                unnoticed(lambda: self._add_all(path, value, rests))
        except Exception as error:
            self.trouble(f"taking {path}", error)

    def _add_all(self, path: str, value: Any, rests: Collection[Rest]) -> None:
        for whole, item in parts(path, value, rests).items():
            if type(item) in PLAIN:  # mostly
                self._add(whole, item, self._keep_of(whole, whole))
                continue
            for leaf_path, leaf in self._leaves(whole, item):
                self._add(leaf_path, leaf, self._keep_of(leaf_path, whole))

    def _leaves(self, path: str, value: Any) -> Iterator[tuple[str, Any]]:
        """The values in a container; if they are too many, those that are left out are not passed over silently."""
        met = [0]
        for number, leaf in enumerate(leaves(path, value, met)):
            if number == MOST_LEAVES:
                met[0] = MOST_PARTS + 1
                break
            yield leaf
        if met[0] > MOST_PARTS:
            limit = f"it holds more than {MOST_LEAVES:,} values, or {MOST_PARTS:,} parts, and only the first are taken"
            self.trouble(f"taking all of {path}", ValueError(limit))

    def _add(self, path: str, value: Any, keep: Keep | None) -> None:
        if value is None and keep is not None:  # nothing can be made of it; the name is yet to be bound
            self.seen.add(path)
            return
        if type(value) in SMALL:
            self._put(path, value)
            return
        if type(value) not in PLAIN and hasattr(value, "_local_tensor"):
            self.facts[path] = {"global_shape": list(value.shape), "placements": str(value.placements)}
        if keep is not None and isinstance(value, (Tensor, numpy.ndarray)):
            self._add_kept(path, local(value), keep)
        elif self._has_room(path, value):
            for part, copy in copies(path, value):
                self._put(part, copy)

    def _add_kept(self, path: str, value: Any, keep: Keep) -> None:
        """Take what a function makes of a tensor or array."""
        if isinstance(value, Tensor):
            if not has_values(value):
                return
            value = value.detach()
        kept = keep(value)
        if type(kept) is Small:
            for name, number in kept.items():
                self._put(f"{path}.{name}", number)
            return
        for leaf_path, leaf in self._leaves(path, kept):
            self._add(leaf_path, leaf, None)

    def _put(self, path: str, value: Any) -> None:
        call = self._counts.get(path, 0)
        self._counts[path] = call + 1
        self.seen.add(path)
        self._taken.append((path, call, value))

    def _has_room(self, path: str, value: Any) -> bool:
        """Whether a value fits into what a step may hold; one that does not is named, and left out."""
        size = value.nbytes if isinstance(value, (Tensor, numpy.ndarray)) else 0
        if self._bytes + size > MOST_BYTES:
            limit = f"a step may hold {MOST_BYTES:,} bytes, and this has {size:,}"
            self.trouble(
                f"taking {path}", ValueError(f"{limit}: keep='stats', or a function of the tensor, takes less")
            )
            return False
        self._bytes += size
        return True


def leaves(path: str, value: Any, met: list[int], depth: int = 0) -> Iterator[tuple[str, Any]]:
    """The tensors, arrays and small values in a container, each with its path; strangers are passed over.

    `met` counts what was looked at so far.
    """
    if isinstance(value, (Tensor, numpy.ndarray, numpy.generic)) or type(value) in SMALL:
        yield path, value
    elif depth < 8 and not isinstance(value, (nn.Module, type)) and not callable(value):
        for name, item in children(value):
            met[0] += 1  # what contains itself has more parts than anybody can look at
            if met[0] > MOST_PARTS:
                return
            yield from leaves(f"{path}.{name}", item, met, depth + 1)


def copies(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """A value as its own: later changes of the original do not reach it."""
    if not isinstance(value, Tensor):
        yield path, value.copy() if isinstance(value, numpy.ndarray) else value
        return
    value = local(value)
    if not has_values(value):
        return
    tensor = value.detach()
    if tensor.is_quantized:
        yield path, tensor.int_repr()
        yield f"{path}.scale", tensor.q_scale()
        yield f"{path}.zero_point", tensor.q_zero_point()
    elif tensor.layout is torch.strided and not tensor.is_nested:
        yield path, tensor.clone(memory_format=torch.contiguous_format).resolve_conj().resolve_neg()
    elif tensor.layout is torch.sparse_coo:
        yield f"{path}.indices", tensor._indices().clone()
        yield f"{path}.values", tensor._values().clone()
    elif tensor.is_nested:
        for index, part in enumerate(tensor.unbind()):
            yield f"{path}.{index}", part.clone()
    else:
        yield path, tensor.to_dense().clone(memory_format=torch.contiguous_format).resolve_conj().resolve_neg()


class Variables:
    """Variables and results of methods, and variables of functions that the model calls."""

    def __init__(self, taking: Taking) -> None:
        self._taking = taking
        self._methods = taking.targets.methods
        every = [*taking.targets.methods.values(), *taking.targets.functions.values()]
        self._places = {self._place(method): method for method in every if method.variables}
        # What is wanted of each running frame, and what its variables were.
        self._frames: dict[int, tuple[Method, dict[str, Print]]] = {}

    @staticmethod
    def _place(method: Method) -> tuple[str, str]:
        code = method.function.__code__
        return code.co_filename, code.co_qualname

    def start(self, undo: ExitStack) -> None:
        """Let the functions report, and the methods give what they return."""
        names: dict[int, tuple[Any, set[str]]] = {}
        for method in (*self._methods.values(), *self._taking.targets.functions.values()):
            if method.variables:
                found = names.setdefault(id(method.function), (method.function, set()))[1]
                found.update(method.variables)
        for function, wanted in names.values():
            undo.enter_context(swaps.swapped([function], tuple(sorted(wanted))))
        if names:
            hearers.append(self.hear)
            undo.callback(hearers.remove, self.hear)
        for owner, name in {(method.owner, name) for (_, name), method in self._methods.items() if method.result}:
            giver = Giver.of(owner, name)
            undo.callback(giver.forget, giver.listen(functools.partial(self._given, name)))

    def forget(self) -> None:
        """No call of the model runs: the frames that were seen have ended."""
        self._frames.clear()

    def hear(self, point: Point, value: Any, frame: FrameType) -> None:
        """A variable was reported."""
        if not self._taking.is_active:
            return
        try:
            if point.moment == "entered":
                self._enter(point, frame)
            elif id(frame) in self._frames and (point.file, point.function) in self._places:
                self._take(*self._frames[id(frame)], point, value)
        except Exception as error:
            self._taking.trouble("following a variable", error)

    def _enter(self, point: Point, frame: FrameType) -> None:
        """A call begins, in a frame that may have the id of one that has ended."""
        known = self._places.get((point.file, point.function))
        method = self._method(frame, known) if known is not None else None
        if method is None:
            self._frames.pop(id(frame), None)
            return
        if len(self._frames) >= MOST_FRAMES:
            self._frames.clear()
        self._frames[id(frame)] = (method, {})

    def _method(self, frame: FrameType, known: Method) -> Method | None:
        """What is wanted of this function for the module that it runs for; one that has none runs for all."""
        if known.is_free:
            return known
        owner = id(frame.f_locals.get(frame.f_code.co_varnames[0]))
        method = self._methods.get((owner, known.name))
        return method if method is not None and method.function is known.function else None

    def _take(self, method: Method, prints: dict[str, Print], point: Point, value: Any) -> None:
        if point.moment == "deleted":
            return
        for path, item in parts(f"{method.path}.{point.name}", value, method.variables.get(point.name, ())).items():
            now = print_of(item)
            if point.moment != "maybe" or prints.get(path, now) != now:
                self._taking.take(path, item)
            prints[path] = now

    def _given(self, name: str, owner: Any, result: Any) -> None:
        """A method has returned; of a static one, it is not known for which module."""
        method = self._methods.get((id(owner), name)) if owner is not None else self._any_method(name)
        if method is not None and method.result:
            self._taking.take(method.path, result, method.result)

    def _any_method(self, name: str) -> Method | None:
        return next((method for (_, other), method in self._methods.items() if other == name and method.result), None)


skip_when_compiling(Taking.on_module, Taking.enter, Taking.leave, Taking._take_output)
skip_when_compiling(Taking._begin, Taking._finish_step, Taking.take)
