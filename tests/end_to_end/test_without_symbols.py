"""Programs that do not say what their functions are called, or in which there is no probe."""

import subprocess

import pytest
from conftest import MEMTRACE
from test_flamegraph import draw

BYTES = 50_000_000
SOURCE = f"""
#include <stdlib.h>
#include <string.h>
__attribute__((noinline)) void *fill(void) {{ return memset(malloc({BYTES}), 1, {BYTES}); }}
int main(void) {{ return *(char *)fill() - 1; }}
"""


@pytest.fixture
def recorded(record, tmp_path):
    """A trace of the program, compiled with a flag, and the summary of it."""
    source = tmp_path / "fill.c"
    source.write_text(SOURCE)

    def run(flag):
        subprocess.run(["gcc", "-O1", flag, "-o", tmp_path / "fill", source], check=True)
        done = record(tmp_path / "fill")
        command = [MEMTRACE, "report", done.path]
        return done, subprocess.run(command, capture_output=True, text=True, check=True).stdout

    return run


def test_a_frame_is_where_it_calls(recorded, tmp_path):
    run, summary = recorded("-s")
    [place] = [line for line in summary.splitlines() if line.endswith(" in fill")]
    assert " 0x" in place
    frames = draw(run, tmp_path / "peak.svg")
    assert max(width for name, width in frames.items() if name.startswith("0x")) >= BYTES
    assert "outside your code" not in frames


def test_what_no_probe_saw_was_not_left_out_by_sampling(recorded, kernel_side):
    _, summary = recorded("-static")
    assert "no call stack" in summary and "not sampled" not in summary
