"""What a page carries, read back without a browser: columns, order, folding, what is news, what is left out."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import os
import re
import stat
from array import array
from collections import Counter
from html.parser import HTMLParser
from itertools import accumulate
from math import isnan
from pathlib import Path
from typing import Any

import pytest
from tests.view.build import Run, linear, site, tensor

from insitu.errors import InsituWarning, PatternError, StoreError, SubjectError
from insitu.trace.compare.traces import compare_traces
from insitu.trace.event import Call, Event, TensorFacts
from insitu.trace.trace import Trace
from insitu.verbs.save import save
from insitu.view import html
from insitu.view.html import page
from insitu.view.page.packing import PackedColumns
from insitu.view.page.tables import bars


class Parts(HTMLParser):
    """The scripts, styles and the policy of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: dict[str, str] = {}
        self._open = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        if tag in ("script", "style", "title"):
            self._open = given.get("id") or tag
        if given.get("http-equiv") == "Content-Security-Policy":
            self.found["policy"] = given["content"] or ""

    def handle_data(self, data: str) -> None:
        if self._open:
            self.found[self._open] = self.found.get(self._open, "") + data

    def handle_endtag(self, tag: str) -> None:
        self._open = ""


def unpacked(text: str) -> dict[str, Any]:
    """The header and the columns of packed data: what the script in the page does."""
    whole = gzip.decompress(base64.b64decode(text))
    start = 4 + int.from_bytes(whole[:4], "little")
    found: dict[str, Any] = json.loads(whole[4:start], parse_constant=lambda name: pytest.fail(f"{name} in JSON"))
    for name, kind, is_delta, length in found["columns"]:
        values = array(kind)
        size = length * values.itemsize
        planes = [whole[start + k * length : start + (k + 1) * length] for k in range(values.itemsize)]
        values.frombytes(bytes(byte for number in zip(*planes, strict=True) for byte in number))
        found[name] = list(accumulate(values)) if is_delta else list(values)
        start += size
    assert start == len(whole)
    return found


def carried(subject: Any, **options: Any) -> dict[str, Any]:
    return unpacked(Parts(page(subject, **options)).found["data"])


def labels(found: dict[str, Any]) -> list[str]:
    return [found["texts"][number] for number in found["row.label"]]


def model() -> Run:
    """Three identical blocks in a model, twice."""
    run, x = Run(), tensor(2, 4)
    for step in range(2):
        run.step = step
        with run.inside(run.module("", "Net", x, out=x, leaf=False, start=step * 1000, duration=900)):
            for number in range(3):
                linear(run, f"h.{number}", 4, 4, x, site=site("x = self.h(x)", 7, "Net.forward", mark="self.h(x)"))
    return run


def test_packed_columns_decode_to_the_same_values() -> None:
    columns = PackedColumns()
    numbers = {"small": [0, 255], "negative": [-1, 5], "wide": [2**31, 7], "huge": [2**40, -(2**60)], "none": []}
    for name, values in numbers.items():
        columns.integers(name, values)
        columns.integers(f"{name} delta", values, delta=True)
    columns.floats("floats", [0.0, -1.5, 3.14159, 65504.0, 3.4e38, None, float("inf"), 1e-5])
    columns.floats("wide floats", [1e300, -1e-300, 2.0, float("nan")])
    found = unpacked(columns.packed({"text": "</script> \ud800"}))
    assert found["text"] == "</script> \ud800"
    assert found["huge"] == [2**40, -(2**53)]
    for name in ("small", "negative", "wide", "none"):
        assert found[name] == found[f"{name} delta"] == numbers[name]
    floats = found["floats"]
    assert floats[:2] == [0.0, -1.5] and floats[2:5] == pytest.approx([3.14159, 65504.0, 3.4e38], rel=1e-4)
    assert isnan(floats[5]) and floats[6] == float("inf") and floats[7] == pytest.approx(1e-5, rel=1e-4)
    assert found["wide floats"][:3] == pytest.approx([1e300, -1e-300, 2.0], rel=1e-4)


