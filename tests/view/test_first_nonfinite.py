"""The first NaN and the first Inf of a trace: the call, the place, the reason."""

from __future__ import annotations

from typing import Any

from tests.view.build import Run, site, stats, tensor

from insitu.trace.event import Stats, TensorFacts
from insitu.view.first_nonfinite import first_nonfinites

NAN, INF = float("nan"), float("inf")


class Program(Run):
    """Calls whose outputs have ids of their own and name their producers."""

    def function(self, name: str, *args: Any, low: float | None = 0.0, high: float | None = 1.0, **more: Any) -> Any:
        counts = {word: more.pop(word, 0) for word in ("nan", "inf")}
        number = len(self.events)
        out = tensor(4, id=number, producer=number, stats=stats(low, high, **counts))
        place = site("y = f(x)", 66, "Net.forward", file="/me/make.py")
        self.call("function", f"torch.{name}", *args, out=out, site=place, **more)
        return out


def given(low: float = 0.0, high: float = 1.0, **counts: int) -> TensorFacts:
    return tensor(4, id=-1, stats=stats(low, high, **counts))


def texts(run: Run) -> list[str]:
    return [first.text for first in first_nonfinites(run.events)]


def test_the_line_names_module_call_place_and_reason() -> None:
    run, x = Program(), given(-101.0, -99.3)
    with run.inside(run.module("h.2.attn", "Attention", x, leaf=False)):
        bad = run.function("log", x, low=None, high=None, nan=4)
        run.function("relu", bad, nan=4)
    (first,) = first_nonfinites(run.events)
    assert (first.what, first.count, first.event) == ("NaN", 4, run.events[1]) and first.site is not None
    assert first.reason == "the logarithm of a number below 0 is NaN: the smallest input is -101"
    assert first.text == f"first NaN: h.2.attn torch.log (make.py:66): {first.reason}"


def test_nothing_is_wrong_with_masks_and_with_memory_that_nobody_wrote() -> None:
    run = Program()
    scores = run.function("Tensor.masked_fill", given(), -INF, inf=2)
    run.function("nn.functional.softmax", scores)
    run.function("empty", 4, nan=4)
    assert texts(run) == []


def test_an_earlier_inf_is_named_before_the_nan_that_it_causes() -> None:
    run, module = Program(), Run().module("net", "Net").module
    big = run.function("exp", given(0, 100), inf=1, module=module, kwargs={})
    run.events[-1].result.requires_grad = True  # type: ignore[union-attr]
    run.function("sub", big, big, nan=1, module=module)
    assert [text.partition(" (")[0] for text in texts(run)] == ["first Inf: net torch.exp", "first NaN: net torch.sub"]


def test_the_sign_of_an_infinity_is_not_invented() -> None:
    run, module = Program(), Run().module("net", "Net").module
    run.function("softmax", given(inf=4), nan=4, module=module)
    assert texts(run) == ["first NaN: net torch.softmax (make.py:66): every score of a row is -inf, or a score is +inf"]


def test_the_advice_depends_on_the_call_that_computed_the_input() -> None:
    run, module = Program(), Run().module("net", "Net").module
    moved = run.function("Tensor.view", run.function("softmax", given()), 4)
    zeros = run.function("log", moved, inf=1, module=module)
    run.function("mul", zeros, given(), nan=1, module=module)
    assert "use log_softmax on the scores" not in texts(run)[0]  # no zero among the inputs proves it
    moved.stats = Stats(count=4, min=0.0, max=1.0, mean=0.5, std=0.1, zeros=1)
    assert "the logarithm of 0 is -inf: use log_softmax on the scores" in texts(run)[0]


def test_nan_from_before_the_trace_and_nan_that_is_written_down() -> None:
    module = Run().module("net", "Net").module
    run = Program()
    run.function("relu", given(nan=2), nan=2, module=module)
    assert texts(run) == ["first NaN: net torch.relu (make.py:66): an input already contained it"]
    run = Program()
    run.function("full", (4,), NAN, nan=4, module=module)
    assert texts(run) == ["first NaN: net torch.full (make.py:66): the call introduced it, as an argument or as data"]


def test_the_backward_pass_and_the_step_are_named() -> None:
    run, module = Program(), Run().module("net", "Net").module
    run.step = 6
    run.call(
        *("aten", "aten.div.Tensor", given(), given()),
        out=tensor(4, id=9, stats=stats(0, 1, nan=1)),
        phase="backward",
        module=module,
    )
    assert texts(run)[0].startswith("first NaN: net aten.div.Tensor in the backward pass (step 6)")


def test_a_variable_is_named_where_no_call_is_known() -> None:
    run = Run()
    run.variable("x", tensor(2, stats=stats(0, 1, nan=1)), "new", line=4)
    run.variable("loss", NAN, "new", line=5)
    assert texts(run) == ["first NaN: x (data.py:4)"]
    run = Run()
    run.variable("loss", -INF, "new", line=5)
    assert texts(run) == ["first Inf: loss (data.py:5)"]


def test_a_trace_without_statistics_has_none() -> None:
    run = Run()
    run.call("function", "torch.log", tensor(2), out=tensor(2))
    run.mark("note", "here")
    assert texts(run) == []
