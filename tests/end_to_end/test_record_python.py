"""Python programs: spans of functions without a change to the program, exact to the byte."""

import subprocess

PROGRAM = """
import numpy as np

def double(x):
    x = x * 2
    x = x * 2
    return x

for n in (100_000, 100_000, 100_000):
    y = double(np.ones(n))
print(y.sum())
"""


def spans(run, name):
    [operator] = [each for each in run.report["operators"] if each["name"] == name]
    return operator["spans"]


def test_a_function_of_the_script_is_an_operator(record, python):
    run = record(python, "-c", PROGRAM, options=("--operator", "__main__:double"))
    assert run.stdout == b"400000.0\n"
    calls = spans(run, "__main__:double")
    assert len(calls) == 3
    for call in calls:
        assert call["inputs"][0]["shape"] == [100_000]
        assert call["inputs"][0]["dtype"] == "<f8"
        assert call["outputs"][0]["shape"] == [100_000]
        assert call["output_bytes"] == 800_000
        assert call["params"]["versions"]["numpy"]
    # The second product is made while the first is alive; the input came from outside.
    for call in calls[1:]:
        assert 1_600_000 <= call["working_peak_bytes"] < 1_600_000 + 16_384
        # It releases the argument, to which nothing else holds a reference.
        assert 800_000 <= call["net_peak_bytes"] < 800_000 + 16_384


def test_a_function_without_arrays(record, python):
    program = "def doubled(n):\n    return len(bytes(n) * 2)\nprint([doubled(n << 20) for n in (1, 2, 3)])"
    run = record(python, "-c", program, options=("--operator", "__main__:doubled"))
    assert run.stdout == b"[2097152, 4194304, 6291456]\n"
    peaks = [call["working_peak_bytes"] for call in spans(run, "__main__:doubled")]
    for peak, mebibytes in zip(peaks, (3, 6, 9), strict=True):
        assert mebibytes << 20 <= peak < (mebibytes << 20) + 4096


def test_recording_a_span_does_not_raise_the_peak(record, python):
    """Of the arrays. (The recorder's own code is Python too: its objects may need an arena of 1 MiB more.)"""
    bare = record(python, "-c", PROGRAM)
    spanned = record(python, "-c", PROGRAM, options=("--operator", "__main__:double"))

    def peak(run):
        changes = (
            "select alloc_ns as time, bytes::hugeint as change from {allocations}"
            " where bytes >= 700000 and kind not like 'map%'"
            " union all select free_ns, -(bytes::hugeint) from {allocations}"
            " where bytes >= 700000 and kind not like 'map%' and free_ns is not null"
        )
        return run.sql(
            f"select max(s) from (select sum(change) over (order by time) s from ({changes}))"
        )

    assert peak(bare) == peak(spanned)


def test_library_functions_by_name(record, python):
    program = (
        "import numpy as np, scipy.ndimage as nd\n"
        "for _ in range(2): nd.gaussian_filter(np.ones((40, 50, 60), 'f4'), 2)\n"
    )
    run = record(python, "-c", program, options=("--operator", "scipy.ndimage:gaussian_filter"))
    [first, second] = spans(run, "scipy.ndimage:gaussian_filter")
    assert first["call"] == 0
    assert second["inputs"][0]["shape"] == [40, 50, 60]
    assert second["params"]["sigma"] == 2
    assert second["output_bytes"] == 480_000


def test_isolated_interpreters_are_recorded_too(record, python):
    for flags in ("-I", "-IS", "-E"):
        program = "def f(x):\n    return bytearray(500_000)\nf(1)\nf(2)"
        run = record(python, flags, "-c", program, options=("--operator", "__main__:f"))
        assert len(spans(run, "__main__:f")) == 2, flags


def test_worker_processes_are_recorded(record, python, tmp_path):
    script = tmp_path / "pool.py"
    script.write_text(
        "import multiprocessing as mp, sys\n"
        "def work(n):\n    return len(bytearray(n))\n"
        "if __name__ == '__main__':\n"
        "    with mp.get_context(sys.argv[1]).Pool(2) as pool:\n"
        "        print(sum(pool.map(work, [3_000_000] * 8)))\n"
    )
    for method in ("fork", "spawn", "forkserver"):
        run = record(python, script, method, options=("--operator", "__main__:work"))
        assert run.stdout == b"24000000\n"
        assert len(spans(run, "__main__:work")) == 8, method
        assert all(span["working_peak_bytes"] >= 3_000_000 for span in spans(run, "__main__:work"))


def test_the_decorator_and_the_context_manager(record, python):
    program = (
        "import memtrace\n"
        "@memtrace.operator\n"
        "def f(n):\n    return bytearray(n)\n"
        "with memtrace.span('outer', (10, 20), 'f4'):\n    f(700_000)\n"
        "print(f.__name__)\n"
    )
    run = record(python, "-c", program, env={"PYTHONPATH": "python", "PATH": "/usr/bin:/bin"})
    bare = subprocess.run(
        [python, "-c", program], env={"PYTHONPATH": "python"}, capture_output=True, check=True
    )
    assert run.stdout == bare.stdout
    [outer] = spans(run, "outer")
    assert outer["inputs"][0]["shape"] == [10, 20]
    assert outer["working_peak_bytes"] >= 700_000
    inner = [each for each in run.report["operators"] if each["name"] != "outer"]
    assert inner[0]["spans"][0]["parent"] == outer["span"]


def test_one_time_bytes_are_counted_separately(record, python):
    program = (
        "import numpy as np\n"
        "def solve(a):\n    return np.linalg.eigh(a)[1]\n"
        "a = np.ones((50_000, 3, 3))\n"
        "for _ in range(3): solve(a)\n"
    )
    run = record(python, "-c", program, options=("--operator", "__main__:solve"))
    first, second, third = spans(run, "__main__:solve")
    assert first["one_time_bytes"] >= 32 << 20, "OpenBLAS keeps a work buffer"
    assert second["one_time_bytes"] == third["one_time_bytes"] == 0
    assert second["working_peak_bytes"] == third["working_peak_bytes"]


RESERVES = """
import ctypes, numpy as np
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
reserved = []

def step(a):
    if not reserved:  # PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE
        reserved.append(libc.mmap(None, 1 << 38, 0, 0x4022, -1, 0))
        assert reserved[0] != ctypes.c_void_p(-1).value
    return a + 1

for _ in range(3):
    step(np.ones(10_000))
"""


def test_reserved_addresses_are_no_one_time_bytes(record, python):
    run = record(python, "-c", RESERVES, options=["--operator", "__main__:step"])
    assert run.code == 0
    [(once,)] = run.sql("SELECT one_time_bytes FROM {spans} WHERE call = 0")
    assert once < 1 << 20


RECORDER = """
import sys, threading

recorder = sys.modules["_memtrace_recorder"]
print("_loaded" in vars(recorder))
together, found = threading.Barrier(8), []

def ask():
    together.wait()
    found.append(recorder.register)

threads = [threading.Thread(target=ask) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(len(found), len(set(found)), hasattr(recorder, "nothing"))
"""


def test_the_recorder_is_compiled_when_it_has_work(record, python):
    """Not at the start, unless there are operators; once, whichever thread is first."""
    assert record(python, "-c", RECORDER).stdout == b"False\n8 1 False\n"
    run = record(python, "-c", RECORDER, options=("--operator", "json:dumps"))
    assert run.stdout == b"True\n8 1 False\n"
