"""Every test has a marker that says what it needs: see pytest.ini."""

from pathlib import Path

import pytest

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
