"""The advice on what a guard finds."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.failing import Program, names_of

import insitu
from insitu.trace.advice import Advice
from insitu.trace.advice_of_findings import advice_of
from insitu.trace.findings import FrozenParameters, NonFiniteResult, StaleGradients


def advice_on(program: Program, line: str) -> Advice | None:
    """The advice on the first finding in a function with this line."""
    run = program(f"""
        import torch
        def run(x, y):
            {line}
            return z
    """)["run"]
    with insitu.guard(action="record") as guard:
        x = torch.tensor([0.0, 1.0, 4.0], requires_grad=True)
        run(x, torch.tensor([0.0, 1.0, 2.0])).sum().backward()
    return advice_of(guard.findings[0])


ADVISED = [
    ("z = torch.log(x)", "z = torch.log(x.clamp_min(1e-8))"),
    ("z = x.log() + 1", "z = x.clamp_min(1e-8).log() + 1"),
    ("z = (x * 2).sqrt()", "z = (x * 2 + 1e-8).sqrt()"),
    ("z = torch.sqrt(x * 2)", "z = torch.sqrt(x * 2 + 1e-8)"),
    ("z = x / y", "z = x / y.clamp_min(1e-8)"),
    ("z = x / (y - 1)", "z = x / (y - 1 + 1e-8)"),
    ("z = torch.logit(x / 4)", "z = torch.logit(x / 4, eps=1e-6)"),
    ("z = torch.acos(x / 4)", "z = torch.acos((x / 4).clamp(-1 + 1e-6, 1 - 1e-6))"),
]


@pytest.mark.parametrize(("line", "code"), ADVISED)
def test_the_advised_line_has_the_expression_of_the_program(program: Program, line: str, code: str) -> None:
    advice = advice_on(program, line)
    assert advice is not None and advice.fix is not None
    assert advice.fix.code == code and advice.doubt


def test_the_optimizer_is_named_as_the_program_names_it(program: Program) -> None:
    run = program("""
        import torch
        def run(model):
            sgd = torch.optim.SGD(model.parameters(), 0.1)
            for _ in range(4):
                model(torch.randn(2, 3)).square().sum().backward()
                sgd.step()
    """)["run"]
    model = torch.nn.Linear(3, 1)
    with insitu.guard(model, action="record") as guard:
        run(model)
    (finding,) = (each for each in guard.findings if isinstance(each, StaleGradients))
    advice = advice_of(finding)
    assert advice is not None and advice.fix is not None
    assert (advice.fix.line, advice.fix.action, advice.fix.code) == (6, "before", "sgd.zero_grad()")
    assert finding.text.splitlines()[-2] == "  →     likely fix before model.py:6: sgd.zero_grad()"


def test_a_finding_without_a_source_has_no_advice() -> None:
    assert advice_of(NonFiniteResult(kind="nan")) is None


def test_a_kind_of_finding_without_a_rule_has_no_advice() -> None:
    finding = FrozenParameters(paths=("a",), steps=3)
    assert advice_of(finding) is None and "fix" not in finding.text


STEP = """
        import torch
        from torch import nn
        import torch.nn.functional as F
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer, self.drop = nn.Linear(4, 4), nn.Dropout(0.5)
            def forward(self, x):
                return {forward}
        def run():
            torch.manual_seed(0)
            model = Net()
            sgd = torch.optim.SGD(model.parameters(), 0.01)
            for number in range(16):
                x, y = torch.randn(4, 4), torch.randn(4, 4)
                loss = {loss}
                loss.backward()
                if {when}:
                    sgd.step()
                    sgd.zero_grad()
            {after}
            return model
"""
PLAIN = {"forward": "self.layer(x)", "loss": "F.mse_loss(model(x), y)", "when": "True", "after": "pass"}
SCORES = "F.mse_loss(model(x), y).item()"

STEPS = [
    (
        {"loss": "(model(x)[:, :1] - y[:, 0]).abs().mean()"},
        "loss = (model(x)[:, :1].squeeze(-1) - y[:, 0]).abs().mean()",
    ),
    ({"when": "number % 4 == 3"}, "(loss / 4).backward()"),
    (
        {"forward": "F.dropout(self.layer(x), 0.5)", "after": "model.eval(); model(x)"},
        "return F.dropout(self.layer(x), 0.5, training=self.training)",
    ),
    (
        {"forward": "self.drop(self.layer(x))", "after": f"with torch.no_grad(): {SCORES}"},
        "model.eval()",
    ),
]


@pytest.mark.parametrize(("parts", "code"), STEPS, ids=["pairs", "accumulation", "dropout", "evaluation"])
def test_the_findings_of_steps_end_with_a_fix(program: Program, parts: dict[str, str], code: str) -> None:
    run = program(STEP.format(**PLAIN | parts))["run"]
    with insitu.guard(action="record") as guard:
        model = run()
    assert isinstance(model, torch.nn.Module)  # it is there until the guard ends
    advised = [advice_of(finding) for finding in guard.findings]
    assert [advice.fix.code for advice in advised if advice is not None and advice.fix is not None] == [code]


MISTAKES = [
    ("p = torch.softmax(x, dim=1)", "F.nll_loss(p, y)", "p = torch.log_softmax(x, dim=1)"),
    ("p = x.softmax(1)", "torch.nn.NLLLoss()(p, y)", "p = x.log_softmax(1)"),
    ("p = F.softmax(x, -1)", "F.kl_div(p, torch.ones_like(x) / 3, reduction='batchmean')", "p = F.log_softmax(x, -1)"),
    ("p = F.softmax(x, -1)", "F.cross_entropy(p, y)", "p = x"),
    ("p = F.log_softmax(x, 0)", "F.nll_loss(p, y)", "p = F.log_softmax(x, -1)"),
    ("p = x.log_softmax(0)", "F.nll_loss(p, y)", "p = x.log_softmax(-1)"),
]


@pytest.mark.parametrize(("line", "loss", "code"), MISTAKES)
def test_the_input_of_a_loss_becomes_what_the_loss_takes(program: Program, line: str, loss: str, code: str) -> None:
    run = program(f"""
        import torch
        import torch.nn.functional as F
        def run(x, y):
            {line}
            return {loss}
    """)["run"]
    with insitu.guard(action="record") as guard:
        run(torch.randn(4, 3, requires_grad=True), torch.tensor([0, 1, 2, 0])).backward()
    found = guard.findings[0]
    advice = advice_of(found)
    assert advice is not None and advice.fix is not None and advice.fix.code == code
    assert ("computes them itself" in found.text) is ("cross_entropy" in loss)


@pytest.mark.parametrize(
    ("dtype", "line"),
    [
        (torch.float16, "z = torch.log(x)"),
        (torch.float16, "z = torch.acos(x)"),
        (torch.bfloat16, "z = torch.acos(x)"),
    ],
)
def test_small_numbers_suit_the_dtype(program: Program, tmp_path: Path, dtype: torch.dtype, line: str) -> None:
    text = f"import torch\ndef run(x):\n    {line}\n    return z"
    with insitu.guard(action="record") as guard:
        program(text)["run"](torch.tensor([0.0, 2e-6, 1.0], dtype=dtype, requires_grad=True)).sum().backward()
    advice = advice_of(guard.findings[0])
    assert advice is not None and advice.fix is not None
    x = torch.tensor([0.0, 2e-6, 1.0], dtype=dtype, requires_grad=True)
    names_of(tmp_path, advice.fix.applied(text))["run"](x).sum().backward()
    assert x.grad is not None and x.grad.isfinite().all()
