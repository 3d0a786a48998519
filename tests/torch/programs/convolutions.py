"""A small ResNet: convolutions, batch norms, momentum; channels last if asked."""

import torch
import torch.nn.functional as F
from torch import nn


class Bottleneck(nn.Module):
    def __init__(self, channels):
        super().__init__()
        inner = channels // 4
        self.narrow = nn.Conv2d(channels, inner, 1, bias=False)
        self.conv = nn.Conv2d(inner, inner, 3, padding=1, bias=False)
        self.wide = nn.Conv2d(inner, channels, 1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(n) for n in (inner, inner, channels))

    def forward(self, x):
        y = F.relu(self.norms[0](self.narrow(x)), inplace=True)
        y = F.relu(self.norms[1](self.conv(y)), inplace=True)
        return F.relu(self.norms[2](self.wide(y)) + x, inplace=True)


def main(batch=8, channels_last=False):
    model = nn.Sequential(
        nn.Conv2d(3, 256, 7, 2, 3, bias=False),
        nn.MaxPool2d(3, 2, 1),
        *(Bottleneck(256) for _ in range(3)),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(256, 1000),
    ).cuda()
    images = torch.empty(batch, 3, 224, 224).to("cuda")
    if channels_last:
        model = model.to(memory_format=torch.channels_last)
        images = images.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(2):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), torch.randint(1000, (batch,), device="cuda"))
        loss.backward()
        optimizer.step()
