"""What a guard found, in words, from findings made by hand."""

from __future__ import annotations

from typing import Any

import pytest

from insitu.trace.event import Call, Site, Stats, TensorFacts
from insitu.trace.finding import Finding, Operand
from insitu.view.finding import text
from insitu.view.hint import hint

INF = float("inf")
SITE = Site("/home/me/train.py", 12, "loss", "    value = torch.log(p)", 12, 24)


def tensor(dtype: str = "f32", **stats: Any) -> TensorFacts:
    facts = TensorFacts(0, (3, 4), dtype, "cpu")
    known = {"count": 12, "min": 0.0, "max": 2.1, "mean": 1.0, "std": 1.0, "nan": 0, "inf": 0, "zeros": 0, **stats}
    facts.stats = Stats(**known)
    return facts


def finding(
    name: str,
    *given: TensorFacts | float,
    kind: Any = "inf",
    node: str | None = None,
    dtype: str = "f32",
    positive: bool = False,
) -> Finding:
    call = Call(0, None, "function", f"torch.{name}", site=SITE, args=given)
    operands = [item for item in given if isinstance(item, TensorFacts)]
    output = tensor(dtype, inf=3 if kind == "inf" else 0, nan=3 if kind == "nan" else 0)
    phase: Any = "backward" if node else "forward"
    is_finite = all(not (item.stats and (item.stats.inf or item.stats.nan)) for item in operands)
    details = {"positive": positive, "finite": is_finite and not any(item in (INF, -INF) for item in given)}
    return Finding(kind, phase, "", call, SITE, output, (0, 2), tuple(map(Operand, operands)), node, details)


def made_by(name: str) -> Call:
    return Call(1, None, "function", f"torch.{name}", site=Site("/home/me/model.py", 3, "forward"))


def test_all_of_it() -> None:
    made = made_by("nn.functional.softmax")
    found = finding("log", tensor(zeros=3))
    found.operands = (Operand(tensor(zeros=3), "p", made, made),)
    found.details |= {"modules": ["GPT", "h.0 (Block)"], "reached": "loss", "user": made_by("Tensor.backward")}
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
    found = finding("sqrt", tensor(zeros=1), node="SqrtBackward0")
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
    (finding("softmax", tensor(inf=1), kind="nan", positive=True), "a score is +inf"),
    (finding("softmax", tensor(inf=4), kind="nan"), "every score of a row is -inf"),
    (finding("nn.functional.scaled_dot_product_attention", tensor(inf=4), kind="nan"), "or a score overflows"),
    (finding("std", tensor(count=1), kind="nan"), "the deviation of a single number"),
    (finding("mean", tensor(count=0), kind="nan"), "the input is empty"),
    (finding("logsumexp", tensor(min=-1.0), kind="nan"), ""),
    (finding("norm", tensor(min=-1.0), kind="nan"), ""),
    (finding("sin", tensor(), kind="nan"), ""),
    (Finding("nan"), ""),
]
GRADIENTS = [
    (finding("sqrt", tensor(zeros=1), node="SqrtBackward0"), "the gradient of a root at 0 is infinite"),
    (finding("pow", tensor(zeros=1), 0.5, node="PowBackward0"), "the gradient of a fractional power at 0"),
    (finding("pow", tensor(zeros=1, max=1e20), 3, node="PowBackward0"), "and the gradient is larger"),
    (finding("acos", tensor(), node="AcosBackward0"), "the gradient of acos"),
    (finding("div", tensor(), tensor(zeros=1), node="DivBackward0"), "infinite where the divisor is 0"),
    (finding("div", tensor(zeros=1), 1e-20, node="DivBackward0"), "overflow: f32 ends at 3.4028e+38, and the gradient"),
    (finding("div", node="DivBackward0"), ""),
    (finding("log", tensor(zeros=1), node="LogBackward0"), "the gradient of the logarithm at 0 is infinite"),
    (finding("std", tensor(zeros=1), node="StdBackward0"), ""),
    (finding("std", tensor(std=0.0), node="StdBackward0"), "the gradient of a deviation at 0"),
    (
        finding("matmul", tensor("f16"), dtype="f16", node="MmBackward0"),
        "overflow: f16 ends at 65504, and the gradient",
    ),
    (finding("erfinv", tensor(), node="ErfinvBackward0"), ""),
]


