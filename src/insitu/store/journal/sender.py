"""Sends the finished segments of a journal to an address, in a thread of its own.

The program that is recorded never waits for the address during a step, and never fails because of it: a segment that
cannot be sent stays on this machine and is tried again, after longer and longer pauses. A segment is removed here only
after the address was asked for it and has it: the same size, and the same checksum or the same bytes. A process that
was killed leaves segments here; the next one of the same rank sends them, or `insitu recover --to`.
"""

from __future__ import annotations

import hashlib
import os
import time
from base64 import b64decode
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread, get_ident
from typing import Any

from insitu.errors import InsituError, StoreError, own_threads, tell
from insitu.store.address import BLOCK, Address
from insitu.store.journal import frames
from insitu.store.journal.claims import remove_claims
from insitu.store.journal.heads import heads_name, heads_of
from insitu.store.journal.journal_state import is_over, open_for_reading
from insitu.store.journal.parts import JournalPlace, journal_files, places, remove_journal, remove_leftovers
from insitu.store.journal.sent_note import note_address, remove_note

POLL = 0.5  # seconds between two looks for a finished segment
SHORTEST_PAUSE = 1.0  # seconds after a failure; each further failure doubles them
LONGEST_PAUSE = 60.0
_MD5_NAMES = ("md5", "md5Hash", "content_md5", "contentMd5")
# The MD5 of many files of S3, and as many digits of something else for those that S3 encrypts with a key of its own.
_TAG_NAMES = ("ETag", "etag")


@dataclass(frozen=True, slots=True)
class SendPace:
    """How often the sender looks for segments, and how long it pauses after a failure."""

    poll: float = POLL
    shortest: float = SHORTEST_PAUSE
    longest: float = LONGEST_PAUSE

    def pause(self, failures: int) -> float:
        """The seconds to the next try.

        >>> [SendPace().pause(failures) for failures in (0, 1, 2, 20)]
        [0.5, 1.0, 2.0, 60.0]
        """
        if failures == 0:
            return self.poll
        return min(self.longest, self.shortest * 2.0 ** min(failures - 1, 30))


class SegmentSender:
    """The thread that sends the segments of one rank."""

    def __init__(self, place: JournalPlace, address: Address, pace: SendPace | None = None) -> None:
        self._place, self._address, self._pace = place, address, pace or SendPace()
        self._parts = place.path.parent
        self._wake = Event()
        self._is_closed = False  # the journal has ended: its last segment is finished, too
        self._is_stopped = False
        self._process = os.getpid()
        self.failures = 0  # tries in a row that failed
        note_address(self._parts, address)
        self._thread = Thread(target=self._run, name="insitu-send", daemon=True)
        self._thread.start()

    def close(self, *, patience: float) -> list[Path]:
        """Send the rest after the journal has ended; return the files that are not at the address then.

        Waits for so many seconds at most. An address that does not answer is tried once more, and not waited for then.
        """
        if self._process != os.getpid():
            return []
        earlier = self.failures
        self._is_closed = True
        self._wake.set()
        end = time.monotonic() + patience
        while self._thread.is_alive() and time.monotonic() < end and self.failures <= earlier:
            self._thread.join(0.02)
        self._is_stopped = True
        self._wake.set()
        return self._unsent()

    def _unsent(self) -> list[Path]:
        with suppress(OSError):
            return [path for path, _ in journal_files(self._place.path)]
        return []

    def _run(self) -> None:
        own_threads.add(get_ident())
        try:
            while not self._is_stopped and not self._is_done():
                self._wake.wait(self._pace.pause(self.failures))
                self._wake.clear()
                if not self._is_stopped:
                    self._try()
        finally:
            own_threads.discard(get_ident())

    def _is_done(self) -> bool:
        """Whether the journal has ended and all of it was sent."""
        return self._is_closed and not self._place.path.exists()

    def _try(self) -> None:
        """Send what is finished; an error of the address is reported once."""
        try:
            self._send_segments()
            for place in self._finished_places():
                send_journal(place, self._address)
        except Exception as error:  # fsspec and the packages behind it may raise anything
            if not self.failures:
                self._tell(error)
            self.failures += 1
            return
        self.failures = 0

    def _finished_places(self) -> list[JournalPlace]:
        """The journals of this rank that nobody writes: those that killed processes left, and at last its own."""
        found = []
        for place in places(self._parts):
            is_own = place == self._place
            is_finished = self._is_closed if is_own else place.rank == self._place.rank and is_over(place)
            if is_finished:
                found.append(place)
        return found

    def _send_segments(self) -> None:
        """Send the segments of the own journal that are full; the last one is still written."""
        if self._is_closed:
            return
        for path, tag in journal_files(self._place.path)[:-1]:
            if not self._is_stopped:
                send_segment(path, tag, self._address)

    def _tell(self, error: Exception) -> None:
        tell(
            f"{self._address.text} does not accept segments: {error}. They stay in {str(self._parts)!r}, and insitu"
            " tries again; the program goes on"
        )


