"""Two layers, Adam, mixed precision."""

import torch
from torch import nn


def main(batch=256):
    model = nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 1024)).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    x = torch.empty(batch, 1024, device="cuda")
    for _ in range(2):
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = nn.functional.mse_loss(model(x).float(), x)
        loss.backward()
        optimizer.step()
        loss.item()
