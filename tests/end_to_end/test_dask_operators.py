"""Dask programs without a word of memtrace in them: every task is an operator, on every scheduler."""

import collections
import json
import math

import pytest

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("lean")]

pytest.importorskip("distributed", reason="distributed is not installed")

GST3D = """
import sys

import dask.array as da
import numpy as np
from distributed import Client, LocalCluster

sys.path.insert(0, {examples!r})
from operators.gst3d import gst3d


def dip(block):
    return gst3d(block)[0]


def main():
    cluster = LocalCluster(
        n_workers=2, threads_per_worker={threads}, processes=True, dashboard_address=None
    )
    with cluster, Client(cluster):
        volume = da.random.default_rng(1).random((60, 66, 105), dtype="f4", chunks=(30, 33, 35))
        dips = da.map_overlap(
            dip, volume, depth=2, boundary="reflect", trim=False, dtype="f4",
            meta=np.empty((0, 0, 0), "f4"),
        )
        for _ in range(2):
            print(dips.mean().compute())


if __name__ == "__main__":
    main()
"""


def spans(run, operator):
    columns = "process, call, working_peak_bytes, inputs, outputs, params"
    query = f"select {columns} from {{spans}} where operator = '{operator}' order by start_ns"
    return [(*row[:3], *map(json.loads, row[3:])) for row in run.sql(query)]


@pytest.mark.parametrize("threads", [1, 2])
def test_gst3d_on_a_cluster_lists_its_operators(record, python, examples, tmp_path, threads):
    script = tmp_path / "run.py"
    script.write_text(GST3D.format(examples=str(examples), threads=threads))
    run = record(python, script)
    assert run.code == 0 and len(set(run.stdout.split())) == 1, run.stderr.decode()

    chunks = 2 * 2 * 3
    block, inner = (34, 37, 39), (32, 35, 37)  # a chunk of 30×33×35 and its halo; the result
    calls = spans(run, "dip")
    assert len(calls) == 2 * chunks
    for _, _, _, inputs, outputs, params in calls:
        assert [a["shape"] for a in inputs] == [list(block)] and inputs[0]["dtype"] == "<f4"
        assert [a["shape"] for a in outputs] == [list(inner)]
        task = params["task"]
        assert task["key"].startswith("dip-") and task["address"].startswith("tcp://")
        assert task["worker"] in ("0", "1")
    places = {tuple(params["task"]["chunk"]) for *_, params in calls}
    assert places == {(i, j, k) for i in range(2) for j in range(2) for k in range(3)}

    # docs/derivations.md: 204 bytes for each cell with neighbours on all sides, set inside `eigh`. Where more
    # threads than before are in OpenBLAS at one time, it maps work buffers of 32 MiB, and keeps them; at times
    # Python maps an arena of 1 MiB for its objects, at this peak or where less is live.
    law, buffer, arena = 204 * math.prod(inner), 32 << 20, 1 << 20
    buffers = collections.Counter()
    for process, _, peak, *_ in calls:
        mapped, rest = divmod(peak - law, buffer)
        assert rest <= arena + 0.005 * law, (peak, law)
        buffers[process] += mapped
    assert all(1 <= count <= 8 for count in buffers.values()), buffers
    exact = [peak for _, _, peak, *_ in calls if law <= peak <= 1.005 * law]
    assert len(exact) >= len(calls) / 2

    # What the scheduler runs is the operator fused with the halo before it and the mean after it.
    fused = spans(run, "overlap-dip-mean_chunk")
    assert len(fused) == 2 * chunks
    assert all(params["task"]["parts"] == ["overlap", "dip", "mean_chunk"] for *_, params in fused)
    assert all(outputs[0]["shape"] == list(block) for *_, outputs, _ in spans(run, "overlap"))
    between = run.sql(
        "select count(*) from {frames} inner_ join {frames} outer_ on inner_.parent = outer_.frame"
        " where outer_.file = '<memtrace recorder>' and inner_.file <> outer_.file"
    )
    assert between == [(0,)], "stacks are those of the program"
    workers = {process for process, *_ in calls}
    assert len(workers) == 2, "two worker processes, each started by a nanny"


LOCAL = """
import dask, dask.array as da, numpy as np

def double(block):
    return block * 2

def adds(values):
    return sum(values)

if __name__ == "__main__":
    x = da.from_array(np.ones((400, 300)), chunks=(200, 300))
    y = da.map_blocks(double, x, dtype=float)
    print(float(y.sum().compute(scheduler={scheduler!r})))
    z = da.map_blocks(double, x)  # Dask tries it on an empty array
    print(dask.delayed(adds)([1, 2]).compute(scheduler={scheduler!r}))
"""


@pytest.mark.parametrize("scheduler", ["sync", "threads", "processes"])
def test_local_schedulers(record, python, tmp_path, scheduler):
    script = tmp_path / "run.py"
    script.write_text(LOCAL.format(scheduler=scheduler))
    run = record(python, script)
    assert run.stdout == b"240000.0\n3\n", run.stderr.decode()
    calls = spans(run, "double")
    assert sorted(params["task"]["chunk"] for *_, params in calls) == [[0, 0], [1, 0]]
    for _, _, peak, inputs, outputs, params in calls:
        assert inputs[0]["shape"] == outputs[0]["shape"] == [200, 300]
        assert 480_000 <= peak <= 480_000 + 4096
        assert "address" not in params["task"]
    assert len(spans(run, "adds")) == 1
    empty = [
        a
        for operator in run.report["operators"]
        for span in operator["spans"]
        for a in span["inputs"]
        if 0 in a["shape"]
    ]
    assert not empty, "what Dask tries on empty arrays is no span"


def test_none_turns_automatic_spans_off(record, python, tmp_path):
    script = tmp_path / "run.py"
    script.write_text(LOCAL.format(scheduler="sync"))
    assert record(python, script, options=("--auto-operators", "none")).report["operators"] == []
    bad = record(python, script, options=("--auto-operators", "a b"), may_fail=True)
    assert bad.code == 2 and b"numpy.linalg,scipy.ndimage" in bad.stderr
