"""Whole files of every form that `insitu.load` reads, and what must come out of each: mutants are made of them."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.store.example import everything, picture
from tests.store.recorded import Expected, record

from insitu import store
from insitu.store.run.merge import merge_journals
from insitu.trace.event import Call, Stats, TensorFacts, Variable
from insitu.trace.trace import Trace

FORMS = ("trace", "packed", "run", "gzip", "journal", "text")


@dataclass(frozen=True)
class Seed:
    """A whole file, or a folder of journals, in a place of its own; `truth` is what it holds."""

    form: str
    path: Path
    truth: Any
    others: tuple[bytes, ...] = field(default=(), repr=False)

    @property
    def target(self) -> Path:
        """The file to spoil: of journals, the one of rank 0."""
        if self.form != "journal":
            return self.path
        return next(iter(sorted((self.path / "rank00000").iterdir())))


def seed(form: str, folder: Path) -> Seed:
    """The seed of a form, and the bytes of other files to splice with."""
    made = folder / "seed"
    made.mkdir(parents=True, exist_ok=True)
    others = tuple(_file(other, made / other)[0] for other in ("trace", "run"))
    path = made / form / ("run.trace" if form == "text" else "run.h5")
    if form == "journal":
        path = path.with_name("run.h5.parts")
        path.parent.mkdir()
        return Seed(form, path, _known(record(path)), others)
    return Seed(form, path, _file(form, path.parent)[1], others)


def _file(form: str, folder: Path) -> tuple[bytes, Any]:
    """A file in a folder: its bytes, and what it holds."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    path = folder / ("run.trace" if form == "text" else "run.h5")
    if form in ("run", "gzip"):
        truth: Any = _known(record(folder / "run.h5.parts"))
        merge_journals(folder / "run.h5.parts", path, compression="gzip" if form == "gzip" else "none")
    else:
        trace = layered() if form == "packed" else everything()
        store.save(trace, path)
        truth = picture(store.load(path))
    return path.read_bytes(), truth


def layered() -> Trace:
    """A trace of many like calls, so that its columns are large enough to be compressed."""
    events: list[Any] = []
    for number in range(0, 1560, 3):
        stats = Stats(count=6, min=-1.0, max=float(number), mean=0.5, histogram=(1, 2, 3))
        x = TensorFacts(number, (2, 3), "f32", "cpu", producer=number - 2 if number else None, stats=stats)
        events.append(Call(number, None, "module", f"Layer{number}", args=(x,), result=x, start=number))
        events.append(Call(number + 1, number, "function", "torch.relu", args=(x, 0.5), result=x, start=number + 1))
        events.append(Variable(number + 2, number, f"x.{number % 7}", x, ("values",), None, number + 2))
    return Trace(events, about={"subject": "Layered"})


def _known(expected: Expected) -> dict[Any, Any]:
    return {(name, *row[:3]): row[3] for name, rows in expected.rows.items() for row in rows}
