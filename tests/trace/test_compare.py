"""Which call is the cause, on events made by hand."""

from __future__ import annotations

from time import process_time
from typing import Any

import pytest
from tests.trace.comparing import Program, chain, compared, fused, given, in_modules

from insitu.errors import ChoiceError, PatternError, SubjectError
from insitu.trace.compare.traces import compare_traces
from insitu.trace.event import Call, ModuleFacts
from insitu.trace.trace import Trace


def test_the_first_call_with_equal_inputs_and_another_output() -> None:
    a = chain(("relu", 1.0, ()), ("exp", 2.0, ()), ("log", 3.0, ()), ("abs", 4.0, ()))
    b = chain(("relu", 1.0, ()), ("exp", 2.5, ()), ("log", 3.5, ()), ("abs", 4.0, ()))
    diff = compared(a, b)
    assert diff.first is not None and diff.causes == (diff.first,)
    assert (diff.first.kind, diff.first.a, diff.first.b) == ("output", a.events[1], b.events[1])
    assert (diff.first.delta, diff.first.certainty, diff.first.followers) == (0.5, "statistics", 1)
    assert [row.status for row in diff.differences] == ["same", "differs", "follows", "same"]
    assert not diff.same and diff.certainty == "statistics"


def test_nothing_differs() -> None:
    diff = compared(chain(("relu", 1.0, ())), chain(("relu", 1.0, ())))
    assert diff.same and diff.first is None and diff.counts == {"same": 1}
    assert diff.evidence == {"values": 0, "statistics": 1, "structure": 0}


def test_spellings_and_ways_to_give_an_argument_are_no_difference() -> None:
    a, b, x, y = Program(), Program(), given(0.0), given(0.0)
    a.made("nn.functional.softmax", x, value=1.0, kwargs={"dim": -1, "_stacklevel": 3})
    b.made("Tensor.softmax", y, -1, value=1.0)
    a.made("Tensor.matmul", x, x, value=2.0, operator="@")
    b.made("mm", y, y, value=2.0)
    assert compared(a, b).same


def test_an_argument_is_the_cause_if_the_output_differs() -> None:
    a, b = chain(("softmax", 1.0, (-1,)), ("abs", 2.0, ())), chain(("softmax", 1.5, (0,)), ("abs", 2.5, ()))
    diff = compared(a, b)
    assert (
        diff.first is not None and diff.first.kind == "argument" and diff.first.why == "argument 2 is 0 in b, -1 in a"
    )
    assert diff.counts == {"argument": 1, "follows": 1}


def test_an_argument_without_effect_is_a_note() -> None:
    diff = compared(chain(("sum", 1.0, (1,))), chain(("sum", 1.0, (-1,))))
    assert diff.first is None and not diff.same
    assert [row.status for row in diff.differences] == ["argument"]


def test_an_argument_that_came_out_of_what_differs_follows() -> None:
    traces = []
    for value in (1.0, 1.5):
        run, x = Program(), given(0.0)
        y = run.made("rand", value=value)
        run.call("function", "torch.Tensor.item", y, out=value)
        run.made("mul", x, value, value=2 * value)
        traces.append(run)
    diff = compared(*traces)
    assert [cause.kind for cause in diff.causes] == ["random"]
    assert [(row.status, row.what) for row in diff.differences] == [("differs", ""), ("follows", ""), ("follows", "")]


def test_a_call_that_one_side_lacks() -> None:
    def program(residual: bool) -> Program:
        run, x = Program(), given(0.0)
        h = run.made("linear", x, value=1.0)
        if residual:
            h = run.made("add", x, h, value=3.0)
        run.made("relu", h, value=5.0 if residual else 4.0)
        return run

    diff = compared(program(True), program(False))
    assert diff.first is not None and diff.first.kind == "calls"
    assert diff.first.a is not None and diff.first.a.name == "torch.add" and diff.first.b is None
    assert [row.status for row in diff.differences] == ["same", "only in a", "follows"]
    assert compared(program(False), program(True)).first.b.name == "torch.add"  # type: ignore[union-attr]


def test_other_calls_with_the_same_result_are_no_cause() -> None:
    diff = compared(*fused(4.0))
    assert diff.first is None and not diff.same
    assert diff.counts == {"same": 2, "only in a": 3, "only in b": 1}
    assert {row.what for row in diff.differences if row.status != "same"} == {"the same result by other calls"}


