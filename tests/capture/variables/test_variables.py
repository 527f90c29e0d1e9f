"""Watched variables: every change of them, exactly, with the line that made it, and nothing else."""
# The programs bind variables that they do not use, on purpose.
# ruff: noqa: B007, F811, F841, SIM105

from __future__ import annotations

import dataclasses
import io
import math
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.capture.variables.watching import Listener, changes, heard, recorded, told

import insitu
from insitu import Call, Variable

NEW, VALUES, TYPE = "new", "values", "type"


def test_each_binding_of_a_number_is_recorded() -> None:
    def program() -> int:
        x = 1
        x = 1
        x = 1.0
        x += 1
        x = True
        y, (x, *rest) = 5, (7, 8)
        return x

    assert changes(program, names=("x",)) == [
        *(("x", 1, NEW, 1), ("x", 1.0, TYPE, 3), ("x", 2.0, VALUES, 4), ("x", True, TYPE, 5), ("x", 7, TYPE, 6)),
    ]


def test_nan_equals_itself_and_zeros_have_a_sign() -> None:
    def program() -> None:
        x = math.nan
        x = math.inf - math.inf
        x = 0.0
        x = -0.0
        x = complex(0, math.nan)
        x = complex(0, math.nan)

    told_of = changes(program, names=("x",))
    assert [(words, line) for _, _, words, line in told_of] == [(NEW, 1), (VALUES, 3), (VALUES, 4), (TYPE, 5)]


def test_every_statement_that_binds_a_name_is_reported() -> None:
    def program() -> None:
        for x in range(2):
            pass
        if (x := 5) and True:
            pass
        with open(__file__) as x:
            x = x.readable()
        try:
            _ = 1 // 0
        except ZeroDivisionError as x:
            pass
        import math as x

        x = [each * 2 for each in (1, 2)]
        del x
        x = 3
        match (4, 5):
            case (x, _):
                pass

    found = changes(program, names=("x",))
    assert [(words, line) for _, _, words, line in found] == [
        *((NEW, 1), (VALUES, 1), (VALUES, 3), (TYPE, 5), (TYPE, 6), (TYPE, 9)),
        *((TYPE, 11), (TYPE, 13), ("deleted", 14), (NEW, 15), (VALUES, 17)),
    ]


def test_tensors_are_compared_by_their_contents() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        x = x + 0
        x += 1
        x[0] = 9
        x.add_(0)
        x.mul_(2)
        x.data.fill_(3)
        x.numpy()[1] = 4
        x = x.view(3, 1)
        x = x.double()
        x = x.to("meta")
        return x

    assert changes(program, torch.zeros(3), names=("x",), again=lambda: (torch.zeros(3),)) == [
        ("x", "f32[3]", VALUES, 2),
        ("x", "f32[3]", VALUES, 3),
        ("x", "f32[3]", VALUES, 5),
        ("x", "f32[3]", VALUES, 6),
        ("x", "f32[3]", VALUES, 7),
        ("x", "f32[3, 1]", "shape", 8),
        ("x", "f64[3, 1]", "dtype", 9),
        ("x", "f64[3, 1]", "device", 10),
    ]


def test_changes_inside_of_arrays_lists_and_dicts_are_recorded() -> None:
    def program() -> None:
        a = np.zeros(2)
        a[0] = np.nan
        a += 0
        a = a.astype(np.float32)
        a = torch.from_numpy(a)
        b = [1, [2]]
        b.append(3)
        b[1].append(4)
        b.sort(key=str)
        c = {"k": 1}
        c["k"] = 2
        c.setdefault("m", a)
        a[1] = 5

    assert changes(program, names=("a", "b", "c")) == [
        ("a", "np f64[2]", NEW, 1),
        ("a", "np f64[2]", VALUES, 2),
        ("a", "np f32[2]", "dtype", 4),
        ("a", "f32[2]", TYPE, 5),
        ("b", [1, [2]], NEW, 6),
        ("b", [1, [2], 3], "length", 7),
        ("b", [1, [2, 4], 3], VALUES, 8),
        ("b", [1, 3, [2, 4]], VALUES, 9),
        ("c", {"k": 1}, NEW, 10),
        ("c", {"k": 2}, VALUES, 11),
        ("c", {"k": 2, "m": "f32[2]"}, "length", 12),
        ("a", "f32[2]", VALUES, 13),
        ("c", {"k": 2, "m": "f32[2]"}, VALUES, 13),
    ]


def test_number_in_between_does_not_hide_a_change_back() -> None:
    def program(kept: torch.Tensor) -> None:
        x = kept
        x = 1
        x = kept
        x = 1

    assert [words for _, _, words, _ in changes(program, torch.ones(2), names=("x",))] == [NEW, TYPE, TYPE, TYPE]


