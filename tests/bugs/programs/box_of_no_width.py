"""A box is clipped to the crop and has no width left; the target of the detector is the logarithm of its size."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader

FOUND_BY = "guard"
REPAIR = "return np.log(np.maximum(corners[:, 2:] - corners[:, :2], 1) / ANCHOR).astype(np.float32)"
ANCHOR = np.array([16.0, 16.0])


def crop(boxes, side):
    return np.clip(boxes, 0, side)


def targets(corners):
    return np.log((corners[:, 2:] - corners[:, :2]) / ANCHOR).astype(np.float32)  # FAULT


def collate(samples):
    images, boxes = zip(*samples, strict=True)
    wanted = [torch.from_numpy(targets(crop(box, 32))) for box in boxes]
    return torch.stack(images), torch.cat(wanted)


def run():
    torch.manual_seed(0)
    boxes = [[[2, 3, 20, 25]], [[5, 8, 30, 12]], [[34, 4, 40, 20]], [[1, 1, 9, 30]]]
    samples = [(torch.rand(3, 32, 32), np.array(box, dtype=np.float64)) for box in boxes]
    model = nn.Sequential(nn.Conv2d(3, 4, 5, stride=4), nn.ReLU(), nn.Flatten(), nn.Linear(196, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for images, wanted in DataLoader(samples, batch_size=2, collate_fn=collate):
        loss = F.smooth_l1_loss(model(images), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss
