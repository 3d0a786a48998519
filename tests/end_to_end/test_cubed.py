"""Cubed's plans with laws: what they project, what they refuse, chunks that pass."""

import subprocess
import sys
from pathlib import Path

import memtrace as package
import pytest
from conftest import ROOT, memtrace

np = pytest.importorskip("numpy")
cubed = pytest.importorskip("cubed")

from memtrace import cubed as laws  # noqa: E402

PROGRAM = """
import numpy as np

def hungry(x):
    return np.sqrt(x * x + x[::-1] * x)

for shape in [(53, 61, 47), (59, 40, 64), (42, 71, 50), (97, 89, 101)]:
    data = np.ones(shape, np.float32)
    for _ in range(2):
        hungry(data)
"""
CHUNK = (40, 50, 60)
OWN = 4 * 40 * 50 * 60


def hungry(x):
    return np.sqrt(x * x + x[::-1] * x)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("cubed") / "trace"
    done = memtrace(
        "-q", "-o", path, "--operator=__main__:hungry", "--", sys.executable, "-c", PROGRAM
    )
    assert done.returncode == 0, done.stderr.decode()
    return package.fit(path)


@pytest.fixture
def spec(tmp_path):
    return cubed.Spec(tmp_path, allowed_mem="200MB", reserved_mem="100MB")


def ones(spec, shape=(80, 100, 120), chunk=CHUNK):
    return cubed.from_array(np.ones(shape, np.float32), chunks=chunk, spec=spec)


def projected(array):
    return array.plan(optimize_graph=False).max_projected_mem


def test_the_law_is_what_the_plan_counts_beyond_chunks_and_results(model, spec):
    law = model.predict("hungry", CHUNK)
    working = law["upper_bytes"] + law["one_time_bytes"]
    extra = laws.extra_projected_mem(model, "hungry", CHUNK, "f4")
    assert extra == working - 2 * OWN > 0
    plain = cubed.map_blocks(hungry, ones(spec), dtype="f4")
    with_law = laws.map_blocks(hungry, ones(spec), model=model, operator="hungry", dtype="f4")
    assert projected(with_law) == pytest.approx(projected(plain) + extra, abs=8)
    reported = laws.projected_mem(model, "hungry", CHUNK, "f4", spec=spec)
    assert reported == projected(with_law) == 100_000_000 + 2 * OWN + working
    assert np.allclose(with_law.compute(), np.sqrt(2.0))


def test_halos_are_joined_and_padding_copies_them(model, spec):
    def inner(x):
        return hungry(x)[2:-2, 2:-2, 2:-2]

    array = ones(spec)
    given = {"depth": 2, "boundary": 0.0, "dtype": "f4", "chunks": array.chunks}
    smooth = laws.map_overlap(inner, array, model=model, operator="hungry", **given)
    extra = laws.extra_projected_mem(model, "hungry", CHUNK, "f4", halo=(2, 2, 2), padded=True)
    assert projected(smooth) == projected(cubed.map_overlap(inner, array, **given)) + extra
    block = 4 * 44 * 54 * 64
    assert extra >= 2 * block - OWN
    assert smooth.compute().shape == array.shape
    one_axis = laws.extra_projected_mem(model, "hungry", CHUNK, "f4", halo=(2, 0, 0))
    assert one_axis < extra


def test_a_plan_that_cannot_fit_is_refused_and_its_chunks_are_found(model, tmp_path):
    spec = cubed.Spec(tmp_path, allowed_mem="120MB", reserved_mem="100MB")
    shape = (300, 200, 100)
    whole = laws.map_blocks(
        hungry, ones(spec, shape, shape), model=model, operator="hungry", dtype="f4"
    )
    with pytest.raises(ValueError, match="allowed_mem"):
        whole.compute()
    chunk = laws.chunks(model, "hungry", shape, "f4", spec=spec, whole_axes=[0])
    assert chunk[0] == 300
    assert laws.projected_mem(model, "hungry", chunk, "f4", spec=spec) <= 120_000_000
    fits = laws.map_blocks(
        hungry, ones(spec, shape, chunk), model=model, operator="hungry", dtype="f4"
    )
    assert np.allclose(fits.compute(), np.sqrt(2.0))
    little = cubed.Spec(tmp_path, allowed_mem="100MB", reserved_mem="100MB")
    with pytest.raises(MemoryError):
        laws.chunks(model, "hungry", shape, "f4", spec=little)


def test_what_is_missing_is_said(model, spec, tmp_path):
    with pytest.raises(ValueError, match="no law for"):
        laws.map_blocks(hungry, ones(spec), model=model, operator="sharpen", dtype="f4")
    with pytest.raises(ValueError, match="array of Cubed"):
        laws.map_blocks(hungry, np.ones(3), model=model, operator="hungry", dtype="f4")
    (tmp_path / "cubed.py").write_text("raise ImportError('none here')")
    paths = [str(tmp_path), str(ROOT / "python")]
    program = f"import sys; sys.path[:0] = {paths!r}; import memtrace.cubed"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert b"memtrace.cubed needs Cubed: pip install cubed" in done.stderr
    assert Path(laws.__file__).name == "cubed.py"
