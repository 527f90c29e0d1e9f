"""The tree of a whole program: its lines, its functions, its loops, and what libraries do for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.view.programs import recorded, rows

MODEL = """
    from torch import nn
    from torch.nn import functional as F

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 2)

        def forward(self, x):
            return self.fc(x)
"""


def tree(folder: Path, text: str, **options: Any) -> list[str]:
    return rows(recorded(folder, text), **options)


# loops


def test_slice_in_what_a_loop_goes_through_is_shown_whole(tmp_path: Path) -> None:
    program = """
        x = torch.ones(2, 3)
        for row in list(x[:1].repeat(2, 1)):
            row.sum()
            row.exp()
    """
    assert tree(tmp_path, program)[1] == "list(x[:1].repeat(2, 1))  3 calls"


def test_loop_is_named_by_its_line_although_literals_differ(tmp_path: Path) -> None:
    program = """
        data = torch.randn(8, 3)
        for i in range(6):
            x = data[i]
            x = x * i
    """
    assert tree(tmp_path, program) == ["torch.randn(8, 3)", "for i in range(6):  × 6", "├─ […]", "└─ * …"]


def test_growing_shapes_are_ranges(tmp_path: Path) -> None:
    program = """
        x = torch.zeros(1, 5)
        for _ in range(40):
            step = x[:, -1:]
            x = torch.cat((x, step), dim=1)
    """
    trace = recorded(tmp_path, program)
    assert rows(trace)[1] == "for _ in range(40):  × 40"
    assert "f32[1, 6→45]" in str(trace)


def test_calls_in_some_passes_say_in_how_many(tmp_path: Path) -> None:
    program = """
        x = torch.zeros(3)
        for i in range(9):
            x = x + 1
            if i % 3 == 0:
                x.sum()
            x = x * 2
    """
    assert tree(tmp_path, program)[1:] == ["for i in range(9):  × 9", "├─ + 1", "├─ .sum  in 3 of 9", "└─ * 2"]


def test_branches_are_different_passes(tmp_path: Path) -> None:
    program = """
        x = torch.zeros(3)
        for i in range(10):
            if i % 2:
                x = x.sin()
                continue
            x = x.cos()
    """
    assert tree(tmp_path, program)[1:] == ["for i in range(10):  × 10", "├─ .sin  in 5 of 10", "└─ .cos  in 5 of 10"]


def test_loop_of_one_call_is_that_call(tmp_path: Path) -> None:
    program = "x = torch.zeros(3)\nfor i in range(5):\n    x = x + i\n"
    assert tree(tmp_path, program) == ["torch.zeros(3)", "+ …  × 5 alike"]


def test_loops_in_loops_and_in_functions_are_counted_each_time(tmp_path: Path) -> None:
    program = """
        def train(x, count):
            for batch in range(count):
                x = x + 1
                x = x * 2
            return x.sum()

        x = torch.zeros(3)
        for epoch in range(4):
            train(x, 3 + epoch)
            x.mean()
    """
    assert tree(tmp_path, program)[1:] == [
        "for epoch in range(4):  × 4",
        "├─ train(x, 3 + epoch)  7–13 calls",
        "│  ├─ for batch in range(count):  × 3–6",
        "│  │  ├─ + 1",
        "│  │  └─ * 2",
        "│  └─ .sum",
        "└─ .mean",
    ]


def test_loop_that_only_holds_a_loop_does_not_claim_a_number(tmp_path: Path) -> None:
    program = """
        x = torch.zeros(3)
        for epoch in range(4):
            for batch in range(5):
                x = x + 1
                x = x * 2
    """
    assert tree(tmp_path, program)[1:3] == [
        "for epoch in range(4):",
        "└─ for batch in range(5):  × 20 in all",
    ]


def test_while_and_with_do_not_begin_passes(tmp_path: Path) -> None:
    program = """
        class Timer:
            def __enter__(self):
                torch.zeros(1)
            def __exit__(self, *error):
                torch.zeros(2)

        x = torch.zeros(3)
        while (x < 4).any():
            with Timer():
                x = x + 1
            x = x * 1
    """
    assert tree(tmp_path, program)[1:] == [
        "while (x < 4).any():  3 calls",
        "├─ < 4",
        "├─ .any",
        "└─ .__bool__",
        "while (x < 4).any():  × 4",
        "├─ torch.zeros(1)",
        "├─ + 1",
        "├─ torch.zeros(2)",
        "├─ * 1",
        "└─ while (x < 4).any():  3 calls",
        "   ├─ < 4",
        "   ├─ .any",
        "   └─ .__bool__",
    ]


def test_comprehensions_and_generators_are_loops(tmp_path: Path) -> None:
    program = """
        def batches():
            for i in range(3):
                yield torch.full((2,), i)

        x = [torch.ones(n) * 2 for n in (1, 2, 3)]
        for batch in batches():
            batch.sum()
    """
    assert tree(tmp_path, program) == [
        "[torch.ones(n) * 2 for n in (1, 2, 3)]  6 calls",
        "└─ for n in (1, 2, 3)  × 3",
        "   ├─ torch.ones(…)",
        "   └─ * 2",
        "for batch in batches():  × 3",
        "├─ torch.full((2,), …)",
        "└─ .sum",
    ]


def test_reading_and_writing_an_item_is_one_pass(tmp_path: Path) -> None:
    program = "x = torch.zeros(4)\nfor i in range(4):\n    x[i] += i\n"
    assert tree(tmp_path, program)[1] == "for i in range(4):  × 4"


def test_data_loader_is_not_a_pass_for_each_sample(tmp_path: Path) -> None:
    program = """
        from torch.utils.data import DataLoader, Dataset

        class Data(Dataset):
            def __len__(self):
                return 12
            def __getitem__(self, index):
                x = torch.full((3,), float(index))
                return x / 2

        for batch in DataLoader(Data(), batch_size=4):
            batch.sum()
            batch.mean()
    """
    found = tree(tmp_path, program)
    assert found[1:] == [
        "for batch in DataLoader(Data(), batch_size=4):  × 3",
        "├─ DataLoader(Data(), batch_size=4)  9 calls",
        "│  ├─ Data.__getitem__  × 4",
        "│  │  ├─ torch.full((3,), …)",
        "│  │  └─ / 2",
        "│  └─ … 1 call",
        "├─ .sum",
        "└─ .mean",
    ]


def test_function_that_an_optimizer_calls_is_shown_with_its_number(tmp_path: Path) -> None:
    program = """
        x = torch.ones(2, requires_grad=True)
        optimizer = torch.optim.LBFGS([x], max_iter=3)
        def closure():
            optimizer.zero_grad()
            loss = (x ** 4).sum()
            loss.backward()
            return loss
        for step in range(2):
            optimizer.step(closure)
    """
    found = tree(tmp_path, program)
    at = next(index for index, row in enumerate(found) if "closure  ×" in row)
    assert found[at - 1].startswith("└─ optimizer.step(closure)") or "optimizer.step(closure)" in found[at - 1]
    assert [row.strip("│├└─ ") for row in found[at + 1 : at + 5]] == [
        "loss = (x ** 4).sum()  2 calls",
        "** 4",
        ".sum",
        ".backward",
    ]


def test_passes_that_produce_nan_or_raise_are_not_hidden(tmp_path: Path) -> None:
    import insitu

    program = """
        x = torch.ones(3)
        for i in range(6):
            y = x - i
            try:
                y = y.log() if i < 5 else y.view(7)
            except RuntimeError:
                pass
    """
    path = tmp_path / "nan.py"
    recorded(tmp_path, "", "nan.py")
    path.write_text(__import__("textwrap").dedent(program))
    __import__("linecache").checkcache(str(path))
    with insitu.record(keep="stats") as trace:
        exec(compile(path.read_text(), str(path), "exec"), {"torch": __import__("torch")})
    text = str(trace)
    assert "9 NaN" in text  # of the passes 2, 3 and 4
    assert ".view(7)  in 1 of 6" in text and "raised RuntimeError" in text


# lines and libraries


def test_line_with_several_calls_is_one_row_around_them(tmp_path: Path) -> None:
    program = """
        x = torch.ones(3)
        y = (x + 1).relu().sum()  # a comment
        z = torch.ones(3)
    """
    assert tree(tmp_path, program) == [
        "torch.ones(3)",
        "y = (x + 1).relu().sum()  3 calls",
        "├─ + 1",
        "├─ .relu",
        "└─ .sum",
        "torch.ones(3)",
    ]


def test_initialisation_and_moves_are_one_row_each(tmp_path: Path) -> None:
    program = f"{MODEL}\n    net = Net().to('cpu')\n    net.double()\n    net.state_dict()\n"
    found = tree(tmp_path, program)
    assert found[0].startswith("net = Net().to('cpu')  ")
    assert found[1:3] == ["├─ Net()  4 calls", "│  └─ nn.Linear(4, 2)  4 calls"]
    assert found[3].startswith("└─ … ")
    assert found[4].startswith("net.double()  ") and len(found) <= 6


LIBRARY = """
    import torch

    def fit(model, data, optimizer, on_step=None):
        for epoch in range(2):
            for x in data:
                x = x.clone().detach()
                loss = model(x).sum()
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                if on_step is not None:
                    on_step(loss)
                torch.zeros(1).item()
