"""Every test has a marker that says what it needs: see pytest.ini."""

import os
from pathlib import Path

import pytest

# Threads of OpenBLAS wait for work in a loop, a tenth of a second of processor time in each process
# that imports NumPy: here they sleep at once. There are as many as before.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")

HERE = Path(__file__).parent
FOLDERS = {
    "python": "unit",
    "end_to_end": "e2e",
    "torch": "frameworks",
    "cupy": "frameworks",
    "jax": "frameworks",
}


def pytest_collection_modifyitems(items):
    """Marks tests by their folder; `cluster`, `slow` and `serial` stand in the files."""
    for item in items:
        if item.path.is_relative_to(HERE):
            folder = item.path.relative_to(HERE).parts[0]
            if folder not in FOLDERS:
                raise pytest.UsageError(f"tests/{folder} has no marker in {__file__}")
            item.add_marker(getattr(pytest.mark, FOLDERS[folder]))
