"""Predictions against PyTorch's own code, byte for byte."""

import json
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).with_name("programs")
COMPARE = (PROGRAMS / "compare.py").read_text()
ALLOCATIONS = (PROGRAMS / "allocations.py").read_text()

SETTINGS = [
    "",
    "max_split_size_mb:64",
    "expandable_segments:True",
    "expandable_segments:True,max_split_size_mb:128",
    "roundup_power2_divisions:8",
    "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]",
    "garbage_collection_threshold:0.6,max_split_size_mb:200",
]


@pytest.mark.parametrize("settings", SETTINGS)
def test_the_allocator_without_a_limit(python, settings):
    done = python(ALLOCATIONS, 1, 0, gpu=True, settings=settings)
    assert done["refused"] == 0


@pytest.mark.parametrize("settings", SETTINGS)
def test_the_allocator_of_a_small_device(python, settings):
    """Cached segments are given back, in the order in which PyTorch does it."""
    memory = 5 << 30
    # Expandable segments learn of the limit from the driver, the others from PyTorch's own.
    limit = {"STANDIN_MEMORY": str(memory)} if "expandable" in settings else {}
    done = python(ALLOCATIONS, 2, memory, gpu=True, settings=settings, **limit)
    assert done["refused"] > 0


def test_settings_are_understood_as_pytorch_does(python):
    """What it refuses is refused here; roundings of what it takes are its own."""
    reported = python((PROGRAMS / "settings.py").read_text(), gpu=True)
    for text, pytorch, ours in reported:
        assert pytorch == ours, text
    assert sum(pytorch is None for _, pytorch, _ in reported) > 15


@pytest.mark.parametrize(
    ("program", "arguments"),
    [
        ("mlp", {}),
        ("prefetch", {"batch": 2000, "width": 1750}),
        ("transformer", {"way": "bf16"}),
        ("transformer", {"way": "fp32,clip"}),
        ("transformer", {"way": "fp16,clip"}),
        ("transformer", {"way": "bf16,checkpoint"}),
        ("transformer", {"way": "bf16,sgd", "batch": 3, "length": 333, "width": 384, "words": 503}),
        ("transformer", {"batch": 8, "length": 1024, "width": 1024, "words": 32000}),
    ],
)
@pytest.mark.parametrize("settings", ["", "expandable_segments:True"])
def test_a_training_step(python, program, arguments, settings):
    """Both peaks are PyTorch's, without a GPU and without memory for the tensors."""
    asked = program, json.dumps(arguments)
    real = python(COMPARE, *asked, gpu=True, settings=settings)
    expected = python(COMPARE, *asked, gpu=False, settings=settings)
    assert expected == real
