"""What PyTorch programs need on a GPU, predicted without one.

`dry_run` runs a program's training step with tensors that have no elements, and plays its
allocations to a simulator of PyTorch's caching allocator; `fit` makes laws of such runs, and
`recommend_batch` finds the largest batch that fits.
"""

from typing import TYPE_CHECKING

from ._allocator import Allocator, OutOfMemory
from ._settings import Settings

if TYPE_CHECKING:
    from ._cuda import Gpu
    from ._dry_run import dry_run
    from ._laws import fit, recommend_batch
    from ._pretend import NoValue
    from ._result import DryRun

__all__ = [
    "Allocator",
    "DryRun",
    "Gpu",
    "NoValue",
    "OutOfMemory",
    "Settings",
    "dry_run",
    "fit",
    "recommend_batch",
]

#: Loaded at first use: these need PyTorch.
_LATER = {
    "DryRun": "_result",
    "Gpu": "_cuda",
    "NoValue": "_pretend",
    "dry_run": "_dry_run",
    "fit": "_laws",
    "recommend_batch": "_laws",
}


def __getattr__(name):
    from importlib import import_module

    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        import torch
    except ImportError as error:
        raise ImportError(f"memtrace.torch.{name} needs PyTorch: pip install torch") from error
    if not hasattr(torch.Tensor, "_use_count"):
        raise ImportError(
            f"memtrace.torch.{name} needs a newer PyTorch than {torch.__version__}: "
            "2.15 is what it was tried with"
        )
    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
