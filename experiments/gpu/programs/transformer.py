"""Training steps of a small transformer: batch, sequence, steps."""

import sys

import torch
from torch import nn
from training import train

WIDTH, HEADS, LAYERS, WORDS = 512, 8, 6, 8192


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, LAYERS)
        self.out = nn.Linear(WIDTH, WORDS)

    def forward(self, tokens):
        return self.out(self.layers(self.words(tokens)))


def loss(logits, targets):
    return nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


if __name__ == "__main__":
    batch, sequence, steps = map(int, sys.argv[1:])
    torch.manual_seed(0)
    tokens = torch.randint(WORDS, (batch, sequence), device="cuda")
    train(Transformer().cuda(), tokens, tokens, loss, steps)
