"""The Dask experiments: chunk sizes, and one tiny run on a real cluster."""

from argparse import Namespace

import dask_chunks
import numpy as np
import pytest
from operators.gaussian import gaussian


@pytest.mark.parametrize("splits", [(1, 1, 1), (3, 2, 4), (4, 4, 4)])
def test_chunks_cover_the_volume_and_only_the_last_is_smaller(splits):
    shape = (100, 41, 60)
    chunks = dask_chunks.chunk_sizes(shape, dask_chunks.split_chunk(shape, splits))
    for sizes, length, count in zip(chunks, shape, splits, strict=True):
        assert sum(sizes) == length
        assert len(sizes) == count
        assert set(sizes[:-1]) <= {max(sizes)}


def test_a_run_has_the_operators_result_and_what_each_worker_retained(tmp_path):
    shape = (60, 40, 40)
    options = Namespace(
        operator="gaussian",
        shape=shape,
        workers=2,
        threads_per_worker=1,
        memory_limit="1GB",
        data=tmp_path,
    )
    run = dask_chunks.run_once(options, (30, 20, 40))
    volume = dask_chunks.stored_volume(tmp_path, shape).read()
    assert run["value"] == pytest.approx(float(np.mean(gaussian(volume), dtype="f8")), abs=1e-7)
    assert run["splits"] == [2, 2, 1]
    assert run["within_budget"]
    assert run["killed"] == 0
    assert sum(worker["operators"] for worker in run["workers"]) == 4
    for worker in run["workers"]:
        assert 0 < worker["baseline_bytes"] <= worker["vmhwm_bytes"] < run["budget_bytes"]
