"""Statistics, extremes and fingerprints of tensors as arithmetic on their device: nothing here reads a number.

The statistics are those of statistics.py, by the same formulas. What is decided there by a number, such as in which of
two ways the variance is computed, is decided here by `torch.where`, or afterwards by whoever reads the numbers.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from insitu.capture.statistics import BINS, CLOSE, TINY, VAST, has_bins, histogram_of_equals
from insitu.trace.event import Stats

ROW = 1 << 16  # elements of a fingerprint that have weights of their own
FACTOR = 0x9E3779B1  # spreads the bits of a weight
HALF = 1 << 24  # so large is each half of a fingerprint: float32 holds it exactly
WORDS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int32, 16: torch.int32}


def statistics_row(values: Tensor, wide: torch.dtype, *, bins: bool) -> Tensor:
    """The numbers that `stats_of_row` reads, of a row of floats that is not empty."""
    finite = values.isfinite()
    count, number = values.numel(), finite.sum()
    clean = values.where(finite, 0.0)
    nan = values.isnan().sum()
    low, high = values.where(finite, math.inf).amin(), values.where(finite, -math.inf).amax()
    total, square = clean.sum(), torch.dot(clean, clean)
    largest = torch.maximum(low.abs(), high.abs()).to(wide)
    is_plain = (number == count) & total.isfinite() & (largest > TINY) & (largest < VAST)
    scale = largest.where(~is_plain & (largest > 0), 1.0)
    scaled = clean.to(wide) / scale
    mean = torch.where(is_plain, total.to(wide) / count, scaled.sum() / number)
    variance = (scaled - mean).square().where(finite, 0.0).sum() / number
    numbers = [nan, count - number - nan, count - values.count_nonzero()]
    numbers += [low, high, total, square, is_plain, scale, mean, variance]
    row = torch.stack([each.to(wide) for each in numbers])
    if not bins:
        return row
    return torch.cat((row, bin_counts(clean, finite, low, high).to(wide)))


def bin_counts(clean: Tensor, finite: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Counts of the finite values in equal bins, as `torch.histc` counts them."""
    span = high - low
    place = ((clean - low) * BINS / span).where(span > 0, 0.0)
    bins = place.nan_to_num(0.0).clamp(0, BINS - 1).long().where(finite, BINS)
    one = torch.ones((), dtype=torch.int64, device=clean.device)
    counts = torch.zeros(BINS + 1, dtype=torch.int64, device=clean.device)
    return counts.scatter_add_(0, bins, one.expand_as(bins))[:BINS]


def stats_of_row(row: Any, count: int) -> Stats:
    """The statistics that the numbers of `statistics_row` tell."""
    nan, inf, zeros = (int(each) for each in row[:3])
    number = count - nan - inf
    if number == 0:
        return Stats(count=count, nan=nan, inf=inf, zeros=zeros)
    low, high, total, square, is_plain, scale, mean, variance = (float(each) for each in row[3:11])
    if is_plain:
        mean, std = total / count, plain_std(total / count, square / count, variance)
    else:
        mean, std = mean * scale, math.sqrt(variance) * scale
    counts = tuple(int(each) for each in row[11:])
    if counts and not has_bins(low, high):
        counts = histogram_of_equals(number)
    return Stats(count=count, min=low, max=high, mean=mean, std=std, nan=nan, inf=inf, zeros=zeros, histogram=counts)


def plain_std(mean: float, square: float, variance: float) -> float:
    """The standard deviation from the mean square or, if that has lost digits, from the variance of two passes."""
    quick = square - mean * mean
    if quick < CLOSE * square:
        quick = variance
    return math.sqrt(max(quick, 0.0))


class FingerprintWeights:
    """The weights of the words of a tensor on one device: a fingerprint changes if two words change places."""

    def __init__(self, device: torch.device) -> None:
        odd = torch.arange(1, 2 * ROW, 2, dtype=torch.int64, device=device)
        self._wide = odd * FACTOR
        self._narrow = self._wide.to(torch.int32)

    def fingerprint(self, tensor: Tensor) -> list[Tensor]:
        """Two numbers that are others, almost always, when an element of a dense tensor is another one."""
        plain = tensor.resolve_conj().resolve_neg().contiguous()
        words = plain.reshape(-1).view(WORDS[plain.element_size()])
        whole = words.numel() // ROW
        total = (words[whole * ROW :] * self._narrow[: words.numel() - whole * ROW]).sum(dtype=torch.int64)
        if whole:
            rows = (words[: whole * ROW].view(whole, ROW) * self._narrow).sum(1, dtype=torch.int64)
            total = total + (rows * self._wide[torch.arange(whole, device=rows.device) % ROW]).sum()
        mixed = total ^ (total >> 29)
        return [mixed & (HALF - 1), (mixed >> 24) & (HALF - 1)]
