"""The examples are scripts beside each other: tests import them as the scripts do."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
