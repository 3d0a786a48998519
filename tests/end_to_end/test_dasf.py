"""Pipelines of DASF whose blocks memtrace sets: on a stand-in with its interface."""

import os
import subprocess
import sys
import types

import pytest
from conftest import ROOT, memtrace

da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")
pytest.importorskip("zarr")
np = pytest.importorskip("numpy")

import memtrace as package  # noqa: E402
from memtrace.dasf import BlockSize  # noqa: E402

pytestmark = pytest.mark.cluster

PLACES = [str(ROOT), str(ROOT / "examples")]
TRANSFORMS = ("Gaussian", "Dip", "Semblance", "Envelope", "Running", "Coherent")
HALO = {"Gaussian": (12, 12, 12), "Dip": (2, 2, 2), "Semblance": (1, 1, 4)}
SHAPE = (80, 100, 90)
LIMIT = 600_000_000


@pytest.fixture(scope="module")
def standin():
    sys.path[:0] = PLACES
    from experiments.chunks import standin

    yield standin
    for place in PLACES:
        sys.path.remove(place)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("dasf") / "trace"
    named = [f"--operator=experiments.chunks.standin:{each}._transform_cpu" for each in TRANSFORMS]
    blocks = ["-m", "experiments.chunks.standin_blocks", "1", "38x41x43", "47x46x45", "49x53x52"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*PLACES, str(ROOT / "python")])}
    done = memtrace("-q", "-o", path, *named, "--", sys.executable, *blocks, env=environment)
    assert done.returncode == 0, done.stderr.decode()
    return package.fit(path)


@pytest.fixture(scope="module")
def client():
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, memory_limit=LIMIT, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def volume(shape=SHAPE):
    return np.random.default_rng(0).standard_normal(shape, np.float32)


def stored(standin, folder, shape=SHAPE):
    import zarr

    array = zarr.create_array(folder / "volume.zarr", shape=shape, chunks=(40, 40, 40), dtype="f4")
    array[:] = volume(shape)
    return standin.DatasetZarr(folder / "volume.zarr")


def coherent_dip(standin, dataset, executor=None):
    """Four operators, of which two take in what one gives out."""
    smooth, dip, alike, last = (
        standin.Gaussian(),
        standin.Dip(),
        standin.Semblance(),
        standin.Coherent(),
    )
    pipeline = standin.Pipeline("coherent dip", executor)
    pipeline.add(smooth, X=dataset).add(dip, X=smooth).add(alike, X=smooth).add(
        last, X=dip, Y=alike
    )
    return pipeline, last


def test_a_dataset_loads_in_blocks_that_fit_and_the_result_is_the_same(standin, model, tmp_path):
    dataset = stored(standin, tmp_path)
    pipeline, last = coherent_dip(standin, dataset)
    blocks = BlockSize(
        pipeline, model, memory_limit="0.56GB", workers=2, threads=1, halo=HALO, results=[]
    )
    pipeline.register_plugin(blocks)
    pipeline.run()
    assert dataset._chunks == tuple(tuple(axis) for axis in blocks.plan["chunks"])
    result = pipeline.get_result_from(last)
    assert result.chunks == dataset._chunks and result.npartitions > 1
    assert "execute" not in vars(pipeline._executor), "the executor is as it was"
    whole, chosen = standin, volume()
    smooth = whole.Gaussian().transform(chosen)
    expected = whole.Coherent().transform(
        whole.Dip().transform(smooth), whole.Semblance().transform(smooth)
    )
    # At the edge of the threshold rounding decides.
    assert np.isclose(result.compute(), expected, atol=1e-2).mean() > 0.999


def resident_peaks(client):
    def peak():
        from pathlib import Path

        text = Path("/proc/self/status").read_text()
        return int(text.split("VmHWM:")[1].split()[0]) * 1024

    return client.run(peak)


