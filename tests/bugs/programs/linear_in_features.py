"""A CNN written for 28x28 digits is given 32x32 images: the classifier expects another number of features."""

import torch
from torch import nn

FOUND_BY = "explain"
RAISES = "mat1 and mat2 shapes cannot be multiplied"
SAYS = "the last dimension of input is 1024, the layer takes 784"


class DigitNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, padding=1)
        self.conv2 = nn.Conv2d(8, 16, 3, padding=1)
        self.pool = nn.MaxPool2d(2)
        self.fc = nn.Linear(16 * 7 * 7, 10)

    def forward(self, x):
        x = self.pool(self.conv1(x).relu())
        x = self.pool(self.conv2(x).relu())
        x = x.flatten(1)
        return self.fc(x)  # FAULT


def run():
    model = DigitNet()
    images = torch.rand(4, 3, 32, 32)
    return model(images).log_softmax(-1)
