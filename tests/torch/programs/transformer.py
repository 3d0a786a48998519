"""Two steps of training a transformer, in several ways."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        wide = F.gelu(self.up(self.norm2(x)))
        return x + F.dropout(self.down(wide), 0.1, self.training)


class Model(nn.Module):
    def __init__(self, words, length, width, heads, depth, saves):
        super().__init__()
        self.saves = saves
        self.embedding = nn.Embedding(words, width)
        self.position = nn.Parameter(torch.zeros(length, width))
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, tokens):
        x = self.embedding(tokens) + self.position
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.saves else block(x)
        return self.head(self.norm(x))


def main(batch=4, length=256, width=512, depth=4, words=8000, way="bf16"):
    """way: `bf16`, `fp16` or `fp32`, with `checkpoint`, `clip`, `sgd` after commas."""
    precision, *more = way.split(",")
    model = Model(words, length, width, 8, depth, "checkpoint" in more).to("cuda")
    if "sgd" in more:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    else:
        optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler("cuda", enabled=precision == "fp16")
    dtype = torch.float16 if precision == "fp16" else torch.bfloat16
    for _ in range(2):
        tokens = torch.randint(words, (batch, length)).cuda()
        with torch.autocast("cuda", dtype=dtype, enabled=precision != "fp32"):
            output = model(tokens)
            loss = F.cross_entropy(output.view(-1, words), tokens.view(-1))
        scaler.scale(loss).backward()
        if "clip" in more:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        loss.item()
