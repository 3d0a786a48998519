"""Pipelines of DASF whose blocks memtrace sets.

On DASF's own package where DASF_CORE names a checkout of it whose dependencies this Python has;
elsewhere on a stand-in that does the same (tests/dasf).
"""

import os
import re
import stat
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from conftest import LEAN, MEMTRACE, ROOT, memtrace

da = pytest.importorskip("dask.array")
pytest.importorskip("distributed")
h5py = pytest.importorskip("h5py")
zarr = pytest.importorskip("zarr")
np = pytest.importorskip("numpy")

CHECKOUT = os.environ.get("DASF_CORE")
PLACES = [
    str(LEAN),
    CHECKOUT or str(ROOT / "tests" / "dasf"),
    str(ROOT),
    str(ROOT / "examples"),
    str(ROOT / "python"),
    str(ROOT / "tests" / "end_to_end"),
]
sys.path[:0] = PLACES
if not CHECKOUT:
    print("DASF_CORE is not set: DASF is a stand-in (tests/dasf)")

import memtrace as package  # noqa: E402
from dasf.datasets import DatasetArray, DatasetHDF5, DatasetZarr  # noqa: E402
from dasf.pipeline import Pipeline  # noqa: E402
from dasf.pipeline.executors import (  # noqa: E402
    DaskPBSPipelineExecutor,
    DaskPipelineExecutor,
    DaskTasksPipelineExecutor,
    LocalExecutor,
)
from dasf.transforms import ExtractData, MappedTransform  # noqa: E402
from dasf_elements import NAMES, Coherent, Levelled, Running  # noqa: E402
from memtrace.dasf import BlockSize  # noqa: E402
from operators import gaussian, semblance  # noqa: E402

from experiments.chunks.dasf_elements import GST3D, rolled, smoothed  # noqa: E402

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("lean")]

SHAPE = (120, 100, 90)
LIMIT = 800_000_000 if CHECKOUT else 600_000_000  # a worker that imported DASF itself has 370 MB
WORKERS = {"n_workers": 2, "threads_per_worker": 1, "memory_limit": LIMIT}
HALO = {"GST3D": (2, 2, 2)}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("dasf") / "trace"
    named = [f"--operator={name}" for name in NAMES]
    blocks = ["-m", "dasf_blocks", "38x41x43", "47x46x45", "49x53x52", "61x52x67"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(PLACES)}
    done = memtrace("-q", "-o", path, *named, "--", sys.executable, *blocks, env=environment)
    assert done.returncode == 0, done.stderr.decode()
    return package.fit(path)


def made(kind):
    return kind(local=True, use_gpu=False, cluster_kwargs={**WORKERS, "dashboard_address": None})


@pytest.fixture(scope="module", params=[DaskPipelineExecutor, DaskTasksPipelineExecutor])
def executor(request):
    executor = made(request.param)
    yield executor
    executor.client.shutdown()


@pytest.fixture(scope="module")
def in_client():
    executor = made(DaskPipelineExecutor)
    yield executor
    executor.client.shutdown()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The same volume as DASF's three datasets have it."""
    folder, values = tmp_path_factory.mktemp("files"), volume()
    np.save(folder / "volume.npy", values)
    stored = zarr.open_array(
        str(folder / "volume.zarr"), mode="w", shape=SHAPE, chunks=(40, 40, 40), dtype="f4"
    )
    stored[:] = values
    with h5py.File(folder / "volume.h5", "w") as file:
        file["inner/volume"] = values
    return folder


def volume(shape=SHAPE):
    return np.random.default_rng(0).standard_normal(shape, np.float32)


def dataset(files, kind, **about):
    if kind is DatasetArray:
        return kind("volume", root=str(files / "volume.npy"), **about)
    if kind is DatasetHDF5:
        root = str(files / "volume.h5")
        return kind("volume", root=root, dataset_path="inner/volume", **about)
    return kind("volume", root=str(files / "volume.zarr"), **about)


