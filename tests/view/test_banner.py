"""What a page says first, without a browser."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.trace.explain.test_explanation_data import explanation
from tests.view.build import Run, site, stats, tensor
from tests.view.test_html import Parts, unpacked

from insitu.trace.advice import Fix, certain
from insitu.trace.compare.traces import compare_traces
from insitu.trace.explain.explanation import Explanation
from insitu.trace.explain.explanation_data import plain_explanation
from insitu.trace.trace import Trace
from insitu.view.html import page


def answers(subject: Any, **options: Any) -> list[dict[str, Any]]:
    """The answers that a page carries."""
    found: list[dict[str, Any]] = unpacked(Parts(page(subject, **options)).found["data"])["answers"]
    return found


def log_of_negative() -> Run:
    run = Run()
    with run.inside(run.module("h.2.attn", "Attention", leaf=False)):
        low = tensor(2, id=1, stats=stats(-101, -99.3))
        bad = tensor(2, id=2, stats=stats(None, None, nan=2))
        run.call("function", "torch.log", low, out=bad, site=site("y = torch.log(x)", 66, "forward", file="make.py"))
    return run


def test_the_first_nan_is_named_with_its_place_and_reason() -> None:
    (found,) = answers(log_of_negative().trace)
    assert (found["kind"], found["head"], found["row"]) == ("nonfinite", "First NaN", 1)
    assert found["text"].startswith("h.2.attn torch.log (make.py:66): the logarithm of a number below 0 is NaN")
    assert found["more"].startswith("make.py:66: torch.log produced NaN from finite inputs\n")


def test_a_trace_in_which_all_is_well_has_no_answer() -> None:
    run = Run()
    run.call("function", "torch.relu", out=tensor(2, stats=stats(0, 1)))
    assert answers(run.trace) == [] == answers(Trace())


def failing(**about: Any) -> Trace:
    run = Run()
    with run.inside(run.module("", "Net", leaf=False, raised="RuntimeError")):
        run.call(
            "function", "torch.mm", raised="RuntimeError", message="no fit", site=site("x @ w", 3, "f", file="a.py")
        )
    return Trace(run.events, about=about)


def test_an_exception_is_explained_as_insitu_explain_does() -> None:
    told = explanation(tensor(2, 3))
    (found,) = answers(failing(explanation=plain_explanation(told)))
    assert (found["kind"], found["head"], found["row"]) == ("exception", "RuntimeError", 1)
    assert found["text"] == "shapes do not fit · torch.mm (model.py:4) · 3 and 4 differ"
    assert found["more"] == str(told)
    (hidden,) = answers(failing(explanation=plain_explanation(told)), source=False)
    assert "return x @ w" in found["more"] and "return x @ w" not in hidden["more"]


def test_a_page_without_source_has_no_fix() -> None:
    told = replace(explanation(tensor(2, 3)), advice=certain(Fix("model.py", 4, "return x @ w.T")))
    (found,) = answers(failing(explanation=plain_explanation(told)))
    (hidden,) = answers(failing(explanation=plain_explanation(told)), source=False)
    assert "certain fix at model.py:4: return x @ w.T" in found["more"] and "w.T" not in hidden["more"]


def test_an_exception_without_an_explanation_is_named() -> None:
    (found,) = answers(failing())
    assert (found["head"], found["text"], found["more"], found["row"]) == (
        *("RuntimeError", "torch.mm (a.py:3): no fit", ""),
        1,
    )


def test_an_error_of_a_guard_shows_its_whole_message() -> None:
    told = Explanation("NonFiniteError", "a.py:3: x / y produced NaN\n  why   division by zero")
    (found,) = answers(failing(explanation=plain_explanation(told)))
    assert found["text"] == "a.py:3: x / y produced NaN" and found["row"] == -1
    assert found["more"].endswith("\n  why   division by zero")


def test_a_call_that_the_page_leaves_out_has_no_row() -> None:
    (found,) = answers(failing(), steps=[7])
    assert found["head"] == "RuntimeError" and found["row"] == -1
    assert answers(log_of_negative().trace, steps=[7]) == []


@pytest.mark.parametrize("text", ["</script>\x1b[31m", "a\nb"])
def test_answers_have_no_control_characters(text: str) -> None:
    told = Explanation(text, f"{text}\n{text}")
    (found,) = answers(failing(explanation=plain_explanation(told)))
    assert not any("\x1b" in part for part in (found["head"], found["text"], found["more"]))


def test_the_first_difference_is_the_answer_of_a_comparison() -> None:
    runs = []
    for eps in (1e-5, 1e-3):
        run = Run()
        x, y = tensor(2, id=1, stats=stats(0, 1)), tensor(2, id=2, stats=stats(0, 1 + eps))
        run.call(
            "function", "torch.nn.functional.layer_norm", x, kwargs={"eps": eps}, out=y, site=site("ln(x)", 9, "f")
        )
        runs.append(run.trace)
    (found,) = answers(compare_traces(*runs))
    assert (found["kind"], found["head"], found["row"]) == ("difference", "First difference", 0)
    assert found["text"].startswith("F.layer_norm (model.py:9): eps is 0.001 in b")
    assert answers(compare_traces(runs[0], runs[0])) == []
