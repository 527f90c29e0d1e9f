"""The page of the benchmarks has a row for each target, and is that of the benchmarks that there are now."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from benchmarks.__main__ import TOPICS
from benchmarks.measure import Row, at_least, at_most
from benchmarks.page import IN_SHORT, lines
from benchmarks.plot import draw
from benchmarks.report import Report, load, save

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"
MODELS = ("MHA", "GPT2", "CNN")
COMPARED = ("equal", "a layer missing", "all modules renamed", "every call different", "half the steps")
VIEWS = ("tree", "tree unfolded", "code", "table")

# What was promised: the topic, the row, the target.
TARGETS = [
    *(("overhead", f"everything on / no-op floor, {name}", "≤ 1.6") for name in MODELS),
    *(("overhead", f"functions + modules + stacks / untraced, {name}", "≤ 2.5") for name in MODELS),
    *(("overhead", f"everything on, forward + backward / tuned no-op floor, {name}", "≤ 1.5") for name in MODELS),
    ("guarding", "guard / record: GPT2, forward and backward", "≤ 1.35"),
    ("guarding", "guard with last=20 / guard: GPT2, with SGD", "≤ 1.15"),
    *(("comparing", f"comparing 100,000 events, {name}", "≤ 5") for name in COMPARED),
    ("errors", "a torch error raised and caught in a session / alone", "≤ 2"),
    ("variables", "loop over a float, recorded / alone", "≤ 3"),
    ("variables", "loop over a float, Tensor Tracker / recorded, by overhead", "≥ 50"),
    ("variables", "what a watched function calls / alone", "≤ 1.05"),
    ("variables", "decorated with INSITU=0 / alone", "≤ 1.01"),
    ("recording", "recording two small variables / alone", "≤ 1.05"),
    ("recording", "recording 8 tensors of 0.8 MB in all / alone", "≤ 1.2"),
    ("recording", "recording 200 small tensors, one by one with h5py / insitu, by overhead", "≥ 5"),
    ("recording", "recording statistics of every module / alone", "≤ 1.3"),
    ("storage", "journal / raw file, 200 × 256 B a step", "≤ 15"),
    ("storage", "journal / raw file, 4 × 4 MiB a step", "≤ 2.5"),
    ("large", "everything on / untraced, meta Llama-70B", "≤ 1.5"),
    ("large", "bytes an event, meta Llama-70B, second pass", "≤ 300"),
    *(("text", f"100,000 events as text, {name}", "≤ 1") for name in VIEWS),
    ("text", "100,000 events as a page, size", "≤ 3,000,000"),
    ("pages", "a page of 100,000 events, opened", "≤ 2"),
    ("pages", "a page of 100,000 events, searched", "≤ 0.2"),
    ("pages", "a page of 1,000,000 events, made", "≤ 30"),
    ("pages", "a page of 1,000,000 events, most memory", "≤ 4,000,000,000"),
    ("pages", "a page of 1,000,000 events, opened", "≤ 8"),
    ("command", "insitu show small.h5", "≤ 0.3"),
    ("peers", "torch DebugMode, everything on / insitu, GPT2", "≥ 15"),
    ("peers", "torchlens.trace / insitu, GPT2", "≥ 30"),
    ("peers", "torch-code-tracing, quiet / insitu, GPT2", "≥ 50"),
]


def sections() -> dict[str, str]:
    """The text of each topic."""
    parts = re.split(r"^## (.*)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def table(text: str) -> dict[str, list[str]]:
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| ")]
    return {name: cells for name, *cells in rows if name}


def test_the_page_is_that_of_the_benchmarks_there_are() -> None:
    found = sections()
    assert [name for name in found if name in TOPICS] == list(TOPICS)
    for topic, about in TOPICS.items():
        assert f"{about[:1].upper()}{about[1:]}." in found[topic], topic
        assert table(found[topic]), f"{topic} was not measured: python -m benchmarks --page docs/benchmarks.md"


def test_what_is_told_first_was_measured() -> None:
    measured = {name for topic in TOPICS for name in table(sections()[topic])}
    assert set(IN_SHORT) <= measured


@pytest.mark.parametrize(("topic", "name", "target"), TARGETS, ids=[name for _, name, _ in TARGETS])
def test_each_target_has_a_row_with_a_verdict(topic: str, name: str, target: str) -> None:
    measured, _, stated, verdict, _ = table(sections()[topic])[name]
    number = float(re.sub(r"[^\d.]", "", measured))
    limit = float(target.split()[1].replace(",", ""))
    assert stated == target
    is_met = number >= limit if target.startswith("≥") else number <= limit
    if number != pytest.approx(limit, rel=0.005):  # it was judged before it was rounded
        assert verdict == ("ok" if is_met else "**over**")


def test_what_was_measured_comes_back_and_is_drawn(tmp_path: Path) -> None:
    slow = Row("slow / alone", [2.0, 3.0, 4.0], at_most(2.5))
    peer = Row("a peer / insitu", [40.0], at_least(30), note="more")
    report = Report({"python": "3.11"}, {"overhead": [slow], "peers": [peer]})
    save(report, tmp_path / "found.json")
    assert load(tmp_path / "found.json") == report
    text = "\n".join(lines(report, {"overhead": "what", "peers": "who"}, "plot.png"))
    assert "1 of 2 targets are met in this run. Over:\n\n- slow / alone: 3.00x (≤ 2.5)\n" in text
    assert "| slow / alone | 3.00x | 2.50x … 3.50x | ≤ 2.5 | **over** |  |" in text
    draw(report, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 1000
