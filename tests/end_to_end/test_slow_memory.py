"""Chunks where memory ends before swap does: on the command line, and in Python."""

import json

import jsonschema
import memtrace as package
import pytest
from conftest import ROOT, memtrace

MACHINE = {"name": "numbers", "written": 6.0, "clean": 1.0, "back": 3.0, "fault": 4.0}
SHAPES = [(50, 40, 30), (40, 30, 50), (70, 60, 50)]
CUBE = {"shape": (400, 400, 400), "workers": 1, "halo": 4, "baseline_bytes": 80_000_000}


@pytest.fixture
def machine(tmp_path):
    path = tmp_path / "machine.json"
    path.write_text(json.dumps({"machine_version": 1, "contents": [MACHINE], "fresh": 0.5}))
    return path


@pytest.fixture
def model(tmp_path):
    sizes = [200 * length * width * depth for length, width, depth in SHAPES]
    model = package.fit_table(SHAPES, sizes, operator="smooth")
    model.save(tmp_path / "model.json")
    return model


def test_chunks_that_fit_no_memory_fit_with_slow_memory(model, machine, tmp_path):
    asked = ("recommend", tmp_path / "model.json", "--operator", "smooth", "--shape", "400,400,400")
    asked += ("--halo", "4", "--baseline", "80MB", "--fast-memory", "105MB")
    assert memtrace(*asked).returncode == 3
    asked += ("--slow-memory", "3GB", "--machine", machine)
    done = memtrace(*asked, "--json")
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)
    schema = json.loads((ROOT / "docs" / "schemas" / "recommend.schema.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(plan)
    slow = plan["slow"]
    assert slow["predicted_moved_bytes"] == plan["predicted_worker_bytes"] - 105_000_000 > 0
    assert slow["without_seconds"] is None
    assert 0 < slow["predicted_seconds"] < plan["predicted_seconds"]
    text = memtrace(*asked).stdout.decode()
    assert "slow memory" in text and "no chunks fit without it" in text
    lines = memtrace(*asked, "--format", "slurm").stdout.decode().splitlines()
    assert "MiB of swap" in lines[0] and lines[-1] == "#SBATCH --mem-per-cpu=101M"
    limits = {"memory_limit": "105 MB", "slow_memory": "3 GB", "machine": machine}
    assert model.recommend("smooth", **CUBE, **limits) == plan


def test_slow_memory_and_a_machine_go_together(model, machine, tmp_path):
    for wrong in (
        {"slow_memory": "3 GB"},
        {"machine": machine},
        {"slow_memory": "3 GB", "machine": tmp_path / "model.json"},
    ):
        with pytest.raises(ValueError, match="memtrace place calibrate"):
            model.recommend("smooth", **CUBE, memory_limit="1 GB", **wrong)
    with pytest.raises(ValueError, match="slow_memory must be above 0"):
        model.recommend("smooth", **CUBE, memory_limit="1 GB", slow_memory=0, machine=machine)
