"""Small programs that fail: with the advised line they run; where no line would do, none is advised."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Callable
from importlib.abc import MetaPathFinder, SourceLoader
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from pathlib import Path
from typing import Any

import pytest
from tests.failing import Program, failure, names_of, recorded

import insitu
from insitu.trace.advice import Advice, Certainty

HEAD = "import numpy as np\nimport torch\nimport torch.nn.functional as F\nfrom torch import nn\n"


def advice_on(program: Program, text: str) -> Advice | None:
    return insitu.explain(recorded(program(HEAD + text)["run"])).advice


# Programs, and a part of the line that repairs each.
REPAIRED = {
    "a total that is differentiated": (
        """
w = torch.ones(2, requires_grad=True)
def run():
    total = 0
    for _ in range(3):
        loss = (w * 2).sum()
        total = total + loss.square()
        total.backward()
""",
        "total = total.detach()",
    ),
    "a tensor of a comprehension": (
        """
def run():
    net, memory = nn.Linear(4, 2), []
    for _ in range(4):
        s = torch.randn(1, 4)
        memory.append((s, net(s).max()))
        loss = torch.stack([(net(s).max() - t) ** 2 for s, t in memory]).mean()
        loss.backward()
""",
        "t.detach()",
    ),
    "generator and critic": (
        """
def run():
    G, D = nn.Linear(2, 4), nn.Linear(4, 1)
    g, d = torch.optim.SGD(G.parameters(), 0.1), torch.optim.SGD(D.parameters(), 0.1)
    for _ in range(2):
        fake = G(torch.randn(8, 2))
        d.zero_grad()
        loss = D(torch.randn(8, 4)).mean() - D(fake).mean()
        loss.backward()
        d.step()
        g.zero_grad()
        other = D(fake).mean()
        other.backward()
        g.step()
""",
        "D(fake.detach())",
    ),
    "targets without a dimension": (
        """
def run():
    x, y = torch.randn(16, 1), torch.ones(16)
    return nn.BCEWithLogitsLoss()(x, y)
""",
        "(x, y.unsqueeze(-1))",
    ),
    "the tuple of a recurrent layer": (
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.fc = nn.LSTM(4, 8), nn.Linear(8, 2)
    def forward(self, x):
        h = self.lstm(x)
        return self.fc(h)
def run():
    return Net()(torch.randn(2, 5, 4))
""",
        "self.fc(h[0])",
    ),
    "a mask of floats": (
        """
def run():
    mask = torch.ones(3)
    return torch.randn(3).masked_fill(~mask, 0.0)
""",
        "~mask.bool()",
    ),
    "the state of one layer": (
        """
def run():
    rnn = nn.LSTM(4, 8, num_layers=2)
    h = (torch.zeros(1, 3, 8), torch.zeros(1, 3, 8))
    return rnn(torch.randn(5, 3, 4), h)
""",
        "(torch.zeros(2, 3, 8), torch.zeros(2, 3, 8))",
    ),
    "the state of a full batch": (
        """
BATCH = 8
def run():
    rnn = nn.GRU(4, 8, batch_first=True)
    for x in torch.randn(20, 5, 4).split(BATCH):
        h0 = torch.zeros(1, BATCH, 8)
        rnn(x, h0)
""",
        "torch.zeros(1, x.shape[0], 8)",
    ),
    "a token without a batch": (
        """
def run():
    cls, x = torch.zeros(1, 1, 8), torch.randn(4, 10, 8)
    return torch.cat([cls, x], dim=1)
""",
        "cls.expand(x.shape[0], -1, -1)",
    ),
    "numbers that are joined": (
        """
def run():
    return torch.cat([torch.tensor(r) for r in (1.0, 2.0)])
""",
        "torch.stack(",
    ),
    "a mask without a dimension": (
        """
def run():
    scores, mask = torch.randn(2, 3, 5), torch.ones(2, 5, dtype=torch.bool)
    return scores.masked_fill(~mask, 0.0)
""",
        "(~mask).unsqueeze(-2)",
    ),
    "a normalization of other channels": (
        """
def run():
    net = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(32))
    return net(torch.randn(4, 8))
""",
        "nn.BatchNorm1d(16)",
    ),
    "no constructor of the base class": (
        """
class Net(nn.Module):
    def __init__(self):
        self.fc = nn.Linear(2, 2)
def run():
    return Net()
""",
        "super().__init__()",
    ),
    "labels that the data set counts from one": (
        """
class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, i):
        label = int(i % 4) + 1
        return torch.ones(4), label
def run():
    for x, label in torch.utils.data.DataLoader(Data(), batch_size=8):
        F.cross_entropy(x, label)
""",
        "label = int(i % 4)",
    ),
}


@pytest.mark.parametrize("name", REPAIRED)
def test_the_advised_line_repairs_the_program(program: Program, tmp_path: Path, name: str) -> None:
    text, code = REPAIRED[name]
    advice = advice_on(program, text)
    assert advice is not None and advice.fix is not None and advice.certainty is not Certainty.POSSIBLE
    assert code in advice.fix.code
    names_of(tmp_path, advice.fix.applied((tmp_path / "model.py").read_text("utf-8")))["run"]()


