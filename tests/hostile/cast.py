"""Who plays in the generated programs: awkward objects, errors, containers, and the world that sees what happens."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
import gc
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, NamedTuple, NoReturn

import torch
import torch._dynamo  # now: `checkpoint` does it, and leaves a mark
from tests.hostile.plain import facts_of, plain
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import insitu


class Boom(Exception):
    """An ordinary error with more than text in it."""


class HostileError(Exception):
    """An error that cannot be printed, looked at or noted."""

    def __str__(self) -> str:
        raise RuntimeError("str of an error")

    __repr__ = __str__

    def __getattribute__(self, name: str) -> Any:
        if name in ("__notes__", "add_note"):
            raise RuntimeError("an attribute of an error")
        return super().__getattribute__(name)


class Hostile:
    """An object that raises whatever is asked of it."""

    def __refuse(self, *args: Any) -> NoReturn:
        raise RuntimeError("do not touch")

    __eq__ = __ne__ = __bool__ = __len__ = __iter__ = __repr__ = __str__ = __refuse
    __hash__ = __getattr__ = __getitem__ = __contains__ = __index__ = __format__ = __dir__ = __refuse


class Awkward:
    """Attributes that are there, and are not what they seem; a class that lies about itself."""

    @property
    def __class__(self) -> type:  # type: ignore[override]
        return dict

    @property
    def shape(self) -> NoReturn:
        raise KeyError("shape")

    def __repr__(self) -> str:
        return "A" * 100_000


class Loud(dict):  # type: ignore[type-arg]
    """A dict whose methods cannot be used."""

    def items(self) -> NoReturn:  # type: ignore[override]
        raise RuntimeError("items")

    keys = values = __iter__ = __len__ = items  # type: ignore[assignment]


class Sub(Tensor):
    """A tensor subclass that stays one."""


class Noting(Tensor):
    """A tensor subclass that sees each function that it is given to."""

    seen: ClassVar[list[str]] = []

    @classmethod
    def of(cls, tensor: Tensor) -> Noting:
        """The tensor as one of these."""
        return tensor.as_subclass(cls)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.seen.append(getattr(func, "__name__", "?"))
        return super().__torch_function__(func, types, args, kwargs or {})


class Seen(TorchFunctionMode):
    """A mode of the user, which sees each function."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._seen = world.seen

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self._seen.append(("function", getattr(func, "__name__", "?")))
        return func(*args, **(kwargs or {}))


class SeenBelow(TorchDispatchMode):
    """A mode of the user, which sees each operator."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._seen = world.seen

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self._seen.append(("operator", str(func)))
        return func(*args, **(kwargs or {}))


class Unfriendly(nn.Linear):
    """A module that can neither be compared, nor hashed, nor printed, nor asked for its truth or length."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs)
        self.is_ready = True

    def _refuse(self, *args: Any) -> NoReturn:
        raise RuntimeError("do not touch")

    __eq__ = __bool__ = __len__ = __repr__ = __dir__ = extra_repr = _refuse  # type: ignore[assignment]
    __hash__ = nn.Module.__hash__

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if "is_ready" not in self.__dict__:
                raise
            raise KeyError(name) from None


class Caller(nn.Linear):
    """A module with a way of its own to be called."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return super().__call__(*args, **kwargs) + self.forward(*args, **kwargs)


class Reaching(nn.Module):
    """A module without a forward of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)
        self.forward = self.inner.forward  # type: ignore[method-assign]


class Watched(nn.Linear):
    """A module whose forward is decorated."""

    def __init__(self) -> None:
        super().__init__(4, 4)

    @torch.no_grad()
    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input)


class Spare(nn.Module):
    """A module that takes whatever it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Any, *more: Any, **named: Any) -> Any:
        """A pair."""
        return self.linear(fit(x)), more


class Named(NamedTuple):
    """A named container."""

    value: Any
    rest: Any = None


@dataclasses.dataclass
class Pair:
    """A dataclass."""

    value: Any
    rest: Any = None


class Double(torch.autograd.Function):
    """Twice its input, forward and backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:  # type: ignore[override]
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:  # type: ignore[override]
        (x,) = ctx.saved_tensors
        return grad * 2 + x * 0


