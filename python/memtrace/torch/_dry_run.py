"""Running a PyTorch program on a GPU that is not there."""

from dataclasses import replace

from .._planning import sizes
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
    """What a program would need on a GPU: runs `step(*args, **kwargs)` one time, without one.

    Nothing is computed, and tensors take no memory; a model may be larger than any GPU.

    Args:
        step: A function that makes its model, optimizer and batch on the device "cuda" and does
            one or two steps of training, or other work that is to be predicted.
        *args: Its arguments.
        gpu: A `Gpu`, where another than the default (an H100 of 80 GiB) makes a difference.
        settings: A text as in PYTORCH_CUDA_ALLOC_CONF, which is the default.
        capacity: Bytes that PyTorch can reserve; a program that does not fit then fails with
            `torch.OutOfMemoryError`.
        **kwargs: Its keyword arguments.

    Returns:
        A `DryRun`.

    Raises:
        NoValue: The program needs a value of the GPU that decides on a shape.
        ValueError: The settings or the capacity are invalid.

    Examples:
        >>> dry_run(train, 64).allocated_peak
    """
    capacity = None if capacity is None else sizes.parse(capacity)
    gpu = device_of(gpu, capacity)
    settings = Settings.given(settings)
    allocator = Allocator(settings, capacity)
    recorder = Recorder(allocator, gpu)
    with pretended_cuda(gpu, allocator, recorder), watched(recorder), pretended(recorder) as mode:
        step(*args, **kwargs)
    return result_of(recorder, allocator, mode.reads)
