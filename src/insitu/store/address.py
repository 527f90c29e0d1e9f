"""Addresses such as `s3://bucket/run`: folders on another machine, through fsspec, which torch brings along.

Every error of a file system that somebody else wrote becomes a StoreError that names the address.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from insitu.errors import ChoiceError, InsituError, MissingError, StoreError

SEPARATOR = "://"
BLOCK = 2**22  # bytes that are read or written at once


def is_address(path: object) -> bool:
    """Whether a text is an address, and not the path of a file.

    >>> is_address("s3://bucket/run"), is_address("run.h5")
    (True, False)
    """
    return isinstance(path, str) and SEPARATOR in path


@dataclass(frozen=True, slots=True)
class Address:
    """A folder at an address."""

    text: str
    root: str
    files: Any = field(repr=False, compare=False)  # the file system of fsspec

    @classmethod
    def parse(cls, text: str) -> Address:
        """The folder that a text names; an error if nothing can be written there, as far as the text shows."""
        core: Any = import_module("fsspec.core")
        try:
            files, root = core.url_to_fs(text, use_listings_cache=False)
        except ImportError as error:
            raise MissingError(f"{text!r} needs a package that is not installed: {error}") from None
        except ValueError as error:
            raise ChoiceError(f"{text!r} is not an address that fsspec knows: {error}") from None
        if not root.strip("/"):
            raise ChoiceError(f"{text!r} names no folder: write it as in 's3://bucket/run'")
        return cls(text.rstrip("/"), root.rstrip("/"), files)

    @property
    def name(self) -> str:
        """The last part of the address."""
        return posixpath.basename(self.root)

    def join(self, *names: str) -> str:
        """The path of a file in the folder, as the file system spells it."""
        return posixpath.join(self.root, *names)

    def sizes(self, folder: str = "") -> dict[str, int]:
        """The bytes of every file in the folder, or in a folder in it, by its path from the folder of this address."""
        top = self.join(folder).rstrip("/")
        with self._asking():
            try:
                self.files.ls(top, detail=False)  # `find` takes a folder that cannot be read for an empty one
                found = self.files.find(top, detail=True)
            except FileNotFoundError:
                return {}
        begin = len(self.root) + 1
        return {str(path)[begin:]: int(facts.get("size") or 0) for path, facts in found.items()}

    def facts(self, name: str) -> dict[str, Any] | None:
        """The facts about a file that the file system knows; None if the file does not exist."""
        with self._asking():
            try:
                found: dict[str, Any] = self.files.info(self.join(name))
            except FileNotFoundError:
                return None
        return found

    def read(self, name: str, start: int = 0, length: int | None = None) -> bytes:
        """Some of the bytes of a file; fewer if it ends before."""
        if length == 0:
            return b""
        end = None if length is None else start + length
        with self._asking():
            found: bytes = self.files.cat_file(self.join(name), start=start, end=end)
        return found

    def blocks(self, name: str) -> Iterator[bytes]:
        """All bytes of a file, some at a time."""
        with self._asking(), self.files.open(self.join(name), "rb") as file:
            while block := file.read(BLOCK):
                yield block

    def write(self, name: str, data: bytes) -> None:
        """Write a small file."""
        target = self.join(name)
        with self._asking():
            self.files.makedirs(posixpath.dirname(target), exist_ok=True)
            self.files.pipe_file(target, data)

    def put(self, path: Path, name: str) -> None:
        """Copy a file of this machine to the address."""
        target = self.join(name)
        with self._asking():
            self.files.makedirs(posixpath.dirname(target), exist_ok=True)
            self.files.put_file(str(path), target)

    @contextmanager
    def open_for_writing(self, name: str) -> Iterator[Any]:
        """A new file at the address."""
        with self._asking():
            self.files.makedirs(self.root, exist_ok=True)
            with self.files.open(self.join(name), "wb") as file:
                yield file

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """Errors of the file system as a StoreError; a program may install any file system, which raises anything."""
        try:
            yield
        except InsituError:
            raise
        except Exception as error:
            raise StoreError(f"{self.text!r}: {type(error).__name__}: {error}") from error
