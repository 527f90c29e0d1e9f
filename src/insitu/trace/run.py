"""A recorded run as plain data: a summary of its variables, its attempts, its events, and curves to draw."""

from __future__ import annotations

from dataclasses import dataclass, field


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
    a group in which a value has no finite number, such as a loss that became NaN, has None. `last` is the mean of the
    last step; None if it is not finite, or not known. `dtype` is "float", "int" or "bool" for Python numbers, and
    "json" for other Python values, which have no shapes. `sampled` says that range, counts and means were computed
    from a sample.
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
    last: float | None = None


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


@dataclass(slots=True)
class Curve:
    """One rank of a variable: a point for each step.

    `low`, `mean` and `high` are those of the finite numbers of a step, None where there are none; `mean` is also None
    where one of the values has no finite number. `odd` are the steps with a NaN or an Inf.
    """

    rank: int
    steps: list[int] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    low: list[float | None] = field(default_factory=list)
    mean: list[float | None] = field(default_factory=list)
    high: list[float | None] = field(default_factory=list)
    odd: list[int] = field(default_factory=list)
    is_whole: bool = False  # all values are integers

    @property
    def is_flat(self) -> bool:
        """Whether each step has one value, and so no range."""
        return self.low == self.high


@dataclass(frozen=True, slots=True)
class TextStretch:
    """Steps that follow each other in which a variable had the same value, and the text of it."""

    first: int
    last: int
    text: str


@dataclass(frozen=True, slots=True)
class SeriesSummary:
    """One variable of a run, to be drawn: the curves of its ranks or, if it holds no numbers, its texts.

    `is_sample` says that some of the steps are left out.
    """

    curves: tuple[Curve, ...] = ()
    texts: tuple[TextStretch, ...] = ()
    is_sample: bool = False

    @property
    def steps(self) -> tuple[int, int]:
        """The first and the last step of the curves."""
        ends = [step for curve in self.curves for step in (curve.steps[0], curve.steps[-1])]
        return min(ends), max(ends)

    @property
    def ends(self) -> tuple[float, float] | None:
        """The least and the largest number; None if none is finite."""
        low = [number for curve in self.curves for number in curve.low if number is not None]
        high = [number for curve in self.curves for number in curve.high if number is not None]
        if not low or not high:
            return None
        return min(low), max(high)

    @property
    def is_whole(self) -> bool:
        """Whether all numbers are integers."""
        return all(curve.is_whole for curve in self.curves)
