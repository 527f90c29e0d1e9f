"""Calls, explanations, findings and guards in a notebook."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest
import torch
from tests.view.build import site, stats, tensor
from tests.view.hostile import STRINGS, hostile_trace
from tests.view.notebook.outline import Outline

import insitu
from insitu.trace.event import Call, ModuleFacts, Stats, TensorFacts
from insitu.trace.explain.explanation import Explanation, ExpressionSite, Misfit, Origin, OriginKind, Underline
from insitu.trace.findings import MissingGradients, NonFiniteResult, TensorOperand

TAGS = {"div", "style", "span", "b", "pre", "mark", "table", "tbody", "tr", "td", "img"}
ATTRIBUTES = {"class", "src", "width", "height", "alt"}
PLACE = site("    y = torch.log(x)", 7, "forward", mark="torch.log(x)")
OUT = TensorFacts(
    1, (2, 3), "f32", "cpu", stats=Stats(count=6, min=-1.0, max=2.0, mean=0.5, std=1.0, zeros=2, histogram=(1, 2, 3))
)


def body(forms: dict[str, str]) -> str:
    """The text that a reader sees of the HTML."""
    return unescape(re.sub("<[^>]*>", "", forms["text/html"].partition("</style>")[2]))


def log(**more: Any) -> Call:
    more.setdefault("result", OUT)
    module = ModuleFacts("h.3.attn", "Attention")
    return Call(9, None, "function", "torch.log", module, (tensor(2, 3),), {"out": None}, site=PLACE, **more)


def test_a_call_shows_its_source_its_operands_and_a_histogram() -> None:
    forms = log(duration=1_300_000)._repr_mimebundle_()
    assert forms["text/plain"].splitlines() == [
        "torch.log  in h.3.attn",
        "  model.py:7 in forward",
        "    y = torch.log(x)",
        "        ────────────",
        "  in    f32[2, 3] cpu",
        "  out   f32[2, 3] cpu  -1 … 2  mean 0.5  std 1  2 of 6 are 0",
        "  when  1.3ms · step 0",
    ]
    outline = Outline(forms["text/html"])
    assert "<mark>torch.log(x)</mark>" in forms["text/html"]
    assert outline.images[0]["alt"] == "histogram from -1 to 2: ▁▅█"
    assert outline.tags == TAGS


def test_a_module_call_is_named_by_its_path() -> None:
    module = ModuleFacts("fc", "Linear", settings={"in_features": 4, "out_features": 8})
    call = Call(0, None, "module", "Linear", module, (tensor(2, 4),), result=tensor(2, 8))
    assert call._repr_mimebundle_()["text/plain"].splitlines()[0] == "fc  Linear(4 → 8)"


def test_a_call_that_raised_says_what() -> None:
    forms = log(result=None, raised="ValueError", message="no\nmore")._repr_mimebundle_()
    assert "  raised  ✗ ValueError: no\n" in forms["text/plain"] and "i-error" in forms["text/html"]


def test_the_tensors_of_a_container_are_counted_beyond_some() -> None:
    call = Call(0, None, "function", "torch.cat", args=([tensor(number) for number in range(30)],))
    text = call._repr_mimebundle_()["text/plain"]
    assert "list, len 30" in text and "… 22 more tensors" in text


def explanation() -> Explanation:
    place = ExpressionSite("attn.py", 4, "forward", "q + bias")
    misfit = Misfit("dimension -1: 24 and 25 differ", dimension=-1)
    origin = Origin(OriginKind.PRODUCED, ExpressionSite("model.py", 18, text="torch.zeros(25)"), "bias")
    underline = Underline(4, 4, 8, tensor(6, 24, 25))
    return Explanation("RuntimeError", "no", place, ("h.3",), ((4, "q + bias"),), (underline,), (misfit,), (origin,))


def test_an_explanation_is_coloured_and_its_misfit_is_red() -> None:
    forms = explanation()._repr_mimebundle_()
    assert forms["text/plain"] == str(explanation())
    assert body(forms).rstrip() == str(explanation())
    assert re.search(r'<span class="i-red"> *✗ dimension -1: 24 and 25 differ</span>', forms["text/html"])
    assert re.search(r'<span class="i-cyan"> *╰ f32\[6, 24, 25\]</span>', forms["text/html"])


def finding(**more: Any) -> NonFiniteResult:
    out = tensor(3, stats=stats(-1.0, 1.0, inf=1))
    operand = TensorOperand(tensor(3, stats=stats(0.0, 2.0)), name="x")
    return NonFiniteResult(kind="inf", call=log(), site=PLACE, output=out, operands=(operand,), **more)


def test_a_finding_is_a_card_with_its_evidence() -> None:
    forms = finding(has_finite_inputs=True)._repr_mimebundle_()
    assert forms["text/plain"] == finding(has_finite_inputs=True).text
    shown = body(forms)
    assert "error  torch.log produced Inf from finite inputs" in shown and "model.py:7 in forward" in shown
    assert "1 Inf of 10" in shown and "x  f32[3]  0 … 2" in shown
    assert 'class="i-card i-error"' in forms["text/html"]


def test_findings_about_training_are_warnings() -> None:
    forms = MissingGradients(path="a", paths=("a", "b"), passes=3)._repr_mimebundle_()
    assert body(forms) == "warning  2 parameters got no gradient in 3 backward passes: a, b"


def test_a_guard_shows_each_finding_once_with_how_often() -> None:
    with insitu.guard(action="record") as guard:
        for _ in range(3):
            torch.log(torch.zeros(2, requires_grad=True))
    forms = guard._repr_mimebundle_()
    assert repr(guard) == "<Guard: 1 finding>"
    assert forms["text/plain"].startswith("Guard: 1 finding\n") and guard.findings[0].text in forms["text/plain"]
    assert forms["text/html"].count('class="i-card') == 1 and "× 3" in body(forms)


def test_a_guard_without_findings_says_so() -> None:
    with insitu.guard() as guard:
        assert guard._repr_mimebundle_()["text/plain"] == repr(guard)[1:-1] == "Guard: no findings so far"
    assert guard._repr_mimebundle_()["text/plain"] == repr(guard)[1:-1] == "Guard: no findings"
    assert body(guard._repr_mimebundle_()) == "Guard: no findings"


def hostile_objects() -> list[Any]:
    """Objects with hostile texts in every field."""
    trace = hostile_trace()
    found: list[Any] = [*trace.calls]
    for text in STRINGS:
        place = ExpressionSite(text, 1, text, text)
        rows = (Misfit(text, way_out=text, names=(text,)),)
        origins = (Origin(OriginKind.PASSED, place, text, text),)
        source = ((1, text),)
        values = (Underline(1, 0, 3, text),)
        found.append(Explanation(text, text, place, (text,), source, values, rows, origins))
    for call in trace.calls:
        operand = TensorOperand(call.outputs[0] if call.outputs else tensor(1), call.path, call, call)
        parts = {"path": call.path, "call": call, "site": call.site}
        found.append(NonFiniteResult(kind="nan", operands=(operand,), modules=(call.path,), **parts))
        found.append(MissingGradients(paths=(call.path,), passes=1, **parts))
    return found


@pytest.mark.parametrize("subject", hostile_objects(), ids=lambda item: type(item).__name__)
def test_hostile_texts_are_texts(subject: Any) -> None:
    forms = subject._repr_mimebundle_()
    assert "cannot be shown" not in forms["text/plain"]
    outline = Outline(forms["text/html"])
    assert outline.tags <= TAGS and outline.attributes <= ATTRIBUTES
    assert forms["text/html"].encode() and forms["text/plain"].encode()


def test_a_call_that_cannot_be_shown_does_not_raise() -> None:
    forms = Call(0, None, "function", None)._repr_mimebundle_()  # type: ignore[arg-type]
    assert set(forms) == {"text/plain"} and "it cannot be shown" in forms["text/plain"]
