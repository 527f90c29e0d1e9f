"""Texts that programs are expected to print, written anew by `pytest --update`."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.dropins.running import HERE

# A program that needs its arguments.
collect_ignore = ["programs/two_ranks.py"]


@pytest.fixture
def check(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare a text with the file of that name; what the seeds show is never written anew."""

    def check(name: str, text: str) -> None:
        path = HERE / "expected" / name
        if request.config.getoption("--update"):
            path.write_text(text, "utf-8")
        assert text == path.read_text("utf-8")

    return check