def test_other_calls_with_another_result_are_the_cause() -> None:
    diff = compared(*fused(6.0))
    assert diff.first is not None and len(diff.causes) == 1
    assert (len(diff.first.calls_a), len(diff.first.calls_b), diff.first.followers) == (3, 1, 1)
    assert diff.first.a is not None and diff.first.a.name == "torch.matmul"


def test_what_other_calls_make_up_for_is_no_cause() -> None:
    a, b, x, y = Program(), Program(), given(0.0), given(0.0)
    a.made("relu", a.made("div", a.made("matmul", x, value=4.0), 2, value=2.0), value=7.0)
    b.made("relu", b.made("matmul", b.made("div", y, 2, value=1.0), value=2.0), value=7.0)
    diff = compared(a, b)
    assert diff.first is None and not diff.same
    assert diff.differences[-1].status == "same"


def test_a_difference_that_is_lost_later_still_has_a_cause() -> None:
    a = chain(("softmax", 1.0, (-1,)), ("argmax", 3.0, ()))
    b = chain(("softmax", 1.5, (0,)), ("argmax", 3.0, ()))
    diff = compared(a, b)
    assert diff.first is not None and diff.first.kind == "argument"


def test_the_cause_is_where_the_values_were_moved_if_statistics_do_not_show_it() -> None:
    a = chain(("transpose", 1.0, (0, 1)), ("linear", 2.0, ()))
    b = chain(("transpose", 1.0, (1, 2)), ("linear", 2.5, ()))
    diff = compared(a, b)
    assert diff.first is not None and diff.first.a is a.events[0] and diff.first.followers == 1
    assert (diff.first.delta, diff.first.measure, diff.first.seen_at) == (None, "", a.events[1])
    assert (diff.differences[0].delta, diff.differences[1].delta) == (None, 0.5)


def test_inputs_are_equal_only_as_far_as_statistics_tell() -> None:
    first = compared(chain(("relu", 1.0, ())), chain(("relu", 2.0, ()))).first
    assert first is not None and first.why == "the inputs are equal as far as statistics show, the output differs"


def test_another_tensor_for_an_argument() -> None:
    def program(right: bool) -> Program:
        run = Program()
        q, k = run.made("linear", given(0.0), value=1.0), run.made("exp", given(0.0), value=2.0)
        run.made("matmul", q, k if right else q, value=3.0 if right else 4.0)
        return run

    diff = compared(program(True), program(False))
    assert diff.first is not None and diff.first.kind == "argument"
    assert "input 1 f32[2] is another tensor" in diff.first.why


def test_inputs_of_which_nothing_is_known_are_named() -> None:
    programs = []
    for value in (1.0, 2.0):
        run = Program()
        run.made("nn.functional.linear", given(0.0), given(shape=(3, 2)), value=value)
        programs.append(run)
    first = compared(*programs).first
    assert first is not None and first.unknown == ("weight f32[3, 2]",) and first.certainty == "structure"


def test_a_given_tensor_that_differs_is_the_cause() -> None:
    a, b = (
        chain(("linear", out, ()), ("relu", out, ()), start=given(value)) for value, out in ((0.0, 1.0), (0.5, 2.0))
    )
    diff = compared(a, b)
    assert [cause.kind for cause in diff.causes] == ["input"]
    assert diff.first is not None and diff.first.followers == 1


def test_several_causes() -> None:
    programs = []
    for change in (0.0, 0.5):
        run = Program()
        first, second = run.made("rand", value=1.0 + change), run.made("randn", value=2.0 + change)
        run.made("relu", second, value=3.0 + change)
        run.made("add", first, second, value=4.0 + change)
        programs.append(run)
    diff = compared(*programs)
    assert [cause.kind for cause in diff.causes] == ["random", "random"]
    assert [cause.followers for cause in diff.causes] == [1, 2]
    assert [row.cause for row in diff.differences] == [0, 1, 1, 0]


def test_memory_as_it_was_found_is_not_compared() -> None:
    programs = []
    for garbage in (1.0, 2.0):
        run = Program()
        run.made("zero_", run.made("empty", 2, value=garbage), value=0.0)
        programs.append(run)
    assert compared(*programs).same


