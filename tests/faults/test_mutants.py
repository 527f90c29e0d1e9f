"""Mutants of every form that `load` reads: an error of insitu or what was saved, and never a crash, a hang, all of the
memory, another file opened or a wrong value. `INSITU_FAULTS=full` tries tens of thousands; the same ones each time."""

from __future__ import annotations

import pytest
from tests.faults.amount import amount
from tests.faults.fuzz.hunt import hunt
from tests.faults.fuzz.seeds import FORMS

# How many mutants of each form: a sample that takes seconds, and all.
BLIND = {
    **{"trace": (90, 8000), "packed": (20, 3000), "run": (60, 6000), "gzip": (20, 4000)},
    **{"journal": (8, 1500), "text": (50, 6000)},
}
FORGED = {
    **{"trace": (12, 3000), "packed": (0, 300), "run": (12, 3000), "gzip": (0, 1000)},
    **{"journal": (6, 1500), "text": (30, 4000)},
}
CONFUSED = {"trace": (25, 3000), "packed": (0, 1000), "run": (25, 3000), "gzip": (10, 2000)}
CUT = {
    **{"trace": (20, 4000), "packed": (0, 2000), "run": (20, 4000), "gzip": (0, 2000)},
    **{"journal": (0, 500), "text": (50, 4000)},
}
WAYS = {"blind": BLIND, "forged": FORGED, "confused": CONFUSED, "cut": CUT}


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("form", FORMS)
def test_no_mutant_does_harm(form: str) -> None:
    counts = {way: amount(*amounts[form]) for way, amounts in WAYS.items() if form in amounts}
    found = hunt(form, {way: count for way, count in counts.items() if count})
    assert found.faults == []
    assert sum(found.outcomes.values()) == sum(counts.values())
    # The mutants must be near enough to a whole file that some of them are read, and far enough that some are not.
    assert found.outcomes["loaded"] and (form == "journal" or found.outcomes["refused"])
