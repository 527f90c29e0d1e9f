"""The options of a guard's flight recorder, checked when the guard is made: before a long run, and not at its crash."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from insitu.errors import ChoiceError
from insitu.session.subject import pattern_list, require_module
from insitu.session.switch import is_off
from insitu.store import RUN_SUFFIXES, check
from insitu.store.files import check_writable
from insitu.trace.capacity import capacity

LAST = 20
TO = "crash.h5"
MEMORY = 2**28  # of the last steps


@dataclass(frozen=True)
class FlightOptions:
    """How many steps are kept, the file they go to, whose values are kept, the patience of the watchdog, the memory."""

    last: int = LAST
    to: Path = Path(TO)
    values: tuple[str, ...] = ()
    watchdog: float | None = None
    memory: int = MEMORY


def flight_options(
    subject: nn.Module | None,
    *,
    last: int | None,
    to: Any,
    values: str | Iterable[str],
    watchdog: float | None,
    memory: int | str | None,
) -> FlightOptions | None:
    """The options that the user wants; None if no steps are kept: no option is given, or `last` is 0."""
    patterns = pattern_list("values", values, "'encoder.*'")
    has_other = bool(patterns) or any(option is not None for option in (to, watchdog, memory))
    if last is None and not has_other:
        return None
    if is_zero(last):
        refuse_options_of_nothing(has_other=has_other)
        return None
    require_modules(patterns, subject)
    return FlightOptions(
        check_last(LAST if last is None else last),
        check_target(TO if to is None else to),
        patterns,
        check_watchdog(watchdog),
        MEMORY if memory is None else capacity("memory", memory),
    )


def require_modules(patterns: tuple[str, ...], subject: nn.Module | None) -> None:
    """Refuse patterns that match no module of the model, if there is one."""
    if subject is None:
        return
    for pattern in patterns:
        require_module(pattern, subject)


def is_zero(last: object) -> bool:
    """Whether the user wants no steps; False is not a number of steps."""
    return type(last) is int and last == 0


def refuse_options_of_nothing(*, has_other: bool) -> None:
    """Refuse options of the flight recorder beside `last=0`."""
    if has_other:
        raise ChoiceError("last=0 keeps no steps, so to, values, watchdog and memory have no effect: leave them out")


def check_last(last: object) -> int:
    """The number of steps."""
    if type(last) is not int or last < 1:
        raise ChoiceError(f"last={last!r:.80} is not a number of steps: last=20 keeps the last twenty, last=0 none")
    return last


def check_watchdog(seconds: object) -> float | None:
    """The number of seconds; None for no watchdog."""
    if seconds is None:
        return None
    is_number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
    if not is_number or not 0 < seconds < math.inf:  # type: ignore[operator]
        raise ChoiceError(f"watchdog={seconds!r:.80} is not a number of seconds: watchdog=600 waits ten minutes")
    return float(seconds)  # type: ignore[arg-type]


def check_target(to: Any) -> Path:
    """The file, as an absolute path, because the program may change the directory."""
    if not isinstance(to, (str, os.PathLike)):
        raise ChoiceError(f"to={to!r:.80} is not the name of a file: write it as in to='crash.h5'")
    target = Path(to).absolute()
    if not is_off():
        check_writable(check(target, overwrite=True, suffixes=RUN_SUFFIXES))  # no existing file is replaced
    return target
