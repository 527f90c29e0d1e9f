"""Where each call was made: line, function, columns and the whole chain, against Python's own traceback."""

from __future__ import annotations

import functools
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import torch
from tests.capture.oracle import StackMode, hidden
from torch import Tensor, nn

import insitu
from insitu.trace.event import Site

x = torch.ones(3)


def simple() -> None:
    y = x.sin()
    (y.cos() + y.tan()).sum()


def several_on_a_line() -> None:
    a, b = x.sin(), x.cos(); c = a @ b; c + a * b - 1  # fmt: skip  # noqa: E702


def many_lines() -> None:
    torch.cat(
        [
            x.sin(),
            x.cos(),
        ],
    )


def recursion(depth: int = 4) -> Tensor:
    if depth == 0:
        return x.sin()
    return recursion(depth - 1) + 1


def generated() -> Iterator[Tensor]:
    for _ in range(2):
        yield x.sin()
    yield from (x.cos() for _ in range(2))


def generators() -> None:
    first, second = generated(), generated()
    next(first)
    for value in second:
        value + 1
    list(first)


def lambdas() -> None:
    apply = lambda f: f(x)  # noqa: E731
    apply(lambda t: t.sin() + 1)
    sorted([1, 2], key=lambda n: float(x.sum() * n))


def comprehensions() -> None:
    [x.sin() for _ in range(2)]
    {n: x.cos() for n in range(2)}
    [[x.tan() for _ in range(1)] for _ in range(2)]


