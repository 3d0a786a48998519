"""scripts/gpu-check of JAX, on the stand-ins."""

import os
import subprocess
import sys

from conftest import MEMTRACE, ROOT

CHECK = [sys.executable, ROOT / "scripts" / "gpu-check", "--memtrace", MEMTRACE]


def test_its_figures_are_those_of_xla(standin, tmp_path):
    """What arenas have reserved, and what is used where each buffer comes from the driver."""
    done = subprocess.run(
        [*CHECK, "--output", tmp_path],
        env={**os.environ, **standin.variables()},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    [page] = tmp_path.iterdir()
    rows = [line.split(" | ") for line in page.read_text().splitlines() if "| JAX" in line]
    assert [row[0].removeprefix("| ") for row in rows] == [
        "JAX, arena: reserved",
        "JAX, arena as needed: reserved",
        "JAX, every buffer from the driver: used",
    ]
    assert all(ours == own for _, ours, own, _ in rows)