"""


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A framework that owns the training loop."""
    import textwrap

    folder = tmp_path / "site-packages" / "framework_of_others"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(textwrap.dedent(LIBRARY))
    monkeypatch.syspath_prepend(str(tmp_path / "site-packages"))


@pytest.mark.usefixtures("library")
def test_training_step_of_a_framework_is_shown_and_the_rest_is_folded(tmp_path: Path) -> None:
    program = f"""{MODEL}
    from framework_of_others import fit
    net = Net()
    data = torch.randn(3, 5, 4)
    def log(loss):
        loss.item()
    fit(net, data, torch.optim.AdamW(net.parameters()), log)
    """
    found = tree(tmp_path, program)
    at = next(index for index, row in enumerate(found) if row.startswith("fit(net, data"))
    names = [row.strip("│├└─ ").split("  ")[0] for row in found[at + 1 :]]
    assert names[:7] == [
        "for epoch in range(2):",
        "for x in data:",
        "Net",
        "fc",
        ".backward",
        "optimizer.step()",
        ".item",
    ]
    assert len(names) <= 9 and all(name.startswith("… ") for name in names[7:])
    assert "for x in data:  × 3" in "\n".join(found)


@pytest.mark.usefixtures("library")
def test_library_call_without_anything_that_matters_is_one_row(tmp_path: Path) -> None:
    program = """
        import framework_of_others
        class Idle:
            step = zero_grad = staticmethod(lambda: None)
        def model(x):
            return x
        x = torch.ones(2, requires_grad=True)
    """
    assert tree(tmp_path, program) == ["torch.ones(2, requires_grad=True)"]


