"""The footer of a tree: totals that are known, and nothing for a short tree."""

from __future__ import annotations

from tests.view.build import Run, stats, tensor

from insitu.trace.order import completion_order
from insitu.view import make, render, replay
from insitu.view.line import TimeSpan
from insitu.view.tree import Tree


def training(steps: int = 30, *, nan: int = 0) -> Run:
    """A model that returns a tensor of 1 KiB at each step."""
    run, x = Run(), tensor(2)
    for step in range(steps):
        number = len(run.events)
        bad = stats(0, 1, nan=nan if step == 5 else 0)
        out = tensor(256, id=number, producer=number, stats=bad)
        with run.inside(run.module("", "Net", x, leaf=False, out=out, start=step * 10_000_000, duration=1_000_000)):
            run.call("function", "torch.relu", x, out=tensor(256, id=number, producer=number, stats=bad))
    return run


def footer(run: Run, **options: object) -> str:
    return render(run.trace, **options).splitlines()[-1]  # type: ignore[arg-type]


def test_calls_time_and_bytes_of_outputs() -> None:
    assert footer(training()) == "60 calls · 291ms · 30.0 KiB of outputs"


def test_nan_and_the_calls_that_have_it() -> None:
    assert footer(training(nan=3)) == "60 calls · 291ms · 30.0 KiB of outputs · 3 NaN in 2 calls"


def test_a_short_tree_has_no_footer() -> None:
    assert "calls" not in render(training(9).trace) and footer(training(10)).startswith("20 calls")


def test_what_is_not_known_is_left_out() -> None:
    run = Run()
    for number in range(1200):
        run.call("function", f"torch.f{number}")
    assert footer(run) == "1,200 calls"


def test_calls_that_are_not_shown_are_counted() -> None:
    run = training()
    run.module("other", "Other", out=tensor(1))
    assert footer(run, only="other") == "1 of 61 calls"


def test_a_remark_ends_the_footer_and_is_shown_under_a_short_tree_too() -> None:
    for run, expected in ((training(), "60 calls · 291ms · 30.0 KiB of outputs · "), (Run(), "")):
        lines = replay(run.events, Tree(live=False), remarks=["file written: step.h5"])
        assert [str(line) for line in lines][-1] == f"{expected}file written: step.h5"


def test_views_without_a_footer_end_with_the_remark() -> None:
    lines = [str(line) for line in replay(training(1).events, make("table"), remarks=["file written: step.h5"])]
    assert lines[-1] == "file written: step.h5"


def test_live_the_footer_comes_once_at_the_end() -> None:
    run, view = training(), make("tree")
    during = [str(line) for event in completion_order(run.events) for line in view(event)]
    after = [str(line) for line in view.finish()]
    assert not any("calls" in line for line in during)
    assert after == ["60 calls · 291ms · 30.0 KiB of outputs"]


def test_the_time_is_a_span_of_its_own_so_that_footers_can_be_compared() -> None:
    *_, footer = replay(training().events, Tree(live=False))
    assert [span for span in footer.spans if isinstance(span, TimeSpan)] == [("291ms", "grey")]
