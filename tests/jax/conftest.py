"""Recordings of JAX on the stand-ins: see jax_standin.py. `scripts/jax` installs it into target/jax, where nothing else finds it."""

from pathlib import Path

import device_recording
import jax_standin

PROGRAMS = Path(__file__).with_name("programs")
MISSING = "no JAX in target/jax: scripts/jax installs it (730 MB)"

standin, record = device_recording.fixtures(jax_standin, MISSING, PROGRAMS)
