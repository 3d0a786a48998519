"""Texts for PYTORCH_CUDA_ALLOC_CONF: for each what PyTorch and the simulator make of some sizes, or
None where they refuse it."""

import json

import torch
from memtrace.torch import Allocator, Settings

OPTIONS = {
    "expandable_segments": ["True", "False", "true", "1", ""],
    "max_split_size_mb": ["19", "20", "128MB", "64.5", "abc", "1e3", "+64", "99999999999999"],
    "max_non_split_rounding_mb": ["19", "20"],
    "garbage_collection_threshold": ["0", "1", "0.5", ".5", "1e-1", "0.5x", "x", "2", "nan"],
    "roundup_power2_divisions": [
        *("0", "1", "3", "4", "[]", "[>:8]", "[64:2,]", "[64:2,>:8]", "[64:2,>:8,128:4]"),
        *("[512:2,64:4,>:8]", "[1:2,>:8]", "[256:4,64:2,128:8]", "[131072:4]", "[64:3]", "[65:2]"),
        *("[0:2]", "[64:0,>:4]", "[64 2]", "[64:2"),
    ],
    "backend": ["native", "other"],
    "release_lock_on_cudamalloc": ["True", "1"],
    "pinned_num_register_threads": ["8", "3", "256"],
    "pinned_use_background_threads": ["True", "2"],
}
TEXTS = [
    *("", ",", "nonsense", "nonsense:1", "expandable_segments=True", "expandable_segments"),
    *("expandable_segments:True,", ",expandable_segments:True"),
    "expandable_segments:True,,max_split_size_mb:128",
    " expandable_segments : False , max_split_size_mb : 128 ",
    "expandable_segments:True max_split_size_mb:128",
    "backend:native,max_split_size_mb:64",
    *(f"{option}:{value}" for option, values in OPTIONS.items() for value in values),
]
SIZES = [(mib << 20) + 512 for mib in (1, 2, 32, 64, 128, 256, 1024)]


def pytorch(text):
    try:
        torch._C._accelerator_setAllocatorSettings(text)
    except (RuntimeError, ValueError):
        return None
    return [block(size) for size in SIZES]


def block(size):
    torch.cuda.empty_cache()
    address = torch.cuda.caching_allocator_alloc(size)
    taken = torch.cuda.memory_allocated()
    torch.cuda.caching_allocator_delete(address)
    return taken


def ours(text):
    try:
        settings = Settings.parse(text)
    except ValueError:
        return None
    allocator = Allocator(settings)
    return [allocator.size_of(allocator.malloc(size)) for size in SIZES]


print(json.dumps([(text, pytorch(text), ours(text)) for text in TEXTS]))
