"""Messages from rank to rank through the store of torch.distributed: sending and looking never wait for anybody.

A collective would: with uneven steps, or a tracer that failed on one rank, it takes the training with it.
"""

from __future__ import annotations

import io
import pickle
from typing import Any

import torch
from torch import Tensor

from tensortrace.prints import bits

PART = 1 << 20  # the store closes the connection when it gets more than 8 MiB at once
MORE, LAST = b"\1", b"\0"


class Mail:
    """The messages of one session of a tracer, numbered by the rank that sends them."""

    def __init__(self, session: str) -> None:
        from torch.distributed.distributed_c10d import PrefixStore, _get_default_store

        # Typed as Any: the stubs of torch know the store as one of text.
        self._store: Any = PrefixStore(f"tensortrace/{session}", _get_default_store())

    def send(self, rank: int, number: int, message: Any) -> int:
        """Lay a message down; its size."""
        data = pack(message)
        starts = range(0, max(len(data), 1), PART)
        for part, start in enumerate(starts):
            mark = LAST if start == starts[-1] else MORE
            self._store.set(f"{rank}/{number}/{part}", mark + data[start : start + PART])
        self._store.set(f"{rank}/{number}", b"!")
        return len(data)

    def is_there(self, rank: int, number: int) -> bool:
        """Whether a message lies there, that nobody has taken."""
        return bool(self._store.check([f"{rank}/{number}"]))

    def take(self, rank: int, number: int) -> bytes | None:
        """Take a message away; None if there is none. Of two who try, one gets it."""
        if not self.is_there(rank, number) or not self._store.delete_key(f"{rank}/{number}"):
            return None
        found: list[bytes] = []
        mark = MORE
        while mark == MORE:
            key = f"{rank}/{number}/{len(found)}"
            part = self._store.get(key)
            self._store.delete_key(key)
            mark = part[:1]
            found.append(part[1:])
        return b"".join(found)

    def say(self, word: str) -> None:
        """Leave a word for all, which stays."""
        self._store.set(word, b"!")

    def was_said(self, word: str) -> bool:
        """Whether somebody has left this word."""
        return bool(self._store.check([word]))


class Packing(pickle.Pickler):
    """Pickles plain tensors as their bytes, which takes a tenth of the time."""

    def reducer_override(self, item: Any) -> Any:
        """How a tensor is pickled."""
        if type(item) is not Tensor or item.layout is not torch.strided or item.is_quantized:
            return NotImplemented
        return unpacked_tensor, (item.dtype, tuple(item.shape), bits(item).tobytes())


def unpacked_tensor(dtype: torch.dtype, shape: tuple[int, ...], data: bytes) -> Tensor:
    """A tensor from its bytes."""
    if not data:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(bytearray(data), dtype=torch.uint8).view(dtype).reshape(shape)


def pack(message: Any) -> bytes:
    """A message as bytes.

    >>> pickle.loads(pack([torch.ones(2, dtype=torch.bfloat16), "text"]))
    [tensor([1., 1.], dtype=torch.bfloat16), 'text']
    """
    stream = io.BytesIO()
    Packing(stream, pickle.HIGHEST_PROTOCOL).dump(message)
    return stream.getvalue()