def test_rows_are_in_tree_order_and_identical_ones_are_counted() -> None:
    found = carried(model().trace)
    block = ["Linear(4 → 4)", "F.linear"]
    assert labels(found) == ["step 0", "Net", *block * 3, "step 1", "Net", *block * 3]
    assert found["row.depth"] == [0, 1, *[2, 3] * 3] * 2
    assert found["row.alike"] == [2, 1, 3, 1, 0, 1, 0, 1, 0, 1, 3, 1, 0, 1, 0, 1]
    assert found["row.id"] == [-1, *range(7), -1, *range(7, 14)]
    assert found["events"] == 14


def test_tensors_name_the_row_of_their_producer() -> None:
    x = tensor(3)
    made, used = TensorFacts(1, (3,), "f32", "cpu", producer=5), TensorFacts(2, (3,), "f32", "cpu", producer=9)
    relu = Call(5, None, "function", "torch.relu", None, (x,), {}, made)
    add = Call(9, None, "function", "torch.add", None, (made, made), {}, used)
    back = Call(12, None, "aten", "aten.mul", None, (used,), phase="backward", forward=9)
    found = carried(Trace([relu, add, back]))
    given = [found["tensor.made"][number] for number in found["given"]]
    assert found["row.taken"] == [1, 2, 1] and given == [0, 1, 1, 2]
    assert found["row.forward"] == [0, 0, 2] and found["row.is_backward"] == [0, 0, 1]


def test_rows_carry_what_is_unusual_about_a_call() -> None:
    calls: list[Event] = [
        Call(0, None, "module", "Net", mode="compiled"),
        Call(1, None, "function", "torch.sin", mode="vmap", phase="recompute"),
        Call(2, None, "function", "torch.cos"),
    ]
    found = carried(Trace(calls))
    assert [found["texts"][number] for number in found["row.marks"]] == ["compiled", "recompute vmap", ""]


def test_tensors_of_two_runs_are_kept_apart() -> None:
    runs = [Trace([Call(0, None, "function", "torch.rand", result=TensorFacts(1, (3,), "f32", "cpu"))]) for _ in "ab"]
    found = carried(compare_traces(*runs))
    a, b = (found["tensor.same"][number] for number in found["made"])
    assert a != b and found["pair.a"] == [1] and found["pair.b"] == [2]


def test_source_can_be_left_out() -> None:
    assert carried(model().trace)["sites"][1][3] == "x = self.h(x)"
    text = page(model().trace, source=False)
    assert unpacked(Parts(text).found["data"])["sites"][1] == ["model.py", 7, "Net.forward", "", 4, 13, 0]
    assert "self.h" not in gzip.decompress(base64.b64decode(Parts(text).found["data"])).decode("latin-1")


def test_a_part_can_be_chosen() -> None:
    trace = model().trace
    assert labels(carried(trace, steps=[1])) == ["Net", *["Linear(4 → 4)", "F.linear"] * 3]
    assert labels(carried(trace, depth=2)) == ["step 0", "Net", "step 1", "Net"]
    assert labels(carried(trace, only="h.1", steps=[0])) == ["Net", "Linear(4 → 4)", "F.linear"]
    with pytest.raises(PatternError, match=r"did you mean 'h\.1'"):
        page(trace, only="hh.1")


def test_costs_of_a_part_are_those_of_the_whole_trace() -> None:
    run = model()
    for call in run.events:
        if call.kind == "module" and call.path:
            call.flops, call.duration = 8, 200
    found = carried(run.trace, only="h.1", steps=[0])
    assert found["row.flops"][:2] == [24, 8] and found["row.inside"][0] == carried(run.trace)["row.inside"][1] > 2


