"""A trace with everything a trace can hold, and a way to compare two of them to the last bit."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from insitu.store.json_writer import Repr
from insitu.trace.event import (
    Arm,
    Call,
    Fields,
    Loop,
    Mark,
    ModuleFacts,
    Nesting,
    Opaque,
    Site,
    Stats,
    TensorFacts,
    Variable,
    Word,
)
from insitu.trace.trace import Trace

VALUES: list[Any] = [
    *(None, True, False, 0, 1, -1, 2**53, 2**53 + 1, -(2**70), 10**5000),
    *(0.0, -0.0, 1.0, 0.1, -2.5e-310, 1e22, 5e-324, float("nan"), float("inf"), float("-inf")),
    *("", "text", "ünï → 🙂", "nul \0", "lone \ud800", "1", "nan", '"quoted" \\', Word("torch.bfloat16"), Word("")),
    *(b"", b"\0\xff", 1j, complex("nan-0j"), complex(-0.0, float("inf"))),
    *((), [], {}, (1,), [1], (1, [2, (3,)]), {"a": 1}, {1: "int", "1": "str", (1, 2): "tuple", None: []}),
    *({"tuple": [1]}, {"tensor": 0}, {"float": "1.0"}, [["tuple", 1]]),
    *(Opaque("Generator"), Fields("Output", {"loss": 1.5, "parts": (Word("x"),)}), Fields("Empty", {})),
    *(Repr("Path", "PosixPath('a')"), Word("slice(0, 3, None)")),
]

ARRAYS: list[Any] = [
    np.arange(6, dtype=np.int64).reshape(2, 3),
    np.array([np.nan, -0.0, np.inf], dtype=np.float32),
    np.array(2.5, dtype=">f8"),
    np.zeros((0, 4), dtype=np.uint8),
    np.array([1 + 2j], dtype=np.complex64),
    np.array(["ab", ""]),
    np.array([b"x"]),
    np.array(["2020-01-01"], dtype="datetime64[ns]"),
    np.arange(12.0).reshape(3, 4).T[::2],
    np.float32(0.1),
    np.int64(2**62 + 1),
    np.bool_(True),
]


def everything() -> Trace:
    """A trace in which every field of every event type has a value that is easy to lose."""
    loops = (Loop(1, "for ünï in x:"), Loop(2, "while True:"))
    nesting = Nesting(3, "model(x)  # ünï", loops, (Arm(1, 0), Arm(2, 1, False)), is_end=True)
    outer = Site("/home/me/train.py", 3, "<module>", "model(x)  # ünï", 0, 8, nesting=nesting)
    inner = Site("/home/me/model.py", 41, "Model.forward", "return x @ w", None, None, outer)
    twin = Site("/home/me/model.py", 41, "Model.forward", "return x @ w", None, None, outer)
    model = ModuleFacts("", "Model", ("Model", "Module"), {"p": 0.0, "sizes": (1, 2)}, 12, 6, 6, False)
    layer = ModuleFacts("layers.0", "Linear", (), {}, 6, 6, 0)
    x = TensorFacts(7, (2, 3), "f32", "cpu")
    w = TensorFacts(3, (3, "s0"), "bf16", "cuda:0", True, (1, "s0"), "Parameter", None, None, {"top": [1.0, None]})
    stats = Stats(count=6, min=-0.0, max=1e300, mean=float("inf"), nan=1, inf=2, zeros=3, histogram=(1, 0, 2))
    y = TensorFacts(9, (), "f8_e4m3fn", "meta", producer=8, stats=stats)
    none = TensorFacts(2**40, (0,), "i64", "cpu", stats=Stats(count=0), kept="word")
    x.grad = TensorFacts(60, (2, 3), "f32", "cpu", stats=stats)
    kept = [TensorFacts(20 + i, (i,), "u8", "cpu", kept=array) for i, array in enumerate(ARRAYS)]
    defined = Site("/home/me/model.py", 30, "Model.get", "def get(self, x):")
    array = TensorFacts(50, (2,), "f64", "cpu", type="ndarray", stats=stats, kept=np.array([0.5, np.nan]))
    return Trace(
        [
            Mark(0, None, "step", "", 5, 140_000_000_000_001, 1, 2),
            Call(4, None, "module", "Model", model, (x,), {"mask": None}, {"y": [y, w]}, None, outer, 10, 2**50),
            Call(
                8,
                4,
                "function",
                "torch.matmul",
                model,
                (x, w),
                {},
                y,
                "@",
                inner,
                12,
                7,
                None,
                "forward",
                1,
                2,
                3,
                flops=2**45,
            ),
            Call(
                9,
                4,
                "aten",
                "aten.mm.default",
                layer,
                (x, [w, x]),
                {},
                None,
                None,
                twin,
                13,
                None,
                "RuntimeError",
                message="ün\n",
            ),
            Call(15, 999, "aten", "aten.mul", None, tuple(VALUES), {}, (y, y), start=14, phase="backward", forward=8),
            Call(
                16, None, "aten", "aten.add", None, (Fields("Out", {"t": none}),), {"out": kept}, 0.5, None, inner, -3
            ),
            Mark(17, 16, "note", "lone \ud800"),
            Mark(18, 4, "trouble", "it broke"),
            Call(19, 4, "python", "Model.get", model, (), {"self": Opaque("Model"), "x": x}, y, defined=defined),
            Variable(20, 19, "self.cache.0", x, ("new",), inner, 15, 1, 2, 3),
            Variable(21, 19, "état.x\n", [w, {"k": (array, kept[1])}], ("type", "shape", "dtype", "device"), twin, 16),
            Variable(22, 19, "n", float("nan"), ("length", "values")),
            Variable(23, 19, "every", list(VALUES), (), defined),
            Variable(24, 19, "n", None, ("deleted",)),
            Variable(25, None, "get", Fields("Out", {"t": array}), ("yielded",)),
            Call(26, None, "module", "Model", model, mode="compiled"),
            Call(27, None, "function", "torch.sin", model, mode="vmap"),
        ],
        about={"insitu": "0.1.0", "torch": "2.13.0", "started": "2026-01-01", "nested": {"a": (1, 2.0)}},
    )


def picture(trace: Trace) -> list[Any]:
    """All of a trace in a form that `==` compares to the bit: types, NaN, signs of zero, and which objects are one."""
    return [_draw(trace.about, {}), *_draw(list(trace.events), {})]


def _draw(value: Any, met: dict[int, int]) -> Any:
    if isinstance(value, (Call, Mark, Variable, TensorFacts, ModuleFacts, Site)):
        if id(value) in met:
            return ("the same as", met[id(value)])
        met[id(value)] = len(met)
    if is_dataclass(value):
        return (type(value).__name__, *(_draw(getattr(value, field.name), met) for field in fields(value)))
    if isinstance(value, np.ndarray | np.generic):
        return (type(value).__name__, value.dtype.str, value.shape, value.tobytes())
    if isinstance(value, list | tuple):
        return (type(value).__name__, *(_draw(item, met) for item in value))
    if isinstance(value, dict):
        return ("dict", *((_draw(key, met), _draw(item, met)) for key, item in value.items()))
    return (type(value).__name__, hex(value) if isinstance(value, int) else repr(value))
