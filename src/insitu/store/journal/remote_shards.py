"""The journals at an address, in folders of the same names as in `run.h5.parts`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from insitu.errors import InsituError
from insitu.store.address import Address
from insitu.store.journal.file_pool import JournalFile
from insitu.store.journal.parts import JournalPlace, check_ranks, journal_name, place_named
from insitu.store.journal.sent_note import noted_address

_SEGMENT = re.compile(r"([^/]+)/([^/]+)")


def places_at(address: Address) -> dict[JournalPlace, list[JournalFile]]:
    """All journals at an address with their files, ordered by rank and attempt."""
    found: dict[JournalPlace, list[JournalFile]] = {}
    for place, file in _segments(address, address.sizes()):
        found.setdefault(place, []).append(file)
    check_ranks(found)
    return {place: sorted(found[place], key=lambda file: file.path.name) for place in sorted(found)}


def files_at(address: Address, place: JournalPlace) -> list[JournalFile]:
    """The files of one journal at an address."""
    sizes = address.sizes(place.path.name)
    return sorted((file for _, file in _segments(address, sizes)), key=lambda file: file.path.name)


def _segments(address: Address, sizes: Mapping[str, int]) -> list[tuple[JournalPlace, JournalFile]]:
    """The segments among the files at an address. The paths are names: nothing is there on this machine."""
    found = []
    for name, size in sizes.items():
        match = _SEGMENT.fullmatch(name)
        place = match and place_named(Path(address.root), match[1])
        journal = match and journal_name(match[2])
        if match and place and journal:
            file = JournalFile(place.path / match[2], size, bytes.fromhex(journal.tag), address)
            found.append((place, file))
    return found


def sent_files(place: JournalPlace) -> tuple[list[JournalFile], str]:
    """The segments of a journal that were sent to the noted address; or why that cannot be known."""
    noted = noted_address(place.path.parent)
    if noted is None:
        return [], ""
    try:
        return files_at(Address.parse(noted), place), ""
    except InsituError as error:
        return [], f"the segments that were sent to {noted!r} cannot be read: {error}"