def test_program_that_recurses_deeply_has_rows(tmp_path: Path) -> None:
    program = """
        def count_down(number, x):
            x = x + 1
            return count_down(number - 1, x) if number else x

        count_down(600, torch.ones(1))
    """
    found = tree(tmp_path, program)
    assert sum(row.endswith("+ 1") for row in found) == 601


def test_row_of_a_function_around_everything_is_left_out(tmp_path: Path) -> None:
    program = "def main():\n    torch.ones(1)\n    torch.ones(2)\nmain()\n"
    assert tree(tmp_path, program) == ["torch.ones(1)", "torch.ones(2)"]


def test_module_outside_of_all_others_is_named_once(tmp_path: Path) -> None:
    program = f"{MODEL}\n    loss = nn.NLLLoss()(F.log_softmax(Net()(torch.ones(1, 4)), 1), torch.zeros(1).long())\n"
    assert [row for row in tree(tmp_path, program) if "NLLLoss" in row] == ["NLLLoss(ignore_index=-100)"]


# inside of modules


def test_loop_in_a_module_folds_although_its_passes_differ(tmp_path: Path) -> None:
    program = """
        from torch import nn
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.cell = nn.Linear(3, 3)
            def forward(self, x):
                for i in range(5):
                    x = self.cell(x) + i
                    if i == 2:
                        x = x.relu()
                return x
        Net()(torch.zeros(3))
    """
    found = tree(tmp_path, program)
    at = found.index("Net")
    assert found[at + 1 :] == [
        "└─ for i in range(5):  × 5",
        "   ├─ cell  Linear(3 → 3)",
        "   ├─ + …",
        "   └─ .relu  in 1 of 5",
    ]


