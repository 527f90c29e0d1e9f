"""The work of `insitu run` after the program has ended: save the trace, make a page, print it.

The program is over and its exit code is known: nothing here changes that. Ctrl-C stops what is only for looking at;
a file that is being written is completed first, unless Ctrl-C comes again.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from itertools import chain, islice
from math import isnan
from types import FrameType
from typing import TYPE_CHECKING, Any

from insitu.errors import InsituError
from insitu.view.progress import working

if TYPE_CHECKING:
    from insitu.trace.trace import Trace
    from insitu.view.line import Line
    from insitu.view.terminal import Terminal

MOST_LINES, LAST_LINES = 200, 40


class Postponed:
    """A `with` block in which the first Ctrl-C waits and says so (`came`), and the second one interrupts."""

    def __init__(self, text: str) -> None:
        self._text, self.came = text, False
        self._before: Any = None

    def __enter__(self) -> Postponed:
        is_ignored = signal.getsignal(signal.SIGINT) in (signal.SIG_IGN, None)
        if threading.current_thread() is threading.main_thread() and not is_ignored:
            self._before = signal.signal(signal.SIGINT, self._wait)
        return self

    def _wait(self, number: int, frame: FrameType | None) -> None:
        if self.came:
            raise KeyboardInterrupt
        self.came = True
        say(self._text)

    def __exit__(self, *raised: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)


@dataclass(frozen=True)
class Work:
    """Something to make from a trace: its name, how, whether it is a file, and whether that holds the whole trace."""

    name: str
    do: Callable[[], None]
    is_file: bool = False
    is_whole: bool = False

    @property
    def text(self) -> str:
        """The message that is shown during the work."""
        return f"{'writing' if self.is_file else 'making'} {self.name}"


def deliver(trace: Trace, failure: BaseException | None, options: argparse.Namespace) -> None:
    """Save the trace, make the page and print the trace, as the options ask."""
    with suppress(OSError, ValueError):  # a program may have closed it
        sys.stdout.flush()  # what the program printed comes first
    _take_interrupts()
    works, kept = _works(trace, failure, options), list[str]()
    for index, work in enumerate(works):
        outcome = _finish(work)
        if work.is_file and outcome.is_done:
            kept.append(work.name)
        if outcome.is_interrupted:
            _say_interrupted(works[index + outcome.is_done :], kept)
            return


def _say_interrupted(left: list[Work], kept: list[str]) -> None:
    texts = [f"interrupted, without {', '.join(other.name for other in left)}"] if left else []
    texts += [f"{', '.join(kept)} is kept"] if kept else []
    say("; ".join(texts))


def _take_interrupts() -> None:
    """Handle Ctrl-C from here on: the program has ended, and its own handler with it."""
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _works(trace: Trace, failure: BaseException | None, options: argparse.Namespace) -> list[Work]:
    from insitu.verbs.save import save

    def saved(path: str, *, is_whole: bool) -> Work:
        def do() -> None:
            save(trace, path, overwrite=options.overwrite)

        return Work(os.path.basename(path), do, is_file=True, is_whole=is_whole)

    works = [saved(options.to, is_whole=True)] if options.to is not None else []
    works += [saved(options.html, is_whole=False)] if options.html is not None else []
    works += [Work(f"the {options.view}", lambda: _print(trace, failure, options))] if not options.quiet else []
    return works


@dataclass(frozen=True)
class Outcome:
    """The outcome of some work: whether it is done, and whether Ctrl-C arrived meanwhile."""

    is_done: bool
    is_interrupted: bool


def _finish(work: Work) -> Outcome:
    """Do the work. An error is only reported, because the program did not fail."""
    interrupt = Postponed(f"{work.name} is being written: Ctrl-C again gives it up")
    try:
        with working(work.text), interrupt if work.is_whole else nullcontext():
            work.do()
    except KeyboardInterrupt:
        return Outcome(is_done=False, is_interrupted=True)
    except BrokenPipeError:
        raise
    except InsituError as error:
        say(str(error))
    except Exception as error:
        say(f"{work.text} failed: {type(error).__name__}: {error}")
    else:
        return Outcome(is_done=True, is_interrupted=interrupt.came)
    return Outcome(is_done=False, is_interrupted=interrupt.came)


def say(text: str) -> None:
    """Print a line to stderr, if the program has not closed it."""
    with suppress(OSError, ValueError, AttributeError):
        print(f"insitu: {text}", file=sys.stderr, flush=True)


def _print(trace: Trace, failure: BaseException | None, options: argparse.Namespace) -> None:
    """Print the trace of a program: of a tree as much as fits on the screen, of a long text its beginning and end."""
    from insitu import view
    from insitu.trace.collector import pause_collector
    from insitu.view.missing_text import missing_lines

    if not trace.events:
        say(_nothing_text(failure, options))
        return
    terminal = view.Terminal(sys.stderr)
    before = missing_lines(trace)
    with pause_collector():
        shows_all = options.all or options.flags.get("unfold")
        if options.view == "tree" and not shows_all:
            terminal.write(before)
            _print_screen(terminal, trace, failure, options)
            return
        lines = chain(before, view.replay(trace.events, view.make_for_replay(options.view, **options.flags)))
        _print_most(terminal, lines, None if options.all else MOST_LINES - LAST_LINES)


def _print_screen(terminal: Terminal, trace: Trace, failure: BaseException | None, options: argparse.Namespace) -> None:
    """Print as much of the tree as fits on the screen; of a program that failed only the way to the call that did."""
    from insitu import view
    from insitu.view.line import Line
    from insitu.view.screen import rows_on

    flags = dict(options.flags)
    flags["failed"] = flags.get("failed") or _failed_in_call(trace, failure)
    shown = view.make_for_replay("tree", rows=rows_on(sys.stderr), **flags)
    terminal.write(view.replay(trace.events, shown))
    if not options.guard:
        terminal.write(_nan_hint(trace))
    if getattr(shown, "is_cut", False):
        terminal.write([Line((("… --all opens every row, --to FILE.h5 keeps the trace", "grey"),))])


def _nan_hint(trace: Trace) -> list[Line]:
    """How to find the origin of a NaN that the program read as a number, if nothing else shows it."""
    from insitu.view.line import Line

    has_statistics = any(facts.stats is not None for call in trace.calls[:MOST_LINES] for facts in call.outputs)
    count = sum(isinstance(call.result, float) and isnan(call.result) for call in trace.calls)
    if has_statistics or not count:
        return []
    numbers = f"{count:,} numbers that the program read are NaN"
    if count == 1:
        numbers = "1 number that the program read is NaN"
    return [Line(((f"{numbers}: insitu run --guard names the call that produced the first one", "red"),))]


def _failed_in_call(trace: Trace, failure: BaseException | None) -> bool:
    """Whether the exception that ended the program is the one that ended the last call that failed."""
    from insitu.commands.program import connected
    from insitu.trace.failed_calls import failed_calls
    from insitu.trace.order import completion_order

    if not isinstance(failure, Exception):
        return False
    calls = failed_calls(completion_order(trace.events))
    return bool(calls) and calls[-1].raised in {type(part).__name__ for part in connected(failure)}


def _nothing_text(failure: BaseException | None, options: argparse.Namespace) -> str:
    """Why there is nothing to show, if that is known."""
    if options.only:
        return "no call of a module that matches --only was recorded"
    before = f" before {type(failure).__name__}" if isinstance(failure, Exception) else ""
    return f"no call of a torch module or function on tensors was recorded{before}"


def _print_most(terminal: Terminal, lines: Iterator[Line], first: int | None) -> None:
    """Print the first lines and the last ones."""
    from insitu.view.line import Line

    terminal.write(islice(lines, first))
    last: deque[Line] = deque(maxlen=LAST_LINES)
    left = -LAST_LINES
    for line in lines:
        last.append(line)
        left += 1
    if left > 0:
        more = f"… {left:,} more line{'s' * (left != 1)}: --all prints them, --to FILE.h5 keeps the trace"
        terminal.write([Line(((more, ""),))])
    terminal.write(last)
