"""Programs that fail, and the notes of their exceptions."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import insitu

Program = Callable[[str], dict[str, Any]]


def names_of(folder: Path, text: str) -> dict[str, Any]:
    """Run a text as the file model.py; its names."""
    path = folder / "model.py"
    path.write_text(dedent(text), "utf-8")
    linecache.checkcache(str(path))
    scope: dict[str, Any] = {"__name__": "model"}
    exec(compile(path.read_text("utf-8"), str(path), "exec", dont_inherit=True), scope)
    return scope


def failure(run: Callable[[], Any]) -> Exception:
    """The exception that something raises."""
    try:
        run()
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def recorded(run: Callable[[], Any], **options: Any) -> Exception:
    """The exception that something raises while it is recorded."""

    def inside() -> None:
        with insitu.record(**options):
            run()

    return failure(inside)


def caught(run: Callable[[], Any], **options: Any) -> Exception:
    """The exception that something raises, and that the recorded block itself catches: nothing explains it yet."""
    with insitu.record(**options):
        return failure(run)


def note_of(error: BaseException) -> str:
    """The one note of an exception."""
    (note,) = error.__notes__
    return str(note)


def explained(program: Program, text: str) -> str:
    """What the note of a failing program says, with one space between words."""
    return " ".join(note_of(recorded(program(text)["run"])).split())


ATTENTION = """
    import torch
    from torch import nn

    def make_bias(T):
        return torch.zeros(6, T, T + 1)

    class Attention(nn.Module):
        def forward(self, q, k, bias):
            att = (q @ k.transpose(-2, -1)) / 4.0 + bias
            return att

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.attn = Attention()
        def forward(self, q, k, bias):
            return self.attn(q, k, bias)

    class GPT(nn.Module):
        def __init__(self):
            super().__init__()
            self.h = nn.ModuleList([Block() for _ in range(4)])
        def forward(self, q, k):
            return self.h[3](q, k, make_bias(24))

    model = GPT()
    def run():
        return model(torch.randn(2, 6, 24, 16), torch.randn(2, 6, 24, 16))
"""


EXPLAINED = """\
  model.py:10 in forward    GPT ▸ h.3 ▸ h.3.attn
    10 │ att = (q @ k.transpose(-2, -1)) / 4.0 + bias
                ┬   ┬                            ┬───
                │   ╰ f32[2, 6, 24, 16]          ╰ f32[6, 24, 25]
                ╰ f32[2, 6, 24, 16]
    left   2, 6, 24, 24    (q @ k.transpose(-2, -1)) / 4.0
    right     6, 24, 25    bias
                     ✗ dimension -1: 24 and 25 differ and neither is 1
    the 24  comes from model.py:29   torch.randn(2, 6, 24, 16)   f32[2, 6, 24, 16]
    bias    made at model.py:6       torch.zeros(6, T, T + 1)
    → likely fix at model.py:6: return torch.zeros(6, T, T)
      doubt: the 24 of left may be wrong instead"""
