"""Ranks: who this process is among others."""

from __future__ import annotations

import os

import torch


def current_rank() -> int:
    """The rank of this process, 0 if it is alone."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank()
    return _number("RANK", 0)


def world_size() -> int:
    """How many processes there are."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_world_size()
    return max(1, _number("WORLD_SIZE", 1))


def _number(name: str, default: int) -> int:
    text = os.environ.get(name, "")
    if text.isdigit():
        return int(text)
    return default
