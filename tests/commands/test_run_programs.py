"""`insitu run` on programs as people write them: one screen, and the training step on it."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import textwrap
from contextlib import suppress
from pathlib import Path

import pytest

LINES = 50  # one screen where there is no terminal

MNIST = """
    import torch
    from torch import nn, optim
    from torch.nn import functional as F
    from torch.utils.data import DataLoader, Dataset

    class Digits(Dataset):
        def __len__(self):
            return 40
        def __getitem__(self, index):
            image = torch.full((28, 28), index, dtype=torch.uint8)
            image = image.to(torch.float32).div(255)
            return (image - 0.1307) / 0.3081, index % 10

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1 = nn.Conv2d(1, 4, 3)
            self.fc1 = nn.Linear(4 * 13 * 13, 10)
        def forward(self, x):
            x = F.relu(self.conv1(x.unsqueeze(1)))
            x = torch.flatten(F.max_pool2d(x, 2), 1)
            return F.log_softmax(self.fc1(x), dim=1)

    def train(model, device, loader, optimizer, epoch):
        model.train()
        for batch_idx, (data, target) in enumerate(loader):
            data, target = data.to(device), target.to(device)
            optimizer.zero_grad()
            output = model(data)
            loss = F.nll_loss(output, target)
            loss.backward()
            optimizer.step()
            if batch_idx % 2 == 0:
                print(f"loss {loss.item():.3f}")

    def test(model, device, loader):
        model.eval()
        correct = 0
        with torch.no_grad():
            for data, target in loader:
                output = model(data.to(device))
                correct += output.argmax(dim=1).eq(target).sum().item()

    def main():
        model = Net().to("cpu")
        optimizer = optim.Adadelta(model.parameters())
        for epoch in range(1, 3):
            train(model, "cpu", DataLoader(Digits(), batch_size=8), optimizer, epoch)
            test(model, "cpu", DataLoader(Digits(), batch_size=20))

    main()
"""
MODEL = """
    import torch
    from torch import nn
    from torch.nn import functional as F

    class Block(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.ln = nn.LayerNorm(width)
            self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        def forward(self, x):
            return x + self.mlp(self.ln(x))

    class GPT(nn.Module):
        def __init__(self, tokens=20, width=8, layers=3, size=16):
            super().__init__()
            self.size = size
            self.wte, self.wpe = nn.Embedding(tokens, width), nn.Embedding(size, width)
            self.h = nn.ModuleList([Block(width) for _ in range(layers)])
            self.head = nn.Linear(width, tokens)
            self.apply(self._init_weights)
        def _init_weights(self, module):
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=0.02)
                nn.init.zeros_(module.bias)
        def forward(self, ids, targets=None):
            x = self.wte(ids) + self.wpe(torch.arange(ids.size(1)))
            for block in self.h:
                x = block(x)
            logits = self.head(x)
            loss = None
            if targets is not None:
                loss = F.cross_entropy(logits.view(-1, logits.size(-1)), targets.reshape(-1))
            return logits, loss
        @torch.no_grad()
        def generate(self, ids, count):
            for _ in range(count):
                context = ids if ids.size(1) <= self.size else ids[:, -self.size:]
                logits, _ = self(context)
                probs = F.softmax(logits[:, -1, :] / 0.8, dim=-1)
                ids = torch.cat((ids, torch.multinomial(probs, num_samples=1)), dim=1)
            return ids
"""
MINGPT = f"""{MODEL}
    class Trainer:
        def __init__(self, model):
            self.model = model.to("cpu")
            self.callbacks = []
        def run(self, count):
            optimizer = torch.optim.AdamW(self.model.parameters())
            step = 0
            while True:
                ids = torch.randint(20, (4, 9))
                logits, loss = self.model(ids[:, :-1], ids[:, 1:])
                self.model.zero_grad(set_to_none=True)
                loss.backward()
                nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                optimizer.step()
                for callback in self.callbacks:
                    callback(self, step)
                step += 1
                if step >= count:
                    break

    model = GPT()
    trainer = Trainer(model)
    def on_batch_end(trainer, step):
        if step % 5 == 0:
            model.eval()
            model.generate(torch.zeros(1, 2, dtype=torch.long), 30)
            model.train()
    trainer.callbacks.append(on_batch_end)
    trainer.run(10)
