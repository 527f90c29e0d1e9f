"""A trace as plain data: what one asks of it, on events made by hand and without torch."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from insitu.errors import InsituError, MissingError, PatternError, SubjectError
from insitu.trace.event import (
    Call,
    Event,
    Fields,
    Mark,
    ModuleFacts,
    Opaque,
    Site,
    TensorFacts,
    Variable,
    Word,
    tensors,
)
from insitu.trace.trace import Trace


def facts(id: int, *shape: int, producer: int | None = None) -> TensorFacts:
    return TensorFacts(id, shape, "f32", "cpu", producer=producer)


@pytest.fixture
def trace() -> Trace:
    """Two steps of a model with two layers, and a backward pass."""
    modules = {path: ModuleFacts(path, kind) for path, kind in (("", "Model"), ("h.0", "Block"), ("h.1", "Block"))}
    events: list[Event] = []

    def add(parent: int | None, kind: Any, name: str, path: str = "", **more: Any) -> int:
        events.append(Call(len(events), parent, kind, name, modules[path], **more))
        return len(events) - 1

    for step in range(2):
        events.append(Mark(len(events), None, "step", "", step=step))
        root = add(None, "module", "Model", step=step)
        given, current = facts(100 * step, 2, 3), facts(100 * step, 2, 3)
        for index in range(2):
            block = add(root, "module", "Block", f"h.{index}", step=step, args=(current,))
            function = add(
                block, "function", "torch.nn.functional.softmax", f"h.{index}", step=step, args=(current, -1)
            )
            made = facts(100 * step + index + 1, 2, 3, producer=function)
            operator = add(function, "aten", "aten._softmax", f"h.{index}", step=step, args=(current, -1, False))
            for id in (block, function, operator):
                events[id].result = made  # type: ignore[union-attr]
            current = made
        events[root].args, events[root].result = (given,), current  # type: ignore[union-attr]
        add(None, "aten", "aten._softmax_backward_data", "h.0", step=step, phase="backward", rank=step)
    add(
        None,
        "function",
        "torch.Tensor.matmul",
        "h.1",
        operator="@",
        site=Site("a.py", 7, "f", "x @ y"),
        raised="RuntimeError",
    )
    return Trace(events)


@pytest.mark.parametrize(
    ("asked", "count"),
    [
        ({}, 17),
        ({"path": "h.0"}, 2),
        ({"path": "h.*"}, 4),
        ({"path": "**"}, 6),
        ({"kind": "aten"}, 6),
        ({"kind": "function"}, 5),
        ({"name": "softmax"}, 4),
        ({"name": "torch.nn.functional.softmax"}, 4),
        ({"name": "functional.softmax"}, 4),
        ({"name": "*softmax*"}, 10),
        ({"name": "@"}, 1),
        ({"name": "matmul"}, 1),
        ({"name": "Softmax"}, 0),
        ({"path": "h.1", "kind": "function"}, 3),
        ({"path": "h.1", "name": "softmax"}, 2),
        ({"step": 1}, 8),
        ({"step": 1, "path": "h.0"}, 1),
        ({"phase": "backward"}, 2),
        ({"rank": 1}, 1),
        ({"kind": "module", "name": "Block", "step": 0}, 2),
    ],
)
def test_find_returns_the_calls_that_match_all_arguments(trace: Trace, asked: dict[str, Any], count: int) -> None:
    assert len(trace.find(**asked)) == count


def test_find_refuses_a_bad_pattern(trace: Trace) -> None:
    with pytest.raises(InsituError):
        trace.find("h..0")


def test_find_matches_names_by_the_rules_of_paths() -> None:
    names = ["torch.nn.functional.softmax", "f[0].g", "f0.g"]
    trace = Trace([Call(id, None, "function", name) for id, name in enumerate(names)])

    def found(name: str) -> list[str]:
        return [call.name for call in trace.find(name=name)]

    assert found("softmax") == found("functional.soft*") == found("torch.**") == names[:1]
    assert found("f[0].g") == names[1:2]
    assert found("torch.*") == found("max") == found("") == []
    assert found("**") == names
    with pytest.raises(PatternError, match=r"'f\.\.g' is not a path pattern"):
        found("f..g")


def test_find_names_the_nearest_path_when_none_matches(trace: Trace) -> None:
    kinds: list[dict[str, Any]] = [{}, {"name": "Block"}, {"phase": "backward"}]
    for asked in kinds:
        with pytest.raises(PatternError, match=r"no path matches 'hh\.0' \(did you mean 'h\.0'\?\)"):
            trace.find("hh.0", **asked)
    with pytest.raises(PatternError, match=r"no path matches 'h' \(h\.\* is what is in it\)"):
        trace.find("h")
    assert trace.find("h.0", step=99) == trace.find("h.0", name="nosuch") == []
    assert trace.find(name="nosuch") == [] == Trace().find("h.0")


def test_wrong_id_raises_with_the_way_to_find_calls(trace: Trace) -> None:
    with pytest.raises(SubjectError, match=r"takes the id of an event, a number, not 'h\.0': trace\.find\('h\.0'\)"):
        trace["h.0"]  # type: ignore[index]
    with pytest.raises(SubjectError, match=r"not slice\(0, 2, None\): trace\.events is a list"):
        trace[0:2]  # type: ignore[index]


def test_events_are_found_by_id(trace: Trace) -> None:
    assert trace[0] is trace.events[0] and len(trace) == len(list(trace)) == 19
    for key in (99, -1):
        with pytest.raises(KeyError, match="19 events"):
            trace[key]


def test_roots_and_children_follow_the_parents(trace: Trace) -> None:
    assert [event.id for event in trace.roots] == [0, 1, 8, 9, 10, 17, 18]
    root = trace[1]
    assert [event.id for event in trace.children(root)] == [2, 5]
    assert [event.id for event in trace.children(trace[2])] == [3]
    assert trace.children(trace[8]) == []
    assert [mark.id for mark in trace.marks] == [0, 9]
    assert len(trace.calls) == 17


def test_event_with_an_unknown_parent_is_a_root() -> None:
    trace = Trace([Call(5, 3, "function", "f"), Call(6, 5, "aten", "g")])
    assert [event.id for event in trace.roots] == [5]
    assert [event.id for event in trace.children(trace[5])] == [6]


def test_modules_are_listed_by_path_in_the_order_of_their_first_call(trace: Trace) -> None:
    assert list(trace.modules) == ["", "h.0", "h.1"]
    assert trace.modules["h.1"].type == "Block"


def test_producer_and_consumers_of_a_tensor_are_found(trace: Trace) -> None:
    second = trace.find("h.1")[0]
    assert trace.producer(second.inputs[0]) is trace[3]
    assert [call.id for call in trace.consumers(second.inputs[0])] == [5, 6, 7]
    given = trace.find("h.0")[0].inputs[0]
    assert trace.producer(given) is None
    assert [call.id for call in trace.consumers(given)] == [1, 2, 3, 4]
    assert trace.producer(facts(7, producer=99)) is None
    assert trace.producer(facts(7, producer=0)) is None  # a mark makes nothing
    assert trace.consumers(facts(777)) == []


def test_call_that_takes_a_tensor_twice_is_one_consumer() -> None:
    tensor = facts(1, 2)
    trace = Trace([Call(0, None, "function", "f", args=(tensor, [tensor]), kwargs={"k": tensor})])
    assert len(trace.consumers(tensor)) == 1
    assert len(trace.calls[0].inputs) == 3


def test_tensors_are_found_in_containers() -> None:
    a, b, c, d = (facts(index) for index in range(4))
    value = [a, {"x": (b, 1, None)}, Fields("Pair", {"first": c, "rest": [d]}), Word("x"), Opaque("T"), "text"]
    assert list(tensors(value)) == [a, b, c, d]
    assert repr(value[2]) == "Pair(first=f32[], rest=[f32[]])"
    assert (repr(Word("torch.int8")), repr(Opaque("Thing"))) == ("torch.int8", "<Thing>")


def test_to_pandas_has_one_row_for_each_call(trace: Trace) -> None:
    frame = trace.to_pandas()
    assert len(frame) == 17 and frame.index.name == "id"
    assert list(frame.index) == [call.id for call in trace.calls]
    assert frame.loc[2, "path"] == "h.0" and frame.loc[2, "type"] == "Block" and frame.loc[2, "inputs"] == "f32[2, 3]"
    assert (frame.loc[18, "file"], frame.loc[18, "line"], frame.loc[18, "raised"]) == ("a.py", 7, "RuntimeError")
    assert list(frame[frame.phase == "backward"].name) == ["aten._softmax_backward_data"] * 2
    assert set(frame.columns) >= {
        "parent",
        "kind",
        "name",
        "output",
        "start",
        "duration",
        "function",
        "step",
        "rank",
        "thread",
    }
    assert len(Trace().to_pandas()) == 0


def test_to_pandas_without_pandas_names_the_package_to_install(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingError, match="pip install pandas"):
        trace.to_pandas()


def watched() -> Trace:
    """A watched function with three changes of two variables."""
    x = facts(5, 2, producer=1)
    return Trace(
        [
            Call(0, None, "python", "T2V.transform", kwargs={"self": Opaque("T2V"), "x": facts(4, 2)}, result=x),
            Call(1, 0, "function", "torch.relu", args=(facts(4, 2),), result=x),
            Variable(2, 0, "video", x, ("new",)),
            Variable(3, 0, "state.frames.0", x, ("new",)),
            Variable(4, 0, "video", 3, ("type",)),
        ]
    )


@pytest.mark.parametrize(
    ("pattern", "ids"),
    [(None, [2, 3, 4]), ("video", [2, 4]), ("state.**", [3]), ("**.0", [3]), ("**", [2, 3, 4]), ("v*", [2, 4])],
)
def test_variables_are_chosen_by_a_pattern_of_names(pattern: str | None, ids: list[int]) -> None:
    assert [change.id for change in watched().variables(pattern)] == ids


def test_pattern_without_a_variable_raises_with_the_nearest_name() -> None:
    with pytest.raises(PatternError, match=r"no variable matches 'vidoe' \(did you mean 'video'\?\)"):
        watched().variables("vidoe")
    with pytest.raises(PatternError, match="no variable matches 'x'"):
        Trace().variables("x")
    with pytest.raises(PatternError, match="is not a path pattern"):
        watched().variables("a..b")
    assert Trace().variables() == []


def test_watched_function_is_found_by_kind_and_name() -> None:
    trace = watched()
    assert [call.id for call in trace.find(kind="python")] == [0] == [call.id for call in trace.find(name="transform")]
    assert trace.find(name="T2V.transform", kind="python") == trace.calls[:1]
    assert [event.id for event in trace.children(trace[0])] == [1, 2, 3, 4] and trace.children(trace[2]) == []
    change = trace.variables("video")[0]
    assert trace.producer(change.value) is trace[1] and trace.consumers(facts(4)) == trace.calls
    assert trace.consumers(change.value) == []  # a variable only holds it
    assert trace.producer(facts(9, producer=2)) is None  # and makes nothing
    assert len(trace) == len(list(trace)) == 5 and trace.marks == [] and len(trace.calls) == 2
    assert list(trace.to_pandas()["kind"]) == ["python", "function"]
    assert repr(trace) == "<Trace: 5 events, 0 modules>"


def test_empty_trace_has_no_events_and_refuses_steps() -> None:
    trace = Trace()
    assert (len(trace), trace.calls, trace.marks, trace.modules, trace.roots, trace.find()) == (0, [], [], {}, [], [])
    assert repr(trace) == "<Trace: 0 events, 0 modules>"
    with pytest.raises(KeyError):
        trace[0]
    with pytest.raises(InsituError, match="running session"):
        trace.step()


def test_text_is_the_tree_and_repr_has_the_counts(trace: Trace) -> None:
    assert repr(trace) == "<Trace: 19 events, 3 modules>"
    assert "Block" in str(trace)


def test_events_are_read_while_the_session_runs_and_kept_afterwards() -> None:
    source: list[Event] = []
    reads: list[int] = []

    def read(last: bool) -> tuple[list[Event], None]:
        reads.append(1)
        return list(source), None

    trace = Trace()
    trace._attach(read, lambda: source.append(Mark(len(source), None, "step", "")))
    assert len(trace) == 0
    trace.step()
    source.append(Call(1, None, "function", "f"))
    assert len(trace) == 2 and trace[1].kind == "function"
    trace._detach()
    assert len(trace) == 2
    count = len(reads)
    assert trace.calls and trace.find(name="f") and len(reads) == count
    with pytest.raises(InsituError):
        trace.step()


def test_trace_does_not_import_torch() -> None:
    program = """if True:
        import sys
        import insitu
        from insitu.trace.event import Call, ModuleFacts, TensorFacts
        from insitu.trace.trace import Trace
        tensor = TensorFacts(0, (2, 3), "f32", "cpu", producer=1)
        trace = insitu.Trace([Call(0, None, "module", "Linear", ModuleFacts("fc", "Linear"), args=(tensor,)),
                              Call(1, 0, "function", "torch.nn.functional.linear", result=tensor)])
        assert len(trace.find("fc")) == 1 and trace.producer(tensor).id == 1 and len(str(trace)) > 5
        assert trace.to_pandas is not None and trace.modules
        assert "torch" not in sys.modules, "torch was imported"
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
