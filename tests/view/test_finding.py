"""What a guard found, in words, from findings made by hand."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest

from insitu.trace.event import Call, Site, Stats, TensorFacts
from insitu.trace.findings import (
    ConsequentGradient,
    ExplodingGradients,
    Finding,
    FrozenParameters,
    LeftoverGradient,
    MissingGradients,
    NonFiniteFromHook,
    NonFiniteGradient,
    NonFiniteInput,
    NonFiniteLiteral,
    NonFiniteLoss,
    NonFiniteResult,
    NonFiniteUpdate,
    OptimizerGap,
    StaleGradients,
    StuckParameters,
    TensorOperand,
    UncheckedGradient,
    VanishingGradients,
)
from insitu.view.finding import text
from insitu.view.hint import hint

INF = float("inf")
SITE = Site("/home/me/train.py", 12, "loss", "    value = torch.log(p)", 12, 24)


def tensor(dtype: str = "f32", **stats: Any) -> TensorFacts:
    facts = TensorFacts(0, (3, 4), dtype, "cpu")
    known = {"count": 12, "min": 0.0, "max": 2.1, "mean": 1.0, "std": 1.0, "nan": 0, "inf": 0, "zeros": 0, **stats}
    facts.stats = Stats(**known)
    return facts


def finding(name: str, *given: TensorFacts | float, kind: Any = "inf", dtype: str = "f32", **more: Any) -> Any:
    """A finding of a forward call."""
    return NonFiniteResult(has_finite_inputs=are_finite(given), **facts(name, given, kind, dtype), **more)


def gradient(name: str, *given: TensorFacts | float, kind: Any = "inf", dtype: str = "f32", **more: Any) -> Any:
    """A finding of the gradient of a call."""
    return NonFiniteGradient(has_finite_inputs=are_finite(given), **facts(name, given, kind, dtype), **more)


def facts(name: str, given: tuple[TensorFacts | float, ...], kind: str, dtype: str) -> dict[str, Any]:
    call = Call(0, None, "function", f"torch.{name}", site=SITE, args=given)
    operands = tuple(TensorOperand(item) for item in given if isinstance(item, TensorFacts))
    output = tensor(dtype, inf=3 if kind == "inf" else 0, nan=3 if kind == "nan" else 0)
    return {"kind": kind, "call": call, "site": SITE, "output": output, "index": (0, 2), "operands": operands}


def are_finite(given: tuple[TensorFacts | float, ...]) -> bool:
    stats = [item.stats for item in given if isinstance(item, TensorFacts) and item.stats is not None]
    return not any(each.inf or each.nan for each in stats) and not any(item in (INF, -INF) for item in given)


def made_by(name: str) -> Call:
    return Call(1, None, "function", f"torch.{name}", site=Site("/home/me/model.py", 3, "forward"))


def test_a_finding_shows_place_output_inputs_reason_and_reach() -> None:
    made = made_by("nn.functional.softmax")
    found = replace(
        finding("log", tensor(zeros=3)),
        operands=(TensorOperand(tensor(zeros=3), "p", made, made),),
        modules=("GPT", "h.0 (Block)"),
        reach="loss",
        consumer=made_by("Tensor.backward"),
    )
    assert text(found) == (
        "train.py:12: torch.log produced Inf from finite inputs\n"
        "    value = torch.log(p)\n"
        "  in    GPT ▸ h.0 (Block)\n"
        "  out   f32[3, 4]  3 Inf of 12, the first at [0, 2]\n"
        "  from  p  f32[3, 4]  0 … 2.1, 3 zeros   made by F.softmax at model.py:3\n"
        "  why   the logarithm of 0 is -inf: use log_softmax on the scores instead of the logarithm of softmax\n"
        "  then  it reached the loss: .backward at model.py:3"
    )


def test_a_gradient_names_its_node() -> None:
    found = gradient("sqrt", tensor(zeros=1), node="SqrtBackward0")
    assert text(found).startswith("train.py:12: the gradient of torch.sqrt (SqrtBackward0) produced Inf from finite")


REASONS = [
    (
        finding("log", tensor(min=-1.0), kind="nan"),
        "the logarithm of a number below 0 is NaN: the smallest input is -1",
    ),
    (finding("log", tensor(min=1e-3)), ""),
    (finding("log", tensor(zeros=1)), "the logarithm of 0 is -inf: clamp it first; for a probability, use log_softmax"),
    (finding("log_", tensor(inf=1)), "the logarithm of 0 is -inf"),
    (finding("log1p", tensor(min=-1.0)), "log1p(-1) is the logarithm of 0, which is -inf"),
    (finding("log1p", tensor(min=-3.0), kind="nan"), "log1p of a number below -1 is NaN: the smallest input is -3"),
    (finding("logit", tensor(zeros=1)), "the logit of 0 and of 1 is infinite"),
    (finding("logit", tensor(max=2.0), kind="nan"), "the logit of a number outside 0 … 1 is NaN"),
    (finding("div", tensor(), tensor(zeros=2)), "division by zero: 2 of 12 divisors are 0"),
    (finding("Tensor.__truediv__", tensor(), tensor(zeros=2)), "division by zero"),
    (finding("div", tensor(), 0), "division by zero: the divisor is 0"),
    (finding("Tensor.__rdiv__", tensor(zeros=1), 1), "division by zero: 1 of 12"),
    (finding("div", tensor(zeros=1, max=1e30), 1e-20), "f32 ends at 3.4028e+38, and 1e+30 is divided by 1e-20"),
    (finding("div", tensor(max=1e30), tensor(min=1e-20)), "and 1e+30 is divided by 1e-20"),
    (
        finding("div", tensor(max=1e30), tensor(min=-1.0)),
        "overflow: f32 ends at 3.4028e+38, and the quotient is larger",
    ),
    (finding("div", tensor(max=1.0), tensor(min=0.5)), ""),
    (finding("reciprocal", tensor("f16", min=1e-5), dtype="f16"), "f16 ends at 65504, and 1 is divided by 1e-05"),
    (finding("rsqrt", tensor(zeros=3)), "division by zero: 3 of 12"),
    (finding("sqrt", tensor(min=-4.0), kind="nan"), "the root of a negative number is NaN: the smallest input is -4"),
    (finding("pow", tensor(min=-4.0), 0.5, kind="nan"), "a fractional power of a negative number is NaN"),
    (finding("pow", tensor(min=-1.0, zeros=1), -1), "0 to a negative power"),
    (finding("Tensor.__rpow__", tensor(min=-1.0), 0), "0 to a negative power"),
    (finding("pow", tensor(min=-1e30), 2), "f32 ends at 3.4028e+38, and the largest absolute input is 1e+30"),
    (finding("Tensor.__rpow__", tensor(max=999.0), 2.0), "overflow: f32 ends"),
    (finding("pow", tensor(max=10.0), 2), ""),
    (finding("Tensor.mul", tensor(zeros=2), -INF, kind="nan"), "0 * inf is NaN"),
    (finding("mul", tensor(inf=1), tensor(zeros=1), kind="nan"), "0 * inf is NaN"),
    (finding("Tensor.__mul__", tensor(max=1.0), 1e39), "overflow: f32 ends"),
    (finding("mul", tensor(max=1.0), 2.0), ""),
    (finding("add", tensor(max=3e38), tensor(max=3e38)), "the largest absolute input is 3e+38"),
    (finding("exp", tensor(max=290.0)), "f32 ends at 3.4028e+38, which is exp(88.7), and the largest input is 290"),
    (
        finding("exp", tensor("f16", min=-60000.0, max=838.0), dtype="f16"),
        "which is exp(11.1), and the largest input is 838",
    ),
    (finding("exp", tensor(min=-1000.0, max=1.0)), ""),
    (finding("exp2", tensor(max=290.0)), "which is exp2(128.0), and the largest input is 290"),
    (finding("sinh", tensor(min=-99.0)), "the largest absolute input is 99"),
    (
        finding("matmul", tensor("f16", max=235.0), dtype="f16"),
        "f16 ends at 65504, and the largest absolute input is 235",
    ),
    (finding("matmul", tensor("f16", max=1.0), dtype="f16"), ""),
    (finding("sum", tensor("f16", min=-60000.0), dtype="f16"), "the largest absolute input is 60000"),
    (finding("half", tensor(max=70000.5), dtype="f16"), "the largest absolute input is 7e+04"),
    (finding("erfinv", tensor(max=1.0)), ""),
    (finding("atanh", tensor("f16", max=1.0, count=10**6), dtype="f16"), ""),
    (finding("softmax", tensor(inf=1), kind="nan", has_positive_infinity=True), "a score is +inf"),
    (finding("softmax", tensor(inf=4), kind="nan"), "every score of a row is -inf"),
    (finding("nn.functional.scaled_dot_product_attention", tensor(inf=4), kind="nan"), "or a score overflows"),
    (finding("std", tensor(count=1), kind="nan"), "the deviation of a single number"),
    (finding("mean", tensor(count=0), kind="nan"), "the input is empty"),
    (finding("logsumexp", tensor(min=-1.0), kind="nan"), ""),
    (finding("norm", tensor(min=-1.0), kind="nan"), ""),
    (finding("sin", tensor(), kind="nan"), ""),
    (NonFiniteResult(kind="nan"), ""),
    (NonFiniteInput(), ""),
]
GRADIENTS = [
    (gradient("sqrt", tensor(zeros=1), node="SqrtBackward0"), "the gradient of a root at 0 is infinite"),
    (gradient("pow", tensor(zeros=1), 0.5, node="PowBackward0"), "the gradient of a fractional power at 0"),
    (gradient("pow", tensor(zeros=1, max=1e20), 3, node="PowBackward0"), "and the gradient is larger"),
    (gradient("acos", tensor(), node="AcosBackward0"), "the gradient of acos"),
    (gradient("div", tensor(), tensor(zeros=1), node="DivBackward0"), "infinite where the divisor is 0"),
    (
        gradient("div", tensor(zeros=1), 1e-20, node="DivBackward0"),
        "overflow: f32 ends at 3.4028e+38, and the gradient",
    ),
    (gradient("div", node="DivBackward0"), ""),
    (gradient("log", tensor(zeros=1), node="LogBackward0"), "the gradient of the logarithm at 0 is infinite"),
    (gradient("std", tensor(zeros=1), node="StdBackward0"), ""),
    (gradient("std", tensor(std=0.0), node="StdBackward0"), "the gradient of a deviation at 0"),
    (
        gradient("matmul", tensor("f16"), dtype="f16", node="MmBackward0"),
        "overflow: f16 ends at 65504, and the gradient",
    ),
    (gradient("erfinv", tensor(), node="ErfinvBackward0"), ""),
]


@pytest.mark.parametrize(("found", "words"), [*REASONS, *GRADIENTS])
def test_a_reason_is_given_where_the_numbers_prove_it(found: Finding, words: str) -> None:
    assert (words in hint(found)) if words else hint(found) == ""


@pytest.mark.parametrize(
    ("maker", "advice"),
    [("softmax", "use log_softmax"), ("Tensor.sigmoid", "use logsigmoid, or binary_cross"), ("relu", "clamp it first")],
)
def test_the_advice_for_a_logarithm_depends_on_the_producer_of_its_input(maker: str, advice: str) -> None:
    operand = TensorOperand(tensor(zeros=3), "p", made_by("Tensor.__getitem__"), made_by(maker))
    found = replace(finding("log", tensor(zeros=3)), operands=(operand,))
    assert f"the logarithm of 0 is -inf: {advice}" in hint(found)


@pytest.mark.parametrize(
    ("reached", "words"),
    [
        ("nan", ".item at model.py:3 produced NaN from it"),
        ("gradient", "it reached the gradient of .item at model.py:3"),
        ("number", "it left torch: .item at model.py:3"),
        ("unused", "it is in a result that no call used"),
    ],
)
def test_a_finding_names_what_an_infinity_reached(reached: str, words: str) -> None:
    found = replace(finding("log", tensor(zeros=3)), reach=reached, consumer=made_by("Tensor.item"))
    assert text(found).endswith(f"  then  {words}")


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (MissingGradients(paths=("a",), passes=1), "1 parameter got no gradient in the backward pass: a"),
        (VanishingGradients(paths=("a",), share=2e-7), "vanishes (never more than 2e-07 of the largest): a"),
        (VanishingGradients(paths=("a",), share=0.0), "vanishes (always exactly zero): a"),
        (
            ExplodingGradients(paths=("a",), first=1.0, largest=1e9),
            "the norm of all gradients reached 1e+09 (1 at first): a",
        ),
        (StuckParameters(paths=("a",), steps=9, rate=0.0), "(the learning rate is 0): a"),
        (StuckParameters(paths=("a",), steps=9, rate=1e-9), "(the updates are too small for them at lr=1e-09): a"),
        (OptimizerGap(paths=("a", "b"), steps=9), "2 parameters did not change in 9 optimizer steps (no optimizer"),
        (FrozenParameters(paths=("a",), steps=9), "(frozen: requires_grad is False): a"),
        (FrozenParameters(paths=("a",), steps=9, is_fine_tuning=True), "(frozen from the beginning: requires_grad"),
        (StaleGradients(optimizer="SGD", steps=5, stale_steps=4), "4 of 5 optimizer steps"),
        (
            NonFiniteUpdate(optimizer="SGD", rate=0.1, count=3, path="head.weight"),
            "the step of SGD with lr=0.1 wrote NaN or Inf into head.weight and 2 more",
        ),
    ],
)
def test_findings_about_training_say_what_is_wrong(found: Finding, words: str) -> None:
    assert words in text(found) and found.text == text(found)


def test_many_parameters_are_cut() -> None:
    assert text(MissingGradients(paths=tuple(f"h.{i}" for i in range(20)), passes=2)).endswith("h.7, … 12 more")


def test_a_finding_is_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        finding("log").kind = "nan"


@pytest.mark.parametrize(
    ("found", "severity"),
    [
        (finding("log"), "error"),
        (finding("log", is_metric=True), "warning"),
        (NonFiniteInput(), "warning"),
        (FrozenParameters(paths=("a",), steps=2), "warning"),
        (FrozenParameters(paths=("a",), steps=2, is_fine_tuning=True), "info"),
    ],
)
def test_the_severity_decides_whether_a_guard_raises(found: Finding, severity: str) -> None:
    assert found.severity == severity


def test_str_of_a_finding_is_its_text() -> None:
    assert repr(finding("log")) == "<NonFiniteResult inf torch.log at /home/me/train.py:12>"


def test_only_inputs_that_are_known_to_be_finite_are_called_so() -> None:
    assert "produced NaN\n" in text(finding("mul", tensor(zeros=2), -INF, kind="nan"))
    assert "produced NaN\n" in text(gradient("mul", tensor(nan=1), kind="nan", node="MulBackward0"))
    spoiled = gradient("pow", tensor(zeros=1), 2, kind="nan", node="PowBackward0", has_infinite_gradient=True)
    assert "produced NaN from a gradient that contains Inf\n" in text(spoiled) and "0 * inf is NaN" in text(spoiled)
    assert hint(finding("pow", tensor(inf=1), 2)) == ""


def test_unchecked_nonfinite_numbers_name_the_call_that_received_them() -> None:
    bad = facts("full", (), "nan", "f32") | {"kind": "incoming"}
    heads = {
        NonFiniteLiteral(**bad): "torch.full introduced a number that is not finite, and the loss contains NaN",
        NonFiniteLoss(**bad): "torch.full got a loss that contains NaN; the call that produced it was not checked",
        NonFiniteInput(**bad | {"operands": (TensorOperand(tensor(nan=3), "x"),)}): (
            "torch.full got x, which already contained NaN"
        ),
        NonFiniteInput(**bad | {"operands": tuple(TensorOperand(tensor(nan=3), name) for name in ("w", "b"))}): (
            "torch.full got w and b, which already contained NaN"
        ),
        UncheckedGradient(node="FullBackward0", **bad): (
            "the gradient of torch.full (FullBackward0) got a gradient that contains NaN; "
            "the call that produced it was not checked"
        ),
        ConsequentGradient(node="FullBackward0", **bad): (
            "the gradient of torch.full (FullBackward0) contains NaN, "
            "because the call itself got or produced a number that is not finite"
        ),
    }
    for found, head in heads.items():
        assert text(found).splitlines()[0] == f"train.py:12: {head}"
    left = LeftoverGradient(path="head.weight", output=tensor(nan=1))
    assert text(left) == "the gradient of head.weight contains NaN; the call that produced it was not checked"


def test_a_hook_is_named_and_has_no_reason() -> None:
    hooked = NonFiniteFromHook(hook="clip", **facts("sqrt", (tensor(zeros=1),), "inf", "f32"))
    assert "a hook (clip) on the gradient of torch.sqrt produced Inf from finite inputs" in text(hooked)
    assert hint(hooked) == ""


def test_missing_gradients_name_the_call_that_cuts_the_graph() -> None:
    cut = made_by("Tensor.detach")
    assert text(MissingGradients(call=cut, site=cut.site, paths=("a", "b"), passes=5, is_every=True)) == (
        "none of 2 parameters got a gradient in 5 backward passes: a, b\n"
        "  cut   model.py:3: .detach takes a tensor that requires a gradient; its result does not"
    )
