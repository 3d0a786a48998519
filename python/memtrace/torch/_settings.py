"""The options in PYTORCH_CUDA_ALLOC_CONF."""

import os
import re
from dataclasses import dataclass, field

MIN_BLOCK = 512  # every block is a multiple of it
LARGE_SEGMENT = 20 << 20
_FIRST_INTERVAL = 20  # `roundup_power2_divisions` has an entry for each power of two from 1 MiB on
_INTERVALS = 16

_LEAST_SPLIT = 20  # MiB
_OPTION = re.compile(r"([^:,\[\]]+):(\[[^\]]*\]|[^:,\[\]]+)(?:,|$)")


@dataclass(frozen=True)
class Settings:
    """Options of PyTorch's allocator, as documented there; the defaults are PyTorch's."""

    max_split_size: float = float("inf")
    max_non_split_rounding: int = LARGE_SEGMENT
    garbage_collection_threshold: float = 0.0
    expandable_segments: bool = False
    roundup_power2_divisions: tuple = field(default=(0,) * _INTERVALS)

    @classmethod
    def given(cls, text=None):
        """Settings, or a text of them, or the process's environment as PyTorch reads it."""
        if isinstance(text, cls):
            return text
        if text is None:
            text = os.environ.get("PYTORCH_ALLOC_CONF")
        if text is None:
            text = os.environ.get("PYTORCH_CUDA_ALLOC_CONF")
        return cls.parse(text)

    @classmethod
    def parse(cls, text):
        """Settings as the variable has them: `max_split_size_mb:128,expandable_segments:True`.

        ValueError: PyTorch would not accept it, or it changes what is not simulated here.
        """
        text, at, found = re.sub(r"\s", "", text or ""), 0, {}
        while at < len(text):
            option = _OPTION.match(text, at)
            if option is None:
                raise ValueError(
                    f"{text[at:]!r} of PYTORCH_CUDA_ALLOC_CONF is not a list of options: write "
                    "max_split_size_mb:128,expandable_segments:True"
                )
            name, value = option.groups()
            at = option.end()
            if name not in _OPTIONS:
                raise ValueError(
                    f"{name}:{value} of PYTORCH_CUDA_ALLOC_CONF is nothing that memtrace can "
                    "simulate; leave it out"
                )
            setting, read, wanted = _OPTIONS[name]
            understood = read(value)
            if understood is None:
                raise ValueError(
                    f"{name}:{value} of PYTORCH_CUDA_ALLOC_CONF is not understood: write {wanted}"
                )
            if setting is not None:
                found[setting] = understood
        return cls(**found)

    def rounded(self, size):
        """The size of a block for a request of `size` bytes."""
        if size < MIN_BLOCK:
            return MIN_BLOCK
        interval = size.bit_length() - 1 - _FIRST_INTERVAL
        divisions = self.roundup_power2_divisions[min(max(interval, 0), _INTERVALS - 1)]
        if divisions > 1 and size > MIN_BLOCK * divisions:
            step = (1 << (size.bit_length() - 1)) >> (divisions.bit_length() - 1)
            return -(-size // step) * step
        return -(-size // MIN_BLOCK) * MIN_BLOCK


def _whole(value):
    """PyTorch reads as many digits as there are."""
    digits = re.match(r"\+?\d+", value)
    return int(digits[0]) if digits else -1


def _mebibytes(value):
    return _whole(value) << 20 if _whole(value) >= _LEAST_SPLIT else None


def _share(value):
    number = re.match(r"\+?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", value, re.IGNORECASE)
    return float(number[0]) if number and 0 < float(number[0]) < 1 else None


def _flag(value):
    return {"True": True, "False": False}.get(value)


def _threads(value):
    return _whole(value) if _is_power_of_two(_whole(value)) and _whole(value) <= 128 else None


def _native(value):
    return True if value == "native" else None


def _divisions(value):
    """One number for all sizes, or `[256:1,512:2,>:8]`: from each number of MiB on."""
    if not value.startswith("["):
        return (_whole(value),) * _INTERVALS if _is_power_of_two(_whole(value)) else None
    found, last, first = [0] * _INTERVALS, 0, True
    for entry in filter(None, value[1:-1].split(",")):
        size, _, divisions = entry.partition(":")
        divisions = _whole(divisions)
        if divisions != 0 and not _is_power_of_two(divisions):
            return None
        if size == ">":
            found[last + 1 :] = [divisions] * (_INTERVALS - last - 1)
            continue
        if not _is_power_of_two(_whole(size)):
            return None
        last = min(_whole(size).bit_length() - 1, _INTERVALS - 1)
        if first:
            found[:last] = [divisions] * last
        found[last], first = divisions, False
    return tuple(found)


def _is_power_of_two(number):
    return number > 0 and number & (number - 1) == 0


_FLAG = (_flag, "True or False")
_SIZE = (_mebibytes, f"a number of MiB from {_LEAST_SPLIT} on")

#: Of each option: the setting, what reads it, and what to write. Options without a setting change
#: no size: they say when and how the driver is called.
_OPTIONS = {
    "max_split_size_mb": ("max_split_size", *_SIZE),
    "max_non_split_rounding_mb": ("max_non_split_rounding", *_SIZE),
    "garbage_collection_threshold": (
        "garbage_collection_threshold",
        _share,
        "a number between 0 and 1",
    ),
    "expandable_segments": ("expandable_segments", *_FLAG),
    "roundup_power2_divisions": (
        "roundup_power2_divisions",
        _divisions,
        "a power of two, or one for each range of sizes as in [256:1,512:2,>:8]",
    ),
    "backend": (None, _native, "native, which is what memtrace can simulate, or leave it out"),
    "release_lock_on_cudamalloc": (None, *_FLAG),
    "release_lock_on_hipmalloc": (None, *_FLAG),
    "pinned_use_cuda_host_register": (None, *_FLAG),
    "pinned_use_hip_host_register": (None, *_FLAG),
    "pinned_num_register_threads": (None, _threads, "a power of two up to 128"),
    "pinned_use_background_threads": (None, *_FLAG),
}
