"""Training steps on a GPU, and what PyTorch itself counts of them; shared by the programs beside it."""

import json
import time

import torch


def train(model, inputs, targets, loss, steps):
    """Some steps of Adam. Prints PyTorch's counters as one line of JSON.

    The first step is a warm-up. In the last one each module without children resets the peak when it
    begins, so `modules` has what every forward call of one allocated at most, by class, in order;
    the peaks of the whole are taken before.
    """
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    seconds = []
    for _ in range(steps):
        start = time.perf_counter()
        step(model, optimizer, inputs, targets, loss)
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    counters = {
        "allocated_peak_bytes": torch.cuda.max_memory_allocated(),
        "reserved_peak_bytes": torch.cuda.max_memory_reserved(),
    }
    modules = watched(model)
    step(model, optimizer, inputs, targets, loss)
    torch.cuda.synchronize()
    print(
        json.dumps(
            {**counters, "step_seconds": sorted(seconds)[len(seconds) // 2], "calls": modules}
        )
    )


def step(model, optimizer, inputs, targets, loss):
    optimizer.zero_grad(set_to_none=True)
    loss(model(inputs), targets).backward()
    optimizer.step()


def watched(model):
    """What each forward call of a module without children allocates at most, as it will be: class -> list."""
    peaks, starts = {}, []

    def before(module, _):
        torch.cuda.reset_peak_memory_stats()
        starts.append(torch.cuda.memory_allocated())

    def after(module, *_):
        kind = type(module).__qualname__
        peaks.setdefault(kind, []).append(torch.cuda.max_memory_allocated() - starts.pop())

    for module in model.modules():
        if not any(module.children()):
            module.register_forward_pre_hook(before)
            module.register_forward_hook(after)
    return peaks
