"""Laws, arrays and a cluster to test memtrace.dask with."""

import memtrace
import numpy as np
import pytest
from chunk_functions import hungry, smooth

pytest.importorskip("distributed", reason="distributed is not installed")
import dask.array as da  # noqa: E402
from distributed import Client, LocalCluster  # noqa: E402

zarr = pytest.importorskip("zarr")
SHAPE = (48, 40, 36)
SHAPES = [(40, 41, 43), (60, 50, 40), (80, 81, 83), (30, 100, 50)]
MB = 1_000_000


def law(name, per_cell):
    return memtrace.fit_table(
        SHAPES, [int(per_cell * np.prod(shape)) for shape in SHAPES], operator=name
    )


@pytest.fixture(scope="module")
def model():
    return law("smooth", 12).merge(law("hungry", 132))


@pytest.fixture(scope="module")
def connected():
    # The limit is far above what a worker holds, so that only plans decide what runs.
    settings = {"n_workers": 2, "threads_per_worker": 1, "memory_limit": "600MB"}
    with (
        LocalCluster(dashboard_address=None, **settings) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture
def client(connected):
    with connected.as_current():
        yield connected


@pytest.fixture(scope="module")
def volume():
    return np.random.default_rng(1).random(SHAPE, "f4")


@pytest.fixture
def stored(tmp_path, volume):
    array = zarr.open_array(
        tmp_path / "volume.zarr", mode="w", shape=SHAPE, chunks=(8, 10, 12), dtype="f4"
    )
    array[:] = volume
    return array


@pytest.fixture
def mapped(tmp_path, volume):
    array = np.memmap(tmp_path / "volume.raw", "f4", "w+", shape=SHAPE)
    array[:] = volume
    array.flush()
    return array


def expected(volume, chunks, function=smooth, **keywords):
    """What Dask makes of it in the same chunks."""
    whole = da.from_array(volume, chunks=chunks)
    return da.map_overlap(
        function, whole, depth=2, boundary="none", dtype="f4", **keywords
    ).compute(scheduler="sync")


def overlapped(shape, chunks):
    x = da.ones(shape, dtype="f4", chunks=chunks)
    meta = np.empty((0, 0, 0), "f4")
    return da.map_overlap(hungry, x, depth=1, boundary="none", meta=meta)
