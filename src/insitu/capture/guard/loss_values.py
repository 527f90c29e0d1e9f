"""The losses of a training, one number for each backward pass; at a spike, the rows of the batch that caused it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from math import isfinite
from statistics import median
from typing import TYPE_CHECKING, Any

import torch.nn.functional as F
from torch import Tensor

from insitu.capture.explain.reading import Reading
from insitu.capture.finite import total
from insitu.capture.guard.facts import saved_value
from insitu.capture.guard.outliers import extreme_number
from insitu.capture.isolation import run_isolated
from insitu.capture.ledger import Cells
from insitu.capture.tape import Tape
from insitu.capture.tensor_memory import has_values
from insitu.capture.torch_internals import SAVED
from insitu.trace.health_numbers import (
    OUTLIER_FACTOR,
    SPIKE_FACTOR,
    OutlierRecord,
    RowShares,
    SpikeRecord,
    has_recovered,
    is_spike,
    spike_finding,
)

if TYPE_CHECKING:
    from insitu.capture.guard.check import ProbeChecks

MOST_LOSSES = 64  # that are kept of one place
MOST_PLACES = 64
MOST_SPIKES = 16
MOST_OUTLIERS = 4
PATIENCE = 3  # losses after a spike that show whether it was one
FIRST = 8  # losses that show the usual size at first
MOST_NODES = 8  # between a loss and the node that has the rows
MOST_ROWS = 3
MOST_ELEMENTS = 1 << 24  # of a tensor whose rows are told apart
Node = Any
Key = tuple[int, int]  # the id of a code object, and an instruction of it


@dataclass(slots=True)
class LossSeries:
    """The losses of one backward call: the last of them, and the spike that the next ones are to confirm."""

    last: deque[float] = field(default_factory=lambda: deque(maxlen=MOST_LOSSES))
    largest: float = 0.0  # of the last losses, at least: it is only kept to find out quickly that a loss is usual
    first: list[float] = field(default_factory=list)
    candidate: SpikeRecord | None = None
    later: list[float] = field(default_factory=list)

    @property
    def usual_at_first(self) -> float:
        """The usual size of the first losses."""
        return sum(map(abs, self.first)) / max(len(self.first), 1)

    def may_have_outlier(self, loss: float) -> bool:
        """Whether a loss is the first one, or far above all others."""
        return not self.last or loss > OUTLIER_FACTOR * self.largest

    def add(self, loss: float) -> None:
        """One more loss that is not a spike."""
        if len(self.first) < FIRST:
            self.first.append(loss)
        self.last.append(loss)
        if abs(loss) > self.largest:
            self.largest = abs(loss)

    def forget_largest(self) -> None:
        """A loss is larger than usual: look again how large the last ones are."""
        self.largest = max(map(abs, self.last), default=0.0)


@dataclass(frozen=True, slots=True)
class PendingLoss:
    """A loss that is on its device; `gone` is how much of the tape was cleared when its backward pass began."""

    check: ProbeChecks
    at: int
    gone: int
    cells: Cells
    backward_pass: int

    def tape(self) -> Tape | None:
        """The tape that has the backward pass; None if it is gone."""
        cleared = self.check.gone - self.gone
        if not cleared:
            return self.check.probe.tape
        return self.check.past if cleared == len(self.check.past) else None


class Losses:
    """The losses of all backward calls of one guard."""

    def __init__(self) -> None:
        self._series: dict[Key, LossSeries] = {}
        self._spikes: list[SpikeRecord] = []
        self._outliers: list[tuple[LossSeries, OutlierRecord]] = []
        self._pending: list[PendingLoss] = []

    def add(self, check: ProbeChecks, at: int, args: Any, backward_pass: int) -> None:
        """A backward pass begins, from the losses among the arguments of the call at an offset."""
        loss = args[0] if args else None
        if not isinstance(loss, Tensor) or loss.numel() != 1:
            return
        deferral = check.probe.services.deferral
        self._settle_pending()
        if deferral is not None and deferral.applies_to(loss):
            number = deferral.number(loss.detach().reshape(()))
            self._pending.append(PendingLoss(check, at, check.gone, number, backward_pass))
            return
        self._take(check, at, loss, total(loss), backward_pass)

    def _settle_pending(self) -> None:
        """Take the losses that were on their device until now: the guard has read what is there once a step."""
        pending, self._pending = self._pending, []
        for each in pending:
            tape = each.tape()
            if tape is not None:
                self._take(each.check, each.at, None, float(each.cells.read()[0]), each.backward_pass, tape)

    def _take(
        self,
        check: ProbeChecks,
        at: int,
        loss: Tensor | None,
        number: float,
        backward_pass: int,
        tape: Tape | None = None,
    ) -> None:
        """Take one loss. Without the tensor, its data and the rows of the batch are gone."""
        if not isfinite(number):
            return
        tape = check.probe.tape if tape is None else tape
        key = instruction_at(tape.frames(at))
        series = self._series.get(key) or self._new_series(key)
        if loss is not None and series.may_have_outlier(number):
            self._look_for_outlier(check, at, loss, number, series, backward_pass)
        if series.candidate is not None:
            self._confirm(series, number)
        elif number > SPIKE_FACTOR * series.largest:
            series.forget_largest()
            if is_spike(number, series.last, series.usual_at_first):
                series.candidate = self._spike(tape, at, loss, number, series, backward_pass)
                check.checks.on_spike(spike_finding(series.candidate))
                return
        series.add(number)

    def _look_for_outlier(
        self, check: ProbeChecks, at: int, loss: Tensor, number: float, series: LossSeries, backward_pass: int
    ) -> None:
        """A loss is the first one, or far above all others: look for an absurd number in its data."""
        if len(self._outliers) >= MOST_OUTLIERS:
            return
        found = extreme_number(check, loss)
        if found is not None:
            self._outliers.append((series, OutlierRecord(found, backward_pass, number, series.largest)))

    def outliers(self) -> tuple[OutlierRecord, ...]:
        """The absurd numbers, with the usual size of the losses: of the first loss, that of the later ones."""
        return tuple(
            record if record.usual else replace(record, usual=median(map(abs, series.last)))
            for series, record in self._outliers
        )

    def _new_series(self, key: Key) -> LossSeries:
        """The series of a backward call that was not met before."""
        if len(self._series) >= MOST_PLACES:
            self._series.clear()
        series = self._series[key] = LossSeries()
        return series

    def _spike(
        self, tape: Tape, at: int, loss: Tensor | None, number: float, series: LossSeries, backward_pass: int
    ) -> SpikeRecord:
        with Reading(tape) as reading:
            call = reading.call(at)
        usual = sorted(series.last)[len(series.last) // 2]
        rows = run_isolated(lambda: row_shares(loss.grad_fn)) if loss is not None else None
        return SpikeRecord(call, backward_pass, number, usual, rows)

    def _confirm(self, series: LossSeries, loss: float) -> None:
        """A loss after a spike: keep the spike if the losses are small again."""
        series.later.append(loss)
        if len(series.later) < PATIENCE:
            return
        self._settle(series)

    def _settle(self, series: LossSeries) -> None:
        spike = series.candidate
        if spike is not None and has_recovered(spike.loss, series.later) and len(self._spikes) < MOST_SPIKES:
            self._spikes.append(spike)
        series.candidate, series.later = None, []

    def spikes(self) -> tuple[SpikeRecord, ...]:
        """All spikes by now."""
        self._settle_pending()
        for series in self._series.values():
            self._settle(series)
        return tuple(self._spikes)


def instruction_at(frames: list[Any]) -> Key:
    """The instruction that the innermost of some frames executes; to hash a code object takes long."""
    if len(frames) < 2:
        return 0, 0
    return id(frames[0]), frames[1]


def row_shares(node: Node) -> RowShares | None:
    """Which rows of the batch caused most of a loss, from what autograd has saved; None where it cannot be told."""
    for each in nearest_nodes(node):
        parts = PARTS.get(each.name())
        each_loss = parts(each) if parts is not None else None
        if each_loss is None or each_loss.dim() == 0:
            continue
        rows = each_loss.abs().flatten(1).sum(1) if each_loss.dim() > 1 else each_loss.abs()
        total = float(rows.sum())
        if rows.numel() < 2 or not total or not isfinite(total):
            return None
        shares, indices = rows.sort(descending=True)
        most = min(MOST_ROWS, rows.numel())
        found = [float(share) / total for share in shares[:most]]
        return RowShares(rows.numel(), tuple(map(int, indices[:most])), tuple(found))
    return None


def nearest_nodes(node: Node) -> Iterator[Node]:
    """The autograd nodes behind a loss, the nearest first: through its scale, and what sums up the losses of rows."""
    is_summed = False
    for _ in range(MOST_NODES):
        if node is None:
            return
        yield node
        name = node.name()
        is_summed = is_summed or name in SUMS
        following = [other for other, _ in node.next_functions if other is not None]
        is_plain = name in SUMS or (name in SCALES and not is_summed)
        if len(following) != 1 or not is_plain:
            return
        node = following[0]


SUMS = frozenset(("MeanBackward0", "MeanBackward1", "SumBackward0", "SumBackward1"))
SCALES = frozenset(("MulBackward0", "DivBackward0", "NegBackward0"))


def saved(node: Node, name: str) -> Tensor | None:
    """A tensor that a node has saved, if it is not too large."""
    value = saved_value(node, f"{SAVED}{name}")
    if isinstance(value, Tensor) and has_values(value) and value.numel() <= MOST_ELEMENTS:
        return value.detach()
    return None


def pair(compute: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Node], Tensor | None]:
    """The function that computes the loss of each element from the input and the target that a node has saved."""

    def parts(node: Node) -> Tensor | None:
        given, target = saved(node, "self"), saved(node, "target")
        if given is None or target is None:
            return None
        return compute(given, target)

    return parts


def power(node: Node) -> Tensor | None:
    """The elements of a square, or of another power, that is summed up."""
    given, exponent = saved(node, "self"), saved_value(node, f"{SAVED}exponent")
    if given is None or not isinstance(exponent, (int, float)):
        return None
    return given.abs() ** exponent


def chosen(scores: Tensor, target: Tensor) -> Tensor:
    """The negative logarithm of the probability of each target."""
    if scores.dim() != 2 or target.dim() != 1:
        return scores.new_zeros(())
    known = target.clamp(0, scores.shape[1] - 1)
    return scores.gather(1, known[:, None])[:, 0].where(target == known, 0.0)


PARTS: dict[str, Callable[[Node], Tensor | None]] = {
    "MseLossBackward0": pair(lambda given, target: (given - target).square()),
    "L1LossBackward0": pair(lambda given, target: (given - target).abs()),
    "SmoothL1LossBackward0": pair(lambda given, target: F.smooth_l1_loss(given, target, reduction="none")),
    "HuberLossBackward0": pair(lambda given, target: F.huber_loss(given, target, reduction="none")),
    "NllLossBackward0": pair(chosen),
    "BinaryCrossEntropyBackward0": pair(lambda given, target: F.binary_cross_entropy(given, target, reduction="none")),
    "BinaryCrossEntropyWithLogitsBackward0": pair(
        lambda given, target: F.binary_cross_entropy_with_logits(given, target, reduction="none")
    ),
    "PowBackward0": power,
    "AbsBackward0": lambda node: saved(node, "self"),
}