def test_without_values_the_first_change_of_structure() -> None:
    a = chain(("relu", None, ()), ("softmax", None, (-1,)), ("exp", None, ()), start=given())
    b = chain(("relu", None, ()), ("softmax", None, (0,)), ("log", None, ()), start=given())
    diff = compared(a, b)
    assert diff.certainty == "structure" and [cause.a for cause in diff.causes] == [a.events[1]]
    assert "its effect is not known" in diff.causes[0].why
    same = compared(a, a)
    assert same.same and same.certainty == "structure"


def test_without_values_what_comes_after_is_no_cause_of_its_own() -> None:
    a = chain(("softmax", None, (-1,)), ("sum", None, (-1,)), start=given())
    b = chain(("softmax", None, (0,)), ("sum", None, (0,)), start=given())
    assert [cause.a for cause in compared(a, b).causes] == [a.events[0]]


def test_sums_may_be_the_other_way_round() -> None:
    programs = []
    for swap in (False, True):
        run = Program()
        x, y = run.made("relu", given(0.0), value=1.0), run.made("exp", given(0.0), value=2.0)
        run.made("add", *((y, x) if swap else (x, y)), value=3.0)
        programs.append(run)
    assert compared(*programs).same


def test_a_call_that_has_moved_to_another_module() -> None:
    inside, outside = in_modules("fc"), in_modules("fc")
    for run in (inside, outside):
        root, last = run.events[0], run.events[-1]
        assert isinstance(root, Call) and isinstance(last, Call)
        with run.inside(root), run.inside(run.module("act", "ReLU", last.result) if run is inside else root):
            run.made("relu", last.result, value=5.0)
    assert compared(inside, outside).same


def test_shapes_tell_without_values() -> None:
    programs = []
    for size in (3, 4):
        run = Program()
        x = run.made("relu", given(), shape=(2,))
        y = run.made("linear", x, shape=(size,))
        run.made("exp", y, shape=(size,))
        programs.append(run)
    diff = compared(*programs)
    assert [row.status for row in diff.differences] == ["same", "differs", "follows"]
    assert diff.first is not None and (diff.first.measure, diff.first.certainty) == ("shape", "structure")


def test_another_dtype_with_close_values_is_structure() -> None:
    diff = compared(chain(("relu", 1.0, ())), _in_bf16(chain(("relu", 1.001, ()))))
    assert diff.first is None and [row.what for row in diff.differences] == ["dtype is bf16 in b, f32 in a"]


def _in_bf16(run: Program) -> Program:
    for event in run.events:
        event.result.dtype = "bf16"  # type: ignore[union-attr]
    return run


def test_an_exception_on_one_side() -> None:
    a = chain(("relu", 1.0, ()), ("linear", 2.0, ()), ("exp", 3.0, ()))
    b = chain(("relu", 1.0, ()), ("linear", 2.0, ()))
    failed = b.events[1]
    assert isinstance(failed, Call)
    failed.raised, failed.message, failed.result = "RuntimeError", "shapes do not fit\nat all", None
    diff = compared(a, b)
    assert diff.first is not None and diff.first.kind == "raised" and diff.first.b is failed
    assert "RuntimeError: shapes do not fit in b only" in diff.first.why
    assert [(row.status, row.cause) for row in diff.differences] == [("same", None), ("raised", 0), ("only in a", 0)]


def test_renamed_modules_and_wrappers_are_no_difference() -> None:
    assert compared(in_modules("h.0", "h.1"), in_modules("blocks.0", "blocks.1")).same
    assert compared(in_modules("h.0", "h.1"), in_modules("model.h.0", "model.h.1", outer="model")).same


