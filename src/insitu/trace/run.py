"""A recorded run as plain data: a summary of its variables, its attempts and its events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from insitu.trace.model_paths import Role

if TYPE_CHECKING:
    from insitu.trace.curve import Band, Curve


@dataclass(frozen=True, slots=True)
class RunEvent:
    """Something that happened in a run besides its steps: a mark, an error, trouble with the disk, the end of a rank.

    >>> print(RunEvent("error", "ValueError: no", 3, 1, 0.0))
    rank 1, step 3: error: ValueError: no
    """

    kind: str
    text: str
    step: int | None
    rank: int
    time: float
    attempt: int = 0

    def __str__(self) -> str:
        where = f"rank {self.rank}" if self.step is None else f"rank {self.rank}, step {self.step}"
        if self.text:
            return f"{where}: {self.kind}: {self.text}"
        return f"{where}: {self.kind}"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One start of the job that a run belongs to: which ranks recorded which steps, and when.

    >>> print(Attempt(1, (0, 1), 2, (40, 99), 0.0, 9.0))
    attempt 1: steps 40–99 on 2 ranks
    >>> print(Attempt(0, (0,), 2, None, 0.0, None))
    attempt 0: no step on 1 of 2 ranks, did not end
    """

    number: int
    ranks: tuple[int, ...]
    world_size: int
    steps: tuple[int, int] | None
    started: float | None
    ended: float | None

    def __str__(self) -> str:
        steps = "no step" if self.steps is None else f"steps {self.steps[0]}–{self.steps[1]}"
        end = "" if self.ended is not None else ", did not end"
        return f"attempt {self.number}: {steps}{self._ranks_text()}{end}"

    def _ranks_text(self) -> str:
        if self.world_size == 1:
            return ""
        count = len(self.ranks)
        if count == self.world_size:
            return f" on {count} ranks"
        return f" on {count} of {self.world_size} ranks"


@dataclass(frozen=True, slots=True)
class VariableSummary:
    """Plain numbers about one variable of a run.

    `shapes` are the smallest and the largest shape: the least and the largest size of each dimension or, if the number
    of dimensions differs, the first and the last shape. `low` and `high` are those of the finite values, and are
    integers if all values are. `means` has the mean of each group of steps, each step as its last attempt recorded it;
    a group in which a value has no finite number, such as a loss that became NaN, has None. `dtype` is "float", "int"
    or "bool" for Python numbers, and "json" for other Python values, which have no shapes. `sampled` says that range,
    counts and means were computed from a sample.

    `mean` is that of all finite values, `last` the mean of the last step or, for a text, the last text. `norms` and
    `norm` are the same as `means` and `last`, of the l2 norm of a tensor. A tensor of which only statistics were
    recorded has the dtype "statistics", and the least and the largest number of its `elements`. `first_odd` is the
    first step with a NaN or an Inf, as far as the values were looked at.
    """

    path: str
    dtype: str
    shapes: tuple[tuple[int, ...], ...]
    rows: int
    steps: tuple[int, int]
    ranks: tuple[int, ...]
    low: float | None
    high: float | None
    nan: int
    inf: int
    means: tuple[float | None, ...]
    sampled: bool
    source: str | None
    mean: float | None = None
    last: float | str | None = None
    norms: tuple[float | None, ...] = ()
    norm: float | None = None
    elements: tuple[int, int] | None = None
    role: Role = "variable"
    first_odd: int | None = None


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A run in a few lines: its variables, and what a reader must know before trusting them.

    `missing` are sentences about ranks, steps and values that are not there; `others` are the runs in the same folder.
    """

    variables: tuple[VariableSummary, ...]
    missing: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    events: tuple[RunEvent, ...] = ()


@dataclass(frozen=True, slots=True)
class SeriesSummary:
    """One variable of a run, to be drawn: the curves of its ranks or, if it holds no numbers, its texts.

    `is_sample` says that some of the steps are left out.
    """

    curves: tuple[Curve, ...] = ()
    texts: tuple[Band, ...] = ()
    is_sample: bool = False

    @property
    def steps(self) -> tuple[int, int]:
        """The first and the last step of the curves."""
        return min(int(curve.steps[0]) for curve in self.curves), max(curve.last_step for curve in self.curves)

    @property
    def ends(self) -> tuple[float, float] | None:
        """The least and the largest number; None if none is finite."""
        low = [number for curve in self.curves for number in curve.low.tolist() if number == number]
        high = [number for curve in self.curves for number in curve.high.tolist() if number == number]
        if not low or not high:
            return None
        return min(low), max(high)

    @property
    def is_whole(self) -> bool:
        """Whether all numbers are integers."""
        return all(curve.is_whole for curve in self.curves)
