"""A trace as tables of columns, and back: the same events, with the same objects shared between them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from insitu.errors import StoreError
from insitu.store.trace.decode import Decoder
from insitu.store.trace.encode import Encoder
from insitu.store.trace.tables import Column, Tables, unpacked
from insitu.trace.collector import collector_paused
from insitu.trace.trace import Trace


def encode(trace: Trace, about: dict[str, Any] | None = None) -> Tables:
    """The trace as tables, with other facts about it if there are any; `decode` makes an equal trace of them."""
    with collector_paused():
        return Encoder().tables(trace.events, trace.about if about is None else about)


def decode(tables: Mapping[str, Mapping[str, Column]]) -> Trace:
    """The trace that these tables hold; a StoreError when they break a rule.

    >>> from insitu.trace.event import Mark
    >>> decode(encode(Trace([Mark(0, None, "note", "hello")]))).marks[0].text
    'hello'
    """
    try:
        with collector_paused():
            return Decoder(unpacked(tables)).trace()
    except StoreError:
        raise
    except (ValueError, TypeError, KeyError, IndexError, StopIteration, OverflowError) as error:
        raise StoreError(f"its tables contradict each other: {error!r}") from None
