"""`.memtrace` of xarray's objects: chunks by dimension that fit."""

import sys

import memtrace as package
import pytest
from conftest import memtrace

pytestmark = pytest.mark.cluster

np = pytest.importorskip("numpy")
xarray = pytest.importorskip("xarray")
pytest.importorskip("memtrace.xarray")

PROGRAM = """
import numpy as np

def blur(x):
    return (x + np.roll(x, 1, 0)) / np.float32(2)

for shape in [(53, 61, 47), (59, 40, 64), (42, 71, 50), (97, 89, 101)]:
    data = np.ones(shape, np.float32)
    for _ in range(2):
        blur(data)
"""
ASKED = {"memory_limit": "0.8GB", "workers": 2}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("xarray") / "trace"
    done = memtrace(
        "-q", "-o", path, "--operator=__main__:blur", "--", sys.executable, "-c", PROGRAM
    )
    assert done.returncode == 0, done.stderr.decode()
    package.fit(path).save(path / "model.json")
    return path / "model.json"


def array(shape=(400, 350, 300), dims=("inline", "crossline", "time")):
    return xarray.DataArray(np.broadcast_to(np.float32(1), shape), dims=dims, name="amplitude")


def test_chunks_are_those_of_the_recommender_by_dimension(model):
    halo = {"inline": 1}
    found = array().memtrace.recommend("blur", model=model, halo=halo, **ASKED)
    plain = package.Model.load(model).recommend(
        "blur", (400, 350, 300), 800_000_000, 2, halo=(1, 0, 0), dtype="<f4"
    )
    assert found["predicted_worker_bytes"] == plain["predicted_worker_bytes"]
    assert found["chunks"] == {
        dim: tuple(axis)
        for dim, axis in zip(("inline", "crossline", "time"), plain["chunks"], strict=True)
    }
    sizes = array().memtrace.chunk("blur", model=model, halo=halo, **ASKED)
    assert sizes == found["chunks"]
    pytest.importorskip("dask")
    assert array().chunk(sizes).chunksizes == sizes


def test_a_function_is_found_by_its_last_name_too(model):
    def blur(x):
        return x

    assert array().memtrace.chunk(blur, model=model, **ASKED)


def test_dimensions_that_are_not_to_be_cut_stay_whole(model):
    sizes = array().memtrace.chunk("blur", model=model, whole=("time",), **ASKED)
    assert sizes["time"] == (300,)
    assert len(sizes["inline"]) * len(sizes["crossline"]) > 1


def test_chunks_of_the_file_are_kept_together(model):
    asked = {"memory_limit": "0.55GB", "workers": 2, "model": model, "minimise": "memory"}
    plain = array()
    plain.encoding["preferred_chunks"] = {"inline": 64, "crossline": 64, "time": 128}
    stored = plain.memtrace.chunk("blur", **asked)
    for length, dim in ((64, "inline"), (64, "crossline"), (128, "time")):
        assert all(size % length == 0 for size in stored[dim][:-1]), stored
    part = plain.isel(inline=slice(5, 300))
    part.encoding = {"chunksizes": (64, 64, 128), "original_shape": (400, 350, 300)}
    from memtrace.xarray import stored_chunks

    assert stored_chunks(plain) == [64, 64, 128]
    assert stored_chunks(part) is None
    part.encoding = {"chunksizes": (64, 64, 128)}
    assert stored_chunks(part) == [64, 64, 128]


def test_of_a_dataset_the_largest_variable_counts(model):
    dataset = array().to_dataset()
    dataset["mean"] = dataset["amplitude"].mean("time")
    sizes = dataset.memtrace.chunk("blur", model=model, **ASKED)
    assert sizes == array().memtrace.chunk("blur", model=model, **ASKED)
    with pytest.raises(ValueError, match="no variable 'velocity'"):
        dataset.memtrace.chunk("blur", model=model, variable="velocity", **ASKED)


def test_what_is_wrong_is_said(model):
    with pytest.raises(ValueError, match="say the memory limit"):
        array().memtrace.chunk("blur", model=model)
    with pytest.raises(ValueError, match="no dimension 'depth'"):
        array().memtrace.chunk("blur", model=model, halo={"depth": 1}, **ASKED)
    with pytest.raises(ValueError, match="no law for sharpen"):
        array().memtrace.chunk("sharpen", model=model, **ASKED)
    with pytest.raises(MemoryError, match="raise the memory limit"):
        array().memtrace.chunk("blur", model=model, memory_limit="10MB", workers=2)


def test_limits_are_those_of_the_client(model):
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, memory_limit="0.8GB", dashboard_address=None
        ) as cluster,
        distributed.Client(cluster),
    ):
        found = array().memtrace.recommend("blur", model=model)
    assert found["workers"] == 2
    assert found["budget_bytes"] == pytest.approx(0.7 * 0.8e9)


def test_what_has_chunks_is_planned(model):
    pytest.importorskip("dask")
    import dask.array as da

    def blur(x):
        return x

    chunked = array().chunk(inline=100)
    lazy = chunked.copy(data=da.map_blocks(blur, chunked.data, meta=chunked.data._meta))
    assert lazy.memtrace.plan(model)["peak_bytes"] >= chunked.nbytes
    dataset = xarray.Dataset({"amplitude": lazy})
    assert dataset.memtrace.plan(model)["peak_bytes"] >= chunked.nbytes
