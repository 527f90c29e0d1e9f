"""A trace as tables of columns, and back: the same events, with the same objects shared between them."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from insitu.errors import StoreError
from insitu.store.decode import Decoder
from insitu.store.encode import Encoder
from insitu.store.tables import Column, Tables, unpacked
from insitu.trace.trace import Trace


def encode(trace: Trace) -> Tables:
    """The trace as tables; `decode` makes an equal trace of them."""
    with _collector_paused():
        return Encoder().tables(trace.events, trace.about)


def decode(tables: Mapping[str, Mapping[str, Column]]) -> Trace:
    """The trace that these tables hold; a StoreError when they break a rule.

    >>> from insitu.trace.event import Mark
    >>> decode(encode(Trace([Mark(0, None, "note", "hello")]))).marks[0].text
    'hello'
    """
    try:
        with _collector_paused():
            return Decoder(unpacked(tables)).trace()
    except StoreError:
        raise
    except (ValueError, TypeError, KeyError, IndexError, StopIteration, OverflowError) as error:
        raise StoreError(f"its tables contradict each other: {error!r}") from None


@contextmanager
def _collector_paused() -> Iterator[None]:
    # Millions of small objects are made and none is garbage; to find that out would take half of the time.
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
