"""insitu: see, watch, record and compare every tensor in a PyTorch program, in place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from insitu.errors import (
    ChoiceError,
    InsituError,
    InsituWarning,
    MissingError,
    NewerVersionError,
    NonFiniteError,
    NotRecordedError,
    PatternError,
    RanksError,
    StoreError,
    SubjectError,
)
from insitu.trace.event import Call, Event, Fields, Mark, ModuleFacts, Opaque, Site, Stats, TensorFacts, Variable, Word
from insitu.trace.trace import Trace

if TYPE_CHECKING:
    from insitu.session.guard import guard
    from insitu.session.record import record
    from insitu.session.record_run import record_run
    from insitu.session.watch import watch
    from insitu.store import load
    from insitu.store.run.run import Run
    from insitu.store.run.series import Series
    from insitu.trace.crash import Crash
    from insitu.trace.diff import Cause, Diff, Difference
    from insitu.trace.explain.explanation import Explanation
    from insitu.trace.findings import Finding
    from insitu.trace.missing import Missing
    from insitu.verbs.compare import compare
    from insitu.verbs.explain import explain
    from insitu.verbs.save import save
    from insitu.view import show

__version__ = "0.1.0"

__all__ = [
    "Call",
    "Cause",
    "ChoiceError",
    "Crash",
    "Diff",
    "Difference",
    "Event",
    "Explanation",
    "Fields",
    "Finding",
    "InsituError",
    "InsituWarning",
    "Mark",
    "Missing",
    "MissingError",
    "ModuleFacts",
    "NewerVersionError",
    "NonFiniteError",
    "NotRecordedError",
    "Opaque",
    "PatternError",
    "RanksError",
    "Run",
    "Series",
    "Site",
    "Stats",
    "StoreError",
    "SubjectError",
    "TensorFacts",
    "Trace",
    "Variable",
    "Word",
    "__version__",
    "compare",
    "explain",
    "guard",
    "load",
    "record",
    "record_run",
    "save",
    "show",
    "watch",
]

# Loaded on first use: the first four import torch, which takes seconds; the others take a part of a blink each.
_LATER = {
    "guard": "insitu.session.guard",
    "record": "insitu.session.record",
    "record_run": "insitu.session.record_run",
    "watch": "insitu.session.watch",
    "compare": "insitu.verbs.compare",
    "explain": "insitu.verbs.explain",
    "load": "insitu.store",
    "save": "insitu.verbs.save",
    "show": "insitu.view",
    "Run": "insitu.store.run.run",
    "Series": "insitu.store.run.series",
    "Cause": "insitu.trace.diff",
    "Diff": "insitu.trace.diff",
    "Difference": "insitu.trace.diff",
    "Explanation": "insitu.trace.explain.explanation",
    "Finding": "insitu.trace.findings",
    "Missing": "insitu.trace.missing",
    "Crash": "insitu.trace.crash",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'insitu' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_LATER[name]), name)


def __dir__() -> list[str]:
    return __all__
