"""A centred spectrogram has one frame more than samples divided by the hop, and the mask of the loss lacks it.
The kind of report that speech tools get: two tensors differ by one, far behind the features."""

import torch
from torch import nn
from torch.utils.data import DataLoader

FOUND_BY = "explain"
RAISES = "The size of tensor a (21) must match the size of tensor b (20)"
REPAIR = "frames = lengths // HOP + 1"
WINDOW, HOP = 64, 16


def collate(waves):
    lengths = torch.tensor([len(wave) for wave in waves])
    frames = lengths // HOP  # FAULT
    mask = torch.arange(int(frames.max()))[None] < frames[:, None]
    return nn.utils.rnn.pad_sequence(waves, batch_first=True), mask.float()


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = nn.Conv1d(WINDOW // 2 + 1, WINDOW // 2 + 1, 3, padding=1)

    def forward(self, waves):
        spectrum = torch.stft(waves, WINDOW, HOP, window=torch.hann_window(WINDOW), return_complex=True).abs()
        return spectrum, self.mix(spectrum).relu()


def masked_error(predicted, wanted, mask):
    error = (predicted - wanted).square().mean(dim=1)
    return (error * mask).sum() / mask.sum()


def run():
    torch.manual_seed(0)
    waves = [torch.randn(length) for length in (320, 250, 280, 320)]
    model = Denoiser()
    for batch, mask in DataLoader(waves, batch_size=4, collate_fn=collate):
        spectrum, cleaned = model(batch)
        return masked_error(cleaned, spectrum.roll(1, 0), mask)
