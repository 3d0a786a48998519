"""scripts/gpu-check of CuPy, on the stand-ins."""

import os
import subprocess
import sys

from conftest import MEMTRACE, ROOT

CHECK = [sys.executable, ROOT / "scripts" / "gpu-check", "--memtrace", MEMTRACE]


def test_its_figures_are_those_of_cupy(standin, tmp_path):
    """Three calls of GST3D, the driver's bytes and the pool's."""
    done = subprocess.run(
        [*CHECK, "--output", tmp_path],
        env={**os.environ, **standin.variables()},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    [page] = tmp_path.iterdir()
    rows = [line.split(" | ") for line in page.read_text().splitlines() if "GST3D on CuPy" in line]
    assert [row[0].rpartition(": ")[2] for row in rows] == [
        "reserved",
        "used",
        "calls of gst3d whose peaks agree",
    ]
    assert rows[2][1:3] == ["3", "3"]
    assert "no torch" in done.stdout and "no jax" in done.stdout
