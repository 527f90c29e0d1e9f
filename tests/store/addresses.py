"""File systems that fail in known ways, in the memory of the test."""

from __future__ import annotations

from threading import Event
from typing import Any, ClassVar

import fsspec
from fsspec.implementations.memory import MemoryFileSystem


class FaultyFiles(MemoryFileSystem):  # type: ignore[misc]
    """Files in memory, at `faulty://`. The class attributes say what goes wrong."""

    protocol = "faulty"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    puts: ClassVar[list[str]] = []
    reads: ClassVar[list[tuple[str, int | None, int | None]]] = []
    is_dead = False
    loses = 0  # bytes at the end of a file that is put
    md5 = ""  # that is reported
    md5_name = "md5"  # under which it is reported
    gate: Event | None = None  # a put waits for it

    def put_file(self, lpath: str, rpath: str, **options: Any) -> None:
        type(self).puts.append(rpath)
        if self.gate is not None:
            self.gate.wait(60)
        self._check()
        with open(lpath, "rb") as file:
            data = file.read()
        self.pipe_file(rpath, data[: len(data) - self.loses])

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **options: Any) -> Any:
        self._check()
        type(self).reads.append((path, start, end))
        return super().cat_file(path, start=start, end=end, **options)

    def info(self, path: str, **options: Any) -> Any:
        self._check()
        found = super().info(path, **options)
        if self.md5:
            found = {**found, self.md5_name: self.md5}
        return found

    def ls(self, path: str, detail: bool = True, **options: Any) -> Any:
        self._check()
        return super().ls(path, detail=detail, **options)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        self._check()
        super().makedirs(path, exist_ok=exist_ok)

    def _check(self) -> None:
        if self.is_dead:
            raise ConnectionError("no route to the host")


def faulty(**faults: Any) -> type[FaultyFiles]:
    """Register a new, empty file system with these faults."""
    kind = type("FaultyFiles", (FaultyFiles,), {"store": {}, "pseudo_dirs": [""], "puts": [], "reads": [], **faults})
    fsspec.register_implementation("faulty", kind, clobber=True)
    return kind
