"""Sentences about the file that a guard writes when a run ends badly."""

from __future__ import annotations

from insitu.trace.crash import Crash
from insitu.trace.trace import Trace
from insitu.view.line import Line
from insitu.view.value import safe, short

MOST_TEXT = 400
HEADS = {
    "exception": "exception",
    "finding": "the guard found",
    "spike": "the loss jumped",
    "sigterm": "ended from outside",
    "watchdog": "watchdog",
}


def written_text(steps: int, path: str) -> str:
    """Where the last steps are.

    >>> written_text(20, "crash.h5")
    'the last 20 steps are in crash.h5 (insitu show crash.h5)'
    """
    what = "the last step is" if steps == 1 else f"the last {steps} steps are"
    return f"{what} in {path} (insitu show {path})"


def crash_head(crash: Crash) -> str:
    """Why the file was written, in two or three words, with the step."""
    return f"Step {crash.step}, {HEADS[crash.kind]}"


def crash_contents(crash: Crash) -> str:
    """What is in the file, and what is not.

    >>> crash_contents(Crash("sigterm", "", 37, 18, 20, with_statistics=(20, 30)))
    'steps 18 … 37; statistics of every call in steps 20 and 30, elsewhere of tensors that were still there'
    """
    steps = f"steps {crash.first} … {crash.step}" if crash.count > 1 else f"step {crash.step}"
    if crash.is_cut:
        steps += f", without the beginning of step {crash.first}: there was no room for it"
    elif crash.count < min(crash.wanted, crash.step + 1):
        steps += f" of the {crash.wanted} that were wanted: there was no memory for more"
    return f"{steps}; {_statistics_text(crash)}{_room_text(crash)}"


def _room_text(crash: Crash) -> str:
    if crash.kept_from <= crash.first:
        return ""
    return f"; what was kept of tensors before step {crash.kept_from} is gone: there was no memory for it"


def _statistics_text(crash: Crash) -> str:
    rest = "of tensors that were still there"
    found = [str(step) for step in crash.with_statistics]
    if not found:
        return f"statistics {rest}"
    steps = " and ".join(filter(None, [", ".join(found[:-1]), found[-1]]))
    return f"statistics of every call in step{'s' * (len(found) > 1)} {steps}, elsewhere {rest}"


def crash_details(crash: Crash) -> list[str]:
    """The findings of the guard, and the stacks of all threads, in lines."""
    lines = []
    for finding in crash.findings:
        lines += [*finding.text.splitlines(), ""]
    for stack in crash.stacks:
        lines += [f"{stack.name}:", *stack.text.splitlines(), ""]
    return [safe(line) for line in lines[:-1]]


def crash_lines(trace: Trace) -> list[Line]:
    """The lines before a trace that a guard wrote when a run ended badly."""
    crash = trace.crash
    if crash is None:
        return []
    lines = [
        Line((("✗ ", "red"), (f"{crash_head(crash)}: {short(safe(crash.text), MOST_TEXT)}", "red"))),
        Line(((f"  {crash_contents(crash)}", "grey"),)),
    ]
    details = crash_details(crash)
    if trace.explanation is not None:
        explained = list(map(safe, str(trace.explanation).rstrip().splitlines()))
        details = [*explained, "", *details] if details else explained
    lines += [Line(((f"  {text}".rstrip(), ""),)) for text in details]
    return [*lines, Line((("", ""),))]