def test_change_of_the_last_line_before_return_or_exception_is_recorded() -> None:
    def returning(x: list[int]) -> int:
        return x.append(1) or 5

    def raising(x: list[int]) -> None:
        x.append(1) or 1 // 0

    assert changes(returning, [], names=("x",), again=lambda: ([],)) == [("x", [1], "length", 1)]
    assert changes(raising, [], names=("x",), again=lambda: ([],)) == [("x", [1], "length", 1)]


class Cache:
    __slots__ = ("hidden", "items")

    def __init__(self) -> None:
        self.items: list[Any] = []
        self.hidden = 0


@dataclasses.dataclass
class Batch:
    labels: Any
    ids: Any = None


class Owner:
    def __init__(self) -> None:
        self.cache = Cache()
        self.count = 0

    @property
    def forbidden(self) -> int:
        raise AssertionError("a property was run")

    def fill(self, batch: Batch) -> None:
        self.count += 1
        self.cache.items.append(1)
        batch.labels = torch.ones(2)
        self.cache.items[0] = 2
        batch.labels[0] = 7
        del self.count


def test_patterns_follow_attributes_and_items() -> None:
    def make() -> tuple[Owner, Batch]:
        return Owner(), Batch(None)

    assert changes(
        Owner.fill, *make(), names=("self.cache.*", "self.count", "batch.labels", "self.forbidden"), again=make
    ) == [
        ("self.count", 1, VALUES, 1),
        ("self.cache.items", [1], "length", 2),
        ("batch.labels", "f32[2]", TYPE, 3),
        ("self.cache.items", [2], VALUES, 4),
        ("batch.labels", "f32[2]", VALUES, 5),
        ("self.count", None, "deleted", 6),
    ]


def test_new_and_deleted_items_are_recorded() -> None:
    def program() -> None:
        state: dict[str, Any] = {"a": {"b": 1}}
        state["c"] = 2
        state["a"]["b"] = 3
        del state["c"]

    assert changes(program, names=("state.*",)) == [
        ("state.a", {"b": 1}, NEW, 1),
        ("state.c", 2, NEW, 2),
        ("state.a", {"b": 3}, VALUES, 3),
        ("state.c", None, "deleted", 4),
    ]
    assert [name for name, *_ in changes(program, names=("state.**.b",))] == ["state.a.b"] * 2


def test_star_follows_all_names_without_an_underscore() -> None:
    def program(given: int) -> int:
        first = given + 1
        _second = first
        return first

    assert changes(program, 1, names=("*",)) == [("first", 2, NEW, 1)]


counter = 0
things: list[int] = []


def test_globals_and_enclosing_variables_are_followed() -> None:
    def program() -> int:
        global counter
        counter += 1
        things.append(counter)
        inner = 0

        def bump() -> None:
            nonlocal inner
            inner += 1

        bump()
        bump()
        return inner

    assert changes(program, names=("inner",)) == [
        ("inner", 0, NEW, 4),
        ("inner", 1, VALUES, 8),
        ("inner", 2, VALUES, 8),
    ]
    events = heard(program, names=("counter",))
    assert told(events, program.__code__.co_firstlineno) == [("counter", counter, VALUES, 2)]
    found = [event for event in recorded(program, names=("counter", "things")).events if isinstance(event, Variable)]
    assert [(event.name, event.changes) for event in found] == [("counter", (VALUES,)), ("things", ("length",))]


def scaled(video: torch.Tensor) -> torch.Tensor:
    video = video * 2
    video[0] = 0
    return video


def test_variables_of_called_functions_are_followed() -> None:
    def program(video: torch.Tensor) -> torch.Tensor:
        shape = video.shape
        return scaled(video).reshape(shape)

    original = scaled.__code__
    trace = recorded(program, torch.ones(2), names=("video",))
    assert scaled.__code__ is original
    first = scaled.__code__.co_firstlineno
    assert [(line, words) for _, _, words, line in told(trace.events, first)] == [(1, VALUES), (2, VALUES)]
    assert {event.site.function for event in trace.variables() if event.site} == {"scaled"}
    (call,) = trace.find(kind="python")
    assert {event.parent for event in trace.variables()} == {call.id}


def test_change_of_a_shared_object_is_recorded_once() -> None:
    def change(items: list[int]) -> None:
        items.append(1)

    def program(items: list[int]) -> None:
        change(items)

    found = changes(program, [], names=("items",), again=lambda: ([],))
    assert found == [("items", [1], "length", change.__code__.co_firstlineno - program.__code__.co_firstlineno + 1)]


