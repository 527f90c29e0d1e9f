"""The advice on small programs that fail: the line, the place, the certainty."""

from __future__ import annotations

import pytest
from tests.failing import Program, failure, recorded

import insitu
from insitu.trace.advice import Advice, Certainty
from insitu.trace.explain.explanation import Explanation
from insitu.trace.explain.explanation_data import explanation_of, plain_explanation


def advice_on(program: Program, text: str) -> Advice:
    """The advice on the error that `run` raises while it is recorded."""
    found = insitu.explain(recorded(program(f"import numpy as np\nimport torch\nfrom torch import nn\n{text}")["run"]))
    assert found.advice is not None
    return found.advice


# What fails, the line that is advised, and the certainty.
ADVISED = [
    ("x = torch.ones(2, 3).t()\ny = x.view(6)", "y = x.reshape(6)", "certain"),
    ("x = torch.ones(2, requires_grad=True)\ny = x.numpy()", "y = x.detach().numpy()", "certain"),
    ("x = torch.ones(2, dtype=torch.long)\ny = x.mean() + 1", "y = x.float().mean() + 1", "certain"),
    ("q = torch.ones(2, 3)\ny = q @ q", "y = q @ q.transpose(-2, -1)", "likely"),
    ("q = np.ones((2, 3))\ny = np.matmul(q, q)", None, None),
    ("x = torch.ones(2, 3)\ny = nn.Linear(4, 5)(x)", "y = nn.Linear(3, 5)(x)", "likely"),
    ("n = 4\nlayer = nn.Linear(n, 5)\ny = layer(torch.ones(2, 8))", "layer = nn.Linear(2 * n, 5)", "likely"),
    ("x = torch.ones(2, 3, requires_grad=True)\nx.backward()", "x.mean().backward()", "likely"),
    ("w = torch.ones(2, requires_grad=True)\nw += 1", "with torch.no_grad(): w += 1", "likely"),
    ("x = torch.ones(3)\nif x > 2: pass", "if (x > 2).any(): pass", "possible"),
    ("names = {'weight': 1}\ny = names['wieght']", "y = names['weight']", "likely"),
    ("weight = 1\ny = wieght + 1", "y = weight + 1", "likely"),
    ("a, b = (1, 2, 3)", "a, b, _ = (1, 2, 3)", "likely"),
    ("x = torch.ones(2)\nnn.functional.binary_cross_entropy(x * 2, x)", None, "likely"),
    ("x = torch.linalg.inv(torch.ones(2, 3))", "x = torch.linalg.pinv(torch.ones(2, 3))", "likely"),
    ("y = torch.ones(3, 4)[torch.tensor([1.0])]", None, "likely"),
    ("x = torch.ones(2, 3)\ny = x.sum(dim=2)", "y = x.sum(dim=-1)", "possible"),
]


@pytest.mark.parametrize(("body", "code", "certainty"), ADVISED)
def test_the_advised_line_has_the_names_of_the_program(
    program: Program, body: str, code: str | None, certainty: str | None
) -> None:
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    advice = advice_on(program, f"def run():\n{lines}")
    if code is not None:
        assert advice.fix is not None and advice.fix.code == code
    if certainty is not None:
        assert advice.certainty is Certainty(certainty)


def test_the_fix_of_a_size_is_at_the_line_that_it_comes_from(program: Program) -> None:
    advice = advice_on(
        program,
        """
def load(wave):
    return nn.functional.pad(wave, (0, 1))

def run():
    wave = load(torch.ones(8, 50)).relu()
    return wave.unsqueeze(1) - torch.ones(8, 1, 50)
""",
    )
    assert advice.fix is not None
    assert (advice.fix.line, advice.fix.code) == (6, "return wave")
    assert "50" in advice.doubt


TWICE = [
    ("x = torch.ones(2, requires_grad=True)", "np.stack([x.numpy(), x.numpy()])", ".detach().numpy()"),
    ("x = torch.ones(2, 3).t()", "x.view(6) + x.view(6)", "x.reshape(6)"),
    ("x = torch.ones(2).long()", "x.mean() + x.mean()", "x.float().mean()"),
]


