"""ModelTracer: what paths name in a model, at each iteration in which it changed, gathered in rank 0."""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any

from torch import Tensor, nn

from insitu import ChoiceError, record_run
from tensortrace.gathering import Gathering, Local, Merged, ResultEntry, current_rank, gathering
from tensortrace.hooks import Hook, innermost
from tensortrace.prints import Print, print_of
from tensortrace.telling import tell

Callback = Callable[..., Any]
# Of each set of variables, how often a tracer of them was entered: all ranks count alike.
_entered: dict[int, int] = defaultdict(int)


class ModelTracer:
    """Traces variables of a model in a `with` block. An iteration is a call of the model; the first one is 1.

    The values of an iteration are there once the next one begins, or the block ends.
    """

    patience = 30.0  # seconds that rank 0 waits at the end for ranks that send nothing

    def __init__(
        self,
        model: nn.Module,
        variables: Iterable[str],
        trace_interval: int = 1,
        gathering_interval: int = 1,
        pre_save_callbacks: Sequence[Callback] = (),
        pre_gather_callbacks: Sequence[Callback] = (),
        post_gather_callbacks: Sequence[Callback] = (),
        post_trace_callbacks: Sequence[Callback] = (),
        eval_only: bool = False,
        train_only: bool = False,
    ) -> None:
        if eval_only and train_only:
            raise ChoiceError("eval_only=True and train_only=True leave nothing to trace: give one of them")
        for option, number in (("trace_interval", trace_interval), ("gathering_interval", gathering_interval)):
            if type(number) is not int or number < 1:
                raise ChoiceError(f"{option}={number!r} is not a number of iterations: 1 is each one, 4 each fourth")
        self.model = innermost(model)
        self.variables = [variables] if isinstance(variables, str) else list(variables)
        self.trace_interval, self.gathering_interval = trace_interval, gathering_interval
        self.pre_save_callbacks, self.pre_gather_callbacks = pre_save_callbacks, pre_gather_callbacks
        self.post_gather_callbacks, self.post_trace_callbacks = post_gather_callbacks, post_trace_callbacks
        self.eval_only, self.train_only = eval_only, train_only
        self.results: defaultdict[str, ResultEntry] = defaultdict(no_result)
        self.rank = current_rank()  # rank 0 has the results of all
        self.current_iteration = 0
        self._recording = record_run(
            model,
            only=self.variables,
            keep="values" if trace_interval == 1 else self._traced_only,
            when="eval" if eval_only else "train" if train_only else None,
            to=self._take,
        )
        self._local: Local = {}
        self._prints: dict[str, Print] = {}
        self._is_traced = self._is_due = False
        self._depth = self._entries = 0
        self._undo = ExitStack()
        self._gathering: Gathering | None = None
        self._told: set[tuple[int, type]] = set()

    def __enter__(self) -> ModelTracer:
        if not self._entries:
            self._open()
            self._start()
        self._entries += 1
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._entries -= 1
        if not self._entries:
            self._undo.__exit__(kind, error, tb)
            # Nobody waits for others when this process has trouble of its own.
            self._finish(self.patience if error is None else 0.0)

    def _open(self) -> None:
        if self._gathering is None:
            self.rank = current_rank()
            self._gathering = gathering(self._session(), lambda: self.patience)

    def _session(self) -> str:
        """A name for this entry that all ranks find alike, without asking each other."""
        facts = (*self.variables, self.trace_interval, self.gathering_interval, self.eval_only, self.train_only)
        number = zlib.crc32(repr(facts).encode())
        _entered[number] += 1
        return f"{number}/{_entered[number]}"

    def _start(self) -> None:
        self._depth = 0
        with ExitStack() as undo:
            undo.enter_context(self._recording)
            undo.callback(self.model.register_forward_pre_hook(Hook(self._before)).remove)
            undo.callback(self.model.register_forward_hook(Hook(self._after), always_call=True).remove)
            self._undo = undo.pop_all()

    def _before(self, module: nn.Module, args: Any) -> None:
        """The model is called: all of the call before has been taken by now."""
        if module is not self.model:
            return
        self._depth += 1
        if self._depth > 1:
            return
        self._gather_if_due()
        self._is_traced = False
        if module.training if self.eval_only else self.train_only and not module.training:
            return
        self.current_iteration += 1
        self._is_due = True
        self._is_traced = self.current_iteration % self.trace_interval == 0

    def _after(self, module: nn.Module, args: Any, output: Any) -> None:
        if module is self.model:
            self._depth = max(0, self._depth - 1)

    def _traced_only(self, tensor: Tensor) -> Any:
        if self._is_traced:
            return tensor
        return {}

    def _take(self, name: str, value: Any, step: int, rank: int) -> None:
        """A value of the iteration that has ended: keep it if it is a new one."""
        if not self._is_traced:
            return
        if isinstance(value, Tensor):
            value = value.cpu()
        for callback in self.pre_save_callbacks:
            try:
                value = callback(name, value, self.current_iteration)
            except Exception as error:
                self._tell(callback, name, error)
        now = print_of(value)
        if now is None or self._prints.get(name) != now:
            iterations, values = self._local.setdefault(name, ([], []))
            iterations.append(self.current_iteration)
            values.append(value)
        if now is not None:
            self._prints[name] = now

    def _gather_if_due(self) -> None:
        if self._is_due and self.current_iteration % self.gathering_interval == 0:
            self._gather()

    def _gather(self) -> None:
        """Hand a group in, and keep those that are complete."""
        self._is_due = False
        local, self._local = self._local, {}
        for callback in self.pre_gather_callbacks:
            for name, (iterations, values) in local.items():
                self._call(callback, name, values, iterations)
        group = (self.current_iteration - 1) // self.gathering_interval
        for merged in self._gathering.hand_in(group, local) if self._gathering is not None else ():
            self._keep(merged)

    def _finish(self, patience: float) -> None:
        """Hand the last group in, complete or not, and keep all that comes."""
        if self._is_due:
            self._gather()
        if self._gathering is not None:
            for merged in self._gathering.finish(patience):
                self._keep(merged)
        self._gathering = None
        for callback in self.post_trace_callbacks:
            for name, entry in self.results.items():
                self._call(callback, name, entry.values, entry.iterations, entry.ranks)

    def _keep(self, merged: Merged) -> None:
        for callback in self.post_gather_callbacks if self.rank == 0 else ():
            for name, entry in merged.items():
                self._call(callback, name, entry.values, entry.iterations, entry.ranks)
        for name, entry in merged.items():
            for all_of_it, new in zip(self.results[name], entry, strict=True):
                all_of_it.extend(new)

    def _call(self, callback: Callback, name: str, *lists: list[Any]) -> None:
        """Let a callback change the lists; where it fails, they are as they were."""
        before = [list(each) for each in lists]
        try:
            callback(name, *lists)
        except Exception as error:
            for each, old in zip(lists, before, strict=True):
                each[:] = old
            self._tell(callback, name, error)

    def _tell(self, callback: Callback, name: str, error: Exception) -> None:
        if (id(callback), type(error)) not in self._told:
            self._told.add((id(callback), type(error)))
            called = getattr(callback, "__name__", type(callback).__name__)
            tell(f"{called} failed on {name!r}, whose values stay as they were: {type(error).__name__}: {error}")


