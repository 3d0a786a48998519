"""Crates may know each other only along the arrows of docs/architecture.md."""

import json
import subprocess

import pytest
from conftest import ROOT

ALLOWED = {
    "memtrace-wire": set(),
    "memtrace-trace": set(),
    "memtrace-probe": {"memtrace-wire"},
    "memtrace-cuda-probe": {"memtrace-wire"},
    "memtrace-analysis": {"memtrace-trace"},
    "memtrace-ebpf": set(),
    "memtrace-perf": set(),
    "memtrace": {
        "memtrace-wire",
        "memtrace-ebpf",
        "memtrace-perf",
        "memtrace-trace",
        "memtrace-analysis",
    },
    "memtrace-python": {"memtrace-trace", "memtrace-analysis"},
    "memtrace-span": set(),
}


def metadata():
    command = ["cargo", "metadata", "--format-version", "1", "--no-deps"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    return json.loads(done.stdout)["packages"]


def test_no_crate_depends_against_the_arrows():
    packages = {package["name"]: package for package in metadata()}
    assert set(packages) <= set(ALLOWED), "a new crate needs a place in the architecture"
    for name, package in packages.items():
        ours = {each["name"] for each in package["dependencies"] if each["name"] in ALLOWED}
        assert ours <= ALLOWED[name], f"{name} must not know {ours - ALLOWED[name]}"


@pytest.mark.parametrize(("library", "known"), [("probe", "malloc"), ("cuda", "dlsym")])
def test_what_is_preloaded_knows_nothing_that_may_panic_or_look_up_tls(library, known):
    library = ROOT / "target" / "preload" / f"libmemtrace_{library}.so"
    symbols = subprocess.run(["nm", library], capture_output=True, check=True, text=True).stdout
    assert f" T {known}" in symbols
    for forbidden in ("core9panicking", "__tls_get_addr", "unwrap_failed"):
        assert forbidden not in symbols