"""
NANOGPT = f"""{MODEL}
    data = torch.randint(20, (500,))
    def get_batch():
        ix = torch.randint(len(data) - 9, (4,))
        x = torch.stack([data[i:i + 8] for i in ix])
        y = torch.stack([data[i + 1:i + 9] for i in ix])
        return x.to("cpu"), y.to("cpu")

    model = GPT()
    model.to("cpu")
    optimizer = torch.optim.AdamW(model.parameters())

    @torch.no_grad()
    def estimate_loss():
        losses = torch.zeros(3)
        for k in range(3):
            X, Y = get_batch()
            logits, loss = model(X, Y)
            losses[k] = loss.item()
        return losses.mean()

    X, Y = get_batch()
    iter_num = 0
    while True:
        if iter_num % 4 == 0:
            print(f"{{estimate_loss():.3f}}")
        for micro_step in range(2):
            logits, loss = model(X, Y)
            loss = loss / 2
            X, Y = get_batch()
            loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        iter_num += 1
        if iter_num > 6:
            break
"""
TRAINER = """
    import torch
    from torch.utils.data import Dataset
    from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

    class Sentences(Dataset):
        def __len__(self):
            return 16
        def __getitem__(self, i):
            ids = torch.randint(0, 50, (8,))
            return {"input_ids": ids, "labels": torch.tensor(i % 2)}

    config = BertConfig(vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32)
    model = BertForSequenceClassification(config)
    args = TrainingArguments(
        "out", max_steps=5, per_device_train_batch_size=4, report_to=[], save_strategy="no", use_cpu=True,
        disable_tqdm=True,
    )
    trainer = Trainer(model=model, args=args, train_dataset=Sentences())
    trainer.train()
