"""What must hold of a long training, and the table that shows it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from tests.soak.measure import Window
from tests.soak.soaking import Soaked

MB = 2**20
MORE = 800  # blocks or objects may be there or not, as the tapes are at that moment; 100,000 steps must not leave more
SLOWER = 1.3
COLUMNS = {"step": 8, "cpu ms": 7, "wall ms": 7, "RSS MB": 7, "blocks": 9, "objects": 8, "files": 5}
COLUMNS |= {"threads": 7, "B/step": 7}
HEAD = "  ".join(f"{name:>{width}}" for name, width in COLUMNS.items())


@dataclass(frozen=True, slots=True)
class Invariant:
    """What must hold, what was measured, and whether it does."""

    name: str
    measured: str
    holds: bool


def row(window: Window, before: Window | None = None) -> str:
    """A line of the table."""
    steps = window.step - before.step if before is not None else window.step + 1
    grown = (window.recorded - (before.recorded if before is not None else 0)) / steps
    return (
        f"{window.step + 1:8,}  {window.cpu * 1e3:7.2f}  {window.wall * 1e3:7.2f}  {window.rss / MB:7.1f}"
        f"  {window.blocks:9,}  {window.objects:8,}  {window.files:5}  {window.threads:7}  {grown:7.0f}"
    )


def invariants(soaked: Soaked, *, timed: bool) -> list[Invariant]:
    """All that must hold; the speed only where it is `timed`, for it is no better than the machine."""
    windows = soaked.meter.windows
    kinds, left = grown(soaked), "; ".join(soaked.left)
    found = [
        *memory(windows),
        Invariant("no type has ever more objects", kinds or "none", not kinds),
        *handles(windows),
        Invariant("it is readable at any moment", reads_of(soaked), not soaked.reader_failed and len(soaked.reads) > 2),
        Invariant("every step was printed", f"{soaked.lines:,} lines", soaked.lines >= 4 * soaked.steps),
        Invariant("the guard found nothing", f"{soaked.findings} findings", soaked.findings == 0),
        Invariant("nothing is left behind", left or "nothing", not left),
    ]
    return found + ([speed(windows)] if timed else [])


def memory(windows: list[Window]) -> list[Invariant]:
    """What is held in the last third of the training, against the middle one."""
    third = len(windows) // 3
    middle, last = windows[third:-third], windows[-third:]
    blocks = median(each.blocks for each in last) - median(each.blocks for each in middle)
    rss = max(each.rss for each in last) - max(each.rss for each in middle)
    return [
        Invariant("allocated blocks are flat", f"{blocks:+,.0f} of {middle[0].blocks:,}", blocks < MORE),
        Invariant("resident memory is flat", f"{rss / MB:+.1f} MB", rss < 16 * MB),
    ]


def handles(windows: list[Window]) -> list[Invariant]:
    """Files and threads. A file of the journal that is full stays open until it is on the disk: for a second."""
    later = windows[len(windows) // 3 :]
    files, threads = [each.files for each in later], [each.threads for each in later]
    sizes = [(now.recorded - before.recorded) / (now.step - before.step) for before, now in pairwise(later)]
    few, many = min(sizes), max(sizes)
    return [
        Invariant("no file stays open", f"{min(files)} to {max(files)}", max(files) <= median(files) + 1),
        Invariant("no thread is left", f"{min(threads)} to {max(threads)}", len(set(threads)) == 1),
        Invariant("the file grows evenly", f"{few:.0f} to {many:.0f} bytes a step", many < 1.05 * few),
    ]


def reads_of(soaked: Soaked) -> str:
    """How often the run was read, and how long that took."""
    times = [read["seconds"] for read in soaked.reads]
    kept = f"read {len(times)} times, opened in {min(times):.2f} to {max(times):.2f} s" if times else "never read"
    return soaked.reader_failed or kept


def speed(windows: list[Window]) -> Invariant:
    """Whether the last steps are as fast as the first; of the thread's own time, for others use the machine too."""
    tenth = max(1, len(windows) // 10)
    first, last = windows[1 : 1 + tenth], windows[-tenth:]
    cpu, wall = (
        median(getattr(each, name) for each in last) / median(getattr(each, name) for each in first)
        for name in ("cpu", "wall")
    )
    return Invariant("the last steps are as fast as the first", f"cpu × {cpu:.2f}, wall × {wall:.2f}", cpu < SLOWER)


def grown(soaked: Soaked) -> str:
    """The types of which there are ever more objects: more in each sample of the end than in any of the middle."""
    kinds = soaked.meter.kinds
    third = len(kinds) // 3
    middle, last = kinds[third:-third], kinds[-third:]
    most = Counter({name: max(each[name] for each in middle) for name in set().union(*middle)})
    least = {name: min(each[name] for each in last) for name in set().union(*last)}
    more = {name: count - most[name] for name, count in least.items() if count - most[name] > MORE}
    return ", ".join(f"{count:+} {name}" for name, count in sorted(more.items(), key=lambda item: -item[1])[:5])
