"""Stacks as the probe reports them, unwound or remembered, against other unwinders."""

import json
import os
import subprocess

import pytest
from conftest import PROBE, TARGETS

FLAGS = {
    "no_frame_pointers": ["-O2", "-fomit-frame-pointer"],
    "unoptimised": ["-O0"],
    "frame_pointers": ["-O3", "-fno-omit-frame-pointer"],
    "wide_vectors": ["-O2", "-mavx2"],
}


def reported(program, *arguments):
    """What a program says that compares the probe's stacks with libgcc's; nothing is being recorded."""
    variables = {**os.environ, "LD_PRELOAD": str(PROBE)}
    command = [program, *map(str, arguments)]
    done = subprocess.run(command, env=variables, capture_output=True, check=True, text=True)
    counts = json.loads(done.stdout)
    assert counts["wrong"] == 0, done.stderr
    return counts


def has_avx2():
    with open("/proc/cpuinfo") as about:
        return " avx2 " in about.read()


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    """Two libraries that are the same but for the size of their frames."""
    folder = tmp_path_factory.mktemp("libraries")
    built = [folder / "one.so", folder / "other.so"]
    for library, frame in zip(built, (1000, 3000), strict=True):
        command = ["gcc", "-O2", "-shared", "-fPIC", f"-DFRAME={frame}", "-o", library]
        subprocess.run([*command, TARGETS / "unwinds_library.c"], check=True)
    return built


@pytest.mark.parametrize("flags", FLAGS)
def test_every_kind_of_stack_in_c(tmp_path, libraries, flags):
    """Callbacks, signals on any stack and at any instruction, aligned frames, threads, unloaded libraries."""
    if flags == "wide_vectors" and not has_avx2():
        pytest.skip("no AVX2 here")
    program = tmp_path / "unwinds"
    command = ["gcc", *FLAGS[flags], "-pthread", "-rdynamic", "-o", program, TARGETS / "unwinds.c"]
    subprocess.run(command, check=True)
    counts = reported(program, 4000, *libraries)
    assert counts["checked"] > 20_000
    assert counts["remembered"] > 1000
    assert counts["same"] > 10, "libraries took each other's place"
    # A function that is just about to align its stack may be interrupted; that such a stack goes on is said.
    assert counts["cut"] < 100


@pytest.mark.parametrize("flags", FLAGS)
def test_every_kind_of_stack_in_cpp(tmp_path, flags):
    if flags == "wide_vectors" and not has_avx2():
        pytest.skip("no AVX2 here")
    program = tmp_path / "unwinds"
    command = ["g++", "-std=c++17", *FLAGS[flags], "-pthread", "-rdynamic", "-o", program]
    subprocess.run([*command, TARGETS / "unwinds.cpp"], check=True)
    counts = reported(program, 1000)
    assert counts["checked"] > 20_000
    assert counts["remembered"] > counts["checked"] * 0.9
    assert counts["cut"] == 0


CHURN = """
#include <stdlib.h>
#define SITE(name) __attribute__((noinline)) void *name(size_t bytes) { \\
    void *block = malloc(bytes); __asm__ volatile("" :: "r"(block) : "memory"); return block; }
SITE(tiny) SITE(small) SITE(large)
int main(void) {
    void *kept[3000];
    for (int i = 0; i < 2000000; i++) free(tiny(i % 100));
    for (int i = 0; i < 100000; i++) free(small(1000 + i % 1000));
    for (int i = 0; i < 3000; i++) kept[i] = small(40000);
    for (int i = 0; i < 7; i++) free(large(70000));
    return kept[0] == 0;
}
"""
REQUESTED = {
    "tiny": 2_000_000 * 49.5,
    "small": 100_000 * 1499.5 + 3000 * 40_000,
    "large": 7 * 70_000,
}


def sums(run, column):
    """Sums over the sites of each function that called malloc."""
    query = f"select f.function, sum({column}) from {{sites}} join {{frames}} f using (frame) group by 1"
    return {function: float(total) for function, total in run.sql(query)}


@pytest.fixture
def churn(tmp_path):
    program = tmp_path / "churn"
    command = ["gcc", "-O1", "-fno-builtin", "-x", "c", "-", "-o", program]
    subprocess.run(command, input=CHURN.encode(), check=True)
    return program


def test_sampling_is_without_bias_and_exact_from_its_threshold_on(record, churn):
    run = record(churn)
    recorded = json.loads((run.path / "meta.json").read_text())["recorded"]
    assert recorded["stacks"] == "auto"
    assert recorded["stacks_exact_from_bytes"] == "65536"
    mean = int(recorded["stacks_sampled_mean_bytes"])
    requested, held = sums(run, "requested_bytes"), sums(run, "live_bytes_at_peak")
    for function, exact in REQUESTED.items():
        # Six standard deviations of a Poisson process.
        allowed = 6 * (mean / exact) ** 0.5 if function != "large" else 0
        assert requested[function] == pytest.approx(exact, rel=allowed), function
    assert held["small"] == pytest.approx(120_000_000, rel=6 * (mean / 120e6) ** 0.5)
    blocks = sums(run, "blocks")
    assert blocks["large"] == 7
    # Blocks are counted by bytes: those of every size in proportion.
    assert blocks["small"] == pytest.approx(103_000, rel=0.5)
    [(sampled, exact)] = run.sql(
        "select count(*) filter (bytes < 65536), count(*) filter (bytes >= 65536)"
        " from {allocations} where site is not null"
    )
    assert exact >= 7
    assert sampled == pytest.approx(sum(REQUESTED.values()) / mean, rel=0.3)
    assert "sampled" in run.details


def test_every_block_has_its_stack_if_all_are_requested(record, churn):
    run = record(churn, options=["--stacks", "all"])
    assert sums(run, "requested_bytes").items() >= REQUESTED.items()
    assert sums(run, "blocks")["tiny"] == 2_000_000
    assert run.sql("select count(*) from {allocations} where site is null and bytes < 60000") == [
        (0,)
    ]
    assert sum(sums(run, "live_bytes_at_peak").values()) == run.report["peak"]["live_bytes"]


def test_no_block_has_a_stack_if_none_is_requested(record, churn):
    run = record(churn, options=["--stacks", "none"])
    assert run.sql("select count(*) from {allocations} where site is not null") == [(0,)]
    assert run.report["sites"] == []