def test_workers_stay_under_the_budget_that_their_client_sends(standin, model, client, tmp_path):
    client.run(sys.path.extend, PLACES)
    pipeline, last = coherent_dip(standin, stored(standin, tmp_path), standin.Executor(client))
    blocks = BlockSize(pipeline, model, halo=HALO, results=[])
    pipeline.register_plugin(blocks)
    pipeline.run()
    assert blocks.plan["memory_limit_bytes"] == LIMIT
    assert blocks.plan["budget_bytes"] == pytest.approx(0.7 * LIMIT)
    assert blocks.plan["workers"] == 2
    before = resident_peaks(client)
    assert np.isfinite(pipeline.get_result_from(last).mean(dtype="f8").compute())
    after = resident_peaks(client)
    assert set(after) == set(before), "no worker was killed"
    assert max(after.values()) <= blocks.plan["predicted_worker_bytes"]


class Virtual:
    """As DASF's dataset of MDIO: its block size has another name."""

    def __init__(self, shape):
        self.shape, self.dtype, self.chunks = shape, np.dtype("f4"), "auto"

    def load(self):
        return da.zeros(self.shape, dtype=self.dtype, chunks=self.chunks)


def test_arrays_of_other_blocks_are_rechunked(standin, model):
    class Coarse(standin.Dataset):
        def load(self):
            return da.zeros(self.shape, dtype=self.dtype)

    data, smooth = Coarse((300, 280, 260), "f4"), standin.Gaussian()
    pipeline = standin.Pipeline("smooth").add(smooth, X=data)
    blocks = BlockSize(pipeline, model, memory_limit="0.6GB", workers=2, halo=HALO, results=[])
    pipeline.register_plugin(blocks)
    pipeline.run()
    assert pipeline.get_result_from(smooth).chunks == data._chunks != ((300,), (280,), (260,))


def test_an_executor_with_an_execute_of_its_own_keeps_it(standin, model, tmp_path):
    executor = standin.Executor()
    own = executor.execute = executor.execute  # of the object, no more that of its class
    pipeline, _ = coherent_dip(standin, stored(standin, tmp_path), executor)
    blocks = BlockSize(pipeline, model, memory_limit="0.56GB", halo=HALO, results=[])
    blocks.on_pipeline_start([])
    assert executor.execute is not own
    blocks.on_pipeline_end()
    blocks.on_pipeline_end()
    assert executor.execute is own


def test_where_no_grid_fits_all_each_operator_has_its_own(standin, model):
    data, running, along = Virtual((300, 280, 260)), standin.Running(), standin.Envelope()
    pipeline = standin.Pipeline("two").add(running, X=data.load).add(along, X=running)
    whole = {"Running": (0, 1), "Envelope": (2,)}
    asked = {"memory_limit": "0.85GB", "workers": 2, "results": []}
    blocks = BlockSize(pipeline, model, whole_axes=whole, **asked)
    pipeline.register_plugin(blocks)
    blocks.on_pipeline_start([])
    assert blocks.plan is None
    first = pipeline._executor.execute(fn=running.transform, X=data.load())
    assert first.chunks == data.chunks and first.chunks[:2] == ((300,), (280,))
    last = pipeline._executor.execute(fn=along.transform, X=first)
    assert last.chunks[2] == (260,) and last.npartitions > 1
    blocks.on_pipeline_end()


def test_what_cannot_be_planned_is_said(standin, model):
    data = standin.Dataset(SHAPE, "f4")
    data.load = types.MethodType(lambda self: da.zeros(self.shape), data)
    pipeline = standin.Pipeline("dip").add(standin.Dip(), X=data)
    with pytest.raises(ValueError, match="say memory_limit"):
        BlockSize(pipeline, model).on_pipeline_start([])
    with pytest.raises(MemoryError, match="raise the memory limit"):
        BlockSize(pipeline, model, memory_limit="20MB").on_pipeline_start([])
    with pytest.raises(ValueError, match="has no law"):
        pipeline.add(Unheard(), X=data)
        BlockSize(pipeline, model, memory_limit="1GB").on_pipeline_start([])


class Unheard:
    def transform(self, X):
        return X


def test_neither_dasf_nor_dask_is_needed_to_import_it():
    program = "import sys, memtrace.dasf; assert not {'dasf', 'dask', 'numpy'} & set(sys.modules)"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)