DATASETS = (DatasetArray, DatasetHDF5, DatasetZarr)


def dips(data, executor):
    """Two of DASF's own transforms, and GST3D; what comes of it."""
    extracted, roll, smooth, dip = ExtractData(), rolled(), smoothed(), GST3D()
    pipeline = Pipeline("dips", executor)
    pipeline.add(extracted, X=data).add(roll, X=extracted).add(smooth, X=roll).add(dip, X=smooth)
    return pipeline, dip


def resident_peaks(client):
    def peak():
        from pathlib import Path

        text = Path("/proc/self/status").read_text()
        return int(text.split("VmHWM:")[1].split()[0]) * 1024

    return client.run(peak)


@pytest.mark.parametrize("kind", DATASETS)
def test_workers_stay_under_the_budget_that_their_client_sends(executor, model, files, kind):
    data = dataset(files, kind)
    pipeline, dip = dips(data, executor)
    blocks = BlockSize(pipeline, model, halo=HALO, results=[])
    pipeline.register_plugin(blocks)
    pipeline.run()
    assert blocks.plan["memory_limit_bytes"] == LIMIT
    assert blocks.plan["budget_bytes"] == pytest.approx(0.7 * LIMIT)
    assert blocks.plan["workers"] == 2
    result = pipeline.get_result_from(dip)
    assert result.chunks == data._chunks == tuple(map(tuple, blocks.plan["chunks"]))
    assert result.npartitions > 1
    before = resident_peaks(executor.client)
    assert np.isfinite(result.mean(dtype="f8").compute())
    after = resident_peaks(executor.client)
    assert set(after) == set(before), "no worker was killed"
    assert max(after.values()) <= blocks.plan["predicted_worker_bytes"]


@pytest.mark.parametrize("kind", DATASETS)
def test_the_result_is_that_of_whole_arrays(in_client, model, files, kind):
    data, smooth, dip = dataset(files, kind), smoothed(), GST3D()
    pipeline = Pipeline("smooth dip", in_client).add(smooth, X=data).add(dip, X=smooth)
    pipeline.register_plugin(BlockSize(pipeline, model, halo=HALO, results=[]))
    pipeline.run()
    result = pipeline.get_result_from(dip)
    assert result.npartitions > 1
    expected = dip._transform_cpu(smooth._transform_cpu(volume()))
    assert np.isclose(result.compute(), expected, atol=1e-2).mean() > 0.999
    assert "execute" not in vars(in_client), "the executor is as it was"
    assert "_lazy_load" not in vars(data), "so is the dataset, but for its blocks"


@pytest.mark.parametrize("kind", DATASETS)
def test_this_process_computes_where_there_is_no_client(model, files, kind):
    data = dataset(files, kind)
    pipeline, dip = dips(data, LocalExecutor())
    resident = resident_bytes()
    asked = {"memory_limit": resident + 200_000_000, "threads": 2}
    blocks = BlockSize(pipeline, model, halo=HALO, results=[], **asked)
    pipeline.register_plugin(blocks)
    pipeline.run()
    result = pipeline.get_result_from(dip)
    assert blocks.plan["workers"] == 1 and blocks.plan["budget_bytes"] == asked["memory_limit"]
    assert result.npartitions > 1 and result.chunks == tuple(map(tuple, blocks.plan["chunks"]))
    assert np.isfinite(result[:4].compute(scheduler="threads", num_workers=2)).all()


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def test_plugins_of_others_are_dropped_in_silence_but_this_one_is_called(in_client, files):
    class Other:
        def on_pipeline_start(self, fn_keys):
            raise AssertionError("DASF calls its subclasses only")

    pipeline, _ = dips(dataset(files, DatasetZarr), in_client)
    pipeline.register_plugin(Other())
    pipeline.register_plugin(BlockSize(pipeline, None))
    with pytest.raises(AttributeError, match="operators"):  # None is no model
        pipeline.run()


