"""What comparing two runs found, as plain data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

from insitu.errors import ChoiceError, MissingError
from insitu.trace.compare.change import SAME_MANNER, Change, Changes, Manner, MovedLayers, Remark, SideName
from insitu.trace.compare.closeness import Certainty, Tolerance, weakest
from insitu.trace.compare.distance import Distance
from insitu.trace.compare.fused_groups import FusedGroup, first_that_differs
from insitu.trace.compare.relation import Relations
from insitu.trace.compare.relative import RelativeError
from insitu.trace.event import Call, Site, Variable
from insitu.trace.model_paths import ModelPaths
from insitu.trace.placements.joined_value import JoinMethod

if TYPE_CHECKING:
    import pandas

Status = Literal["same", "close", "differs", "argument", "follows", "structure", "raised", "only in a", "only in b"]
CauseKind = Literal["output", "random", "argument", "input", "calls", "raised", "gradient"]
Effect = Literal["results", "lost", "unknown"]
Outcome = Literal["", "agrees", "undone", "internal", "replaced", "unseen"]
Compared = Call | Variable


@dataclass(slots=True, eq=False)
class Difference:
    """A call of the one run beside that of the other; of most of them nothing differs.

    `status` is "same" where nothing differs, and "close" where values differ within the tolerance. "differs" is a
    cause that shows in its output; "argument" a call with another argument, or with another tensor; "follows" a
    call that differs because of what went into it; "structure" the same values in another dtype or shape, on
    another device, without a gradient, in place, or by other calls; "raised" an exception on one side, or another
    one; "only in a" and "only in b" calls that the other run does not make. `relative` is how large the difference
    is, as a part of the largest number: the one measure for all rows, None if it is not known. `delta` is the
    difference itself, and `measure` what it is the difference of; `certainty` says what that is known from. `cause`
    is the number in `Diff.causes` of the cause that it is, or that it follows from. `what` says in words what
    `changes` and `outcome` are: how the calls are made differently, and what becomes of that. The outcome "agrees" is
    a result that is the same, "undone" a difference that other calls make up for, "internal" one that only library
    code reads, "replaced" the same result by other calls, "unseen" a call without an effect that anything shows.
    `because` is the place in `Diff.differences` of the call that made the input from which this one has its
    difference; see `Diff.because`.
    """

    status: Status
    a: Compared | None
    b: Compared | None
    changes: Changes = ()
    delta: float | None = None
    measure: str = ""
    certainty: Certainty = "structure"
    cause: int | None = None
    outcome: Outcome = ""
    relative: RelativeError | None = None
    because: int | None = None

    @property
    def events(self) -> list[Compared]:
        """The calls of the runs that make it: that of a, then that of b."""
        return [event for event in (self.a, self.b) if event is not None]

    @property
    def what(self) -> str:
        """What differs, in words."""
        from insitu.view.reason import what  # as with print(diff)

        return what(self)


@dataclass(frozen=True, slots=True)
class Reason:
    """What is known of why a call is a cause.

    `manner` is how the calls are made differently, `around` are the calls around them that are made differently too.
    `cut` says how a call keeps gradients from passing, in one run only. `is_equal` says that the output of the cause
    itself was found to be the same, within the tolerance, `drift` by how much it is off then, and `input_drift` by how
    much what goes in is. `draws` says that the call draws random numbers, `shifts_draws` that later draws differ, and
    `is_stretch` that these are calls that the other run does not make.
    """

    manner: Manner = SAME_MANNER
    around: tuple[tuple[str, Manner], ...] = ()
    cut: Change | None = None
    is_equal: bool = False
    drift: float = 0.0
    input_drift: float = 0.0
    draws: bool = False
    shifts_draws: bool = False
    is_stretch: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class ResultEffect:
    """What a cause does to a result of the run: the last output that differs because of it and that no call uses.

    `a` and `b` are the calls that make the result, and `relative` is the size of the difference in it. `share` is the
    part of that difference which the cause explains: 1 if it is the only cause; of several causes each has the part
    that it introduces of all that they introduce. It is None if the size of one of them is not known.
    """

    a: Compared | None
    b: Compared | None
    relative: RelativeError | None = None
    share: float | None = None


@dataclass(slots=True, eq=False)
class Cause:
    """Where a difference begins: what goes in agrees, as far as is known, and what comes out does not.

    `kind` is "output" for the same call with another output, and "random" if it draws random numbers; "argument" for
    a call with another argument; "input" for a tensor that was given to the run and differs; "calls" for calls that
    one run lacks, or makes others instead of: `calls_a` and `calls_b`; "raised" for an exception on one side;
    "gradient" for a call that passes another gradient back, or none, where all values agree. `a` and `b` are the calls
    where it begins; where one run has none, `instead` are the calls of that run that made what it goes on with, and
    that come next. `reason` is why it is the cause, as data, and `why` says it in a sentence.

    `effect` is "results" if something differs because of it that comes out of the run, "lost" if its effect is lost on
    the way there, and "unknown" if no values were recorded that show it. `times` counts the places where the same line
    is the cause for the same reason, such as the layers of a model; `again` are the calls in all places but the first.

    `unknown` names the inputs of which nothing but shape and dtype is known: they may differ as well. `followers`
    counts the calls that differ because of it. `seen_at` is the later call whose output shows the difference, where
    that of the cause itself does not. `relations` say what the tensors of b are, if they are tensors of a in another
    order or in another place.

    `relative` is the error that the cause introduces, given inputs that agree; causes are ordered by it. `result` is
    what becomes of it in the result of the run, None if it does not get there. `distance` says how far both runs are
    from the reference at this place, if there is one.
    """

    kind: CauseKind
    a: Compared | None
    b: Compared | None
    reason: Reason = Reason()
    calls_a: tuple[Compared, ...] = ()
    calls_b: tuple[Compared, ...] = ()
    instead: tuple[Compared, ...] = ()
    delta: float | None = None
    measure: str = ""
    certainty: Certainty = "structure"
    unknown: tuple[str, ...] = ()
    followers: int = 0
    seen_at: Compared | None = None
    effect: Effect = "results"
    again: tuple[tuple[Compared | None, Compared | None], ...] = ()
    relative: RelativeError | None = None
    relations: Relations = ()
    result: ResultEffect | None = None
    distance: Distance | None = None

    @property
    def why(self) -> str:
        """Why it is the cause, in a sentence."""
        from insitu.view.reason import why  # as with print(diff)

        return why(self)

    @property
    def heads(self) -> list[Compared]:
        """The calls where it begins, in all places and in both runs."""
        every = chain((self.a, self.b), *self.again)
        return [event for event in every if event is not None]

    @property
    def times(self) -> int:
        """In how many places it is the cause."""
        return 1 + len(self.again)

    @property
    def sites(self) -> tuple[Site | None, Site | None]:
        """The source lines on either side."""
        a, b = self.a, self.b
        there = self.instead[0] if self.instead else None
        one, other = a if a is not None else there, b if b is not None else there
        return (one.site if one is not None else None, other.site if other is not None else None)


@dataclass(frozen=True, slots=True)
class RankJoin:
    """That the run `side` had several ranks, whose values were joined; `methods` counts how: see `JoinedValue`."""

    side: SideName
    ranks: int
    methods: dict[JoinMethod, int]


@dataclass(eq=False)
class Diff:
    """How two runs differ; print it to read it.

    `causes` are the places where differences begin independently of each other: those that change what comes out of
    the run before those whose effect is lost on the way, and otherwise by the error that they introduce, the largest
    first; of equal or unknown errors in the order of the run. `first` is the first of them, or None. `differences` has
    a row for each call, `results` are the rows whose output no other call uses: what comes out of the run. `remarks`
    say which steps, ranks, threads or layers only one run has. `evidence` counts the outputs that were compared by
    values, by statistics, by structure only. `ranks` says how the values of several ranks were joined, if one run has
    several and the other is one process. With a reference, `distance` says how far the results of both runs are
    from those of the reference. `groups` are the kernels of compiled code, each beside the calls that it fuses, if one
    of the traces was recorded with `inside_compiled=True`, and `group` is the first of them that differs.

    Four questions, from the strictest to the loosest:

    - `same`: nothing at all is different but names of modules, spellings of functions and source lines.
    - `close`: the runs make the same calls, and all values agree within the tolerance; `largest` is the row with the
      largest difference. This is what the fixture `golden_trace` asks.
    - `passes`: no difference has an effect: the results agree, by whatever calls they are made, and nothing is left to
      report. This is what the exit code of `insitu diff` asks.
    - `agrees`: the results agree within the tolerance; something on the way may differ, and its effect is lost.
    """

    differences: list[Difference] = field(default_factory=list)
    causes: tuple[Cause, ...] = ()
    unpaired: list[Remark] = field(default_factory=list)
    evidence: dict[Certainty, int] = field(default_factory=dict)
    labels: tuple[str, str] = ("a", "b")
    tolerance: Tolerance = field(default_factory=Tolerance)
    results: list[Difference] = field(default_factory=list)
    model: ModelPaths = field(default_factory=ModelPaths)  # of recorded runs: the order of its layers
    distance: Distance | None = None
    ranks: RankJoin | None = None
    groups: tuple[FusedGroup, ...] = ()

    @property
    def group(self) -> FusedGroup | None:
        """The first kernel of compiled code whose output differs from that of the graph; None if there is none."""
        return first_that_differs(self.groups)

    @property
    def remarks(self) -> list[str]:
        """What only one run has, in words: what is in `unpaired`."""
        from insitu.view.reason import remark_texts  # as with print(diff)

        return remark_texts(self.unpaired)

    @property
    def first(self) -> Cause | None:
        """The first cause; None if no difference has an effect."""
        if self.causes:
            return self.causes[0]
        return None

    @property
    def same(self) -> bool:
        """Whether nothing at all is different."""
        return not self.causes and not self.unpaired and set(self.counts) <= {"same"}

    @property
    def close(self) -> bool:
        """Whether the same calls are made, and all values agree within the tolerance."""
        return not self.causes and not self.unpaired and set(self.counts) <= {"same", "close"}

    @property
    def agrees(self) -> bool:
        """Whether the results agree within the tolerance, by whatever calls they are made."""
        return all(cause.effect == "lost" for cause in self.causes)

    @property
    def largest(self) -> Difference | None:
        """The row with the largest difference within the tolerance; None if all that agrees is exactly the same."""
        return largest([row for row in self.differences if row.status == "close"])

    @property
    def certainty(self) -> Certainty:
        """What the verdict rests on: that of the first cause, or the weakest that outputs were compared by."""
        if self.first is not None:
            return self.first.certainty
        return weakest(*(kind for kind, count in self.evidence.items() if count))

    @cached_property
    def counts(self) -> dict[str, int]:
        """How many calls there are of each status."""
        return dict(Counter(row.status for row in self.differences))

    @property
    def passes(self) -> bool:
        """Whether there is nothing to report: no difference has an effect, and both have the same steps and ranks."""
        has_lone_parts = any(not isinstance(remark, MovedLayers) for remark in self.unpaired)
        return not self.causes and not has_lone_parts

    def because(self, item: Difference | Compared) -> tuple[Difference, ...]:
        """Why a call differs: its row, the row of the call that made the input which differs, and so on to the cause.

        Nothing if the call does not differ.
        """
        row = self._row_of(item)
        rows: list[Difference] = []
        while row.cause is not None:
            rows.append(row)
            if row.because is None or self._is_head(row):
                break
            row = self.differences[row.because]
        return tuple(rows + self._root(rows))

    def _row_of(self, item: Difference | Compared) -> Difference:
        """The row of a call of one of the runs."""
        for row in self.differences:
            if row is item or row.a is item or row.b is item:
                return row
        raise ChoiceError(f"{item!r} is not a call of this diff: take one from diff.differences or diff.causes")

    def _root(self, rows: list[Difference]) -> list[Difference]:
        """The row of the cause that a chain leads to, if the calls in between were not recorded."""
        if not rows or rows[-1].cause is None or self._is_head(rows[-1]):
            return []
        heads = self.causes[rows[-1].cause].heads
        return [row for row in self.differences if heads[0] in row.events][:1]

    def _is_head(self, row: Difference) -> bool:
        """Whether the cause of a row begins at its calls."""
        if row.cause is None:
            return False
        heads = self.causes[row.cause].heads
        return any(event in heads for event in row.events)

    def to_pandas(self) -> pandas.DataFrame:
        """One row for each call, or pair of calls."""
        try:
            import pandas
        except ImportError:
            raise MissingError("to_pandas() needs pandas: pip install pandas") from None
        frame = pandas.DataFrame([_row(row) for row in self.differences], columns=_COLUMNS)
        return frame.astype(dict.fromkeys(("cause", "a", "b", "line_a", "line_b", "step", "rank"), "Int64"))

    def __str__(self) -> str:
        from insitu.view.diff import render_diff  # as with print(trace)

        return render_diff(self)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        from insitu.view.notebook import diff_forms  # as with print(trace)

        return diff_forms(self, include, exclude)

    def __repr__(self) -> str:
        found = ", ".join(f"{count:,} {status}" for status, count in self.counts.items()) or "nothing to compare"
        return f"<Diff: {found}; {len(self.causes)} causes>"


def largest(rows: Iterable[Difference]) -> Difference | None:
    """The row with the largest difference."""
    return max(rows, key=lambda row: row.delta or 0.0, default=None)


_COLUMNS = (
    *("status", "cause", "name", "path_a", "path_b", "what", "relative", "relative_is_bound", "delta", "measure"),
    *("certainty", "output_a", "output_b"),
    *("a", "b", "file_a", "line_a", "file_b", "line_b", "step", "rank"),
)


def _row(row: Difference) -> tuple[Any, ...]:
    event = row.events[0]
    return (
        *(row.status, row.cause, event.name, _path(row.a), _path(row.b), row.what, *_relative(row), row.delta),
        *(
            row.measure,
            row.certainty,
            _output(row.a),
            _output(row.b),
            row.a.id if row.a else None,
            row.b.id if row.b else None,
        ),
        *(*_place(row.a), *_place(row.b), event.step, event.rank),
    )


def _relative(row: Difference) -> tuple[float | None, bool]:
    if row.relative is None:
        return (None, False)
    return row.relative


def _path(event: Compared | None) -> str | None:
    if event is None:
        return None
    if isinstance(event, Call):
        return event.path
    return event.name


def _output(event: Compared | None) -> str | None:
    if event is None:
        return None
    if isinstance(event, Call):
        return ", ".join(map(repr, event.outputs))
    return repr(event.value)[:200]


def _place(event: Compared | None) -> tuple[str | None, int | None]:
    site = event.site if event is not None else None
    if site is not None:
        return (site.file, site.line)
    return (None, None)