@pytest.mark.parametrize(("value", "result", "twice"), TWICE)
def test_a_certain_fix_changes_each_of_several_expressions(
    program: Program, value: str, result: str, twice: str
) -> None:
    advice = advice_on(program, f"def run():\n    {value}\n    return {result}")
    assert advice.certainty is Certainty.CERTAIN
    assert advice.fix is not None and advice.fix.code.count(twice) == 2


def test_a_layer_that_a_loop_makes_is_only_possibly_at_fault(program: Program) -> None:
    advice = advice_on(
        program,
        """
def run():
    net = nn.Sequential(*[nn.Linear(4, 4) for _ in range(2)])
    return net(torch.ones(2, 6))
""",
    )
    assert advice.certainty is Certainty.POSSIBLE and "several layers" in advice.doubt


def test_a_layer_is_found_in_its_class_without_a_recording(program: Program) -> None:
    run = program("""
        import torch
        from torch import nn
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(12, 4)
            def forward(self, x):
                return self.fc(x)
        net = Net()
        def run():
            return net(torch.ones(8, 10))
    """)["run"]
    advice = insitu.explain(failure(run)).advice
    assert advice is not None and advice.fix is not None
    assert (advice.fix.line, advice.fix.code) == (7, "self.fc = nn.Linear(10, 4)")


def test_another_name_of_torch_is_used(program: Program) -> None:
    run = program("""
        import torch as th
        def run():
            w = th.ones(2, requires_grad=True)
            w += 1
    """)["run"]
    advice = insitu.explain(recorded(run)).advice
    assert advice is not None and advice.fix is not None
    assert advice.fix.code == "with th.no_grad(): w += 1"


def test_an_unknown_fix_names_the_line_to_look_at(program: Program) -> None:
    advice = advice_on(
        program,
        """
def run():
    a = torch.ones(2, 3)
    b = torch.ones(2, 5)
    return a + b
""",
    )
    assert advice.certainty is Certainty.UNKNOWN and advice.fix is None and advice.look_at is not None


def test_an_error_that_the_program_raises_itself_has_no_advice(program: Program) -> None:
    run = program("""
        import torch
        def run():
            torch.ones(2)
            raise ValueError("wrong file")
    """)["run"]
    assert insitu.explain(recorded(run)).advice is None


def test_a_line_whose_source_is_missing_has_no_code(program: Program) -> None:
    scope: dict[str, object] = {}
    exec("import torch\ndef run():\n    torch.ones(2, 3).t().view(6)", scope)
    advice = insitu.explain(recorded(scope["run"])).advice  # type: ignore[arg-type]
    assert advice is not None and advice.fix is None


def test_an_advice_is_stored_with_its_explanation(program: Program) -> None:
    run = program("""
        import torch
        def run():
            return torch.ones(2, 3).t().view(6)
    """)["run"]
    found = insitu.explain(recorded(run))
    again = explanation_of(plain_explanation(found))
    assert isinstance(again, Explanation) and again.advice == found.advice is not None


def test_a_squeeze_that_removed_the_batch_becomes_a_flatten(program: Program) -> None:
    advice = advice_on(
        program,
        """
def run():
    seen = torch.ones(1, 8, 1, 1).squeeze()
    known = torch.ones(1, 8)
    return torch.cat([seen, known], dim=-1)
""",
    )
    assert advice.fix is not None and advice.fix.code == "seen = torch.ones(1, 8, 1, 1).flatten(1)"


def test_a_tensor_that_a_block_put_on_meta_is_made_on_the_cpu(program: Program) -> None:
    advice = advice_on(
        program,
        """
def run():
    with torch.device("meta"):
        rates = torch.linspace(0, 1, 4)
    return torch.ones(4) * rates
""",
    )
    assert advice.fix is not None and advice.fix.code == 'rates = torch.linspace(0, 1, 4, device="cpu")'
