"""Tensor Tracker on insitu: the same decorators and the same lines, and no trace function is left behind by them.

>>> import torch
>>> @var_tracker("y")
... def double(x, times):
...     y = x
...     for _ in range(times):
...         y = y * 2
...     return y
>>> _ = double(torch.ones(2, 3), 1)  # doctest: +ELLIPSIS
┌── [<doctest ttracker...>:2] 函数 [double] 被调用于 <module>:1 (<doctest ttracker...>:1 <- ...)
├─ 输入 [Tensor] x@0 → shape=torch.Size([2, 3]) | dtype=torch.float32
├─ 输入 [Var] times@0 value: 1
│   ├─ [Tensor] y@3 → shape=torch.Size([2, 3]) | dtype=torch.float32
│   ├─ [Tensor] y@5 → shape=torch.Size([2, 3]) | dtype=torch.float32
└─ 输出 shape=torch.Size([2, 3])
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import insitu
from ttracker.debug import beneath, debug_trace, fstack
from ttracker.numbers import numbers
from ttracker.output import h4logger, lines, log2file, logger
from ttracker.tree import Tree
from ttracker.values import described

__version__ = "0.1.0"
__all__ = ["_log_change", "auto_diff", "debug_trace", "fstack", "h4logger", "log2file", "logger", "var_tracker"]

F = TypeVar("F", bound=Callable[..., Any])


def auto_diff(func: F) -> F:
    """Log each call of a function: where it is defined, who calls it, what goes in and comes out.

    >>> @auto_diff
    ... def area(width, height):
    ...     return width * height
    >>> area(3, 4)  # doctest: +ELLIPSIS
    ┌── [<doctest ttracker...>:2] 函数 [area] 被调用于 <module>:1 (<doctest ttracker...>:1 <- ...)
    ├─ 输入 [Var] width@0 value: 3
    ├─ 输入 [Var] height@0 value: 4
    └─ 输出 value: 12
    12
    """
    return var_tracker()(func)


def var_tracker(*track_vars: str) -> Callable[[F], F]:
    """Log each call of a function as `auto_diff` does, and each change of these variables in it and in what it calls.

    >>> @var_tracker("total")
    ... def add(numbers):
    ...     total = 0
    ...     for number in numbers:
    ...         total += number
    ...     return total
    >>> add([1, 2])  # doctest: +ELLIPSIS
    ┌── [<doctest ttracker...>:2] 函数 [add] 被调用于 <module>:1 (<doctest ttracker...>:1 <- ...)
    ├─ 输入 [Var] numbers@0 len(value): 2
    │   ├─ [Var] total@3 value: 0
    │   ├─ [Var] total@5 value: 1
    │   ├─ [Var] total@5 value: 3
    └─ 输出 value: 3
    3
    """
    view: Any = Tree
    watch = insitu.watch(*track_vars, view=view, level="python", keep="meta", file=lines, color=False)

    def decorator(func: F) -> F:
        watched: F = beneath(func, watch)
        return watched

    return decorator


def _log_change(prestr: str, name: object, value: Any, indent: str, lineno: int = 0) -> None:
    """Log what a value is; of a tuple, as hooks are given it, each tensor in it. What is compiled stays compiled.

    Floating tensors are logged with their mean, least, largest and sum, which two runs can be compared by.

    >>> import torch
    >>> _log_change("Linear", "input", (torch.ones(2, 3),), "")
    Linear [Tensor] input.0@0 → shape=torch.Size([2, 3]) | dtype=torch.float32 | mean=1 min=1 max=1 sum=6
    """
    torch = sys.modules.get("torch")
    if os.environ.get("INSITU") == "0" or (torch is not None and torch.compiler.is_compiling()):
        return
    for text in described(name, value, lineno, numbers):
        lines.write(f"{indent}{prestr} {text}\n")
