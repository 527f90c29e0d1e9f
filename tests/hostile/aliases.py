"""Programs that change tensors in every way there is, and what a hand that looks at each call sees of them.

The hand reads the facts of all tensors of a call, and copies their values, before the call and after it. It knows
nothing of the tool.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch._C import DisableTorchFunction, _DisableTorchDispatch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

MOST_TENSORS = 10
REFUSALS = (
    RuntimeError,
    ValueError,
    TypeError,
    IndexError,
    AttributeError,
)  # of torch: what was chosen does not go together


class Seen(NamedTuple):
    """What the hand has seen of a tensor, or an array, at one moment."""

    shape: tuple[int, ...]
    dtype: str
    device: str
    strides: tuple[int, ...] | None
    requires_grad: bool
    values: Any
    is_array: bool


def look(item: Any) -> Seen:
    """Look at a tensor or an array."""
    if isinstance(item, np.ndarray):
        strides = None if item.flags.c_contiguous else tuple(stride // item.itemsize for stride in item.strides)
        return Seen(item.shape, str(item.dtype), "cpu", strides, False, item.copy(), True)
    with DisableTorchFunction(), _DisableTorchDispatch():
        strides = None if item.is_contiguous() else item.stride()
        values = item.detach().clone(memory_format=torch.contiguous_format).numpy()
        dtype = str(item.dtype).removeprefix("torch.")
        return Seen(tuple(item.shape), dtype, str(item.device), strides, item.requires_grad, values, False)


def leaves(value: Any) -> Iterator[Any]:
    """Every tensor and array in arguments or a result, in order."""
    if isinstance(value, (Tensor, np.ndarray)):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from leaves(item)
    elif isinstance(value, dict):
        yield from leaves(list(value.values()))


class Entry:
    """A call as the hand saw it; `outputs` is None for one that raised."""

    def __init__(self, kind: str, function: Any, inputs: Any) -> None:
        self.kind, self.function = kind, function
        self.inputs = [look(item) for item in leaves(inputs)]
        self.outputs: list[Seen] | None = None


class Hand:
    """Looks at calls, and writes down what it sees in the order in which they begin."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.functions, self.operators = Functions(self), Operators(self)

    def call(self, kind: str, function: Callable[..., Any], args: Any, kwargs: Any = None) -> Any:
        """Call something, looked at."""
        entry = Entry(kind, function, (args, kwargs or {}))
        self.entries.append(entry)
        result = function(*args, **(kwargs or {}))
        entry.outputs = [look(item) for item in leaves(result)]
        return result


class Functions(TorchFunctionMode):
    """The hand at torch functions."""

    def __init__(self, hand: Hand) -> None:
        super().__init__()
        self.hand = hand

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.hand.call("function", func, args, kwargs)


class Operators(TorchDispatchMode):
    """The hand at ATen operators."""

    def __init__(self, hand: Hand) -> None:
        super().__init__()
        self.hand = hand

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.hand.call("aten", func, args, kwargs)


class Writing(nn.Module):
    """Changes what it is given through a view, and returns it."""

    def forward(self, x: Tensor) -> Tensor:
        """The same tensor, with other values."""
        with torch.no_grad():
            x.view(-1)[:2].mul_(2)
        return x


