"""The text of a diff, and the same as JSON."""

from __future__ import annotations

import json

import pytest
from tests.trace.comparing import Program, chain, compared, fused, given

from insitu.trace.diff import Diff
from insitu.view.diff import render_diff
from insitu.view.diff_facts import diff_facts

VERDICT = """\
✗ first difference: torch.softmax (model.py:2): argument 2 is 0 in b, -1 in a
  a  model.py:2  torch.softmax(f32[2], -1)  f32[2]  2 … 3
     from f32[2]
  b  model.py:2  torch.softmax(f32[2], 0)  f32[2]  2.5 … 3.5
     from f32[2]
  relative error ≥ 0.143, Δ mean 0.5; known from statistics; 2 calls after it differ because of it
  in the result, torch.abs: relative error ≥ 0.0909
  because of torch.exp ← torch.softmax

  =  calls  1 the same
  ✗  torch.softmax(f32[2], -1)  f32[2]  relative ≥ 0.143  argument 2 is 0 in b, -1 in a: the cause  model.py:2
  ~  calls  2 differ because of it"""


def faulty() -> Diff:
    a = chain(("relu", 1.0, ()), ("softmax", 2.0, (-1,)), ("exp", 3.0, ()), ("abs", 4.0, ()))
    b = chain(("relu", 1.0, ()), ("softmax", 2.5, (0,)), ("exp", 3.5, ()), ("abs", 4.5, ()))
    return compared(a, b)


def test_the_verdict_comes_first() -> None:
    assert str(faulty()) == VERDICT


def test_what_is_the_same_is_one_line() -> None:
    program = chain(*[("relu", 1.0, ())] * 40)
    assert str(compared(program, chain(*[("relu", 1.0, ())] * 40))) == (
        "the same: 40 calls, compared by statistics, so equal only as far as these show"
    )


def test_calls_of_one_side_have_their_own_signs() -> None:
    lines = str(compared(*fused(6.0))).splitlines()
    assert "torch.matmul" in lines[0] and "a and b make different calls here, and the result differs" in lines[0]
    signs = [line.split()[0] for line in lines if line.startswith("  ") and line[2] in "=-+~✗"]
    assert signs == ["=", "-", "-", "-", "+", "~"]


def test_many_calls_alike_are_counted() -> None:
    a = chain(("relu", 1.0, ()))
    b = chain(("relu", 1.0, ()), *[("exp", 5.0, ())] * 9)
    text = str(compared(a, b))
    assert "… 6 more only in b" in text and "only b makes these 9 calls" in text


def test_lines_of_both_sides_are_named() -> None:
    b = chain(("softmax", 2.5, (0,)))
    b.events[0].site.line = 77  # type: ignore[union-attr]
    assert "(model.py:1 in a, model.py:77 in b)" in str(compared(chain(("softmax", 2.0, (-1,))), b)).splitlines()[0]


def test_inputs_of_which_nothing_is_known() -> None:
    programs = []
    for value in (1.0, 2.0):
        run = Program()
        run.made("nn.functional.linear", given(0.0), given(shape=(3, 2)), value=value)
        programs.append(run)
    text = str(compared(*programs))
    assert "nothing is known of weight f32[3, 2]" in text and "known from structure" in text


def test_other_causes_are_listed() -> None:
    programs = []
    for change in (0.0, 0.5):
        run = Program()
        for number in range(7):
            run.made("rand", value=number + change)
        programs.append(run)
    text = str(compared(*programs))
    assert "  2. torch.rand (model.py:2): " in text and "… 2 more causes" in text


def test_hostile_names_stay_on_their_line() -> None:
    a, b = chain(("a\nb\x1b[31m", 1.0, ())), chain(("a\nb\x1b[31m", 2.0, ()))
    text = str(compared(a, b))
    assert "\x1b" not in text and "a\\nb" in text


def test_labels_line_up_as_they_are_written() -> None:
    diff = faulty()
    diff.labels = ("a\n", "b")
    one, two = (line for line in str(diff).splitlines() if line.startswith(("  a a\\n", "  b  ")))
    assert one.index("model.py") == two.index("model.py")


@pytest.mark.parametrize("width", [20, 80])
def test_narrow_terminals(width: int) -> None:
    rows = render_diff(faulty(), width=width).split("\n\n")[1].splitlines()
    assert all(len(row) <= max(width, 40) for row in rows)


def test_as_json() -> None:
    facts = json.loads(json.dumps(diff_facts(faulty()), allow_nan=False))
    assert facts["same"] is False and facts["counts"] == {"same": 1, "argument": 1, "follows": 2}
    (cause,) = facts["causes"]
    assert (cause["kind"], cause["a"]["line"], cause["followers"], cause["delta"]) == ("argument", 2, 2, 0.5)
    assert (cause["relative"], cause["relative_is_bound"]) == (pytest.approx(1 / 7), True)
    assert [row["status"] for row in facts["differences"]] == ["argument"]


def test_a_difference_that_shows_only_later_has_no_size_at_its_cause() -> None:
    a = chain(("flip", 1.0, (0,)), ("linear", 2.0, ()))
    b = chain(("flip", 1.0, (1,)), ("linear", 2.5, ()))
    diff = compared(a, b)
    text = str(diff)
    assert "Δ" not in text and "  seen at model.py:2, torch.linear; known from statistics" in text
    assert diff_facts(diff)["causes"][0]["seen_at"]["line"] == 2


def test_one_run_is_empty() -> None:
    text = str(compared(chain(("relu", 1.0, ()), ("exp", 2.0, ())), Program()))
    assert text == "nothing to compare: no call is in both runs\n  ! b is empty: all 2 calls are only in a"
