"""Least squares by the inverse of the data instead of the inverse of its Gram matrix."""

import torch

FOUND_BY = "explain"
RAISES = "must be batches of square matrices"
SAYS = "the matrix has 50 rows and 3 columns and must be square"


def fit(features, targets):
    inverse = torch.linalg.inv(features)  # FAULT
    return inverse @ targets


def run():
    torch.manual_seed(0)
    features = torch.randn(50, 3)
    targets = features @ torch.tensor([1.0, -2.0, 0.5])
    return fit(features, targets)
