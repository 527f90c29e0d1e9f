"""Why the last steps of a guarded program were written to a file, and what is in it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

CrashKind = Literal["exception", "finding", "spike", "sigterm", "watchdog"]


@dataclass(frozen=True, slots=True)
class ThreadStack:
    """What a thread did when the file was written: its name, and its lines as in a traceback."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class CrashFinding:
    """A finding of the guard, as text."""

    severity: str
    text: str


@dataclass(frozen=True, slots=True)
class Crash:
    """Why the last steps were written.

    `kind` is "exception", "finding" (NaN or Inf), "spike" (of a loss), "sigterm" or "watchdog"; `text` says it in a
    line. `step` is the step that ran, `first` the first step in the file, `wanted` how many steps were to be kept;
    `is_cut` says that the first step lacks its beginning, because memory had no room. `with_statistics` are the steps
    whose calls have statistics; those of other steps have them only where a tensor was still there. Before step
    `kept_from`, what was kept of tensors had no room. `call` is the id of the call at fault, if it is known. `findings`
    are all that the guard has found so far, `stacks` what the threads did when a watchdog fired.
    """

    kind: CrashKind
    text: str
    step: int
    first: int
    wanted: int
    is_cut: bool = False
    with_statistics: tuple[int, ...] = ()
    call: int | None = None
    kept_from: int = 0
    findings: tuple[CrashFinding, ...] = ()
    stacks: tuple[ThreadStack, ...] = ()

    @property
    def count(self) -> int:
        """How many steps the file has."""
        return self.step - self.first + 1

    def plain(self) -> dict[str, Any]:
        """The same as plain data, for files."""
        found = asdict(self)
        return {name: list(item) if isinstance(item, tuple) else item for name, item in found.items()}


def crash_of(plain: Any) -> Crash | None:
    """The inverse of `plain()`; None for any other data, which a file may hold.

    >>> crash_of(Crash("sigterm", "SIGTERM", 7, 3, 20).plain()).count
    5
    """
    if not isinstance(plain, dict) or not _has_fields(plain):
        return None
    return Crash(
        plain["kind"],
        str(plain.get("text", "")),
        plain["step"],
        plain["first"],
        plain["wanted"],
        is_cut=plain.get("is_cut") is True,
        with_statistics=tuple(plain["with_statistics"]),
        call=plain.get("call"),
        kept_from=plain["kept_from"],
        findings=tuple(CrashFinding(*texts) for texts in _texts(plain.get("findings"), ("severity", "text"))),
        stacks=tuple(ThreadStack(*texts) for texts in _texts(plain.get("stacks"), ("name", "text"))),
    )


def _has_fields(plain: dict[str, Any]) -> bool:
    """Whether data has what no crash can be without."""
    if plain.get("kind") not in get_args(CrashKind):
        return False
    steps: Any = plain.get("with_statistics")
    numbers = [plain.get(name) for name in ("step", "first", "wanted", "kept_from")]
    if plain.get("call") is not None:
        numbers.append(plain["call"])
    return isinstance(steps, list) and all(map(_is_number, [*numbers, *steps]))


def _is_number(item: Any) -> bool:
    return type(item) is int and item >= 0


def _texts(items: Any, names: tuple[str, str]) -> list[tuple[str, str]]:
    """Two texts of each item of a list."""
    if not isinstance(items, list):
        return []
    first, second = names
    return [(str(item.get(first, "")), str(item.get(second, ""))) for item in items if isinstance(item, dict)]
