"""Training steps of ResNet-50 (He et al., 2015: bottleneck blocks of 3, 4, 6 and 3)."""

import sys

import torch
from torch import nn
from training import train


class Bottleneck(nn.Module):
    """1×1, 3×3, 1×1, and the input added."""

    def __init__(self, inner, channels, stride):
        super().__init__()
        outer = 4 * inner
        layers, into = [], channels
        for kernel, width, step in ((1, inner, 1), (3, inner, stride), (1, outer, 1)):
            layers += [
                nn.Conv2d(into, width, kernel, step, kernel // 2, bias=False),
                nn.BatchNorm2d(width),
                nn.ReLU(inplace=True),
            ]
            into = width
        self.path, self.last = nn.Sequential(*layers[:-1]), layers[-1]
        same = stride == 1 and channels == outer
        shortcut = [nn.Conv2d(channels, outer, 1, stride, bias=False), nn.BatchNorm2d(outer)]
        self.shortcut = nn.Identity() if same else nn.Sequential(*shortcut)

    def forward(self, x):
        return self.last(self.path(x) + self.shortcut(x))


def resnet50(classes=1000):
    layers = [
        nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, 1),
    ]  # fmt: skip
    channels = 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        for block in range(blocks):
            inner = 64 << stage
            layers.append(Bottleneck(inner, channels, 2 if stage and not block else 1))
            channels = 4 * inner
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes)]
    return nn.Sequential(*layers)


if __name__ == "__main__":
    batch, steps = int(sys.argv[1]), int(sys.argv[2])
    torch.manual_seed(0)
    images = torch.randn(batch, 3, 224, 224, device="cuda")
    labels = torch.randint(1000, (batch,), device="cuda")
    train(resnet50().cuda(), images, labels, nn.functional.cross_entropy, steps)