def decorated_with(wrapper: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(wrapper)
    def inner(*args: Any) -> Any:
        x.exp()
        return wrapper(*args)

    return inner


@decorated_with
def decorated() -> None:
    def nested() -> Tensor:
        return x.sin()

    nested()
    functools.partial(torch.cos)(x)


class Methods:
    def __init__(self) -> None:
        self.made = x.sin()

    @property
    def value(self) -> Tensor:
        return self.made.cos()

    @staticmethod
    def still() -> Tensor:
        return x.tan()

    @classmethod
    def of_class(cls) -> Tensor:
        return x.exp()

    def __call__(self) -> Tensor:
        return -self.value


def methods() -> None:
    made = Methods()
    made()
    made.still()
    made.of_class()


def executed() -> None:
    exec("def f(t):\n    return t.sin()\n\nf(x) + 1", {"x": x})
    eval("x.cos()", {"x": x})


def caught() -> None:
    try:
        x @ torch.ones(4)
    except RuntimeError:
        x.sin()
    finally:
        x.cos()
    with torch.no_grad():
        x.tan()


def unicode() -> None:
    größe, é = "ü", x.sin() + x.cos()
    f"{größe} {é.sum()}"


def loop() -> None:
    value = x.sin()
    for _ in range(3):
        value = value + 1


@torch.no_grad()
def in_torch_decorator() -> None:
    x.sin()


PROGRAMS = [
    *(
        simple,
        several_on_a_line,
        many_lines,
        recursion,
        generators,
        lambdas,
        comprehensions,
        decorated,
        methods,
        executed,
    ),
    *(caught, unicode, loop, in_torch_decorator),
]
SILENT = ("is_contiguous", "__get__", "size", "dim", "numel", "_set_grad_enabled", "_has_torch_function")


def place(site: Site) -> tuple[Any, ...]:
    return site.file, site.line, site.function.rpartition(".")[2]


def watched(run: Callable[[], Any], **options: Any) -> tuple[list[Any], list[Any]]:
    """Where Python says that each function is called, and where a trace does: two runs from one line."""
    oracle, session = StackMode(), insitu.record(**options)
    for mode in (oracle, session):
        with mode as entered:
            run()
    seen = [(name, frames) for name, frames in oracle.seen if name not in SILENT]
    calls = [call for call in entered.find(kind="function") if "grad_enabled" not in call.name]
    assert len(calls) == len(seen)
    return seen, calls


def assert_same_places(calls: list[Any], seen: list[Any]) -> None:
    """Each chain is the one that Python saw."""
    for call, (_, frames) in zip(calls, seen, strict=True):
        assert [place(site) for site in call.site.chain()] == [(f.filename, f.lineno, f.name) for f in frames]


@pytest.mark.parametrize("run", PROGRAMS)
def test_every_chain_is_pythons_own(run: Callable[[], Any]) -> None:
    seen, calls = watched(run)
    assert_same_places(calls, seen)


@pytest.mark.parametrize("run", PROGRAMS)
def test_a_site_has_columns_and_the_text_of_its_line(run: Callable[[], Any]) -> None:
    seen, calls = watched(run)
    for call, (_, frames) in zip(calls, seen, strict=True):
        for site, frame in zip(call.site.chain(), frames, strict=True):
            assert site.text.strip() == (frame.line or "").strip().partition("\n")[0]
            if frame.lineno == frame.end_lineno and frame.line:
                encoded = site.text.encode()
                assert frame.colno is not None and frame.end_colno is not None
                columns = [len(encoded[:column].decode()) for column in (frame.colno, frame.end_colno)]
                assert [site.start, site.end] == columns
            elif frame.line:
                assert (site.start, site.end) == (None, None)


def test_the_columns_of_a_site_enclose_the_expression() -> None:
    with insitu.record() as trace:
        several_on_a_line()
        unicode()
    found = [call.site.text[call.site.start : call.site.end] for call in trace.calls if call.site]  # type: ignore[misc]
    assert found == [
        *["x.sin()", "x.cos()", "a @ b", "a * b", "c + a * b", "c + a * b - 1"],
        *["x.sin()", "x.cos()", "x.sin() + x.cos()", "é.sum()"],
        *found[10:],
    ]


def test_sites_far_into_a_long_function_are_right() -> None:
    source = "def long(x):\n" + "    x = x + 1\n" * 600
    names: dict[str, Any] = {}
    exec(compile(source, "long.py", "exec"), names)
    with insitu.record() as trace:
        names["long"](x)
    assert [call.site.line for call in trace.calls if call.site] == list(range(2, 602))


def test_sites_are_interned() -> None:
    with insitu.record() as trace:
        for _ in range(3):
            recursion(2)
    first, second, third = (trace.calls[index :: len(trace.calls) // 3] for index in range(3))
    for calls in (first, second, third):
        assert len({id(call.site) for call in calls}) == 1
    assert trace.calls[0].site is not trace.calls[1].site


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.seq = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
        self.fc.register_forward_hook(lambda module, args, output: output + 1)

    def states(self, x: Tensor) -> Iterator[Tensor]:
        yield self.fc(x).sin()
        yield self.seq(x).cos()

    def forward(self, x: Tensor, depth: int = 1) -> Tensor:
        if depth:
            return self(x, depth=depth - 1)
        return torch.stack([state * 2 for state in self.states(x)])


@pytest.mark.parametrize("subject", [False, True])
@pytest.mark.parametrize("level", ["functions", "aten"])
def test_sites_in_modules_name_the_lines_of_forward(subject: bool, level: str) -> None:
    model, value = Model(), torch.ones(1, 3)
    seen, calls = watched(lambda: model(value), subject=model if subject else None, level=level)
    assert_same_places(calls, seen)


def test_an_operator_is_where_its_function_is() -> None:
    model = Model()
    with insitu.record(model, level="aten") as trace:
        model(torch.ones(1, 3))
    for call in trace.find(kind="aten"):
        assert call.parent is not None and call.site is trace[call.parent].site  # type: ignore[union-attr]


def test_a_module_call_is_where_it_is_called() -> None:
    model = Model()
    with insitu.record(model, level="modules") as trace:
        model(torch.ones(1, 3))
    texts = [call.site.text.strip() for call in trace.calls if call.site]
    assert texts[:3] == ["model(torch.ones(1, 3))", "return self(x, depth=depth - 1)", "yield self.fc(x).sin()"]
    assert [call.site.function.rpartition(".")[2] for call in trace.calls if call.site][-2:] == ["states", "states"]


def entered_by_hand(run: Callable[[], Any]) -> insitu.Trace:
    session = insitu.record()
    trace = session.__enter__()
    try:
        run()
    finally:
        session.__exit__(None, None, None)
    return trace


def entered_in_a_helper(run: Callable[[], Any]) -> insitu.Trace:
    def begin() -> tuple[Any, insitu.Trace]:
        session = insitu.record()
        return session, session.__enter__()

    session, trace = begin()
    try:
        run()
    finally:
        session.__exit__(None, None, None)
    return trace


def entered_by_a_stack(run: Callable[[], Any]) -> insitu.Trace:
    with ExitStack() as stack:
        trace = stack.enter_context(insitu.record())
        run()
    return trace


def entered_in_a_generator(run: Callable[[], Any]) -> insitu.Trace:
    def steps() -> Iterator[insitu.Trace]:
        with insitu.record() as trace:
            yield trace
            run()
            yield trace

    running = steps()
    next(running)
    trace = next(running)
    list(running)
    return trace


def resumed_from_elsewhere(run: Callable[[], Any]) -> insitu.Trace:
    def steps() -> Iterator[insitu.Trace]:
        with insitu.record() as trace:
            yield trace

    def begin() -> Any:
        return running, next(running)

    running = steps()
    _, trace = begin()
    run()
    list(running)
    return trace


@pytest.mark.parametrize(
    "enter", [entered_by_hand, entered_in_a_helper, entered_by_a_stack, entered_in_a_generator, resumed_from_elsewhere]
)
def test_the_chain_is_whole_however_the_session_was_entered(enter: Callable[[Callable[[], Any]], insitu.Trace]) -> None:
    def run() -> None:
        recursion(2)
        stacks.append(traceback.extract_stack())

    stacks: list[Any] = []
    trace = enter(run)
    for call in trace.calls[:1]:
        chain = [place(site) for site in call.site.chain()]  # type: ignore[union-attr]
        above = [(f.filename, f.lineno, f.name) for f in stacks[0] if not hidden(f.filename)][:-1]
        assert chain[: len(above)] == above
        assert [function for _, _, function in chain[len(above) :]] == ["run", *["recursion"] * 3]


def test_chains_are_whole_if_the_frame_of_the_session_runs_again() -> None:
    """Recursion through the function that entered the session: its code comes twice, its frame once."""

    def enter(depth: int) -> insitu.Trace | None:
        if depth == 0:
            x.sin(); stacks.append([f for f in traceback.extract_stack() if not hidden(f.filename)])  # fmt: skip  # noqa: E702
            return None
        if depth < 2:
            return enter(depth - 1)
        with insitu.record() as trace:
            enter(depth - 1)
        return trace

    stacks: list[Any] = []
    trace = enter(3)
    assert trace is not None
    (call,) = trace.calls
    chain = [place(site) for site in call.site.chain()]  # type: ignore[union-attr]
    assert chain == [(f.filename, f.lineno, f.name) for f in stacks[0]]


def test_nested_sessions_have_the_same_sites() -> None:
    model = Model()
    with insitu.record(level="aten") as outer, insitu.record(model) as inner:
        model(torch.ones(1, 3))
    ours = [[place(site) for site in call.site.chain()] for call in inner.find(kind="function")]  # type: ignore[union-attr]
    assert ours == [
        [place(site) for site in call.site.chain()]  # type: ignore[union-attr]
        for call in outer.find(kind="function")
        if call.path or call.parent is not None
    ]


def test_in_a_thread_the_chain_begins_where_the_thread_does() -> None:
    model, done = nn.Linear(3, 3), []

    def work() -> None:
        done.append(model(x))

    with insitu.record(model) as trace:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    (call,) = trace.find("**", kind="module")
    chain = call.site.chain() if call.site else []
    assert chain[0].file.endswith("threading.py")
    assert chain[-1].function.endswith("work")


def test_only_frames_of_torch_and_of_the_tool_are_hidden() -> None:
    from insitu.capture.sites import is_hidden

    folder = torch.__path__[0]
    assert is_hidden(f"{folder}/nn/modules/linear.py")
    assert not is_hidden(f"{folder}vision/models.py")
    assert not is_hidden(f"{folder}_geometric/nn.py")
    assert not is_hidden(__file__)