def no_result() -> ResultEntry:
    """The result for a name that was not traced."""
    return ResultEntry([], [], [])


def trace_model(model: nn.Module, variables: Iterable[str], *args: Any, **kwargs: Any) -> tuple[Any, ModelTracer]:
    """Call a model once with these arguments; its output, and the tracer that has the values.

    >>> import torch
    >>> output, tracer = trace_model(torch.nn.ReLU(), ["forward.input"], torch.ones(2))
    >>> tracer.results["forward.input"].values
    [tensor([1., 1.])]
    """
    with ModelTracer(model, variables) as tracer:
        output = model(*args, **kwargs)
    return output, tracer


class TracedModel(nn.Module):
    """A model that is traced whenever it is called; `tracer.results` has the values, all of them after `close()`.

    >>> import torch
    >>> traced = TracedModel(torch.nn.ReLU(), ["forward.input"])
    >>> _ = traced(torch.ones(2)), traced(torch.zeros(2))
    >>> traced.tracer.results["forward.input"].values
    [tensor([1., 1.]), tensor([0., 0.])]
    """

    def __init__(
        self,
        model: nn.Module,
        variables: Iterable[str],
        trace_interval: int = 1,
        eval_only: bool = False,
        train_only: bool = False,
        **options: Any,
    ) -> None:
        super().__init__()
        self.model = model
        self.tracer = ModelTracer(
            model, variables, trace_interval, eval_only=eval_only, train_only=train_only, **options
        )

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the model and trace it."""
        self.tracer._open()
        self.tracer._start()
        with self.tracer._undo:
            output = self.model(*args, **kwargs)
        self.tracer._gather_if_due()
        return output

    def close(self) -> None:
        """Gather the iterations since the last gathering, and wait for the other ranks."""
        self.tracer._finish(self.tracer.patience)
