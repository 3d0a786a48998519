"""`torch.cuda` as a program finds it on a machine with one GPU."""

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Optional
from unittest import mock

import torch
from torch._subclasses.fake_tensor import FakeTensor

from ._attention import attention_for
from ._streams import Event, Streams


@dataclass(frozen=True)
class Gpu:
    """The properties of a GPU that change how much is allocated.

    Attributes:
        name: What the program sees as its name.
        capability: Its architecture; (9, 0) is an H100.
        total_memory: Bytes.
        processors: Its multiprocessors.
        threads: The most threads of each.
        cublas_workspace: Bytes of scratch memory of a matrix product, where
            CUBLAS_WORKSPACE_CONFIG is set or PyTorch has another default.
        cublaslt_workspace: The same, for CUBLASLT_WORKSPACE_SIZE.
    """

    name: str = "dry run"
    capability: tuple = (9, 0)
    total_memory: int = 80 << 30
    processors: int = 132
    threads: int = 2048
    cublas_workspace: "Optional[int]" = None
    cublaslt_workspace: int = 1 << 20

    def workspace(self):
        """Bytes of scratch memory of cuBLAS, one for each stream."""
        if self.cublas_workspace is not None:
            return self.cublas_workspace
        # Two buffers of 4 MiB and eight of 16 KiB; on Hopper eight of 4 MiB.
        return 8 * (4 << 20) if self.capability[0] == 9 else 2 * (4 << 20) + 8 * (16 << 10)


@contextmanager
def pretended_cuda(gpu, allocator, recorder):
    """Has `torch.cuda` describe the simulated GPU and the simulated allocator."""
    streams = Streams(recorder.choose_stream)
    answers = {**_device_answers(gpu), **_stream_answers(streams)}
    answers.update(_memory_answers(gpu, allocator, recorder))
    accelerator = {
        "current_stream": lambda device=None: streams.current,
        "current_device_index": lambda: 0,
        "synchronize": lambda device=None: None,
        "is_available": lambda: True,
    }
    from torch.optim import optimizer

    # Makes the optimizers take the path for tensors of a GPU.
    known = [*optimizer._foreach_supported_types, FakeTensor]
    # The guard of the current device in C++ queries the driver, unless it is replaced while
    # PyTorch still says that there is no GPU; FakeTensorMode would come too late for that.
    torch._C._ensureCUDADeviceGuardSet()
    with ExitStack() as stack:
        for name, answer in answers.items():
            for module in (torch.cuda, torch.cuda.memory, torch.cuda.random):
                if hasattr(module, name):
                    stack.enter_context(mock.patch.object(module, name, answer))
        for name, answer in accelerator.items():
            stack.enter_context(mock.patch.object(torch.accelerator, name, answer))
        # cuDNN is off: its results are as large as those of PyTorch's kernels.
        stack.enter_context(torch.backends.cudnn.flags(enabled=False))
        attention = attention_for(gpu.capability)
        stack.enter_context(mock.patch.object(torch, "Generator", _Generator))
        stack.enter_context(mock.patch.object(torch.Tensor, "pin_memory", _as_it_is))
        stack.enter_context(mock.patch.object(torch.Tensor, "record_stream", _nothing_waits))
        functional = torch.nn.functional
        stack.enter_context(
            mock.patch.object(functional, "scaled_dot_product_attention", attention)
        )
        stack.enter_context(mock.patch.object(optimizer, "_foreach_supported_types", known))
        yield


def _device_answers(gpu):
    """Functions of `torch.cuda` on the device and its random numbers."""
    major, minor = gpu.capability
    about = SimpleNamespace(
        name=gpu.name,
        major=major,
        minor=minor,
        total_memory=gpu.total_memory,
        multi_processor_count=gpu.processors,
        warp_size=32,
        max_threads_per_multi_processor=gpu.threads,
    )
    return {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "set_device": lambda device: None,
        "synchronize": lambda device=None: None,
        "_exchange_device": lambda device: 0,
        "_maybe_exchange_device": lambda device: 0,
        "_lazy_init": lambda: None,
        "get_rng_state": lambda device="cuda": torch.get_rng_state(),
        "get_rng_state_all": lambda: [torch.get_rng_state()],
        "set_rng_state": lambda state, device="cuda": None,
        "set_rng_state_all": lambda states: None,
        "is_bf16_supported": lambda including_emulation=True: major >= 8,
        "get_device_name": lambda device=None: gpu.name,
        "get_device_capability": lambda device=None: gpu.capability,
        "get_device_properties": lambda device=None: about,
        "initial_seed": torch.initial_seed,
    }


def _stream_answers(streams):
    """Functions of `torch.cuda` on streams."""
    return {
        "Event": Event,
        "Stream": streams.Stream,
        "current_stream": lambda device=None: streams.current,
        "default_stream": lambda device=None: streams.default,
        "set_stream": streams.choose,
        "is_current_stream_capturing": lambda: False,
    }


def _memory_answers(gpu, allocator, recorder):
    """Functions of `torch.cuda` on memory."""
    return {
        "mem_get_info": lambda device=None: (
            max(gpu.total_memory - allocator.reserved, 0),
            gpu.total_memory,
        ),
        "memory_allocated": lambda device=None: allocator.allocated,
        "max_memory_allocated": lambda device=None: allocator.allocated_peak,
        "memory_reserved": lambda device=None: allocator.reserved,
        "max_memory_reserved": lambda device=None: allocator.reserved_peak,
        "memory_stats": lambda device=None: _Stats(_counted(allocator)),
        "memory_summary": lambda device=None, abbreviated=False: "\n".join(
            f"{name}: {value}" for name, value in _counted(allocator).items()
        ),
        "reset_peak_memory_stats": lambda device=None: allocator.reset_peaks(),
        "reset_max_memory_allocated": lambda device=None: allocator.reset_peaks(),
        "empty_cache": recorder.empty_cache,
    }


def _counted(allocator):
    """What `torch.cuda.memory_stats()` has of the simulated allocator.

    What is allocated is active too: no block waits for a stream.
    """
    figures = {
        "allocated_bytes": (allocator.allocated, allocator.allocated_peak),
        "active_bytes": (allocator.allocated, allocator.allocated_peak),
        "reserved_bytes": (allocator.reserved, allocator.reserved_peak),
    }
    return {
        f"{name}.all.{which}": value
        for name, values in figures.items()
        for which, value in zip(("current", "peak"), values)
    }


class _Stats(dict):
    def __missing__(self, key):
        raise KeyError(f"{key}: a dry run has of memory_stats() only {', '.join(self)}")


class _AnyGenerator(type(torch.Generator)):
    def __instancecheck__(cls, instance):
        return isinstance(instance, torch._C.Generator)


class _Generator(torch.Generator, metaclass=_AnyGenerator):
    """Its numbers are unused: tensors of the GPU have no elements."""

    def __new__(cls, device="cpu"):
        return super().__new__(cls)


def _as_it_is(tensor, device=None):
    """In place of `pin_memory`, which changes nothing on the GPU."""
    return tensor


def _nothing_waits(tensor, stream):
    """In place of `record_stream`: the other stream has nothing left to do."""