def test_names_tie_calls_together() -> None:
    a, b = in_modules("old.0", "old.1"), in_modules("new.1")
    assert [row.status for row in compared(a, b).differences] == ["same", "only in a"]
    named = compared(a, b, rename={"old.*": "new.*"})
    assert [(row.status, row.a and row.a.path) for row in named.differences if row.b] == [("follows", "old.1")]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("rename", "error", "text"),
    [
        ({"od.*": "new.*"}, PatternError, "did you mean"),
        ({"old.*": "new"}, ChoiceError, "wildcards"),
        ({"old..0": "new"}, PatternError, "not a path pattern"),
        ({"old.0": 3}, SubjectError, "pattern to pattern"),
        (["old"], SubjectError, "not a dict"),
    ],
)
def test_a_rename_that_cannot_be(rename: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        compared(in_modules("old.0"), in_modules("new.0"), rename=rename)


def test_steps_and_ranks_that_one_side_lacks() -> None:
    def program(*places: tuple[int, int]) -> Trace:
        calls = [Call(n, None, "function", "torch.relu", step=step, rank=rank) for n, (step, rank) in enumerate(places)]
        return Trace(list(calls))

    diff = compare_traces(program((0, 0), (1, 0), (2, 0), (3, 0)), program((0, 0), (1, 0)))
    assert diff.remarks == ["steps 2 … 3 only in a"] and diff.first is None and not diff.same
    assert compare_traces(program((0, 0), (1, 0)), program((0, 1), (1, 1))).same  # rank 0 beside rank 1
    assert compare_traces(program((0, 0)), program((0, 0), (0, 1))).remarks == ["rank 1 only in b"]


def test_a_result_that_only_one_side_has() -> None:
    runs = [Trace([Call(0, None, "function", "torch.f", result=result)]) for result in (None, 3)]
    for a, b in (runs, runs[::-1]):
        diff = compare_traces(a, b)
        assert diff.first is not None and diff.counts == {"differs": 1}
    assert compare_traces(runs[0], runs[0]).same


def test_many_steps_and_many_causes_take_no_quadratic_time() -> None:
    """Thousands of steps: a second or two; more than twenty if each step is laid beside all others."""

    def program(steps: int, *names: str) -> Trace:
        run = Program()
        for step in range(steps):
            x = given(0.0)
            for number, name in enumerate(names):
                x = run.made(name, x, value=float(number), step=step)
        return run.trace

    start = process_time()
    half = compare_traces(program(8_000, "relu"), program(4_000, "relu"))
    assert half.remarks == ["steps 4000 … 7999 only in a"]
    many = compare_traces(program(4_000, "abs", "relu"), program(4_000, "abs", "exp", "relu"))
    assert len(many.causes) == 4_000 and process_time() - start < 10


def test_where_the_run_goes_on_that_lacks_a_call() -> None:
    a = chain(("abs", 1.0, ()), ("relu", 2.0, ()), ("log", 3.0, ()))
    b = chain(("abs", 1.0, ()), ("exp", 5.0, ()), ("relu", 6.0, ()), ("log", 7.0, ()))
    for one, other in ((a, b), (b, a)):
        first = compared(one, other).first
        assert first is not None and first.kind == "calls" and first.instead == (a.events[0], a.events[1])


def test_levels_without_anything_in_common() -> None:
    with pytest.raises(ChoiceError, match="a has only function, b only module"):
        module = Call(0, None, "module", "Net", ModuleFacts("", "Net"))
        compare_traces(chain(("relu", 1.0, ())).trace, Trace([module]))


def test_a_trace_with_more_levels_is_compared_at_those_of_the_other() -> None:
    a, b = in_modules("h.0"), in_modules("h.0")
    leaf = a.events[-1]
    assert isinstance(leaf, Call)
    with a.inside(leaf):
        a.call("aten", "aten.addmm", out=leaf.result)
    leaf.result.producer = len(a.events) - 1
    diff = compared(a, b)
    assert diff.same and diff.counts == {"same": 1}


def test_empty_traces() -> None:
    assert compare_traces(Trace(), Trace()).same
    diff = compare_traces(Trace(), chain(("relu", 1.0, ())).trace)
    assert not diff.same and diff.remarks == ["a is empty: the only call is only in b"]


def test_variables() -> None:
    programs = []
    for value in (3, 4):
        run = Program()
        with run.inside(run.python("prepare", given={"n": 1})):
            run.variable("x", 1, "new")
            run.variable("y", value, "new")
            run.variable("z", value + 1, "new")
        programs.append(run)
    diff = compared(*programs)
    assert [row.status for row in diff.differences] == ["same", "differs", "follows"]
    assert diff.first is not None and diff.first.a is not None and diff.first.a.name == "y"


def test_as_a_table() -> None:
    frame = compared(*fused(6.0)).to_pandas()
    assert frame["status"].tolist()[-1] == "follows" and frame["cause"].tolist()[-1] == 0
    assert frame.loc[0, "line_a"] == 1


def test_settings_of_a_class_of_the_users_own_are_not_taken_for_defaults() -> None:
    programs = []
    for settings in ({}, {"eps": 1e-5}):
        run, x = Program(), given(0.0)
        with run.inside(run.module("ln", "LayerNorm", x, settings=settings)):
            run.made("layer_norm", x, value=1.0 + bool(settings))
        programs.append(run)
    first = compared(*programs).first
    assert first is not None and "eps" not in first.why
