"""Names of paths in an HDF5 file, where `/` parts groups and NUL ends a name."""

from __future__ import annotations

from xxhash import xxh3_64_hexdigest

_LONGEST = 200
_EMPTY = "%"


def escaped(path: str) -> str:
    """The path as the name of a group: what HDF5 would take for something else is written in percent.

    >>> escaped("forward.x"), escaped("a/b%"), escaped(""), escaped("."), escaped("tab\\t")
    ('forward.x', 'a%2Fb%25', '%', '%2E', 'tab%09')
    """
    if path == ".":
        return "%2E"
    name = "".join([c if c.isprintable() and c not in "/%" else _percent(c) for c in path]) or _EMPTY
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 40]}%~{xxh3_64_hexdigest(name.encode())}"


def _percent(character: str) -> str:
    return "".join([f"%{byte:02X}" for byte in character.encode("utf-8", "surrogatepass")])
