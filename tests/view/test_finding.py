"""What a guard found, in words, from findings made by hand."""

from __future__ import annotations

from typing import Any

import pytest

from insitu.trace.event import Call, Site, Stats, TensorFacts
from insitu.trace.finding import Finding, Operand
from insitu.view.finding import text
from insitu.view.hint import hint

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
    details = {"positive": positive}
    return Finding(kind, phase, "", call, SITE, output, (0, 2), tuple(map(Operand, operands)), node, details)


def test_all_of_it() -> None:
    made = Call(1, None, "function", "torch.nn.functional.softmax", site=Site("/home/me/model.py", 3, "forward"))
    found = finding("log", tensor(zeros=3))
    found.operands = (Operand(tensor(zeros=3), "p", made),)
    found.details["modules"] = ["GPT", "h.0 (Block)"]
    assert text(found) == (
        "train.py:12: torch.log made Inf of finite numbers\n"
        "    value = torch.log(p)\n"
        "  in   GPT ▸ h.0 (Block)\n"
        "  out  f32[3, 4]  3 Inf of 12, the first at [0, 2]\n"
        "  of   p  f32[3, 4]  0 … 2.1, 3 zeros   made by F.softmax at model.py:3\n"
        "  why  the logarithm of 0 is -inf; clamp it first, or use log_softmax where it is a probability"
    )


def test_a_gradient_names_its_node() -> None:
    found = finding("sqrt", tensor(zeros=1), node="SqrtBackward0")
    assert text(found).startswith("train.py:12: the gradient of torch.sqrt (SqrtBackward0) made Inf of finite numbers")


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (finding("log", tensor(min=-1.0)), "a number below 0 has no logarithm: the least one is -1"),
        (finding("div", tensor(), tensor(zeros=2)), "division by zero: 2 of 12 divisors are 0"),
        (finding("Tensor.__truediv__", tensor(), tensor(zeros=2)), "division by zero"),
        (finding("sqrt", tensor(min=-4.0), kind="nan"), "a negative number has no root"),
        (finding("pow", tensor(min=-4.0), kind="nan"), "no fractional power"),
        (finding("pow", tensor(min=-4.0), 0.5, kind="nan"), "no fractional power"),
        (finding("Tensor.mul", tensor(zeros=2), float("-inf"), kind="nan"), "0 * inf is NaN"),
        (finding("mul", tensor(inf=1), tensor(zeros=1), kind="nan"), "0 * inf is NaN"),
        (finding("log_", tensor(inf=1)), "the logarithm of 0 is -inf"),
        (finding("pow", tensor(min=-1e30), 2), "overflow: f32 ends"),
        (finding("pow", tensor(min=-1.0, zeros=1), -1), "0 to a negative power"),
        (finding("Tensor.__rpow__", tensor(max=999.0), 2.0), "overflow: f32 ends"),
        (finding("Tensor.__rpow__", tensor(min=-1.0), 0), "0 to a negative power"),
        (finding("pow", tensor(zeros=1, max=1e20), 3, node="PowBackward0"), "overflow: f32 ends"),
        (finding("pow", tensor(zeros=1), 0.5, node="PowBackward0"), "the gradient of a fractional power at 0"),
        (finding("div", tensor(zeros=1, max=1e30), 1e-20), "overflow: f32 ends"),
        (finding("div", tensor(zeros=1, max=1e30), tensor(min=1e-20)), "overflow: f32 ends"),
        (finding("div", tensor(), 0), "division by zero: the divisor is 0"),
        (finding("Tensor.__rdiv__", tensor(zeros=1), 1), "division by zero: 1 of 12"),
        (finding("div", tensor(zeros=1, max=1e30), 1e-20, node="DivBackward0"), "overflow"),
        (finding("div", tensor(), tensor(zeros=1), node="DivBackward0"), "the gradient of a quotient at 0"),
        (finding("logsumexp", tensor(min=-1.0), kind="nan"), ""),
        (finding("norm", tensor(min=-1.0), kind="nan"), ""),
        (finding("exp2", tensor(max=290.0)), "f32 ends at 3.4e+38, and the largest"),
        (finding("softmax", tensor(inf=1), kind="nan", positive=True), "a score is +inf"),
        (finding("exp", tensor(max=290.0)), "f32 ends at 3.4e+38, which is exp(88.7), and the largest number"),
        (finding("matmul", tensor("f16", max=235.0), dtype="f16"), "f16 ends at 65504, and the largest number"),
        (finding("softmax", tensor(inf=4), kind="nan"), "every score of a row is -inf"),
        (finding("std", tensor(count=1), kind="nan"), "the deviation of a single number"),
        (finding("mean", tensor(count=0), kind="nan"), "the tensor is empty"),
        (finding("sqrt", tensor(zeros=1), node="SqrtBackward0"), "the gradient of a root at 0 is infinite"),
        (finding("acos", tensor(), node="AcosBackward0"), "the gradient of acos"),
        (finding("sin", tensor(), kind="nan"), ""),
        (finding("erfinv", tensor(max=1.0)), ""),
        (finding("Tensor.__mul__", tensor(max=1.0), 1e39), "overflow: f32 ends"),
        (Finding("nan"), ""),
    ],
)
def test_the_reason_is_told_where_it_is_plain(found: Finding, words: str) -> None:
    assert (words in hint(found)) if words else hint(found) == ""


@pytest.mark.parametrize(
    ("kind", "details", "words"),
    [
        ("none", {"paths": ["a"], "passes": 1}, "no gradient came to 1 parameter in the backward pass: a"),
        ("vanishing", {"paths": ["a"], "share": 2e-7}, "all along less than 2e-07 of the largest: a"),
        ("vanishing", {"paths": ["a"], "share": 0.0}, "all along exactly zero: a"),
        ("exploding", {"paths": ["a"], "first": 1.0, "largest": 1e9}, "to a norm of 1e+09 (it began with 1): a"),
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


def test_only_finite_numbers_are_called_so() -> None:
    assert "made NaN\n" in text(finding("mul", tensor(zeros=2), float("-inf"), kind="nan"))
    assert "made NaN\n" in text(finding("mul", tensor(nan=1), kind="nan", node="MulBackward0"))
    spoiled = finding("pow", tensor(zeros=1), 2, kind="nan", node="PowBackward0")
    spoiled.details["entered"] = True
    assert "made NaN of a gradient that has Inf\n" in text(spoiled) and "0 * inf is NaN" in text(spoiled)
    assert hint(finding("pow", tensor(inf=1), 2)) == ""


def test_who_brought_it_in_or_spoiled_a_gradient_is_said() -> None:
    found = finding("full", kind="nan")
    found.kind, found.details = "given", {"loss": True, "entry": True}
    assert text(found).splitlines()[0] == "train.py:12: torch.full brought in what is not finite: the loss has NaN"
    found.details = {"loss": True, "entry": False}
    assert "got a loss that has NaN already, from what was not checked" in text(found)
    found.call, found.site, found.path, found.details = None, None, "head.weight", {"grad": True}
    assert text(found) == "the gradient of head.weight has NaN, from what was not checked"
    hooked = finding("sqrt", tensor(zeros=1))
    hooked.details = {"hook": "clip"}
    assert "a hook (clip) on the gradient of torch.sqrt made Inf of finite numbers" in text(hooked)
    assert hint(hooked) == ""
