"""Thousands of random allocations, side by side through PyTorch's allocator and the simulator."""

import json
import os
import random
import sys

import torch
from memtrace.torch import Allocator, OutOfMemory, Settings

choose = random.Random(int(sys.argv[1]))
capacity = int(sys.argv[2])
if capacity and not os.environ.get("STANDIN_MEMORY"):
    total = torch.cuda.mem_get_info()[1]
    torch.cuda.set_per_process_memory_fraction(capacity / total)
settings = Settings.parse(os.environ.get("PYTORCH_CUDA_ALLOC_CONF"))
simulated = Allocator(settings, capacity or None)
torch.cuda.init()
streams = [torch.cuda.current_stream(), torch.cuda.Stream(), torch.cuda.Stream()]
live, refused = [], 0


def size():
    kind = choose.random()
    powers = (0, 13) if kind < 0.3 else (13, 21) if kind < 0.6 else (20, 24.5)
    return int(2 ** choose.uniform(*(powers if kind < 0.9 else (24, 30))))


def allocate():
    wanted, stream = size(), streams[0] if choose.random() < 0.9 else choose.choice(streams)
    try:
        real = torch.cuda.caching_allocator_alloc(wanted, 0, stream)
    except torch.OutOfMemoryError:
        real = None
    try:
        address = simulated.malloc(wanted, stream.cuda_stream)
    except OutOfMemory:
        address = None
    assert (real is None) == (address is None), (wanted, real, address)
    return None if real is None else (real, address)


for step in range(3000):
    what = choose.random()
    if what < 0.55 or not live:
        pair = allocate()
        refused += pair is None
        live += [pair] if pair else []
    elif what < 0.999:
        real, address = live.pop(choose.randrange(len(live)) if choose.random() < 0.7 else -1)
        torch.cuda.caching_allocator_delete(real)
        simulated.free(address)
    else:
        torch.cuda.empty_cache()
        simulated.empty_cache()
    real = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
    assert real == (simulated.allocated, simulated.reserved), (step, real)
real = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
assert real == (simulated.allocated_peak, simulated.reserved_peak), real
print(json.dumps({"refused": refused, "peaks": real}))
