"""Laws of a compiled function: from four small runs to a large one."""

import json
import os
import sys
from pathlib import Path

import jax_standin
import pytest
from conftest import memtrace

OPERATOR = "__main__:spectra"
# Lengths without common factors: where all sizes are whole units, rounding up cannot be detected.
SMALL = ((101, 1201), (151, 1999), (211, 1501), (251, 2011))
LARGE = (601, 7013)  # 8 times as many samples as the largest of these


def test_four_small_runs_predict_a_large_one(record, tmp_path):
    """Within 0.01 %: XLA lays temporary arrays side by side, each from a multiple of 128 bytes on."""
    runs = [record("spectra.py", *shape, 2, **jax_standin.FROM_THE_DRIVER) for shape in SMALL]
    model = tmp_path / "model.json"
    done = memtrace("fit", *[found.run.path for found in runs], "-o", model)
    assert done.returncode == 0, done.stderr
    asked = ("--operator", OPERATOR, "--shape", ",".join(map(str, LARGE)), "--json")
    device = json.loads(memtrace("predict", model, *asked).stdout)["device"]
    large = record("spectra.py", *LARGE, 2, **jax_standin.FROM_THE_DRIVER)
    [peak] = {span["device_peak_bytes"] for span in large.spans(OPERATOR)}
    assert peak > 68_000_000
    assert abs(device["peak_bytes"] - peak) < 1e-4 * peak
    assert device["input_bytes"] == 4 * LARGE[0] * LARGE[1]
    assert device["reserved_bytes"] >= large.device["peak_driver_bytes"]


@pytest.mark.parametrize(
    ("where", "variables"),
    [("device", {}), ("host", {}), ("device", {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"})],
)
def test_an_arena_is_not_taken_for_nothing(record, tmp_path, where, variables):
    """XLA does not report what it allocates from it, and takes it before a call or in one."""
    runs = [record("spectra.py", *shape, 2, where, **variables) for shape in SMALL[:3]]
    model = tmp_path / "model.json"
    assert memtrace("fit", *[found.run.path for found in runs], "-o", model).returncode == 0
    asked = ("predict", model, "--operator", OPERATOR, "--shape", "601,7013", "--json")
    found = json.loads(memtrace(*asked).stdout)
    assert found["device"] is None
    assert "XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async" in found["device_unknown"]


def test_on_the_cpu_spans_miss_what_xla_allocates(standin, tmp_path):
    """So functions are none by themselves, and a law is refused where they were named."""
    program = [sys.executable, Path(__file__).with_name("programs") / "spectra.py", 101, 1201, 2]
    env = {**os.environ, **standin.variables(JAX_PLATFORMS="cpu")}
    for options in ((), ("--operator", OPERATOR)):
        trace = tmp_path / f"trace{len(options)}"
        done = memtrace("--quiet", "-o", trace, *options, "--", *program, env=env)
        assert done.returncode == 0, done.stderr
        operators = json.loads(memtrace("report", "--json", trace).stdout)["operators"]
        assert [each["name"] for each in operators] == ([OPERATOR] if options else [])
    refused = memtrace("fit", trace, "-o", tmp_path / "model.json")
    assert refused.returncode == 1
    assert b"threads of its own" in refused.stderr
