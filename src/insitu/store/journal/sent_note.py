"""The note in `run.h5.parts` that its segments are sent to an address: a reader finds them there."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

from insitu.errors import StoreError
from insitu.operating_system import READ_NO_LINK
from insitu.store.address import Address
from insitu.store.files import write_whole

NOTE = "address.json"
_LONGEST_NOTE = 4096


def note_address(parts: Path, address: Address) -> None:
    """Note in a folder of journals where their segments are sent; raises if it notes another address."""
    with suppress(StoreError):  # another rank of this machine has written it
        write_whole(parts / NOTE, json.dumps({"address": address.text}).encode(), overwrite=False)
    noted = noted_address(parts)
    if noted != address.text:
        raise StoreError(f"the journals in {str(parts)!r} are sent to {noted!r}, not to {address.text!r}")


def noted_address(parts: Path) -> str | None:
    """The address that a folder of journals notes; None if it notes none."""
    try:
        file = os.open(parts / NOTE, READ_NO_LINK)
    except OSError:
        return None
    try:
        found = json.loads(os.read(file, _LONGEST_NOTE))["address"]
    except (OSError, ValueError, TypeError, KeyError):
        return None
    finally:
        os.close(file)
    if isinstance(found, str):
        return found
    return None


def remove_note(parts: Path) -> None:
    """Remove the note, when no journal is left in the folder."""
    with suppress(OSError):
        (parts / NOTE).unlink()