class Holding(nn.Module):
    """Returns the same buffer at each call, and changes it where torch does not see it."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("held", torch.zeros(2, 3))

    def forward(self, x: Tensor) -> Tensor:
        """The buffer."""
        with DisableTorchFunction():
            self.held[0] += 1
        return self.held


class Program:
    """A random program: tensors, what shares memory with them, and one action after the other."""

    def __init__(self, seed: int, hand: Hand, watched: Callable[..., Any]) -> None:
        self.random, self.hand, self._watched = Random(seed), hand, watched
        self.tensors = [torch.arange(6.0).view(2, 3), torch.ones(4), torch.zeros(2, 3, dtype=torch.int64)]
        self.arrays: list[Any] = [np.ones(4, dtype=np.float32)]
        self.parameters = [nn.Parameter(torch.ones(2, 3)), nn.Parameter(torch.ones(3))]
        self.linear, self.norm = nn.Linear(3, 3), nn.BatchNorm1d(3)
        modules = (nn.Identity(), Writing(), Holding(), nn.ReLU(inplace=True), nn.Flatten(0))
        self.modules: tuple[nn.Module, ...] = (*modules, self.linear, self.norm)
        self.optimizer, self.layouts = self._optimizer(), list[Any]()
        self.done: list[str] = []

    def _optimizer(self) -> torch.optim.Optimizer:
        way = self.random.choice([{"foreach": True}, {"foreach": False}, {"fused": True}])
        kind: Any = self.random.choice([torch.optim.SGD, torch.optim.Adam])
        return kind(self.parameters, lr=0.1, **way)  # type: ignore[no-any-return]

    def prepare_training(self) -> None:
        """Have an optimizer and gradients that fit: fused ones write beyond the memory of smaller parameters."""
        layouts = [(parameter.shape, parameter.dtype, parameter.stride()) for parameter in self.parameters]
        if layouts != self.layouts:
            self.layouts, self.optimizer = layouts, self._optimizer()
            self.optimizer.zero_grad()
        self.optimizer.zero_grad(set_to_none=self.random.random() < 0.5)

    def run(self, steps: int) -> None:
        """Run so many actions, one of them again and again."""
        for _ in range(steps):
            name = self.random.choice(sorted(ACTIONS))
            self.done.append(name)
            try:
                ACTIONS[name](self)
            except REFUSALS as error:
                self.done[-1] += f" ({type(error).__name__})"

    def any(self) -> Tensor:
        """One of the tensors."""
        return self.random.choice([*self.tensors, *self.tensors, *self.parameters])

    def add(self, *tensors: Tensor) -> None:
        """Take tensors among those that the program uses."""
        for tensor in tensors:
            if len(self.tensors) < MOST_TENSORS:
                self.tensors.append(tensor)
            else:
                self.tensors[self.random.randrange(MOST_TENSORS)] = tensor

    def number(self) -> int:
        """A small number."""
        return self.random.randrange(1, 9)

    def module(self) -> None:
        """Call a module."""
        result = self.hand.call("module", self.random.choice(self.modules), (self.any(),))
        self.add(result)

    def watched(self) -> None:
        """Call a watched function, which is given tensors in a dict."""
        self.hand.call("python", self._watched, (self.any(), {"a": self.any(), "b": [self.random.choice(self.arrays)]}))


def in_thread(run: Callable[[], object]) -> None:
    """Do something in another thread, and wait for it."""

    def work() -> None:
        with contextlib.suppress(*REFUSALS):
            run()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(30)


def read(p: Program) -> None:
    """Functions that only read."""
    a, b = p.any(), p.any()
    choices: list[Callable[[], Any]] = [
        lambda: a.sum(),
        lambda: a + 1,
        lambda: torch.cat([a, b]),
        lambda: torch.stack([a, a]),
        lambda: a.clone(),
        lambda: torch.mul(input=a, other=b),
        lambda: a.to(a.dtype),
        lambda: a.contiguous(),
    ]
    p.add(p.random.choice(choices)())


def view(p: Program) -> None:
    """Views of all kinds."""
    x = p.any()
    choices: list[Callable[[], Any]] = [
        lambda: x[0],
        lambda: x.narrow(0, 0, 1),
        lambda: x.t(),
        lambda: x.view(-1),
        lambda: x.view(-1)[::2],
        lambda: x.detach(),
        lambda: x.data,
        lambda: x.unsqueeze(0).expand(2, *x.shape),
        lambda: x.unbind()[-1],
        lambda: x.chunk(2)[1],
    ]
    p.add(p.random.choice(choices)())


def write(p: Program) -> None:
    """Operators that change a tensor in place."""
    x, other, n = p.any(), p.any(), p.number()
    choices: list[Callable[[], Any]] = [
        lambda: x.add_(n),
        lambda: x.fill_(n),
        lambda: x.copy_(other),
        lambda: x.__setitem__(0, n),
        lambda: x[0].mul_(n),
        lambda: x.view(-1)[1:].fill_(n),
        lambda: x.t()[0].add_(n),
        lambda: torch._foreach_add_([x, other], n),
        lambda: x.index_fill_(0, torch.tensor([0]), n),
        lambda: x.zero_(),
        lambda: nn.functional.relu(x, inplace=True),
    ]
    with torch.set_grad_enabled(p.random.random() < 0.3):
        p.random.choice(choices)()


def can_grow(tensor: Tensor) -> bool:
    """Whether torch can resize the memory of a tensor. Where it cannot, it says so after it has changed the shape."""
    return bool(tensor.untyped_storage().resizable())


def write_out(p: Program) -> None:
    """`out=`, which may change the shape, too."""
    x = p.any()
    if can_grow(x):
        with torch.no_grad():
            torch.add(p.any(), p.number(), out=x)


def write_unseen(p: Program) -> None:
    """Writes that no function mode sees."""
    x, n = p.any(), p.number()
    with DisableTorchFunction(), torch.no_grad():
        p.random.choice([lambda: x.add_(n), lambda: x.data.mul_(n), lambda: x.view(-1)[0].fill_(n)])()


def write_array(p: Program) -> None:
    """Writes by NumPy, into arrays of its own and into the memory of tensors."""
    array = p.random.choice(p.arrays)
    array[...] = array + p.number()


def share_array(p: Program) -> None:
    """A tensor and an array with the same memory."""
    if p.random.random() < 0.5:
        p.add(torch.from_numpy(p.random.choice(p.arrays)))
    else:
        p.arrays = [*p.arrays[-3:], p.any().detach().numpy()]


def reshape_array(p: Program) -> None:
    """An array that gets another shape."""
    array = p.random.choice(p.arrays)
    array.shape = p.random.choice([(-1,), (1, -1), (2, -1)])


def share_by_dlpack(p: Program) -> None:
    """A tensor with the memory of another one."""
    x = p.any().detach()
    x.numpy()  # from now on torch refuses to resize the memory, which the new tensor would not know
    p.add(torch.from_dlpack(x))


def write_storage(p: Program) -> None:
    """Write all bytes."""
    p.any().untyped_storage().fill_(0)


def set_data(p: Program) -> None:
    """Other data, of another shape or dtype perhaps."""
    x = p.any()
    choices = [p.any().detach(), torch.full((p.number(),), 2.0), x.data.half(), x.data.float(), x.data.clone().t()]
    x.data = p.random.choice(choices)


def set_tensor(p: Program) -> None:
    """`set_`, which passes no function mode."""
    x, other = p.any(), p.any()
    if p.random.random() < 0.5:
        x.set_(other)
    else:
        x.set_(torch.arange(8.0).untyped_storage(), 1, (2, 2), p.random.choice([(2, 1), (1, 2)]))


def resize(p: Program) -> None:
    """Another size, or another order of the dimensions."""
    x = p.any()
    choices: list[Callable[[], Any]] = [
        lambda: x.resize_(2, p.number()) if can_grow(x) else x,
        lambda: x.t_(),
        lambda: x.unsqueeze_(0),
        lambda: x.squeeze_(),
    ]
    with torch.no_grad():
        p.random.choice(choices)()


def swap(p: Program) -> None:
    """Two tensors change places."""
    if p.random.random() < 0.5:
        torch.utils.swap_tensors(p.any(), p.any())
    else:
        p.add(x := torch.full((3,), float(p.number())), y := torch.zeros(1, 2))
        x.add_(1)
        torch.utils.swap_tensors(x, y)
        x.sum()


def require_grad(p: Program) -> None:
    """A tensor that requires a gradient, or no more."""
    x = p.any()
    if p.random.random() < 0.5:
        x.requires_grad_(p.random.random() < 0.7)
    else:
        x.requires_grad = not x.requires_grad


def train(p: Program) -> None:
    """A step of an optimizer."""
    p.prepare_training()
    loss = p.parameters[0].float().sum() * 2 + p.parameters[1].float().sum()
    loss.backward()
    p.optimizer.step()
    _ = p.parameters[0] + p.parameters[1]


def normalize(p: Program) -> None:
    """Running statistics change in a kernel."""
    p.add(p.hand.call("module", p.norm, (torch.full((4, 3), float(p.number())),)))
    assert p.norm.running_mean is not None
    p.norm.running_mean.sum()


def convert(p: Program) -> None:
    """A module with another dtype."""
    p.linear.to(p.random.choice([torch.float16, torch.float32, torch.float64]))
    p.linear.weight.sum()


def elsewhere(p: Program) -> None:
    """The same in another thread, which has no modes."""
    x, n = p.any(), p.number()
    choices: list[Callable[[], Any]] = [
        lambda: x.detach().add_(n),
        lambda: setattr(x, "data", torch.full((n,), 3.0)),
        lambda: x.set_(torch.ones(3, n)),
        lambda: x.detach().view(-1)[:1].zero_(),
    ]
    in_thread(p.random.choice(choices))


ACTIONS: dict[str, Callable[[Program], None]] = {
    function.__name__: function
    for function in (
        *(read, view, write, write_out, write_unseen, write_array, share_array, reshape_array, share_by_dlpack),
        *(write_storage, set_data, set_tensor, resize, swap, require_grad, train, normalize, convert, elsewhere),
        *(Program.module, Program.watched),
    )
}
