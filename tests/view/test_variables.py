"""Watched functions and variables: the view of them, live and replayed, and how the other views take them."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from tests.view.build import Run, stats, tensor

from insitu.trace.event import Call, Event, Mark, Opaque, Site, Stats, Variable
from insitu.view import Terminal, render, replay
from insitu.view.terminal import places_of
from insitu.view.variables import Variables

WORKER = Site("/usr/lib/thread.py", 57, "worker", caller=Site("/usr/lib/thread.py", 80, "run"))
GETITEM = Site("/home/me/t2v_dataset.py", 283, "T2VDataset.__getitem__", caller=WORKER)
VIDEO = tensor(3, 73, 384, 544, stats=Stats(count=100, min=0.0, max=1.0, mean=0.43, std=0.2))


def program() -> Run:
    """A watched method that calls another one, which fails in a third one."""
    run, inner = Run(), Site("t2v_dataset.py", 341, "T2VDataset.get_merge_data", caller=GETITEM)
    given = {
        "self": Opaque("T2VDataset"),
        "examples": [{}] * 4,
        "index": 113,
        "scale": tensor(3, kept=np.arange(3) / 2),
    }
    outer = {"file": "/home/me/t2v_dataset.py", "line": 176, "site": GETITEM, "out": VIDEO, "duration": 12_300_000}
    with run.inside(run.python("T2VDataset.get_merge_data", given=given, **outer)):
        frames = tensor(73, 720, 720, 3, dtype="u8", type="ndarray")
        run.variable("video", frames, "new", line=572, within="T2VDataset.decode")
        run.variable("video", tensor(73, 3, 720, 720, dtype="u8"), "type", "shape", line=575)
        with run.inside(
            run.python("transform", line=5, site=inner, given={"video": frames}, out=VIDEO, duration=8_000)
        ):
            run.variable("video", VIDEO, "shape", "dtype", line=588)
            with (
                run.inside(run.module("net", "Net", leaf=False)),
                run.inside(run.python("check", given={"mode": "train"}, raised="ValueError", duration=40_000)),
            ):
                run.variable("x", tensor(2, stats=stats(-3.25, 1.0, nan=48)), "values", line=4)
                run.variable("x", None, "deleted", line=6)
        with run.inside(run.python("frames")):
            run.variable("frames", tensor(3), "yielded", line=61)
        run.mark("trouble", "could not\nread x")
    return run


ENGLISH = """\
┌── [t2v_dataset.py:176] T2VDataset.get_merge_data called from __getitem__:283 \
(t2v_dataset.py:283 <- thread.py:57 <- thread.py:80)
├─ in   examples  list, len 4
├─ in   index     113
├─ in   scale     f32[3] cpu  [0, 0.5, 1]
│   ├─ video @data.py:572 in T2VDataset.decode → np u8[73, 720, 720, 3]  new
│   ├─ video @575 → u8[73, 3, 720, 720] cpu                              type, shape changed
│   ┌── [data.py:5] transform called from get_merge_data:341 (t2v_dataset.py:341 <- t2v_dataset.py:283 <- thread.py:57)
│   ├─ in   video  np u8[73, 720, 720, 3]
│   │   ├─ video @588 → f32[3, 73, 384, 544] cpu  0 … 1  mean 0.43       shape, dtype changed
│   │   ┌── [data.py:1] check
│   │   ├─ in   mode  'train'
│   │   │   ├─ x @4 → f32[2] cpu  -3.25 … 1  mean 0  ✗ 48 NaN            values changed
│   │   │   ├─ x @6 deleted
│   │   └─ raised ValueError   40.0µs
│   └─ out  f32[3, 73, 384, 544] cpu  0 … 1  mean 0.43   8.0µs
│   ┌── [data.py:1] frames
│   ├─ yield f32[3] cpu
│   └─ out  None
│   ! could not\\nread x
└─ out  f32[3, 73, 384, 544] cpu  0 … 1  mean 0.43   12.3ms"""

TREE = """\
T2VDataset.get_merge_data(examples=[{}, {}, {}, {}], index=113, …)  f32[3, 73, 384, 544]              0 … 1      \
12.3ms  t2v_dataset.py:283
├─ video =  new                                                     np u8[73, 720, 720, 3]                       \
        data.py:572
├─ video =  type, shape changed                                     u8[73, 3, 720, 720]                          \
        data.py:575
├─ transform                                                        f32[3, 73, 384, 544]              0 … 1      \
 8.0µs  t2v_dataset.py:341
│  ├─ video =  shape, dtype changed                                 f32[3, 73, 384, 544]              0 … 1      \
        data.py:588