"""
LIGHTNING = """
    import logging, warnings
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset
    import lightning as L

    warnings.simplefilter("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

    class Lit(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
        def training_step(self, batch, batch_idx):
            x, y = batch
            loss = nn.functional.cross_entropy(self.net(x), y)
            self.log("loss", loss)
            return loss
        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), lr=1e-3)

    data = TensorDataset(torch.randn(48, 8), torch.randint(0, 2, (48,)))
    quiet = dict(logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
    trainer = L.Trainer(max_epochs=2, accelerator="cpu", accumulate_grad_batches=2, **quiet)
    trainer.fit(Lit(), DataLoader(data, batch_size=8))
"""
PROGRAMS = {
    # program, the row of the loop that trains, and the rows of a step in it
    "mnist": (
        MNIST,
        "for batch_idx, (data, target) in enumerate(loader):  × 5",
        ("Net", ".backward", "optimizer.step()"),
    ),
    "mingpt": (MINGPT, "while True:  × 10", ("GPT", ".backward", "optimizer.step()", "for _ in range(count):  × 30")),
    "nanogpt": (
        NANOGPT,
        "while True:  × 7",
        ("for micro_step in range(2):  × 2", "GPT", ".backward", "optimizer.step()"),
    ),
    "trainer": (TRAINER, "trainer.train()", ("BertForSequenceClassification", ".backward", ".step(")),
    "lightning": (
        LIGHTNING,
        "while not self.done:  × 6",
        ("Lit.training_step", "Sequential", ".backward", "in 6 of 12"),
    ),
}


def insitu_run(folder: Path, program: str, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    (folder / "script.py").write_text(textwrap.dedent(program))
    command = [sys.executable, "-m", "insitu", "run", *words, "script.py"]
    variables = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", **environment}
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, timeout=300)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_one_screen_shows_a_training_step(name: str, tmp_path: Path) -> None:
    program, loop, rows = PROGRAMS[name]
    done = insitu_run(tmp_path, program)
    assert done.returncode == 0, done.stderr
    tree = [line for line in done.stderr.splitlines() if not line.startswith(("insitu: ", "/"))]
    assert len(tree) <= LINES, done.stderr
    text = "\n".join(tree)
    for row in (loop, *rows):
        assert row in text, f"{row!r} is not in\n{text}"
    assert [line for line in tree if re.search(r"… [\d,–]+ calls?\b", line)]  # what is not shown is counted


def test_growing_shapes_and_partial_passes_are_on_the_screen(tmp_path: Path) -> None:
    done = insitu_run(tmp_path, MINGPT, "--all")
    assert "i64[1, 3 … 32]" in done.stderr
    assert "ids[:, -self.size:]" in done.stderr or "[:, -16:]  in 30 of 60" in done.stderr


FAILS = """
    import torch
    from torch import nn
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    def evaluate(x):
        return net(x)
    for i in range(5):
        x = torch.ones(2, 4)
        print(i)
        evaluate(x[:, : 4 - i // 3])
"""


def test_failure_shows_its_branch_and_ends_with_the_explanation(tmp_path: Path) -> None:
    done = insitu_run(tmp_path, FAILS)
    assert done.returncode == 1 and done.stdout == "0\n1\n2\n3\n"
    tree, _, report = done.stderr.partition("Traceback (most recent call last):")
    rows = tree.splitlines()
    assert len(rows) <= 12
    assert any("raised RuntimeError" in row for row in rows)
    assert any(row.strip("│├└─ ").startswith("… ") for row in rows)
    assert "✗ the last dimension of input is 3, the layer takes 4" in report
    assert done.stderr.endswith(report) and "insitu" not in report.splitlines()[-1]


def test_exception_of_the_program_itself_comes_after_the_overview(tmp_path: Path) -> None:
    done = insitu_run(
        tmp_path, "import torch\nfor _ in range(3):\n    torch.ones(2)\n    torch.ones(3)\nraise KeyError('x')\n"
    )
    assert done.returncode == 1
    assert done.stderr.startswith("for _ in range(3):  × 3")
    assert "\nTraceback" in done.stderr and "KeyError: 'x'" in done.stderr.partition("\nTraceback")[2]


def test_error_that_was_caught_is_not_taken_for_the_failure(tmp_path: Path) -> None:
    program = """
        import torch
        try:
            torch.ones(2) @ torch.ones(3)
        except RuntimeError:
            torch.ones(5)
        raise KeyError("other")
    """
    done = insitu_run(tmp_path, program)
    assert "torch.ones(5)" in done.stderr


def test_terminal_of_few_lines_gets_few_rows(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(textwrap.dedent(MINGPT))
    ours, theirs = pty.openpty()
    import fcntl
    import struct
    import termios

    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    command = [sys.executable, "-m", "insitu", "run", "script.py"]
    subprocess.run(command, cwd=tmp_path, stderr=theirs, check=True, timeout=120, env={**os.environ, "NO_COLOR": "1"})
    os.close(theirs)
    shown = ""
    with suppress(OSError):  # that is how a terminal ends
        while piece := os.read(ours, 1 << 16):
            shown += piece.decode("utf-8", "replace")
    os.close(ours)
    lines = [line for line in shown.splitlines() if "insitu: " not in line]
    assert 10 < len(lines) <= 24
    assert any("while True:" in line for line in lines) and any(".backward" in line for line in lines)


def test_nan_that_the_program_reads_leads_to_the_guard(tmp_path: Path) -> None:
    program = "import torch\nx = torch.full((2,), -1.0).log()\nprint(x.sum().item())\n"
    done = insitu_run(tmp_path, program)
    assert "1 number that the program read is NaN: insitu run --guard names" in done.stderr
    assert "insitu run --guard" not in insitu_run(tmp_path, program, "--keep", "stats").stderr


def test_rows_of_a_part_have_the_times_of_its_calls(tmp_path: Path) -> None:
    program = """
        import time, torch
        from torch import nn
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(2, 2)
            def forward(self, x):
                time.sleep(0.2)
                return self.fc(x)
        net = Net()
        for _ in range(3):
            net(torch.ones(1, 2))
    """
    rows = insitu_run(tmp_path, program, "--only", "fc").stderr.splitlines()
    times = [match for row in rows[:-1] for match in re.findall(r"[\d.]+(µs|ms|s)\b", row)]
    assert times and "s" not in times  # the calls of fc take microseconds; between them, the program sleeps


def test_steps_do_not_say_in_how_many_of_their_parts_a_call_is(tmp_path: Path) -> None:
    program = """
        import torch
        from torch import nn
        net = nn.Linear(2, 1)
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        for _ in range(5):
            x = torch.randn(3, 2)
            net(x).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    """
    shown = insitu_run(tmp_path, program, "--steps", "2:4").stderr
    assert "Linear" in shown and " in 2 of " not in shown and " in 1 of " not in shown
