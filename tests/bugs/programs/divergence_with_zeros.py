"""Kullback-Leibler divergence by hand: a bin of the histogram is empty, and zero times minus infinity is NaN."""

import torch

FOUND_BY = "guard"


def histogram(samples, bins):
    counts = torch.histc(samples, bins=bins, min=-4, max=4)
    return counts / counts.sum()


def divergence(p, q):
    return (p * (p / q).log()).sum()  # FAULT


def run():
    torch.manual_seed(0)
    expected = torch.softmax(-torch.linspace(-4, 4, 16).square() / 2, dim=0)
    observed = histogram(torch.randn(200), bins=16)
    return divergence(observed, expected)