def test_blocks_that_a_loop_calls_one_after_the_other_fold_as_blocks(tmp_path: Path) -> None:
    program = """
        from torch import nn
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.h = nn.ModuleList([nn.Linear(3, 3) for _ in range(4)] + [nn.Linear(3, 5)])
            def forward(self, x):
                for block in self.h:
                    x = block(x)
                return x
        Net()(torch.zeros(3))
    """
    found = tree(tmp_path, program)
    at = found.index("Net")
    assert found[at + 1 :] == ["├─ h.0 … h.3  × 4 alike  Linear(3 → 3)", "└─ h.4  Linear(3 → 5)"]


# one screen, and failures


def test_rows_close_until_they_fit_and_the_training_step_stays(tmp_path: Path) -> None:
    setup = "\n".join(f"    w{index} = (torch.ones({index}) + 1).sum()" for index in range(30))
    program = f"""{MODEL}
{setup}
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for step in range(20):
        x = torch.randn(3, 4)
        loss = net(x).sum()
        loss.backward()
        optimizer.step()
    """
    trace = recorded(tmp_path, program)
    for most in (8, 12, 20, 200):
        found = rows(trace, rows=most)
        assert len(found) <= most
        assert any(row.startswith("for step in range(20):  × 20") for row in found)
        if most > 8:
            assert any(".backward" in row for row in found) and any("optimizer.step()" in row for row in found)
    calls = [row for row in rows(trace, rows=12) if row.startswith("… ")]
    assert calls and all(row.endswith(" calls") for row in calls)


def test_closed_rows_say_what_they_hide(tmp_path: Path) -> None:
    program = (
        f"{MODEL}\n    net = Net()\n    for i in range(3):\n        net(torch.ones(i, 4)) + i\n        torch.ones(9)\n"
    )
    trace = recorded(tmp_path, program)
    assert rows(trace, rows=2) == ["Net()  4 calls", "for i in range(3):  × 3  … 12 calls"]


def test_nan_is_opened_first(tmp_path: Path) -> None:
    import insitu

    run = recorded(tmp_path, "x = 1", "empty.py")
    assert len(run) == 0
    path = tmp_path / "odd.py"
    path.write_text(
        "import torch\ndef heavy(x):\n    for _ in range(50):\n        x = x @ x\n        x = x / x.norm()\n"
        "def odd(x):\n    y = x - 2\n    return y.log()\nheavy(torch.ones(9, 9))\nodd(torch.ones(2))\n"
    )
    with insitu.record(keep="stats") as trace:
        exec(compile(path.read_text(), str(path), "exec"), {})
    found = rows(trace, rows=6)
    assert [row for row in found if ".log" in row], found


def test_only_the_way_to_the_call_that_failed(tmp_path: Path) -> None:
    import torch

    import insitu

    path = tmp_path / "bad.py"
    program = f"""{MODEL}
    net = Net()
    torch.ones(2)
    for i in range(5):
        x = torch.ones(2, 4 - (i == 3))
        y = net(x)
        y.sum()
    """
    path.write_text(__import__("textwrap").dedent(program))
    with insitu.record() as trace, pytest.raises(RuntimeError):
        exec(compile(path.read_text(), str(path), "exec"), {"torch": torch})
    found = rows(trace, failed=True)
    assert [row.partition("  in ")[0].partition("  Linear")[0].partition("  ×")[0] for row in found] == [
        "… 5 calls",
        "for i in range(5):",
        "├─ … 4 calls",
        "├─ Net",
        "│  └─ fc",
        "│     └─ F.linear",
        "└─ … 6 calls",
    ]
    good = recorded(tmp_path, "torch.ones(1)\ntorch.ones(2)")
    assert rows(good, failed=True) == ["torch.ones(1)", "torch.ones(2)"]


def test_program_of_unknown_source_has_rows(tmp_path: Path) -> None:
    import torch

    import insitu

    text = "x = torch.ones(2)\nfor i in range(4):\n    x = x + 1\n    x = x * 2\n"
    with insitu.record() as trace:
        exec(compile(text, "<nowhere>", "exec"), {"torch": torch})
    assert rows(trace) == ["torch.ones(2)", "× 4 alike", "├─ + 1", "└─ * 2"]