def test_code_is_swapped_only_while_a_watched_call_runs_even_when_calls_overlap() -> None:
    original, ready, go = scaled.__code__, threading.Event(), threading.Event()

    def slow(video: torch.Tensor) -> None:
        scaled(video)
        ready.set()
        go.wait(10)

    def fast(video: torch.Tensor) -> None:
        scaled(video)

    listener = Listener()
    watch = insitu.watch("video", view=listener, level="python")
    thread = threading.Thread(target=watch(slow), args=(torch.ones(1),))
    thread.start()
    ready.wait(10)
    assert scaled.__code__ is not original
    before = len(listener.events)
    scaled(torch.ones(1))  # nobody follows this thread
    assert len(listener.events) == before
    watch(fast)(torch.ones(1))
    assert scaled.__code__ is not original
    go.set()
    thread.join()
    assert scaled.__code__ is original


def test_recursion_has_variables_for_each_call() -> None:
    def down(n: int) -> int:
        x = n
        if n:
            down(n - 1)
        x = n + 1
        return x

    watched = insitu.watch("x")(down)
    with insitu.record(level="python") as trace:
        globals()["down"] = watched
        watched(1)
    assert [(event.value, event.changes) for event in trace.variables()] == [(1, (NEW,)), (2, (VALUES,))]


def nest(n: int) -> int:
    depth = n
    if n:
        nest(n - 1)
    depth = 0
    return depth


def test_recursion_in_a_called_function_has_variables_for_each_call() -> None:
    def program() -> None:
        nest(2)

    first = nest.__code__.co_firstlineno
    found = told(recorded(program, names=("depth",)).events, first)
    assert found == [
        *(("depth", 2, NEW, 1), ("depth", 1, NEW, 1), ("depth", 0, NEW, 1)),
        *(("depth", 0, VALUES, 4), ("depth", 0, VALUES, 4)),
    ]


def test_modules_called_by_a_watched_function_contain_their_changes() -> None:
    class Net(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            hidden = x + 1
            return hidden * 2

    net = Net()

    def program(x: torch.Tensor) -> torch.Tensor:
        hidden = net(x)
        return hidden

    watched = insitu.watch("hidden")(program)
    with insitu.record() as trace:
        watched(torch.ones(2))
    inside, outside = trace.variables("hidden")
    (module,), (function,) = trace.find(kind="module"), trace.find(kind="python")
    assert (inside.parent, outside.parent) == (module.id, function.id)
    assert module.parent == function.id
    assert outside.value is module.result  # the very same tensor, with its lineage
    maker = trace.producer(outside.value)
    assert maker is not None and maker.name.endswith("mul")


def test_a_function_without_source_is_followed_by_its_lines() -> None:
    space: dict[str, Any] = {}
    exec("def hidden(a):\n    b = a + 1\n    b = b * 2\n    return b\n", space)
    assert changes(space["hidden"], 1, names=("b",)) == [("b", 2, NEW, 1), ("b", 4, VALUES, 2)]
    assert sys.gettrace() is None


def test_name_that_no_function_has_is_reported_with_the_nearest_name() -> None:
    def program(video: int) -> int:
        return video

    with pytest.warns(insitu.InsituWarning, match="'vidoe' .did you mean 'video'") as caught:
        recorded(program, 1, names=("vidoe",))
    assert caught[0].filename == str(Path(__file__).parent / "watching.py")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        recorded(program, 1, names=("video.x", "**", "vid*"))


@pytest.mark.parametrize("name", ["a b", "1x", "x..y", "", "x."])
def test_invalid_variable_name_raises_pattern_error(name: str) -> None:
    with pytest.raises(insitu.PatternError, match=r"is no|expected the name of a variable|names no variable"):
        insitu.watch("x", name)


class Hostile:
    """Whatever is asked of it fails."""

    def __repr__(self) -> str:
        raise AssertionError("__repr__ was called")

    def __eq__(self, other: object) -> bool:
        raise AssertionError("__eq__ was called")

    __hash__ = None  # type: ignore[assignment]

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} was asked for")

    def __bool__(self) -> bool:
        raise AssertionError("__bool__ was called")

    def __len__(self) -> int:
        raise AssertionError("__len__ was called")


def test_following_runs_no_code_of_the_objects() -> None:
    def program(x: Any) -> None:
        x = Hostile()
        x = [x, {1: x}]
        x = Hostile()
        y = x

    assert changes(program, Hostile(), names=("y.*", "x.none")) == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        events = heard(program, Hostile(), names=("x",))
    assert [event.changes for event in events if isinstance(event, Variable)] == [(VALUES,), (TYPE,), (TYPE,)]


def quantized() -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8)


def nested() -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.nested.nested_tensor([torch.ones(1), torch.ones(2)])


