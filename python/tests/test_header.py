"""include/memtrace.h: a program that uses it runs with and without a probe."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent

PROBE = """
#include "memtrace.h"
#undef memtrace_span_begin
#undef memtrace_span_end
#include <stdio.h>
uint64_t begun(const char *name, const memtrace_array *in, size_t n, const memtrace_param *p,
               size_t m) __asm__("memtrace_span_begin");
uint64_t begun(const char *name, const memtrace_array *in, size_t n, const memtrace_param *p,
               size_t m) {
    printf("begin %s %s %d %d %d", name, in[0].dtype, in[0].ndim, (int)in[0].shape[0], (int)n);
    printf(m ? " %s=%s\\n" : "\\n", m ? p[0].key : "", m ? p[0].value : "");
    return 7;
}
void ended(uint64_t id, const memtrace_array *out, size_t n) __asm__("memtrace_span_end");
void ended(uint64_t id, const memtrace_array *out, size_t n) {
    printf("end %d %s\\n", (int)id, n ? out[0].name : "nothing");
}
"""


def _compile(*arguments):
    compiler = shutil.which("cc") or pytest.skip("no C compiler")
    command = [compiler, "-Wall", "-Wextra", "-Werror", "-I", ROOT / "include", *arguments]
    subprocess.run(command, check=True)


def _run(program, **environment):
    done = subprocess.run(
        [program, "3", "4"],
        env=dict(os.environ, **environment),
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


@pytest.mark.parametrize("code", ["-fPIE -pie", "-fno-pic -no-pie -O2"])
def test_a_program_with_spans_runs_with_and_without_a_probe(tmp_path, code):
    program, probe, source = tmp_path / "spans", tmp_path / "probe.so", tmp_path / "probe.c"
    _compile("-std=c99", *code.split(), "-o", program, ROOT / "tests" / "targets" / "spans.c")
    assert _run(program) == "0\n"
    source.write_text(PROBE)
    _compile("-shared", "-fPIC", "-o", probe, source)
    assert _run(program, LD_PRELOAD=str(probe)).splitlines() == [
        "begin outer <f8 2 3 1 window=9",
        "begin inner <f8 2 3 1",
        "end 7 nothing",
        "end 7 result",
        "0",
    ]


def test_the_header_is_valid_cpp(tmp_path):
    source = tmp_path / "spans.cpp"
    source.write_text(
        '#include "memtrace.h"\nint main() { return (int)memtrace_span_begin("x", 0, 0, 0, 0); }\n'
    )
    _compile("-x", "c++", "-pedantic", "-o", tmp_path / "spans", source)
    assert _run(tmp_path / "spans") == ""
