"""Recordings of CuPy on the stand-ins: see cupy_standin.py. `scripts/cupy` installs it into target/cupy, where nothing else finds it."""

import sys
from pathlib import Path

import cupy_standin
import device_recording

PROGRAMS = Path(__file__).with_name("programs")
MISSING = "no CuPy in target/cupy: scripts/cupy installs it (250 MB)"
sys.path.append(str(PROGRAMS))  # gst3d_traces

standin, record = device_recording.fixtures(cupy_standin, MISSING, PROGRAMS)
