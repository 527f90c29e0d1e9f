"""The difference of two frames of bytes: where it is negative it wraps around to nearly 255."""

import torch

FOUND_BY = "compare"


def motion(frame, background):
    difference = (frame.int() - background.int()).abs()
    return (difference > 20).float().mean()


def motion_without_copies(frame, background):
    difference = (frame - background).abs()  # FAULT
    return (difference > 20).float().mean()


def amount(measure):
    torch.manual_seed(0)
    background = torch.randint(60, 200, (24, 24), dtype=torch.uint8)
    shake = torch.randint(-10, 10, (24, 24))
    frame = (background + shake).to(torch.uint8)
    frame[4:9, 4:9] = 250
    return measure(frame, background)


def good():
    return amount(motion)


def bad():
    return amount(motion_without_copies)