def twice(x: Tensor, y: Any = None) -> Tensor:
    """A function to be recomputed."""
    return (x.sin() * x).tanh()


def twos(x: Tensor, y: Any = None) -> Iterator[Tensor]:
    """A generator."""
    yield x * 2
    yield x + fit(y)


async def sleepy(x: Tensor, y: Any = None) -> Tensor:
    """A coroutine that lets others go first."""
    await asyncio.sleep(0)
    return x - fit(y)


def endless() -> list[Any]:
    """A list that contains itself."""
    found: list[Any] = [1]
    found.append(found)
    found.append({"again": found})
    return found


def pack(kind: str, a: Any, b: Any) -> Any:
    """Two tensors in a container."""
    makers: dict[str, Callable[[], Any]] = {
        "one": lambda: a,
        "tuple": lambda: (a, b),
        "list": lambda: [b, None, a],
        "dict": lambda: {"x": a, 1: b, (2, "k"): None},
        "ordered": lambda: collections.OrderedDict(x=a),
        "named": lambda: Named(a, Named(b)),
        "pair": lambda: Pair([a], {"deep": (b, {"er": a})}),
        "endless": lambda: [a, endless()],
        "hostile": lambda: (a, Hostile()),
        "loud": lambda: [a, Loud(x=b)],
        "sub": lambda: a.as_subclass(Sub),
        "sizes": lambda: (a, a.shape, a.dtype, 3, "text", 2.5, 1j),
        "views": lambda: (a, a[0], a.t(), a.detach(), a.bool(), a.sum(), a[:0]),
        "iterator": lambda: iter([a, b]),
        "none": lambda: None,
    }
    return makers[kind]()


KINDS = (
    *("one", "tuple", "list", "dict", "ordered", "named", "pair", "endless", "hostile", "loud", "sub", "sizes"),
    *("views", "iterator", "none"),
)


def first_tensor(value: Any, depth: int = 0) -> Tensor | None:
    """The first tensor that a container holds, if it lets itself be asked."""
    kind = type(value)
    if issubclass(kind, Tensor):
        return value
    if issubclass(kind, Pair):
        value = (value.value, value.rest)
    items = value if issubclass(kind, (tuple, list)) else dict.values(value) if issubclass(kind, dict) else ()
    found = (first_tensor(item, depth + 1) for item in items if depth < 4)
    return next((tensor for tensor in found if tensor is not None), None)


def fit(value: Any) -> Tensor:
    """Whatever it is, 3 × 4 numbers."""
    tensor = first_tensor(value)
    if tensor is None:
        return torch.ones(3, 4)
    tensor = tensor.as_subclass(Tensor)
    if tensor.is_complex():
        tensor = tensor.real
    tensor = tensor.float()
    return tensor if tensor.shape == (3, 4) else tensor.sum().expand(3, 4) * 0.5


class Quiet:
    """A stream that nobody reads."""

    def write(self, text: str) -> None:
        """Take some text."""


class World:
    """What a program has around it: a log, threads, generators that are not finished, sessions that are open."""

    def __init__(self) -> None:
        self.seen: list[Any] = []
        self.held: list[Any] = []
        self.traces: list[Any] = []
        self.open: list[Any] = []
        self.late: list[tuple[threading.Thread, threading.Event]] = []
        self.model: Any = None
        self.spare = Spare()
        self.refs: list[weakref.ref[Any]] = []
        self.handles: list[Any] = []
        self.quiet = Quiet()
        self.again_session = insitu.record(level="functions")
        self._times = self._depth = 0
        Noting.seen = self.seen

    def log(self, *values: Any) -> None:
        """Remember what the program sees, bit by bit."""
        self.seen.append([plain(value) for value in values])

    def watch(self, *tensors: Tensor) -> None:
        """Remember tensors without keeping them alive."""
        self.refs += map(weakref.ref, tensors)

    def caught(self, error: BaseException) -> None:
        """Remember an exception that the program has handled."""
        self.seen.append(facts_of(error))

    def few(self) -> bool:
        """True a few times; in the end never, also where one loop lies in another."""
        self._times += 1
        return self._times % 3 != 0 and self._times < 30

    def again(self, net: Any, x: Tensor) -> Any:
        """Call a module inside of itself, but not for ever."""
        if self._depth >= 2:
            return x
        self._depth += 1
        try:
            return net(x)
        finally:
            self._depth -= 1

    def step(self) -> None:
        """Say that a step begins, to the trace that was begun last."""
        if self.traces and hasattr(self.traces[-1], "step"):
            with contextlib.suppress(insitu.InsituError):  # where it has ended
                self.traces[-1].step()

    def hook(self, tensor: Tensor) -> None:
        """See the gradient of a tensor."""
        tensor.register_hook(lambda grad: self.log("gradient", grad))

    def forward_hook(self, module: nn.Module, kind: str) -> None:
        """A hook of the user, which may be rude."""
        times: list[int] = []

        def hook(*args: Any, **kwargs: Any) -> Any:
            times.append(1)
            self.seen.append((kind, len(args)))
            if kind == "raising" or (kind == "raising late" and len(times) == 2):
                raise Boom("in a hook")
            if kind == "removing":
                handle.remove()
            return fit(args[-1]) * 2 if kind == "replacing" else None

        if kind == "pre":
            handle = module.register_forward_pre_hook(hook, with_kwargs=True)
        elif kind == "backward":
            handle = module.register_full_backward_hook(hook)
        else:
            handle = module.register_forward_hook(hook, always_call=kind == "always")
        self.handles.append(handle)

    def unhook(self) -> None:
        """Remove the last hook."""
        if self.handles:
            self.handles.pop().remove()

    @contextlib.contextmanager
    def traced(self) -> Iterator[None]:
        """A debugger."""
        before, seen = sys.gettrace(), self.seen

        def trace(frame: Any, event: str, argument: Any) -> Any:
            if not frame.f_code.co_filename.endswith("/program.py"):
                return None
            seen.append((event, frame.f_lineno, frame.f_code.co_name))
            return trace

        sys.settrace(trace)
        try:
            yield
        finally:
            sys.settrace(before)

    @contextlib.contextmanager
    def profiled(self) -> Iterator[None]:
        """A profiler."""
        before, seen = sys.getprofile(), self.seen

        def profile(frame: Any, event: str, argument: Any) -> None:
            if event in ("call", "return") and frame.f_code.co_filename.endswith("/program.py"):
                seen.append((event, frame.f_code.co_name))

        sys.setprofile(profile)
        try:
            yield
        finally:
            sys.setprofile(before)

    def enter(self, session: Any) -> None:
        """Begin a session that is left in any order."""
        found = session.__enter__()
        self.open.append(session)
        self.traces.append(found)

    def leave(self, which: int) -> None:
        """End one of those that are open."""
        if self.open:
            self.open.pop(which % len(self.open)).__exit__(None, None, None)

    def thread(self, work: Callable[[], Any]) -> Any:
        """What other threads make of it, or how it failed there."""
        found: list[Any] = []

        def run() -> None:
            try:
                found.append(work())
            except BaseException as error:
                self.caught(error)

        worker = threading.Thread(target=run)
        worker.start()
        worker.join()
        return found[0] if found else None

    def later(self, work: Callable[[], Any]) -> None:
        """A thread that begins now, and works when the session is over."""

        over = threading.Event()

        def run() -> None:
            over.wait()
            try:
                self.log(fit(work()))
            except BaseException as error:
                self.caught(error)

        worker = threading.Thread(target=run)
        worker.start()
        self.late.append((worker, over))

    def end(self) -> None:
        """The program is over: the sessions that it left open are left, the last first."""
        while self.open:
            self.leave(-1)

    def after(self) -> None:
        """The session around it is over, too: late threads do their work, one by one, generators are thrown away."""
        for worker, over in self.late:
            over.set()
            worker.join()
        if self.held:
            self.held.clear()
            gc.collect()
        self.end()