│  └─ net  Net
│     └─ check(mode=train)                                          ✗ raised ValueError                          \
40.0µs
│        ├─ x =  values changed                                     f32[2]                  ✗ 48 NaN  -3.25 … 1  \
        data.py:4
│        └─ x  deleted                                                                                           \
        data.py:6
├─ frames()
│  └─ yield                                                         f32[3]                                       \
        data.py:61
└─ ! could not\\nread x
first NaN: x (data.py:4)"""


def lines(run: Run, **options: Any) -> list[str]:
    return render(run.trace, "variables", **options).split("\n")


def test_variables_view_prints_calls_arguments_and_changes() -> None:
    assert render(program().trace, "variables") == ENGLISH


def test_the_tree_shows_variables_too() -> None:
    assert render(program().trace) == TREE


def test_a_call_is_shown_when_it_begins() -> None:
    """Live, only the arguments and places are known then; the end says only how it ended."""
    view, whole = Variables(), program().events[0]
    assert isinstance(whole, Call)
    begun = Call(0, None, "python", whole.name, kwargs=whole.kwargs, site=whole.site, defined=whole.defined)
    assert [str(line) for line in view.opened(begun)] == ENGLISH.split("\n")[:4]
    assert [str(line) for line in view(whole)] == ENGLISH.split("\n")[-1:]


class Live:
    """A program that is watched while it runs, by a clock that ticks with each event; it is recorded, too."""

    def __init__(self) -> None:
        self.view, self.events, self.clock = Variables(), list[Event](), 0
        self.shown: list[str] = []

    def tick(self) -> int:
        self.clock += 1
        return self.clock

    def show(self, lines: Any) -> None:
        self.shown += map(str, lines)

    def start(self, name: str, parent: int | None = None, kind: Any = "python", thread: int = 0) -> Call:
        call = Call(len(self.events), parent, kind, name, start=self.tick(), thread=thread)
        self.events.append(call)
        if kind == "python":
            self.show(self.view.opened(call))
        return call

    def stop(self, call: Call) -> None:
        call.duration = self.tick() - call.start
        self.show(self.view(call))

    @contextmanager
    def inside(self, *args: Any, **more: Any) -> Iterator[int]:
        call = self.start(*args, **more)
        yield call.id
        self.stop(call)

    def change(self, parent: int, change: Any, thread: int = 0) -> None:
        self.events.append(Variable(len(self.events), parent, "x", 1, (change,), None, self.tick(), thread))
        self.show(self.view(self.events[-1]))


def test_replay_prints_the_same_as_live() -> None:
    live = Live()
    with live.inside("outer") as outer:
        generator = live.start("generator", outer)
        live.change(generator.id, "yielded")
        with live.inside("Net", outer, kind="module") as net, live.inside("inner", net) as inner:
            live.change(inner, "new")
        worker = live.start("worker", thread=1)
        live.change(outer, "new")
        live.change(worker.id, "new", thread=1)
        live.change(generator.id, "yielded")
        live.stop(generator)
        live.stop(worker)
        live.change(outer, "values")
    with live.inside("again") as again:
        live.change(again, "new")
    assert [str(line) for line in replay(live.events, Variables())] == live.shown
    assert [text.split("   1.0")[0] for text in live.shown if "thread" in text] == [
        "┌── worker  thread 1",
        "── thread 0",
        "── thread 1",
        "── thread 0",
        "── thread 1",
        "── thread 0",
    ]


def test_a_call_of_another_thread_is_inside_its_parent() -> None:
    run = Run()
    with run.inside(run.python("main")), run.inside(run.python("work", thread=2)):
        run.variable("x", 1, "new", thread=2)
    assert lines(run) == [
        "┌── [data.py:1] main",
        "│   ┌── [data.py:1] work  thread 2",
        "│   │   ├─ x @1 → 1  new",
        "│   └─ out  None",
        "── thread 0",
        "└─ out  None",
    ]


def test_calls_without_begin_or_end_are_shown() -> None:
    view = Variables()
    assert [str(line) for line in view(Call(3, 1, "python", "f", kwargs={"n": 1}))] == [
        "┌── f",
        "├─ in   n  1",
        "└─ out  None",
    ]
    assert [str(line) for line in view(Variable(4, 3, "x", 1, ("new",)))] == ["├─ x → 1  new"]
    for call in (Call(5, None, "python", "f"), Call(6, 5, "python", "g")):
        list(view.opened(call))
    assert [str(line) for line in view.finish()] == ["│   └─ still running", "└─ still running"]
    assert list(view.finish()) == []


def test_a_change_names_its_line_function_and_file() -> None:
    run = Run()
    with run.inside(run.python("A.f")):
        for function in ("A.f", "f", "B.f", "g", "C.g.<locals>.h"):
            run.variable("x", 1, "values", within=function)
        run.variable("x", 1, "values", site=None)
    assert [text.split(" →")[0].strip(" │├─") for text in lines(run)[1:-1]] == [
        *("x @1", "x @1", "x @1 in B.f", "x @1 in g", "x @1 in h", "x"),
    ]


def test_hostile_names() -> None:
    run = Run()
    name = "a\n\x1b[31m{0}" * 3
    with run.inside(run.python(name, given={name: name}, raised=name, site=Site(name, 1, name))):
        run.variable(name, 1, "new", within=f"{name}.g")
    for options in ({}, {"width": 5}, {"color": True}):
        text = render(run.trace, "variables", **options)  # type: ignore[arg-type]
        assert len(text.split("\n")) == 4 and "\x1b[31m" not in text


def test_a_thousand_nested_calls() -> None:
    run = Run()
    for _ in range(1000):
        run._open.append(run.python("f"))
    found = lines(run)
    assert len(found) == 2000 and found[0] == "┌── [data.py:1] f" and max(map(len, found)) < 160


def test_a_narrow_terminal_breaks_no_line() -> None:
    for width in (200, 100, 60, 30):
        found = lines(program(), width=width)
        assert len(found) == 20 and max(map(places_of, found)) <= width
    cut = lines(program(), width=60)
    assert cut[0] == "┌── [t2v_dataset.py:176] T2VDataset.get_merge_data called f…"
    assert "  shape, dtype changed" in cut[8] and cut[8].startswith("│   │   ├─ video @588 → f32[3")


def test_changes_have_an_ink_and_a_word() -> None:
    found = render(program().trace, "variables", color=True)
    assert "\033[92m  new\033[0m" in found and "\033[91m deleted\033[0m" in found and "\033[91mraised Val" in found
    assert all(f"{word}\033[0m" in found for word in ("type, shape changed", "shape, dtype changed", "48 NaN"))


def test_ascii_where_the_stream_cannot_encode_the_signs() -> None:
    file = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    Terminal(file).write(replay(program().events, Variables()))
    file.seek(0)
    assert file.readline().startswith(".-- [t2v_dataset.py:176] T2VDataset.get_merge_data")


def test_other_views_leave_variables_out() -> None:
    run, x = Run(), tensor(2)
    with run.inside(run.python("f", duration=4_000_000, raised="ValueError")):
        run.variable("x", x, "new")
        with run.inside(run.module("", "Net", x, out=x, duration=1_000_000)):
            run.call("function", "torch.relu", tensor(3, type="ndarray"), out=x)
        with run.inside(run.python("g", raised="ValueError")):
            run.variable("x", x, "deleted")
    assert render(run.trace, "code") == "# torch.relu(np f32[3]) -> f32[2]"
    assert " ".join(render(run.trace, "table").split("\n")[1].split()) == "(root) Net f32[2] 1.0ms 1.0ms 25.0% 1 8 B"


def test_only_chooses_variables() -> None:
    run = program()
    assert lines(run, only="x")[-4:] == [
        "│   │   │   ├─ x @6 deleted",
        "│   │   └─ raised ValueError   40.0µs",
        "│   └─ out  f32[3, 73, 384, 544] cpu  0 … 1  mean 0.43   8.0µs",
        "└─ out  f32[3, 73, 384, 544] cpu  0 … 1  mean 0.43   12.3ms",
    ]


def test_changes_on_one_line_of_a_loop_are_one_row_of_the_tree() -> None:
    run = Run()
    with run.inside(run.python("f")):
        for n in range(5):
            run.variable("i", n, "values" if n else "new", line=7)
            run.variable("x", tensor(n + 1), "shape" if n else "new", line=8) if n < 1 else None
        run.variable("s", "text", "new", line=9)
        run.variable("s", None, "type", line=10)
    assert [" ".join(row.split()) for row in render(run.trace).split("\n")] == [
        "f()",
        "├─ i = new 0 data.py:7",
        "├─ x = new f32[1] data.py:8",
        "├─ i = × 4 values changed 1 → 4 data.py:7",
        "├─ s = new 'text' data.py:9",
        "└─ s = type changed None data.py:10",
    ]


def test_marks_outside_all_calls_are_shown() -> None:
    events: list[Event] = [Mark(0, None, "trouble", "oh"), Mark(1, None, "note", "here"), Mark(2, None, "step", "s")]
    assert [str(line) for line in replay(events, Variables())] == ["! oh", "# here"]


def test_a_trace_without_variables_says_what_to_record() -> None:
    run = Run()
    run.call("function", "torch.relu")
    (line,) = render(run.trace, "variables").splitlines()
    assert line.startswith("no watched function ran") and '@insitu.watch("x")' in line
