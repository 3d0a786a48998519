"""Programs on known libraries, as users write them: operators with the names they know, the same output."""

import subprocess

import pytest

PANDAS = """
import numpy as np, pandas as pd
rng = np.random.default_rng(1)
frame = pd.DataFrame({"key": rng.integers(0, 50, 100_000), "value": rng.random(100_000)})
names = pd.DataFrame({"key": np.arange(50), "name": np.arange(50) * 2})
print(frame.groupby("key").mean().sum().round(9).tolist())
print(frame.groupby("key")["value"].agg("max").sum().round(9))
joined = frame.merge(names, on="key")
print(len(joined), len(pd.concat([frame, frame])), frame["value"].rolling(9).mean().sum().round(6))
print(pd.DataFrame({"a": [1, 2]}).merge(pd.DataFrame({"a": [2]})).to_dict())
"""

XARRAY = """
import sys
import numpy as np, xarray as xr
steps = np.arange(120)
field = xr.DataArray(np.random.default_rng(1).random((120, 40, 50)), dims=("time", "y", "x"),
                     coords={"time": steps, "season": ("time", steps // 30)}, name="t")
field.to_dataset().to_zarr(sys.argv[1])
data = xr.open_zarr(sys.argv[1], chunks=None).load()
print(round(float(data.t.mean("time").sum()), 9), data.t.groupby("season").mean().shape)
lazy = xr.open_zarr(sys.argv[1], chunks={"time": 30})
print(round(float(lazy.t.mean("time").sum().compute()), 9))
"""

SKIMAGE = """
import numpy as np
from skimage import filters, measure, morphology, transform
image = np.random.default_rng(1).random((300, 400))
edges = filters.sobel(filters.gaussian(image, 2))
marks = measure.label(morphology.opening(edges > filters.threshold_otsu(edges)))
print(int(marks.max()), transform.resize(image, (100, 120)).shape)
"""

SCIPY = """
import numpy as np, scipy.fft, scipy.signal
from scipy import ndimage
x = np.random.default_rng(1).random((300, 400))
print(ndimage.gaussian_filter(x, 2).sum().round(6), np.abs(scipy.fft.fft(x)).sum().round(4))
print(scipy.signal.fftconvolve(x, x).sum().round(3), np.linalg.svd(x)[1].sum().round(6))
ndimage.gaussian_filter(x[:9, :9], 2), np.linalg.norm(x[0])
"""


def recorded(record, python, tmp_path, program, *arguments):
    """The recording of a program, whose output must be that of the bare program."""
    script = tmp_path / "run.py"
    script.write_text(program)

    def with_paths(run):
        return [str(tmp_path / f"{run}-{name}") for name in arguments]

    bare = subprocess.run(
        [python, "-W", "default", script, *with_paths("bare")], capture_output=True, check=True
    )
    run = record(python, "-W", "default", script, *with_paths("recorded"), options=("--quiet",))
    assert (run.code, run.stdout, run.stderr) == (0, bare.stdout, bare.stderr)
    return {operator["name"]: operator["spans"] for operator in run.report["operators"]}


def shapes(span, which="inputs"):
    return [array["shape"] for array in span[which]]


def test_pandas(record, python, tmp_path):
    pytest.importorskip("pandas", reason="pandas is not installed")
    found = recorded(record, python, tmp_path, PANDAS)
    names = (
        "DataFrameGroupBy.mean",
        "DataFrame.merge",
        "concat",
        "Rolling.mean",
        "SeriesGroupBy.max",
    )
    assert {f"pandas:{name}" for name in names} <= set(found)
    [mean] = found["pandas:DataFrameGroupBy.mean"]
    assert sorted(shapes(mean)) == [[1, 100_000], [1, 100_000]]
    assert len(found["pandas:DataFrame.merge"]) == 1, "the small one is no span"


def test_xarray_and_zarr(record, python, tmp_path):
    for name in ("xarray", "zarr", "dask"):
        pytest.importorskip(name, reason=f"{name} is not installed")
    found = recorded(record, python, tmp_path, XARRAY, "store.zarr")
    assert {"xarray:Dataset.to_zarr", "xarray:Dataset.load", "xarray:DataArray.mean"} <= set(found)
    assert "xarray:DataArrayGroupBy.mean" in found
    [mean] = [span for span in found["xarray:DataArray.mean"] if span["inputs"]]
    assert shapes(mean) == [[120, 40, 50]] and shapes(mean, "outputs") == [[40, 50]]
    assert any("mean_chunk" in name for name in found), "what was lazy ran as tasks of Dask"


def test_scikit_image(record, python, tmp_path):
    pytest.importorskip("skimage", reason="scikit-image is not installed")
    found = recorded(record, python, tmp_path, SKIMAGE)
    expected = ("filters:gaussian", "filters:sobel", "filters:threshold_otsu", "measure:label")
    assert {f"skimage.{name}" for name in (*expected, "transform:resize")} <= set(found)
    [gaussian] = found["skimage.filters:gaussian"]
    assert shapes(gaussian) == shapes(gaussian, "outputs") == [[300, 400]]
    inner = [span["parent"] for span in found["scipy.ndimage:gaussian_filter"]]
    assert gaussian["span"] in inner, "what it calls in SciPy is its child"


def test_numpy_and_scipy(record, python, tmp_path):
    found = recorded(record, python, tmp_path, SCIPY)
    names = ("scipy.ndimage:gaussian_filter", "scipy.fft:fft", "scipy.signal:fftconvolve")
    assert {*names, "numpy.linalg:svd"} <= set(found)
    assert len(found[names[0]]) == 1, "the small one is no span"
    assert "numpy.linalg:norm" not in found
    [smooth] = found[names[0]]
    assert 960_000 <= smooth["working_peak_bytes"] <= 960_000 + 512_000 + 16_384  # line buffers
    [fft] = found["scipy.fft:fft"]
    assert fft["output_bytes"] == 300 * 400 * 16


REBINDS = """
import numpy as np
from scipy import ndimage, signal
from operators.gst3d import gst3d
for _ in range(2):
    gst3d(np.random.default_rng(1).standard_normal((40, 44, 48), np.float32))
    ndimage.gaussian_gradient_magnitude(np.ones((200, 300)) * 2, 1)
    signal.detrend(signal.fftconvolve(np.ones((200, 300)), np.ones((9, 9))))
    np.linalg.multi_dot([np.ones((200, 300)), np.ones((300, 200)), np.ones((200, 300))])
"""


def test_peaks_are_the_same_to_the_byte_with_spans_on_and_off(record, python, examples):
    """Of large blocks: the recorder's own objects, which are small, are Python's too."""
    environment = {
        "PYTHONPATH": str(examples),
        "PATH": "/usr/bin:/bin",
        "OPENBLAS_NUM_THREADS": "1",
    }

    def peak(mode):
        run = record(python, "-c", REBINDS, options=mode, env=environment)
        assert bool(run.report["operators"]) == (not mode)
        large = (
            "from {allocations} where bytes >= 65536 and kind in ('malloc', 'calloc', 'aligned')"
        )
        changes = (
            f"select alloc_ns as time, bytes::hugeint as change {large} union all"
            f" select free_ns, -(bytes::hugeint) {large} and free_ns is not null"
        )
        running = f"select sum(change) over (order by time) as live from ({changes})"
        return run.sql(f"select max(live) from ({running})")

    assert peak(()) == peak(("--auto-operators", "none"))