def send_journal(place: JournalPlace, address: Address) -> int:
    """Send all of a journal that nobody writes any more, and remove it here; return the number of its segments."""
    files = journal_files(place.path)
    for path, tag in files:
        send_segment(path, tag, address)
    remove_journal(place.path)
    _remove_empty(place.path.parent, place.run)
    return len(files)


def _remove_empty(parts: Path, run: str) -> None:
    """Remove what a run leaves in its folder, and the folder if no journal is left in it."""
    with suppress(StoreError):  # another rank has removed it
        if not places(parts):
            remove_note(parts)
        remove_claims(parts, run)
        remove_leftovers(parts)


def send_segment(path: Path, tag: bytes, address: Address) -> None:
    """Send a finished segment with its heads, and remove it here when the address is known to have it."""
    with suppress(FileNotFoundError):  # another process has sent it, and removed it
        _copy_segment(path, tag, address)
        path.unlink()


def _copy_segment(path: Path, tag: bytes, address: Address) -> None:
    """Copy a segment to the address; raises if the address does not have it then."""
    name = f"{path.parent.name}/{path.name}"
    with open_for_reading(path) as file:
        heads = heads_of(frames.OpenFile(file), tag)
    if heads and not _has_bytes(address, heads_name(name), heads):
        address.write(heads_name(name), heads)  # first: a segment that is there has its heads
    if holds(address, name, path):
        return
    address.put(path, name)
    if not holds(address, name, path):
        raise StoreError(f"{address.text}/{name} is not what was sent")


def _has_bytes(address: Address, name: str, data: bytes) -> bool:
    facts = address.facts(name)
    if facts is None or facts.get("size") != len(data):
        return False
    return address.read(name) == data


def holds(address: Address, name: str, path: Path) -> bool:
    """Whether the address has all bytes of a file: by the MD5 that it reports, or by reading them back."""
    facts = address.facts(name)
    if facts is None or facts.get("size") != path.stat().st_size:
        return False
    reported = reported_md5(facts)
    if reported is not None:
        return reported == _md5(path)
    tag = _first_md5(facts, _TAG_NAMES)
    if tag is not None and tag == _md5(path):
        return True
    with open(path, "rb") as file:
        return all(file.read(len(block)) == block for block in address.blocks(name)) and not file.read(1)


def reported_md5(facts: Mapping[str, Any]) -> str | None:
    """The MD5 of a file in the facts that a file system reports, as hexadecimal digits; None if it reports none.

    >>> reported_md5({"md5": "d41d8cd98f00b204e9800998ecf8427e"}), reported_md5({"ETag": '"d41d8cd9-2"'})
    ('d41d8cd98f00b204e9800998ecf8427e', None)
    >>> reported_md5({"md5Hash": "1B2M2Y8AsgTpgAmY7PhCfg=="})
    'd41d8cd98f00b204e9800998ecf8427e'
    """
    return _first_md5(facts, _MD5_NAMES)


def _first_md5(facts: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    """The first of these facts that can be an MD5, as hexadecimal digits."""
    for name in names:
        found = _md5_digits(facts.get(name))
        if found is not None:
            return found
    return None


def _md5_digits(value: object) -> str | None:
    if isinstance(value, (bytes, bytearray)) and len(value) == 16:
        return bytes(value).hex()
    if not isinstance(value, str):
        return None
    text = value.strip('"')
    with suppress(ValueError):
        if len(text) == 32:
            return bytes.fromhex(text).hex()
        decoded = b64decode(text, validate=True)
        if len(decoded) == 16:
            return decoded.hex()
    return None


def _md5(path: Path) -> str:
    digest = hashlib.md5(usedforsecurity=False)
    with open(path, "rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()


def send_folder(parts: Path, address: Address) -> int:
    """Send all journals in a folder that nobody writes any more; return the number of segments.

    Raises a StoreError if a process still writes one of them.
    """
    found = places(parts)
    for place in found:
        if not is_over(place):
            raise StoreError(f"{str(place.path)!r} is still written, or was written on another machine")
    note_address(parts, address)
    try:
        return sum(send_journal(place, address) for place in found)
    except InsituError as error:
        raise StoreError(f"{error}; what was not sent stays in {str(parts)!r}") from error