# Programs whose layer has worked, or that no line of code repairs, and the line to look at.
NOT_REPAIRED = {
    "one batch of other features": (
        """
def run():
    net = nn.Linear(4, 8)
    for step in range(3):
        x = torch.randn(2, 4)
        if step == 2:
            x = torch.randn(2, 5)
        net(x)
""",
        11,
    ),
    "one image of other channels": (
        """
def run():
    net = nn.Conv2d(3, 4, 3)
    for channels in (3, 1):
        x = torch.rand(1, channels, 8, 8)
        net(x)
""",
        None,
    ),
    "a block that is used with other sizes": (
        """
class Block(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.c = nn.Linear(i, o)
    def forward(self, x):
        return self.c(x)
def run():
    return nn.Sequential(Block(3, 8), Block(8, 16), Block(8, 32))(torch.randn(2, 3))
""",
        None,
    ),
    "positions that grow": (
        """
def run():
    table, ids = nn.Embedding(4, 2), torch.zeros(1, 3)
    for _ in range(4):
        table(torch.arange(ids.size(1)))
        ids = torch.cat([ids, torch.zeros(1, 1)], 1)
""",
        None,
    ),
}


@pytest.mark.parametrize("name", NOT_REPAIRED)
def test_a_layer_that_has_worked_is_not_rewritten(program: Program, name: str) -> None:
    text, line = NOT_REPAIRED[name]
    advice = advice_on(program, text)
    assert advice is not None and advice.fix is None and advice.look_at is not None
    assert line in (None, advice.look_at.line)


IN_WORDS = {
    "a view that is written to": ("def run():\n    flat = torch.zeros(3, 4).t().view(-1)\n    flat[0] = 5.0", "a copy"),
    "an array that becomes a loss": (
        "w = torch.ones(2, requires_grad=True)\ndef run():\n    return torch.from_numpy(w.numpy() ** 2).mean()",
        "no gradient",
    ),
    "heads that do not divide": (
        "def run(C=48, heads=5):\n    return torch.ones(2, 48).view(2, heads, C // heads)",
        "heads is 5, C is 48",
    ),
    "a late constructor of the base class": (
        "class N(nn.Module):\n    def __init__(self):\n        self.fc = nn.Linear(2, 2)\n        super().__init__()\n"
        "def run():\n    return N()",
        "move super().__init__() from line 8 before line 7",
    ),
}


@pytest.mark.parametrize("name", IN_WORDS)
def test_what_no_line_repairs_is_said_in_words(program: Program, name: str) -> None:
    text, words = IN_WORDS[name]
    advice = advice_on(program, text)
    assert advice is not None and advice.fix is None and words in advice.words


def test_a_tuple_is_not_converted_as_a_whole(program: Program) -> None:
    advice = advice_on(
        program,
        """
def load():
    x, y = np.zeros((3, 4)), np.zeros((3, 1))
    return torch.from_numpy(x), torch.from_numpy(y)
def run():
    x, y = load()
    return nn.Linear(4, 1)(x)
""",
    )
    assert advice is not None and advice.fix is not None
    assert ").float()" not in advice.fix.code.replace("x).float()", "")


def test_a_write_in_place_is_not_blamed_for_values_that_were_there_before(program: Program) -> None:
    explanation = insitu.explain(
        recorded(
            program(
                HEAD
                + """
PAD = -1
def run():
    ids = torch.full((2, 3), PAD)
    ids[0, :2] = torch.tensor([1, 2])
    return nn.Embedding(10, 4)(ids)
"""
            )["run"]
        )
    )
    assert "goes below 0 at model.py:8" not in str(explanation)
    assert explanation.advice is not None and explanation.advice.look_at is not None
    assert explanation.advice.look_at.line != 8


@pytest.mark.parametrize(
    "code", ["{}['a']", "open('no such file')", "import no_such_module", "compile('1 +', '', 'exec')"]
)
def test_errors_that_are_not_about_tensors_have_no_advice(program: Program, code: str) -> None:
    run = program(f"import torch\ndef run():\n    torch.ones(2)\n    {code}")["run"]
    assert insitu.explain(recorded(run)).advice is None


class BrokenLibrary(MetaPathFinder, SourceLoader):
    """Finds the package `broken_vision`, as if it was installed: its import asks torch for a missing operator."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        return spec_from_loader(fullname, self) if fullname == "broken_vision" else None

    def get_filename(self, fullname: str) -> str:
        return str(Path(sysconfig.get_path("purelib"), fullname, "__init__.py"))

    def get_data(self, path: Any) -> bytes:
        return b"import torch\ntorch.library.register_fake('broken_vision::nms')(lambda boxes: boxes)"


@pytest.mark.parametrize("record", [recorded, failure])
@pytest.mark.parametrize(
    "code", ["import broken_vision", "from broken_vision import nms", "box = torch.classes.broken_vision.Box"]
)
def test_error_of_a_library_without_a_tensor_or_a_call_of_the_user_has_no_advice(
    program: Program, monkeypatch: pytest.MonkeyPatch, code: str, record: Callable[..., Exception]
) -> None:
    monkeypatch.setattr(sys, "meta_path", [BrokenLibrary(), *sys.meta_path])
    run = program(f"import torch\ndef run():\n    x = torch.ones(2)\n    {code}")["run"]
    explanation = insitu.explain(record(run))
    assert explanation.error == "RuntimeError" and "broken_vision" in explanation.message
    assert explanation.site is not None and explanation.site.line == 4
    assert explanation.advice is None


def test_error_of_a_library_that_the_user_calls_says_that_no_fix_is_known(program: Program) -> None:
    run = program("import torch\ndef run():\n    torch.library.register_fake('broken_vision::nms')(print)")["run"]
    assert insitu.explain(failure(run)).advice == Advice(Certainty.UNKNOWN)


def test_without_a_recording_a_forgotten_constructor_is_explained(program: Program) -> None:
    run = program(HEAD + REPAIRED["no constructor of the base class"][0])["run"]
    advice = insitu.explain(failure(run)).advice
    assert advice is not None and advice.certainty is Certainty.CERTAIN
