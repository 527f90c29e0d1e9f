"""torchvision beside a torch without CUDA: its wheel on PyPI is made for CUDA, and its compiled part does not load."""

from __future__ import annotations

import sys
from importlib.util import find_spec

import torch
from torch import Tensor


def load_torchvision() -> None:
    """Import torchvision, if it is there; if its compiled operators are missing, those models need come in Python."""
    if find_spec("torchvision") is None:
        return
    try:
        import torchvision
    except RuntimeError:
        for name in ("nms", "qnms"):
            torch.library.define(f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        torch.library.impl("torchvision::nms", "CPU", nms)
        import torchvision

        torchvision.extension._has_ops = lambda: True
        # Its own way out is to compile this function, which takes a compiler and a minute.
        align = sys.modules["torchvision.ops.roi_align"]
        align._roi_align = align._roi_align.__wrapped__


def nms(boxes: Tensor, scores: Tensor, threshold: float) -> Tensor:
    """The places of the boxes that overlap no better one by more than a threshold, the best first."""
    from torchvision.ops import box_iou

    order = scores.argsort(descending=True, stable=True)
    overlaps = (box_iou(boxes[order], boxes[order]) > threshold).numpy()  # the loop is no part of what is traced
    kept: list[int] = []
    for place in range(len(order)):
        if not overlaps[place, kept].any():
            kept.append(place)
    return order[kept]