@pytest.mark.parametrize(("found", "words"), [*REASONS, *GRADIENTS])
def test_the_reason_is_told_where_the_numbers_prove_it(found: Finding, words: str) -> None:
    assert (words in hint(found)) if words else hint(found) == ""


@pytest.mark.parametrize(
    ("maker", "advice"),
    [("softmax", "use log_softmax"), ("Tensor.sigmoid", "use logsigmoid, or binary_cross"), ("relu", "clamp it first")],
)
def test_the_advice_for_a_logarithm_depends_on_what_made_its_input(maker: str, advice: str) -> None:
    found = finding("log", tensor(zeros=3))
    found.operands = (Operand(tensor(zeros=3), "p", made_by("Tensor.__getitem__"), made_by(maker)),)
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
def test_what_an_infinity_reached_is_said(reached: str, words: str) -> None:
    found = finding("log", tensor(zeros=3))
    found.details |= {"reached": reached, "user": made_by("Tensor.item")}
    assert text(found).endswith(f"  then  {words}")


@pytest.mark.parametrize(
    ("kind", "details", "words"),
    [
        ("none", {"paths": ["a"], "passes": 1}, "1 parameter got no gradient in the backward pass: a"),
        ("vanishing", {"paths": ["a"], "share": 2e-7}, "vanishes (never more than 2e-07 of the largest): a"),
        ("vanishing", {"paths": ["a"], "share": 0.0}, "vanishes (always exactly zero): a"),
        (
            "exploding",
            {"paths": ["a"], "first": 1.0, "largest": 1e9},
            "the norm of all gradients reached 1e+09 (1 at first): a",
        ),
        ("unchanged", {"paths": ["a"], "reason": "rate", "steps": 9, "rate": 0.0}, "(the learning rate is 0): a"),
        ("unchanged", {"paths": ["a"], "reason": "left out", "steps": 9, "rate": 1.0}, "no optimizer that stepped has"),
        ("accumulated", {"steps": 5, "times": 4}, "4 of 5 optimizer steps"),
    ],
)
def test_the_health_of_a_training(kind: Any, details: dict[str, Any], words: str) -> None:
    assert words in text(Finding(kind, details=details))


def test_many_parameters_are_cut() -> None:
    said = text(Finding("none", details={"paths": [f"h.{i}" for i in range(20)], "passes": 2}))
    assert said.endswith("h.7, … 12 more")


def test_a_finding_shows_itself() -> None:
    assert repr(finding("log")) == "<Finding inf torch.log at /home/me/train.py:12>"


def test_only_inputs_that_are_known_to_be_finite_are_called_so() -> None:
    assert "produced NaN\n" in text(finding("mul", tensor(zeros=2), -INF, kind="nan"))
    assert "produced NaN\n" in text(finding("mul", tensor(nan=1), kind="nan", node="MulBackward0"))
    spoiled = finding("pow", tensor(zeros=1), 2, kind="nan", node="PowBackward0")
    spoiled.details["entered"] = True
    assert "produced NaN from a gradient that contains Inf\n" in text(spoiled) and "0 * inf is NaN" in text(spoiled)
    assert hint(finding("pow", tensor(inf=1), 2)) == ""


def test_who_introduced_it_or_spoiled_a_gradient_is_said() -> None:
    found = finding("full", kind="nan")
    found.kind, found.details = "given", {"loss": True, "entry": True}
    introduced = "train.py:12: torch.full introduced a number that is not finite, and the loss contains NaN"
    assert text(found).splitlines()[0] == introduced
    found.details = {"loss": True, "entry": False}
    assert "got a loss that contains NaN; the call that produced it was not checked" in text(found)
    found.call, found.site, found.path, found.details = None, None, "head.weight", {"grad": True}
    assert text(found) == "the gradient of head.weight contains NaN; the call that produced it was not checked"
    hooked = finding("sqrt", tensor(zeros=1))
    hooked.details = {"hook": "clip", "finite": True}
    assert "a hook (clip) on the gradient of torch.sqrt produced Inf from finite inputs" in text(hooked)
    assert hint(hooked) == ""


def test_where_the_graph_is_cut_is_said() -> None:
    details = {"paths": ["a", "b"], "passes": 5, "all": True}
    cut = made_by("Tensor.detach")
    assert text(Finding("none", call=cut, site=cut.site, details=details)) == (
        "none of 2 parameters got a gradient in 5 backward passes: a, b\n"
        "  cut   model.py:3: .detach takes a tensor that requires a gradient; its result does not"
    )