def test_one_array_goes_into_two_elements_and_meets_again(in_client, model, files):
    """MappedTransforms are told apart by their functions."""
    alike = MappedTransform(semblance.semblance, depth=semblance.HALO, boundary="none")
    smooth, dip, last = smoothed(), GST3D(), Coherent()
    pipeline = Pipeline("coherent dip", in_client)
    pipeline.add(smooth, X=dataset(files, DatasetZarr)).add(dip, X=smooth).add(alike, X=smooth)
    pipeline.add(last, X=dip, Y=alike)
    blocks = BlockSize(pipeline, model, halo=HALO, results=[])
    pipeline.register_plugin(blocks)
    pipeline.run()
    operators = [each["operator"] for each in blocks.plan["operators"]]
    assert (
        "operators.gaussian:gaussian" in operators and "operators.semblance:semblance" in operators
    )
    whole = smooth._transform_cpu(volume())
    expected = last._transform_cpu(dip._transform_cpu(whole), alike._transform_cpu(whole))
    result = pipeline.get_result_from(last)
    # At the edge of the threshold rounding decides.
    assert np.isclose(result.compute(), expected, atol=1e-2).mean() > 0.999


def limit_of_few(client):
    """A limit that leaves each worker less than two arrays of 87 MB, which a single block needs."""
    client.run(import_module, "dasf_elements")
    return int((max(client.run(resident_bytes).values()) + 160_000_000) / 0.7)


def test_where_no_grid_fits_all_each_operator_has_its_own(in_client, model, tmp_path):
    np.save(tmp_path / "volume.npy", np.ones((300, 280, 260), "f4"))
    data, running, along = dataset(tmp_path, DatasetArray), Running(), Levelled()
    pipeline = Pipeline("two", in_client).add(running, X=data).add(along, X=running)
    whole = {"Running": (0, 1), "Levelled": (2,)}
    limit = limit_of_few(in_client.client)
    blocks = BlockSize(pipeline, model, whole_axes=whole, memory_limit=limit, results=[])
    pipeline.register_plugin(blocks)
    pipeline.run()
    assert blocks.plan is None
    first, last = pipeline.get_result_from(running), pipeline.get_result_from(along)
    assert first.chunks[:2] == ((300,), (280,)) and first.npartitions > 1
    assert last.chunks[2] == (260,) and last.npartitions > 1


class Virtual:
    """As DASF's dataset of MDIO: it knows its array, and its block size has another name."""

    def __init__(self, shape):
        self.shape, self.dtype, self.chunks = shape, np.dtype("f4"), "auto"

    def load(self):
        return da.zeros(self.shape, dtype=self.dtype)


def test_arrays_of_other_blocks_are_rechunked(in_client, model):
    data, smooth = (
        Virtual((300, 280, 260)),
        MappedTransform(gaussian.gaussian, (12, 12, 12), "none"),
    )
    pipeline = Pipeline("smooth", in_client).add(smooth, X=data.load)
    limit = limit_of_few(in_client.client)
    pipeline.register_plugin(BlockSize(pipeline, model, memory_limit=limit, results=[]))
    pipeline.run()
    assert pipeline.get_result_from(smooth).chunks == data.chunks != ((300,), (280,), (260,))


def test_an_executor_with_an_execute_of_its_own_keeps_it(model, files):
    executor = LocalExecutor()
    own = executor.execute = executor.execute  # of the object, no more that of its class
    pipeline, _ = dips(dataset(files, DatasetZarr), executor)
    blocks = BlockSize(pipeline, model, memory_limit="1GB", threads=1, halo=HALO, results=[])
    blocks.on_pipeline_start([])
    assert executor.execute is not own
    blocks.on_pipeline_end()
    blocks.on_pipeline_end()
    assert executor.execute is own


