"""The noise schedule comes from NumPy and stays float64: everything that is multiplied with it becomes float64 too."""

import numpy as np
import torch
from torch import nn

FOUND_BY = "explain"
RAISES = "must have the same dtype"
REPAIR = "return torch.from_numpy(np.linspace(1e-4, 0.02, steps)).float()"


def noise_rates(steps):
    return torch.from_numpy(np.linspace(1e-4, 0.02, steps))  # FAULT


class Diffusion(nn.Module):
    def __init__(self, steps, denoiser):
        super().__init__()
        self.denoiser = denoiser
        kept = (1 - noise_rates(steps)).cumprod(0)
        self.register_buffer("kept", kept)

    def spoil(self, clean, steps):
        noise = torch.randn_like(clean)
        share = self.kept.gather(0, steps).view(-1, 1)
        return share.sqrt() * clean + (1 - share).sqrt() * noise, noise

    def forward(self, clean):
        steps = torch.randint(len(self.kept), clean.shape[:1])
        noisy, noise = self.spoil(clean, steps)
        return (self.denoiser(noisy) - noise).square().mean()


def run():
    torch.manual_seed(0)
    denoiser = nn.Sequential(nn.Linear(8, 32), nn.SiLU(), nn.Linear(32, 8))
    loss = Diffusion(50, denoiser)(torch.randn(16, 8))
    loss.backward()
    return loss