@pytest.mark.parametrize(("phase", "title"), [("forward", "pass of a loop"), ("backward", "repeated")])
def test_repeated_backward_calls_are_not_called_a_loop(phase: Any, title: str) -> None:
    run, places = Run(), [site("y = f(x)", line, "main", mark="f(x)") for line in (2, 3, 4)]
    with run.inside(run.call("function", "torch.Tensor.backward")):
        for _ in range(5):
            for place, name in zip(places, ("aten.mul", "aten.add", "aten.sum"), strict=True):
                run.call("aten", name, out=tensor(2), site=place, phase=phase)
    assert labels(carried(run.trace)).count(title) == 5


def test_the_policy_allows_this_script_and_this_style_only() -> None:
    parts = Parts(page(model().trace)).found
    for kind in ("script", "style"):
        digest = base64.b64encode(hashlib.sha256(parts[kind].encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in parts["policy"]
    rules = dict(rule.strip().split(" ", 1) for rule in parts["policy"].split(";"))
    assert {name: rules[name] for name in ("default-src", "img-src", "base-uri", "form-action")} == {
        **{"default-src": "'none'", "img-src": "data:", "base-uri": "'none'", "form-action": "'none'"},
    }
    assert "unsafe" not in parts["policy"]
    assert not re.search(r"innerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function", parts["script"])
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", parts["script"] + parts["style"])


def test_the_title_is_escaped_and_taken_from_the_subject() -> None:
    assert Parts(page(Trace(about={"subject": "GPT"}))).found["title"] == "GPT · trace · insitu"
    text = page(Trace(), title="</title><script>\ud800\n")
    assert "<title>&lt;/title&gt;&lt;script&gt;\\ud800\\n · trace · insitu</title>" in text
    text.encode("utf-8")


def test_a_page_shows_traces_and_diffs() -> None:
    with pytest.raises(SubjectError, match="not a list"):
        page([])  # type: ignore[arg-type]


def test_a_page_is_written_to_a_file(tmp_path: Path) -> None:
    path = tmp_path / "run.html"
    save(model().trace, path)
    first = path.read_text("utf-8")
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    with pytest.raises(StoreError, match="is there already"):
        save(model().trace, path)
    save(Trace(), path, overwrite=True)
    assert path.read_text("utf-8") != first
    with pytest.raises(StoreError, match="nowhere"):
        save(Trace(), tmp_path / "nowhere" / "run.html")
    with pytest.raises(SubjectError, match=r"to a file, not to a Trace: save\(trace, 'run\.h5'\)"):
        save("run.html", Trace())  # type: ignore[arg-type]
    assert "<title>mine · trace · insitu</title>" in page(Trace(), title="mine")


def test_a_large_page_warns_and_names_the_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html, "LARGE", 1000)
    with pytest.warns(InsituWarning, match="give only=, steps= or depth="):
        page(Trace())


def test_bars_are_clamped() -> None:
    assert list(bars((1, 10**12, 0, -5))) == [1, 15, *[0] * 14]
    assert len(bars((7,) * 40)) == 16 and bars(()) == bytes(16)


def test_no_two_scripts_declare_the_same_name() -> None:
    """All scripts are joined into one function: there, the second of two functions of one name would win."""
    folder = Path(html.__file__).parent / "page" / "web"
    declared = Counter[str]()
    for name in html.SCRIPTS:
        text = (folder / f"{name}.js").read_text("utf-8")
        declared.update(re.findall(r"^(?:async function|function|class|const|let) (\w+)", text, re.MULTILINE))
    assert [name for name, count in declared.items() if count > 1] == []
    assert {path.stem for path in folder.glob("*.js")} == set(html.SCRIPTS)
    assert {path.stem for path in folder.glob("*.css")} == set(html.STYLES)


def test_a_page_has_the_scripts_without_their_comments() -> None:
    text = page(Trace())
    script = text[text.index("(() => {") : text.rindex("})();")]
    lines = script.splitlines()
    assert not any(line.lstrip().startswith(("//", "* @")) or line.endswith("*/") for line in lines)
    folder = Path(html.__file__).parent / "page" / "web"
    code = (folder / "hits.js").read_text("utf-8").splitlines()
    kept = [line for line in code if not line.lstrip().startswith(("//", "/*", "*"))]
    assert "\n".join(kept) in script