def test_what_cannot_be_planned_is_said(in_client, model, files):
    pipeline, _ = dips(dataset(files, DatasetHDF5), LocalExecutor())
    with pytest.raises(ValueError, match="say memory_limit"):
        BlockSize(pipeline, model).on_pipeline_start([])
    with pytest.raises(MemoryError, match="raise the memory limit"):
        BlockSize(pipeline, model, memory_limit="20MB").on_pipeline_start([])
    with pytest.raises(ValueError, match="has no law"):
        pipeline.add(MappedTransform(np.abs), X=dataset(files, DatasetZarr))
        BlockSize(pipeline, model, memory_limit="1GB").on_pipeline_start([])
    missing = dataset(files, DatasetHDF5)
    missing._dataset_path = "elsewhere"
    pipeline = Pipeline("missing", in_client).add(smoothed(), X=missing)
    with pytest.raises(ValueError, match="cannot read the array of .*volume.h5"):
        BlockSize(pipeline, model).on_pipeline_start([])


QSUB = """\
#!/bin/sh
# A batch system of one machine: runs the job's script at once. The caller deletes it after this.
job=$(mktemp)
cp "$1" "$job"
sh "$job" > "$job.log" 2>&1 &
echo "$!"
"""


def test_a_cluster_of_pbs(model, files, tmp_path, monkeypatch):
    """DASF's executor of such a cluster runs nothing; its other one does, by the address."""
    pytest.importorskip("dask_jobqueue")
    for name, text in (("qsub", QSUB), ("qdel", "#!/bin/sh\nkill $1\n")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(PLACES))
    jobs = {
        "n_workers": 2,
        "cores": 1,
        "processes": 1,
        "memory": f"{LIMIT}B",
        "walltime": "00:10:00",
    }
    about = {"interface": "lo", "local_directory": str(tmp_path), "python": sys.executable}
    refused = DaskPBSPipelineExecutor(
        **jobs, **about, scheduler_options={"dashboard_address": None}
    )
    cluster = refused.client.cluster
    try:
        refused.client.wait_for_workers(2, timeout=60)
        pipeline, _ = dips(dataset(files, DatasetZarr), refused)
        pipeline.register_plugin(BlockSize(pipeline, model, halo=HALO))
        with pytest.raises(Exception, match="not connected"):
            pipeline.run()
        address, port = cluster.scheduler_address.removeprefix("tcp://").split(":")
        executor = DaskPipelineExecutor(address=address, port=int(port))
        pipeline, dip = dips(dataset(files, DatasetZarr), executor)
        blocks = BlockSize(pipeline, model, halo=HALO, results=[])
        pipeline.register_plugin(blocks)
        pipeline.run()
        assert blocks.plan["workers"] == 2
        assert np.isfinite(pipeline.get_result_from(dip).mean(dtype="f8").compute())
        executor.close()
    finally:
        cluster.close()
        refused.client.close()


def test_the_steps_of_the_guide(tmp_path):
    text = (ROOT / "docs" / "frameworks.md").read_text()
    for source in re.findall(r"```python needs DASF\n(.*?)```", text, re.DOTALL):
        (tmp_path / source.split()[1]).write_text(source)
    [commands] = re.findall(r"```console needs DASF\n(.*?)```", text, re.DOTALL)
    stored = zarr.open_array(
        str(tmp_path / "volume.zarr"),
        mode="w",
        shape=(240, 200, 180),
        chunks=(60, 60, 60),
        dtype="f4",
    )
    stored[:] = volume(stored.shape)
    path = f"{MEMTRACE.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": os.pathsep.join(PLACES)}
    for command in (commands.replace("$ ", ""), "python pipeline.py"):
        done = subprocess.run(
            ["sh", "-ec", command], cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
    *why, mean = done.stdout.splitlines()
    assert "chunks" in " ".join(why) and float(mean) > 0


def test_neither_dasf_nor_dask_is_needed_to_import_it():
    program = "import sys, memtrace.dasf; assert not {'dasf', 'dask', 'numpy'} & set(sys.modules)"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)