@pytest.mark.parametrize(
    "value",
    [
        *(torch.zeros(0), torch.tensor(3), torch.ones(2, dtype=torch.bool), torch.ones(2, dtype=torch.complex64)),
        *(torch.ones(2).to(torch.float8_e4m3fn), torch.ones(20).to(torch.bfloat16), torch.eye(3).to_sparse()),
        *(torch.ones(2, device="meta"), quantized()),
        *(nested(), torch.ones(2, dtype=torch.complex64).conj()),
        *(np.zeros(0), np.array([None, "x"]), np.array("a"), np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")])),
        *(np.array(["2020-01-01"], dtype="M8[D]"), np.arange(4)[::-2], np.float16(1), np.ones(3, dtype=">f4")),
        *(np.ma.masked_array([1, 2], [0, 1]), np.ones(2, dtype=np.longdouble), b"x" * 500, "y" * 500, {1, 2}, range(3)),
    ],
    ids=lambda value: f"{type(value).__name__} {getattr(value, 'dtype', '')}",
)
def test_values_of_every_kind_are_compared(value: Any, capsys: pytest.CaptureFixture[str]) -> None:
    def program(x: Any) -> Any:
        y = x
        y = 0
        y = x
        return y

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [words for _, _, words, _ in changes(program, value, names=("y",))] == [NEW, TYPE, TYPE]
        insitu.watch("y")(program)(value)
    assert capsys.readouterr().out.count("y @") == 3


def test_block_follows_the_running_function(capsys: pytest.CaptureFixture[str]) -> None:
    listener = Listener()
    first = sys._getframe().f_lineno
    x = 1
    with insitu.watch("x", "y", view=listener, level="python"):
        x = 1
        x = 2
        y = scaled(torch.ones(2))
        y += 1
    x = 3
    found = [item for item in told(listener.events, first) if item[0] != "video"]
    assert found == [("x", 2, VALUES, 4), ("y", "f32[2]", NEW, 5), ("y", "f32[2]", VALUES, 6)]
    assert sys.gettrace() is None and sys._getframe().f_trace is None
    assert x == 3


def test_nested_watches_follow_the_names_of_both() -> None:
    @insitu.watch("b")
    def inner() -> int:
        a = 1
        b = a + 1
        return b

    @insitu.watch("a")
    def outer() -> int:
        a = inner()
        b = a
        return b

    with insitu.record(level="python") as trace:
        outer()
    found = [
        (event.name, event.value, event.site and event.site.function.rpartition(".")[2]) for event in trace.variables()
    ]
    assert found == [("a", 1, "inner"), ("b", 2, "inner"), ("a", 2, "outer")]


def test_arguments_are_in_the_call_and_not_recorded_as_changes() -> None:
    def program(x: int, y: int = 2) -> int:
        x = 5
        return x

    trace = recorded(program, 5, names=("x", "y"))
    assert trace.variables() == []
    (call,) = trace.find(kind="python")
    assert isinstance(call, Call) and call.kwargs == {"x": 5}


def test_nothing_is_kept_alive() -> None:
    import gc
    import weakref

    gone: list[Any] = []

    def program() -> None:
        x = torch.ones(3)
        gone.append(weakref.ref(x))
        x = np.ones(3)
        gone.append(weakref.ref(x))
        x = None
        x = [torch.ones(1)]
        gone.append(weakref.ref(x[0]))

    watched = insitu.watch("x")(program)
    with insitu.record() as trace:
        watched()
        gc.collect()
        assert [ref() for ref in gone] == [None] * 3
    assert len(trace.variables()) == 4


def test_watching_changes_neither_results_nor_random_numbers() -> None:
    def program() -> torch.Tensor:
        x = torch.randn(4, requires_grad=True)
        y = torch.nn.functional.dropout(x * 2, 0.5)
        y = y.relu().sum()
        y.backward()
        assert x.grad is not None
        return torch.cat([x.grad, torch.rand(2)])

    torch.manual_seed(0)
    expected = program()
    for session in (None, "record"):
        torch.manual_seed(0)
        watched = insitu.watch("x", "y", "x.grad", file=io.StringIO())(program)
        if session:
            with insitu.record(keep="stats"):
                found = watched()
        else:
            found = watched()
        assert torch.equal(found, expected)


def test_function_given_as_an_argument_is_followed() -> None:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Sequential(Part())

        def forward(self, x: torch.Tensor) -> Any:
            return self.inner(x)

    class Part(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            hidden = x + 1
            return hidden

    def program(x: torch.Tensor, model: Any, act: Any) -> Any:
        return act(model(x))

    def last(x: torch.Tensor) -> torch.Tensor:
        hidden = x * 2
        return hidden

    trace = recorded(program, torch.ones(1), Net(), act=last, names=("hidden",))
    assert [event.site.function.rpartition(".")[2] for event in trace.variables() if event.site] == ["forward", "last"]
