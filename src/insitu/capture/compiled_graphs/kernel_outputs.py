"""Takes the outputs of inductor's kernels while its program runs, by wrappers around the kernels that it calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from types import TracebackType
from typing import Any

import torch
from torch import Tensor

from insitu.capture.isolation import run_isolated
from insitu.capture.modules import get_ident
from insitu.trace.compiled.compiled_graph import CompiledGraph, Kernel

_LIBRARY = "extern_kernels"
_KERNEL = "insitu_kernel"  # the attribute of a wrapper that has the kernel itself


class KernelOutputs:
    """The outputs of the kernels of a graph, by the number of the kernel, in one run in this thread."""

    def __init__(self, graph: CompiledGraph, names: dict[str, Any] | None) -> None:
        self.found: dict[int, list[Tensor]] = {}
        self._names = names if names is not None else {}
        self._ident = get_ident()
        self._numbers: dict[tuple[str, int], int] = {}
        self._kernels = graph.kernels
        self._runs: Counter[str] = Counter()
        self._originals: dict[str, Any] = {}
        times: Counter[str] = Counter()
        for number, kernel in enumerate(graph.kernels):
            self._numbers[kernel.name, times[kernel.name]] = number
            times[kernel.name] += 1

    def __enter__(self) -> KernelOutputs:
        for name in {kernel.name.partition(".")[0] for kernel in self._kernels}:
            original = self._names.get(name)
            if name == _LIBRARY and original is not None:
                self._replace(name, LibraryProxy(original, self))
            elif callable(original):
                self._replace(name, self.wrap(name, original))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._names.update(self._originals)

    def _replace(self, name: str, replacement: Any) -> None:
        # Another thread may run the same graph, and may end first: what is put back is the kernel, not its wrapper.
        found = self._names[name]
        self._originals[name] = getattr(found, _KERNEL, found)
        self._names[name] = replacement

    def wrap(self, name: str, kernel: Callable[..., Any]) -> Callable[..., Any]:
        """A kernel that reports what it has written."""

        def run(*args: Any, **kwargs: Any) -> Any:
            result = kernel(*args, **kwargs)
            if get_ident() == self._ident:
                self._take(name, args, kwargs, result)
            return result

        setattr(run, _KERNEL, getattr(kernel, _KERNEL, kernel))
        return run

    def _take(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        number = self._numbers.get((name, self._runs[name]))
        self._runs[name] += 1
        if number is None:
            return
        written = [self._written(self._kernels[number], at, args, kwargs, result) for at in self._positions(number)]
        tensors = [item for item in written if isinstance(item, Tensor)]
        if len(tensors) == len(written):
            self.found[number] = run_isolated(lambda: [torch.clone(item) for item in tensors])

    def _positions(self, number: int) -> list[int | None]:
        return [output.position for output in self._kernels[number].outputs]

    @staticmethod
    def _written(kernel: Kernel, at: int | None, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
        """What a kernel has written to: an argument, `out`, or what it returns."""
        if at is not None:
            return args[at] if at < len(args) else None
        return kwargs.get("out", result)


class LibraryProxy:
    """In place of inductor's collection of library kernels: each reports what it has written."""

    def __init__(self, original: Any, outputs: KernelOutputs) -> None:
        self._original, self._outputs = original, outputs
        setattr(self, _KERNEL, getattr(original, _KERNEL, original))

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._original, name)
        if not callable(found):
            return found
        return self._outputs.wrap(f"{_LIBRARY}.{name}", found)
