"""What was measured, as a page of the documentation: tables, verdicts and a plot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks import report
from benchmarks.measure import Row
from benchmarks.plot import draw

HEAD = "| | measured | middle half | target | verdict | |\n|---|---:|---|---|---|---|"
# What most people want to know first: a row, and what it says.
IN_SHORT = {
    "functions + modules + stacks / untraced, GPT2": (
        "a forward pass of a tiny GPT2 under `insitu.record()`, times alone"
    ),
    "modules only / untraced, GPT2": 'the same with `level="modules"`',
    "everything on, a session for each pass / untraced, GPT2": 'the same with `level="aten"`, a session for each pass',
    "recording two small variables / alone": (
        "a training step of 8 linear layers with two variables recorded to a file, times alone"
    ),
    "guard / record: GPT2, forward and backward": (
        "a forward and backward pass of the tiny GPT2 under `insitu.guard`, times the same session without checks"
    ),
    "torch DebugMode, everything on / insitu, GPT2": "torch's DebugMode on the tiny GPT2, times insitu",
    "torchlens.trace / insitu, GPT2": "torchlens on the tiny GPT2, times insitu",
    "torch-code-tracing, quiet / insitu, GPT2": "torch-code-tracing on the tiny GPT2, times insitu",
    "100,000 events as text, tree": "100,000 events as a tree in the terminal",
}
REPEAT = """
## How it is measured

{method} Both times of a ratio are from the same turn, so a slow moment of the machine affects both. The number is the
median; the middle half of the turns is between the two numbers beside it. Memory and waiting times are shown as
measured. "over" means that the median misses the target, by a little or by much.

MHA is three rounds of hand-written attention, GPT2 is a model of `transformers` with 4 layers of width 32, CNN has six
small convolutions, and Llama-70B is on the meta device. `benchmarks/models.py` has them all.

Targets are for small models, where a tool costs most. An operator of a large model takes longer, but the work of
insitu for it takes the same time.

`make bench` repeats the measurement: it makes its own environment and prints these tables. This command writes the
page again:

    .venv-bench/bin/python -m benchmarks --json results.json --page docs/benchmarks.md

`--quick` makes a fifth of the repetitions, and the name of a topic measures only that topic. The number of calls and
allocations for each event does not depend on the machine: it is in `tests/budget.txt`, and a test checks it.
"""


def write(found: report.Report, topics: Mapping[str, str], path: Path) -> None:
    """Write the page, and the plot into the folder for pictures beside it."""
    picture = path.parent / "pictures" / f"{path.stem}.png"
    picture.parent.mkdir(exist_ok=True)
    draw(found, picture)
    path.write_text("\n".join(lines(found, topics, f"pictures/{picture.name}")), encoding="utf-8")


def lines(found: report.Report, topics: Mapping[str, str], picture: str) -> Iterator[str]:
    """The lines of the page."""
    yield "# What it costs\n"
    yield from in_short(found.rows)
    if (effort := found.environment.get("effort", "full")) != "full":
        yield f"This run was made with less effort than a full one ({effort}): its numbers are rough.\n"
    yield f"![Each number against its target, and how much longer the others take]({picture})\n"
    yield summary(found.rows) + "\n"
    yield "Measured with " + ", ".join(f"{name} {value}" for name, value in found.environment.items()) + ".\n"
    for topic, about in topics.items():
        rows = found.topics.get(topic)
        yield f"## {topic}\n\n{about[:1].upper()}{about[1:]}.\n"
        yield "\n".join([HEAD, *map(line, rows)]) + "\n" if rows else "This was not measured.\n"
    yield REPEAT.format(method=report.METHOD).strip() + "\n"


def in_short(rows: list[Row]) -> Iterator[str]:
    """The numbers that most people want to know."""
    numbers = {row.name: report.number(row.median, row.unit) for row in rows}
    yield "\n".join(f"- {text}: **{numbers[name]}**" for name, text in IN_SHORT.items() if name in numbers) + "\n"


def summary(rows: list[Row]) -> str:
    """How many targets are met, and which are not."""
    judged = [row for row in rows if row.target is not None]
    over = [row for row in judged if row.verdict == "over"]
    text = f"{len(judged) - len(over)} of {len(judged)} targets are met in this run."
    if over:
        found = [f"- {row.name}: {report.number(row.median, row.unit)} ({row.target})" for row in over]
        text = "\n".join([f"{text} Over:\n", *found])
    return text


def line(row: Row) -> str:
    """A row of a table."""
    cells = report.cells(row)
    return "| " + " | ".join(f"**{cell}**" if cell == "over" else cell for cell in cells) + " |"
