"""The numbers of a training, judged at its end: activations that die or saturate, updates, and spikes of the loss.

Capture collects a `NumberHistory`. Each check needs several samples, and an absolute measure as well as a relative one:
what only looks unusual on a small model is silent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from insitu.trace.event import Call, Site, TensorFacts
from insitu.trace.findings import DeadActivation, Finding, LossSpike, OutlierData, SaturatedActivation, UnusualUpdates

ActivationKind = Literal["relu", "sigmoid", "tanh", "softmax"]

ENOUGH = 3  # samples in a row
MANY = 6  # samples of steps: the first steps of a training may be large
SATURATED = 0.99  # of the outputs are at the ends
LARGE_UPDATE = 0.5  # of the norm of a weight, in one step
REPLACED = 5.0  # times the norm of a weight, in one step: nothing of it is left
SMALL_SCALE = 1e-3  # the root mean square of a weight that begins near zero
SMALL_UPDATE = 1e-7  # near the precision of float32: such an update is mostly rounded away
WARM_UP = 1.5  # a learning rate that grows by more than this is being warmed up
SPIKE_WINDOW = 16  # losses that a loss is compared with, at least
SPIKE_DEVIATIONS = 12.0
SPIKE_FACTOR = 4.0  # times the largest loss of the window
OUTLIER_FACTOR = 20.0  # times the largest loss before, or the median of the later ones
SPIKE_LEVEL = 0.1  # of the first losses: below, a training that has converged is only noisy
RECOVERED = 0.5  # of the spike: losses after it that are smaller show that it was one
NORMAL = 1.4826  # the deviation of normal numbers, as a multiple of their median absolute deviation


@dataclass(frozen=True, slots=True)
class ActivationSample:
    """The share of the outputs at the ends (zeros of a ReLU) in one backward pass."""

    backward_pass: int
    share: float


@dataclass(frozen=True, slots=True)
class ActivationHistory:
    """The outputs of one activation function, at one place: its samples in the order of the passes."""

    call: Call
    path: str
    kind: ActivationKind
    samples: tuple[ActivationSample, ...]

    def since(self, least: float) -> ActivationSample | None:
        """The first of the samples that have at least this share, as all later ones do; None if these are too few."""
        run: list[ActivationSample] = []
        for sample in reversed(self.samples):
            if sample.share < least:
                break
            run.append(sample)
        if len(run) < ENOUGH:
            return None
        return run[-1]

    @property
    def begins_saturated(self) -> bool:
        """Whether all samples are at the ends: nothing can have been learned by then."""
        return all(sample.share >= SATURATED for sample in self.samples)


@dataclass(frozen=True, slots=True)
class UpdateHistory:
    """How much sampled steps changed one weight: the norms of the updates as shares of the norm of the weight.

    `rates` are the learning rates of the same steps; `scale` is the root mean square of the weight at first.
    """

    path: str
    ratios: tuple[float, ...]
    rates: tuple[float, ...]
    scale: float

    @property
    def largest(self) -> float:
        """The largest update."""
        return max(self.ratios, default=0.0)

    @property
    def is_warmed_up(self) -> bool:
        """Whether the learning rate is still growing."""
        return bool(self.rates) and self.rates[-1] > WARM_UP * self.rates[0]

    @property
    def is_large(self) -> bool:
        """Whether the updates are far too large; a weight that begins near zero has to grow."""
        large = [ratio for ratio in self.ratios if ratio > LARGE_UPDATE]
        is_lasting = len(self.ratios) >= MANY and median(self.ratios) > LARGE_UPDATE
        is_replaced = len(large) >= ENOUGH and max(large) > REPLACED
        return self.scale > SMALL_SCALE and (is_lasting or is_replaced)

    @property
    def is_small(self) -> bool:
        """Whether all updates are too small to count."""
        return len(self.ratios) > ENOUGH and self.largest < SMALL_UPDATE


@dataclass(frozen=True, slots=True)
class RowShares:
    """Which rows of a batch caused most of a loss: their indices and shares, the largest first."""

    count: int
    rows: tuple[int, ...]
    shares: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class SpikeRecord:
    """A loss far above the losses before it; `rows` is None where the rows cannot be told apart."""

    call: Call
    backward_pass: int
    loss: float
    usual: float
    rows: RowShares | None = None


@dataclass(frozen=True, slots=True)
class ExtremeNumber:
    """A number in data that is far from all others: its index, the `median` of the others, and the call that used it.

    `entry` is the call that brought the data into torch, and `sources` are the lines that can have put the number
    there.
    """

    number: float
    median: float
    index: tuple[int, ...]
    facts: TensorFacts
    use: Call
    entry: Call | None = None
    sources: tuple[Site, ...] = ()


@dataclass(frozen=True, slots=True)
class OutlierRecord:
    """An absurd number in the data of a backward pass, and the usual size of other losses."""

    extreme: ExtremeNumber
    backward_pass: int
    loss: float
    usual: float


@dataclass(frozen=True, slots=True)
class NumberHistory:
    """The numbers of a training."""

    activations: tuple[ActivationHistory, ...] = ()
    updates: tuple[UpdateHistory, ...] = ()
    spikes: tuple[SpikeRecord, ...] = ()
    outliers: tuple[OutlierRecord, ...] = ()


NO_NUMBERS = NumberHistory()


def is_spike(loss: float, window: Sequence[float], first: float) -> bool:
    """Whether a loss is far above those of a window; `first` is the usual size of the first losses.

    >>> usual = [1.0, 1.1, 0.9, 1.05] * 4
    >>> is_spike(9.0, usual, 1.0), is_spike(2.0, usual, 1.0), is_spike(9.0, usual[:8], 1.0)
    (True, False, False)
    """
    if len(window) < SPIKE_WINDOW:
        return False
    middle = median(window)
    deviation = NORMAL * median(abs(each - middle) for each in window)
    is_unusual = loss > middle + SPIKE_DEVIATIONS * deviation
    is_far = loss > SPIKE_FACTOR * max(map(abs, window))
    return is_unusual and is_far and loss > SPIKE_LEVEL * first


def has_recovered(loss: float, later: Sequence[float]) -> bool:
    """Whether the losses after a spike are small again; a loss that stays high is another task, or a divergence."""
    return not later or median(later) < RECOVERED * loss


def number_findings(numbers: NumberHistory) -> Iterator[Finding]:
    """What is wrong with the numbers of a training."""
    for check in CHECKS:
        yield from check(numbers)


def dead_activations(numbers: NumberHistory) -> Iterator[Finding]:
    """ReLUs that return nothing but zeros: no gradient gets through them any more."""
    for each in numbers.activations:
        sample = each.since(1.0) if each.kind == "relu" else None
        if sample is not None:
            passes = sum(other.backward_pass >= sample.backward_pass for other in each.samples)
            yield DeadActivation(
                path=each.path, call=each.call, site=each.call.site, since=sample.backward_pass, samples=passes
            )


def saturated_activations(numbers: NumberHistory) -> Iterator[Finding]:
    """Activations whose outputs are at the ends, where their slope is zero.

    A classifier that has learned is certain: probabilities count only if they were at the ends from the beginning.
    """
    for each in numbers.activations:
        sample = each.since(SATURATED) if each.kind != "relu" else None
        is_certain = each.kind in ("sigmoid", "softmax") and not each.begins_saturated
        if sample is None or is_certain:
            continue
        share = min(other.share for other in each.samples if other.backward_pass >= sample.backward_pass)
        yield SaturatedActivation(
            path=each.path, call=each.call, site=each.call.site, since=sample.backward_pass, share=share
        )


def large_updates(numbers: NumberHistory) -> Iterator[Finding]:
    """Weights that one step changes by about as much as they are."""
    large = [each for each in numbers.updates if each.is_large]
    if large:
        paths = tuple(each.path for each in large)
        ratio, rate = max(each.largest for each in large), large[0].rates[-1]
        yield UnusualUpdates(path=paths[0], paths=paths, ratio=ratio, rate=rate, is_large=True)


def small_updates(numbers: NumberHistory) -> Iterator[Finding]:
    """All weights, if steps hardly change any of them; where none changes at all, health.py says so."""
    small = [each for each in numbers.updates if each.is_small and not each.is_warmed_up]
    ratio = max((each.largest for each in small), default=0.0)
    if ratio > 0 and len(small) == len(numbers.updates):
        paths = tuple(each.path for each in small)
        yield UnusualUpdates(path=paths[0], paths=paths, ratio=ratio, rate=small[0].rates[-1])


def outlier_data(numbers: NumberHistory) -> Iterator[Finding]:
    """The first absurd number in data that makes a loss far larger than others."""
    for each in numbers.outliers:
        if abs(each.loss) > OUTLIER_FACTOR * each.usual > 0:
            extreme = each.extreme
            entry = extreme.entry.site if extreme.entry is not None else extreme.use.site
            yield OutlierData(
                call=extreme.entry or extreme.use,
                site=next(iter(extreme.sources), entry),
                use=extreme.use,
                number=extreme.number,
                median=extreme.median,
                index=extreme.index,
                facts=extreme.facts,
                sources=extreme.sources,
                backward_pass=each.backward_pass,
                loss=each.loss,
                usual=each.usual,
            )
            return


def loss_spikes(numbers: NumberHistory) -> Iterator[Finding]:
    """Losses far above those before them, each place once: the largest."""
    largest: dict[int, SpikeRecord] = {}
    explained = {each.backward_pass for each in numbers.outliers}
    for spike in numbers.spikes:
        if spike.backward_pass in explained:
            continue
        known = largest.setdefault(id(spike.call), spike)
        if spike.loss > known.loss:
            largest[id(spike.call)] = spike
    yield from map(spike_finding, largest.values())


def spike_finding(spike: SpikeRecord) -> LossSpike:
    """The finding of a spike. At the moment of the spike, nobody knows whether the next losses are small again."""
    rows = spike.rows if spike.rows is not None else RowShares(0, (), ())
    return LossSpike(
        call=spike.call,
        site=spike.call.site,
        backward_pass=spike.backward_pass,
        loss=spike.loss,
        usual=spike.usual,
        batch=rows.count,
        rows=rows.rows,
        shares=rows.shares,
    )


CHECKS: tuple[Callable[[NumberHistory], Iterator[Finding]], ...] = (
    dead_activations,
    saturated_activations,
    large_updates,
    small_updates,
    outlier_data,
    loss_spikes,
)
