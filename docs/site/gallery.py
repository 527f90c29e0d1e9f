"""The pages of the gallery."""

from pathlib import Path


def make_gallery(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
