"""What a program sees of CuPy is what it sees without memtrace."""

import json
import os
import subprocess
import sys

from conftest import MEMTRACE
from gst3d_traces import GST3D

SEEN = "seen.py"


def plain(standin, program, *arguments):
    done = subprocess.run(
        [sys.executable, program, *arguments],
        env={**os.environ, **standin.variables()},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def test_pools_blocks_and_errors(record, standin, request):
    """Their classes and attributes, messages, even the frames of a traceback."""
    program = request.path.parent / "programs" / SEEN
    assert record(SEEN).reported == plain(standin, program)


def test_without_the_driver_s_calls_nothing_is_reported(standin, tmp_path):
    command = [sys.executable, GST3D, "20x30x40"]
    done = subprocess.run(
        [MEMTRACE, "--quiet", "--cuda", "off", "-o", tmp_path / "trace", "--", *command],
        env={**os.environ, **standin.variables()},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout.splitlines()[-1]) == plain(standin, GST3D, "20x30x40")
    report = subprocess.run(
        [MEMTRACE, "report", "--json", tmp_path / "trace"], capture_output=True, check=True
    )
    assert json.loads(report.stdout)["devices"] == []
