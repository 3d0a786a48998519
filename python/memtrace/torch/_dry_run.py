"""Running a PyTorch program on a GPU that is not there."""

from dataclasses import replace

from .. import _sizes
from ._allocator import Allocator
from ._cuda import Gpu, pretended_cuda
from ._events import Recorder
from ._modules import watched
from ._pretend import pretended
from ._result import result_of
from ._settings import Settings


def device_of(gpu, memory):
    """A GPU that has no more memory than this; the default one has as much."""
    if memory is None:
        return gpu or Gpu()
    return (
        Gpu(total_memory=memory)
        if gpu is None
        else replace(gpu, total_memory=min(gpu.total_memory, memory))
    )


def dry_run(step, *args, gpu=None, settings=None, capacity=None, **kwargs):
    """What a program would need on a GPU: runs `step(*args, **kwargs)` once, without one.

    step: a function that makes its model, optimizer and batch on the device "cuda" and does one or
    two steps of training, or whatever is asked about. Nothing is computed, and tensors take no
    memory; a model may be larger than any GPU.
    gpu: a `Gpu`, where another than the default (an H100 of 80 GiB) makes a difference.
    settings: a text as in PYTORCH_CUDA_ALLOC_CONF, which is the default. capacity: bytes that
    PyTorch can reserve; then a program that does not fit fails with `torch.OutOfMemoryError`.

    NoValue: the program needs a value of the GPU that decides on a shape.

    >>> dry_run(train, 64).allocated_peak
    """
    capacity = None if capacity is None else _sizes.parse(capacity)
    gpu = device_of(gpu, capacity)
    settings = Settings.given(settings)
    allocator = Allocator(settings, capacity)
    recorder = Recorder(allocator, gpu)
    with pretended_cuda(gpu, allocator, recorder), watched(recorder), pretended(recorder) as mode:
        step(*args, **kwargs)
    return result_of(recorder, allocator, mode.reads)
