"""A Dask cluster whose tasks compute GST3D on CuPy: recorded, streamed, and planned within a GPU's memory."""

import json
import os
import subprocess
import sys
from pathlib import Path

import cupy_standin
import pytest
from conftest import MEMTRACE, Recording, memtrace
from gst3d_traces import GST3D, SMALL, name_of

pytestmark = pytest.mark.cluster

PROGRAMS = Path(__file__).with_name("programs")
pytest.importorskip("distributed", reason="distributed is not installed")

IN_HOST, ON_GPU = "gpu_blocks:dip", "gpu_blocks:gst3d"
COLUMNS = ("pid", "span", "parent", "operator", "call", "device_peak_bytes", "inputs", "outputs")
SPANS = f"SELECT {', '.join(COLUMNS)} FROM {{spans}} JOIN {{processes}} USING (process)"


@pytest.fixture(scope="module")
def run(standin):
    """Runs a program on the cluster; what it has printed last, JSON."""

    def run(*command, **variables):
        variables = standin.variables(**variables)
        folders = [
            variables["PYTHONPATH"],
            str(cupy_standin.DASK_CUDA),
            str(GST3D.parent),
            str(PROGRAMS),
        ]
        variables["PYTHONPATH"] = os.pathsep.join(folders)
        # It holds frames for a moment, and the arrays that they have: some calls would need more than others.
        variables["DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED"] = "False"
        variables["PATH"] = os.pathsep.join([str(MEMTRACE.parent), os.environ["PATH"]])
        done = subprocess.run(
            [*map(str, command)],
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr[-5000:]
        return json.loads(done.stdout.splitlines()[-1])

    return run


@pytest.fixture(scope="module")
def model(run, tmp_path_factory):
    """Of GST3D of NumPy blocks, fitted to four small runs."""
    folder = tmp_path_factory.mktemp("model")
    traces = [folder / name_of(shape) for shape in SMALL]
    for trace in traces:
        command = [sys.executable, PROGRAMS / "dips.py", trace.name, 3]
        run(MEMTRACE, "--quiet", "-o", trace, "--operator", IN_HOST, "--", *command)
    done = memtrace("fit", *traces, "-o", folder / "model.json")
    assert done.returncode == 0, done.stderr.decode()
    return folder / "model.json"


def spans_of(trace):
    """Of a trace that has lost nothing."""
    report = json.loads(memtrace("report", "--json", trace).stdout)
    assert report["lost"] == {"events": 0, "late_events": 0, "unseen_releases": 0}
    rows = Recording(trace, 0, b"", b"").sql(SPANS)
    spans = [dict(zip(COLUMNS, row, strict=True)) for row in rows]
    for span in spans:
        span.update(inputs=json.loads(span["inputs"]), outputs=json.loads(span["outputs"]))
    return spans


def peaks(spans, operator):
    """On devices, of each call, by process."""
    found = {}
    for span in sorted(spans, key=lambda span: span["call"]):
        if span["operator"] == operator:
            found.setdefault(str(span["pid"]), []).append(span["device_peak_bytes"])
    return found


def check_spans(spans, pools):
    """Peaks are those that the pool of their worker counts; arrays say where they lie."""
    in_host, on_gpu = peaks(spans, IN_HOST), peaks(spans, ON_GPU)
    assert sum(map(len, in_host.values())) == sum(map(len, on_gpu.values())) == 4
    for pid, rises in pools.items():
        assert in_host.get(pid, []) + on_gpu.get(pid, []) == rises
    for span in spans:
        if span["operator"] in (IN_HOST, ON_GPU):
            expected = {IN_HOST: None, ON_GPU: "cuda"}[span["operator"]]
            [given], [made] = span["inputs"], span["outputs"]
            assert given.get("device") == made.get("device") == expected
            assert given["bytes"] * (2 if expected else 1) == made["bytes"]


def check_tasks(spans):
    """A task has what was called in it: the moving of its chunk to the GPU, too."""
    by_id = {(span["pid"], span["span"]): span for span in spans}
    for span in spans:
        if span["operator"] in (IN_HOST, ON_GPU):
            around = span
            while around["parent"] is not None:
                around = by_id[around["pid"], around["parent"]]
            moved = 512 * -(-span["inputs"][0]["bytes"] // 512)
            more = moved if span["operator"] == ON_GPU else 0
            assert around["operator"].count("-") >= 2, "a fused task"
            assert around["device_peak_bytes"] == span["device_peak_bytes"] + more


def test_a_recorded_program(run, tmp_path):
    """Its workers are processes that it starts."""
    trace = tmp_path / "trace"
    named = ["--operator", IN_HOST, "--operator", ON_GPU]
    program = [sys.executable, PROGRAMS / "cluster.py"]
    pools = run(MEMTRACE, "--quiet", "-o", trace, *named, "--", *program)
    spans = spans_of(trace)
    check_spans(spans, pools)
    check_tasks(spans)


def test_what_a_recording_streams_and_shows(run, model, tmp_path):
    reported = run(sys.executable, PROGRAMS / "cluster.py", tmp_path / "traces", model)
    assert (reported["missing"], reported["cut_off"]) == (0, [])
    [trace] = (tmp_path / "traces").glob("host=*/nanny=*")
    assert len(spans_of(trace)) == len(reported["spans"])
    check_spans(reported["spans"], reported["pools"])
    check_tasks(reported["spans"])
    dips = [task for task in reported["tasks"] if task["law"] == IN_HOST]
    assert len(dips) == 4
    for task in dips:
        assert task["device_bytes"] == task["predicted_device_bytes"]
    for text in (reported["shown"], reported["page"]):
        assert "on devices" in text and "predicted there" in text


def test_chunks_of_a_plan_fit_the_device(run, model, tmp_path):
    """Each worker has a device to itself, which refuses what is beyond its memory; the 500 MB of a context are not taken there."""
    program, memory = PROGRAMS / "planned.py", 40_000_000
    limit = f"{500 + memory // 10**6}MB"
    reported = run(sys.executable, program, tmp_path, model, limit, STANDIN_MEMORY=str(memory))
    small, large, free = reported["plans"]
    assert [plan["bound_by"] == "device_memory" for plan in (small, large)] == [True, False]
    assert "error" not in small and small["peak"] <= 500_000_000 + memory
    assert small["tasks"] > large["tasks"] and "of its device's 540 MB" in small["text"]
    assert large["peak"] > 500_000_000 + memory
    assert free["block_shape"] == large["block_shape"] and free["peak"] is None
    for plan in (large, free):
        assert plan["error"].startswith("OutOfMemoryError: Out of memory allocating")
    assert max(map(max, reported["pools"])) <= memory


def test_dask_cuda(run, tmp_path):
    """Its own cluster, with a worker for each device."""
    if not cupy_standin.is_installed(cupy_standin.DASK_CUDA):
        pytest.skip("no Dask-CUDA in target/dask-cuda: scripts/cupy installs it (50 MB)")
    trace = tmp_path / "trace"
    program = [sys.executable, PROGRAMS / "dask_cuda_cluster.py"]
    pools = run(MEMTRACE, "--quiet", "-o", trace, "--operator", IN_HOST, "--", *program)
    spans = spans_of(trace)
    assert peaks(spans, IN_HOST) == pools and len(pools) == 1
    [rises] = pools.values()
    assert len(rises) == 3
