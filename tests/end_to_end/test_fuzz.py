"""What reads bytes that others may have made is fuzzed: a second for each target, where that is built."""

import importlib.machinery
import importlib.util
import subprocess

import pytest
from conftest import ROOT

SCRIPT = ROOT / "scripts" / "fuzz"


def script():
    loader = importlib.machinery.SourceFileLoader("fuzz", str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("fuzz", loader))
    loader.exec_module(module)
    return module


def test_every_target_is_named_and_has_seeds():
    targets = subprocess.run([SCRIPT, "--list"], check=True, capture_output=True, text=True)
    targets = targets.stdout.split()
    assert len(targets) > 10
    assert {path.name for path in (ROOT / "fuzz" / "corpus").iterdir()} == set(targets)
    files = [path for path in (ROOT / "fuzz").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 1 << 20


def test_a_target_that_is_none_is_named():
    done = subprocess.run([SCRIPT, "1", "none"], capture_output=True, text=True)
    assert done.returncode == 1
    assert "fuzz: there is no" in done.stderr


def test_a_second_of_each_target():
    fuzz = script()
    if reason := fuzz.why_not():
        pytest.skip(reason)
    if not fuzz.PROGRAM.exists():
        pytest.skip("the fuzzer is not built; scripts/fuzz 1 builds it")
    for target in fuzz.targets():
        done = fuzz.fuzz(target, ["-max_total_time=1"])
        assert done["status"] == 0, f"{target}: {done['findings']}"
        assert done["executions"] > 0 and done["edges"] > 0
