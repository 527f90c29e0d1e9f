"""`python -m benchmarks [names…] [--quick] [--json FILE] [--page FILE.md]`: measure, and print one table.

The exit code says whether everything could be measured, not whether it was fast: that depends on the machine.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
import traceback
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from benchmarks import report
from benchmarks.measure import Effort, Row

# The peers come last: some of them leave torch changed.
TOPICS = {
    "overhead": "a session at each level, against the no-op floors and running alone",
    "deep": "the same, called from sixty frames further down",
    "inactive": "a program that has imported insitu and does not use it",
    "guarding": "a guard on a training step, against the same session without checks and detect_anomaly",
    "comparing": "two traces of 100,000 events compared",
    "errors": "what a session adds to an exception",
    "variables": "watched functions and variables",
    "recording": "values of a training run, recorded at each step",
    "storage": "the journal and the file of a recorded run",
    "large": "Llama-70B on the meta device: time and memory",
    "text": "100,000 events as text, and as a page",
    "pages": "pages of 100,000 and of 1,000,000 events: made, opened, searched",
    "command": "the time that `insitu show` of a small file takes",
    "peers": "DebugMode, torchlens, torch-code-tracing, torchview, torchinfo",
}


def main() -> int:
    """Measure the topics that were asked for."""
    options = parser().parse_args()
    if options.page and not options.again:
        import matplotlib  # noqa: F401  a page needs it: better to know now than when all is measured
    found = report.load(options.again) if options.again else run(options)
    print(", ".join(f"{name} {version}" for name, version in found.environment.items()))
    print(report.METHOD, "gc thresholds:", gc.get_threshold(), end="\n\n")
    print(report.table(found.rows))
    if options.page:
        from benchmarks import page

        page.write(found, TOPICS, options.page)
    failed = [topic for topic, rows in found.topics.items() if not rows]
    for topic in failed:
        print(f"{topic} could not be measured: see above", file=sys.stderr)
    return 1 if failed else 0


def run(options: argparse.Namespace) -> report.Report:
    """Measure; a topic that fails has no rows. What was measured is saved topic by topic."""
    prepare()
    effort = Effort("once" if options.once else "quick" if options.quick else "full")
    found = report.Report({**report.environment(), "effort": effort.name}, {})
    for topic in options.names or TOPICS:
        found.topics[topic] = []
        try:
            found.topics[topic] += measured(topic, effort)
        except Exception:
            traceback.print_exc()
        if options.json:
            report.save(found, options.json)
    return found


def parser() -> argparse.ArgumentParser:
    """The command line."""
    topics = "\n".join(f"  {name:10}{about}" for name, about in TOPICS.items())
    made = argparse.ArgumentParser(
        "python -m benchmarks",
        description="Measure what insitu costs.",
        epilog=f"names:\n{topics}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("names", nargs="*", type=known_topic, help="what to measure (default: everything)")
    made.add_argument("--quick", action="store_true", help="fewer repeats: about a minute, and more noise")
    made.add_argument("--once", action="store_true", help="measure everything once: does it run?")
    made.add_argument("--json", type=Path, metavar="FILE", help="also write all that was measured to a file")
    made.add_argument(
        "--page", type=Path, metavar="FILE.md", help="also write a page, and a plot to pictures/ beside it"
    )
    made.add_argument("--again", type=Path, metavar="FILE", help="measure nothing: report what --json has written")
    return made


def known_topic(name: str) -> str:
    """The name, if it is one of a topic."""
    if name not in TOPICS:
        raise argparse.ArgumentTypeError(f"no benchmark is called {name!r}: choose from {', '.join(TOPICS)}")
    return name


def prepare() -> None:
    """One thread, so that CPU time is time."""
    import torch

    torch.set_num_threads(1)


def measured(topic: str, effort: Effort) -> Iterator[Row]:
    """The rows of a topic, with a sign of life for each."""
    started = time.perf_counter()
    print(f"{topic}: {TOPICS[topic]}", file=sys.stderr, flush=True)
    for row in import_module(f"benchmarks.{topic}").rows(effort):
        print(f"  {row.name}: {report.number(row.median, row.unit)}", file=sys.stderr, flush=True)
        yield row
    print(f"  {time.perf_counter() - started:.0f} s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
