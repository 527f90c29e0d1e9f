"""`insitu.show` of what is not a trace: diffs, explanations, findings, calls."""

from __future__ import annotations

import io
from typing import Any

import pytest

import insitu
from insitu.errors import ChoiceError, SubjectError
from insitu.trace.event import Call, TensorFacts
from insitu.trace.explain.explanation import Explanation
from insitu.trace.findings import MissingGradients

NOUNS: dict[str, tuple[Any, str]] = {
    "diff": (insitu.Diff(), "nothing to compare"),
    "explanation": (Explanation("KeyError", "'bias'"), "KeyError: 'bias'"),
    "finding": (MissingGradients(path="a", paths=("a", "b"), passes=3), "2 parameters got no gradient"),
    "call": (Call(0, None, "function", "torch.ones", args=(3,), result=TensorFacts(0, (3,), "f32", "cpu")), "f32[3]"),
}


def shown(subject: Any, **options: Any) -> str:
    file = io.StringIO()
    insitu.show(subject, file=file, **options)
    return file.getvalue()


@pytest.mark.parametrize("name", NOUNS)
def test_noun_is_printed(name: str) -> None:
    subject, text = NOUNS[name]
    assert text in shown(subject, color=False)
    assert "\x1b[" not in shown(subject, color=False)


def test_colours_are_written_on_request() -> None:
    assert "\x1b[" in shown(NOUNS["explanation"][0], color=True)


@pytest.mark.parametrize(("option", "value"), [("view", "code"), ("only", "h.*"), ("unfold", True)])
def test_options_of_a_trace_are_refused(option: str, value: Any) -> None:
    with pytest.raises(ChoiceError, match=f"{option} is for a Trace, and this is a Diff"):
        shown(insitu.Diff(), **{option: value})


def test_other_objects_are_refused_with_a_way_out() -> None:
    with pytest.raises(SubjectError, match=r"needs a Trace, Diff, .* got int: .*insitu\.record"):
        shown(3)
