"""`model.generate` of transformers: one row for each token, those that are alike folded, in tree and page."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel, T5Config, T5ForConditionalGeneration

import insitu
from insitu.trace.trace import Trace
from insitu.view.page.rows import Heading, PageRow, page_rows

PROMPT, TOKENS = 7, 20


@cache
def gpt() -> Any:
    torch.manual_seed(0)
    sizes = {"vocab_size": 50, "n_positions": 64, "n_embd": 16, "n_layer": 2, "n_head": 2}
    return GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=0, eos_token_id=None, pad_token_id=0)).eval()


def generated(model: Any, subject: Any = None, **settings: Any) -> Trace:
    ids = torch.arange(1, PROMPT + 1)[None]
    with insitu.record(subject) as trace:
        model.generate(ids, max_new_tokens=TOKENS, **settings)
    return trace


def rows(trace: Trace, depth: int) -> list[str]:
    """The names of the rows at a depth of the tree."""
    lines = [line for line in str(trace).splitlines() if line[: 3 * depth].strip("├└─│ ") == ""]
    return [line[3 * depth :].split("   ")[0].strip() for line in lines if line[3 * depth - 3] in "├└"]


@pytest.mark.parametrize("settings", [{"do_sample": False}, {"do_sample": True}], ids=["greedy", "sample"])
def test_tokens_after_the_prompt_are_one_row(settings: dict[str, Any]) -> None:
    trace = generated(gpt(), **settings)
    first, others, *rest = rows(trace, 1)
    assert first == "token 1" and others == "token 2 … token 20  × 19 alike"
    assert all(row.startswith("… ") for row in rest)
    assert [row for row in rows(trace, 2) if not row.startswith("…")] == ["GPT2LMHeadModel", "GPT2LMHeadModel"]


def test_cache_that_grows_is_shown_from_the_first_size_to_the_last() -> None:
    text = str(generated(gpt(), do_sample=False))
    assert f"f32[1, 2, {PROMPT}, 8]" in text and f"f32[1, 2, {PROMPT + 1}→{PROMPT + TOKENS - 1}, 8]" in text


def test_beam_search_folds_into_tokens() -> None:
    names = rows(generated(gpt(), num_beams=2, do_sample=False), 1)
    tokens = [name for name in names if name.startswith("token")]
    assert tokens[0] == "token 1" and tokens[-1].split("  ")[0].endswith("token 20") and len(tokens) < 6


def test_model_with_an_encoder_folds_into_tokens() -> None:
    sizes = {"vocab_size": 50, "d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 2}
    model: Any = T5ForConditionalGeneration(T5Config(**sizes, decoder_start_token_id=0, eos_token_id=None)).eval()
    names = rows(generated(model, do_sample=False), 1)
    assert any("token 20" in name and "alike" in name for name in names)
    assert not any(name.startswith("while") for name in names)


def test_steps_of_a_recorded_model_fold_although_the_cache_grows() -> None:
    trace = generated(gpt(), gpt(), do_sample=False)
    titles = [line.split("   ")[0] for line in str(trace).splitlines() if line.startswith("step")]
    assert titles == ["step 0  GPT2LMHeadModel", "step 1 … 19  × 19 alike  GPT2LMHeadModel"]


def headings(trace: Trace) -> list[PageRow]:
    found, _ = page_rows(trace.events)
    return [row for row in found if isinstance(row.event, Heading) and row.event.kind == "token"]


def test_page_has_a_row_for_each_token() -> None:
    found = headings(generated(gpt(), do_sample=False))
    titles = [row.event.title.split(" · ")[0] for row in found if isinstance(row.event, Heading)]
    assert titles == [f"token {number}" for number in range(1, TOKENS + 1)]
    assert [row.alike for row in found] == [1, 19, *[0] * 18]
