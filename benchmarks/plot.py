"""The plot of what was measured: each number against its target, and the peers as bars."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.measure import Row, Target
from benchmarks.report import Report, number

TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
GOOD, BAD, PLAIN, INK = "#2a7f62", "#c0392b", "#7f8c9b", "#22303c"


def draw(found: Report, path: Path) -> None:
    """Draw it on a background of its own, which is legible on a light page and on a dark one."""
    from matplotlib import use

    use("Agg")
    from matplotlib import pyplot

    peers = found.topics.get("peers", [])
    judged = [row for row in found.rows if row.target is not None and row not in peers]
    heights = (0.24 * len(judged) + 1.2, 0.24 * len(peers) + 1.2)
    style = {"font.size": 8, "text.color": INK, "axes.labelcolor": INK, "xtick.color": INK, "ytick.color": INK}
    with pyplot.rc_context({**style, "axes.edgecolor": "#c5ccd3"}):
        figure, (above, below) = pyplot.subplots(
            2, 1, figsize=(10, sum(heights)), height_ratios=heights, layout="constrained"
        )
        figure.set_facecolor("white")
        against_targets(above, judged)
        bars(below, peers)
        figure.savefig(path, dpi=110, metadata={"Software": None})
        pyplot.close(figure)


def against_targets(axes: Any, rows: list[Row]) -> None:
    """Each median as a share of its target, with the middle half of the turns."""
    for at, row in enumerate(rows):
        assert row.target is not None
        share, colour = row.target.share, GOOD if row.verdict == "ok" else BAD
        if row.quartiles is not None:
            axes.plot([share(value) for value in row.quartiles], [at, at], color=colour, linewidth=4, alpha=0.35)
        axes.plot(share(row.median), at, "o", color=colour, markersize=5)
    axes.axvline(1, color=INK, linewidth=1)
    labels = [f"{row.name}   {number(row.median, row.unit)} ({row.target})" for row in rows]
    finish(axes, labels, "share of the target: left of the line it is met, right of it over")


def bars(axes: Any, rows: list[Row]) -> None:
    """How many times as long each peer takes as insitu."""
    for at, row in enumerate(rows):
        axes.barh(
            at, row.median, color=PLAIN if row.target is None else GOOD if row.verdict == "ok" else BAD, height=0.6
        )
        if isinstance(row.target, Target):
            axes.plot([row.target.limit] * 2, [at - 0.4, at + 0.4], color=INK, linewidth=1.5)
    medians = [1.0, *(row.median for row in rows)]
    axes.set_xlim(min(medians) / 2, max(medians) * 2)
    labels = [f"{row.name}   {number(row.median, row.unit)}" for row in rows]
    finish(axes, labels, "times as long as insitu; a line is a target, grey has none")
    axes.axvline(1, color=INK, linewidth=1)


def finish(axes: Any, labels: list[str], about: str) -> None:
    """Labels, a logarithmic scale in plain numbers, and the first row on top."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axes.set_xscale("log")
    low, high = axes.get_xlim()
    axes.set_xticks([tick for tick in TICKS if low <= tick <= high])
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_yticks(range(len(labels)), labels)
    axes.invert_yaxis()
    axes.grid(axis="x", color="#e6e9ec")
    axes.set_axisbelow(True)
    axes.set_xlabel(about)
