"""Explanations walk back: to the call that introduced a size, a dtype or a device, and to what is carried over."""

from __future__ import annotations

import linecache
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from tests.failing import Program, names_of, note_of, recorded


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    yield partial(names_of, tmp_path)
    linecache.clearcache()


def explained(program: Program, text: str) -> str:
    """What the note of a failing program says, with one space between words."""
    return " ".join(note_of(recorded(program(text)["run"])).split())


def test_size_is_followed_through_views_layers_and_functions(program: Program) -> None:
    note = explained(
        program,
        """
        import torch
        from torch import nn
        from torch.nn import functional as F
        def load():
            wave = torch.randn(8, 50)
            wave = F.pad(wave, (0, 1))
            return {"wave": wave}
        class Spectrum(nn.Module):
            def __init__(self):
                super().__init__()
                self.conv, self.norm = nn.Conv1d(1, 64, 3, padding=1), nn.BatchNorm1d(64)
            def forward(self, wave):
                x = self.norm(self.conv(wave.unsqueeze(1))).relu()
                return x.permute(0, 2, 1)
        def run():
            spectrum = Spectrum()(load()["wave"])
            target = torch.zeros(8, 50, 64)
            return (spectrum - target).square().mean()
        """,
    )
    assert "the 51 comes from model.py:7 F.pad(wave, (0, 1)) f32[8, 50] → f32[8, 51]" in note


def test_size_of_a_layer_comes_from_where_it_was_made(program: Program) -> None:
    note = explained(
        program,
        """
        import torch
        from torch import nn
        def run():
            encoder = nn.Linear(4, 24)
            head = nn.Linear(16, 2)
            x = encoder(torch.ones(3, 4))
            return head(x.relu())
        """,
    )
    assert "the 24 comes from model.py:5 nn.Linear(4, 24)" in note


def test_size_of_a_batch_comes_from_its_assignment(program: Program) -> None:
    note = explained(
        program,
        """
        import torch
        def run():
            data = torch.from_dlpack(torch.ones(6, 4))
            left = data.sum(1)
            return left.exp() + torch.zeros(5)
        """,
    )
    assert "the 6 comes from model.py:4 torch.from_dlpack(torch.ones(6, 4))" in note


def test_dtype_is_followed_to_numpy(program: Program) -> None:
    note = explained(
        program,
        """
        import numpy as np
        import torch
        from torch import nn
        def features():
            t = torch.from_numpy(np.linspace(0, 1, 12))
            return torch.stack([t.sin(), t.cos()], dim=1)
        def run():
            batch = features()[:6].unsqueeze(0)
            return nn.Linear(2, 4)(batch)
        """,
    )
    assert "f64 since model.py:6 torch.from_numpy(np.linspace(0, 1, 12))" in note
    assert "f32 since" not in note


def test_device_is_followed(program: Program) -> None:
    note = explained(
        program,
        """
        import torch
        from torch import nn
        def run():
            mask = torch.zeros(3, 3, device="meta")
            bias = mask.exp() * 2
            return nn.Linear(3, 3)(bias)
        """,
    )
    assert 'meta since model.py:5 torch.zeros(3, 3, device="meta")' in note


def test_tensor_that_is_carried_over_is_named(program: Program) -> None:
    note = explained(
        program,
        """
        import torch
        from torch import nn
        class Memory(nn.Module):
            def __init__(self):
                super().__init__()
                self.memory, self.proj = [], nn.Linear(32, 32)
            def forward(self, x):
                if self.memory:
                    x = torch.cat([self.memory[-1], x], dim=1)
                h = self.proj(x)
                self.memory.append(h[:, -8:])
                return h.mean()
        def run():
            model = Memory()
            for step in range(3):
                model(torch.randn(2, 8, 32)).backward()
        """,
    )
    assert "self.memory[-1] made before that, at model.py:12 h[:, -8:] f32[2, 8, 32]" in note
    assert "self.memory[-1] read after it, at model.py:10" in note


def test_sizes_that_were_computed_from_others_are_followed(program: Program) -> None:
    note = explained(
        program,
        """
        import torch
        from torch import nn
        def run():
            image = torch.rand(3, 1, 32, 32)[:, :, 1:-1, 1:-1]
            patches = nn.Conv2d(1, 8, 4, stride=4)(image).flatten(2).transpose(1, 2)
            tokens = torch.cat([torch.zeros(3, 1, 8), patches], dim=1)
            return tokens + torch.zeros(1, 65, 8)
        """,
    )
    assert "the 30 comes from model.py:5 torch.rand(3, 1, 32, 32)[:, :, 1:-1, 1:-1]" in note
    assert "f32[3, 1, 32, 32] → f32[3, 1, 30, 30]" in note


def test_state_of_an_earlier_call_is_named(program: Program) -> None:
    note = explained(
        program,
        """
        import torch
        from torch import nn
        def make_mask(length):
            return torch.zeros(length, length)
        class Attention(nn.Module):
            mask = None
            def forward(self, x):
                if self.mask is None:
                    self.mask = make_mask(len(x))
                return x @ x.T + self.mask
        def run():
            model = Attention()
            return [model(torch.ones(length, 2)) for length in (9, 6)]
        """,
    )
    assert "self.mask made in an earlier call, for model.py:10 make_mask(len(x))" in note


def test_nothing_is_claimed_behind_a_function_that_is_not_known(program: Program) -> None:
    note = explained(
        program,
        """
        import torch
        def run():
            wave = torch.ones(2, 8)
            spectrum = torch.fft.rfft(wave).abs()
            return spectrum.sqrt() + torch.zeros(2, 6)
        """,
    )
    assert "✗ dimension -1: 5 and 6 differ" in note
    assert "the 5 comes from" not in note
