"""A loop as people write it: pinned batches, copied ahead on another stream; timed and logged."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main(batch=96, width=700):
    torch.manual_seed(3)
    device = torch.device("cuda", 0)
    torch.cuda.set_device(device)
    state = torch.cuda.get_rng_state()
    data = TensorDataset(torch.ones(3 * batch, width), torch.zeros(3 * batch, dtype=torch.long))
    loader = DataLoader(data, batch_size=batch, shuffle=True, pin_memory=True)
    model = nn.Sequential(nn.Linear(width, 900), nn.GELU(), nn.Linear(900, 11)).to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for x, y in ahead(loader, device):
        x = x + torch.randn(width, device=device, generator=torch.Generator(device))
        optimizer.zero_grad(set_to_none=True)
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    end.record()
    torch.cuda.synchronize()
    torch.cuda.set_rng_state(state)
    with torch.cuda.device(device), torch.no_grad():
        guesses = model(x).cpu().numpy()
    assert guesses.shape == (batch, 11)
    stats = torch.cuda.memory_stats()
    peaks = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
    assert peaks == (stats["allocated_bytes.all.peak"], stats["reserved_bytes.all.peak"])
    torch.cuda.memory_summary()
    begin.elapsed_time(end)


def ahead(loader, device):
    """Batches, each copied while the one before is at work."""
    stream, coming = torch.cuda.Stream(), None
    for batch in loader:
        with torch.cuda.stream(stream):
            copied = [part.to(device, non_blocking=True) for part in batch]
        if coming is not None:
            yield arrived(coming, stream)
        coming = copied
    yield arrived(coming, stream)


def arrived(batch, stream):
    current = torch.cuda.current_stream()
    current.wait_stream(stream)
    for part in batch:
        part.record_stream(current)
    return batch
