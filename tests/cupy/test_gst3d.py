"""GST3D on CuPy's own code, without a GPU: what memtrace records of it is what CuPy's pool and the driver count."""

import pytest
from gst3d_traces import CALLS, GST3D, LARGE, OPERATOR, SMALL, name_of

NAMED = ["--operator", OPERATOR]


@pytest.mark.parametrize("shape", [(5, 6, 7), (3, 1000, 2), *SMALL, LARGE, (300, 410, 520)])
def test_peaks_are_those_of_the_pool_and_of_the_driver(record, shape):
    found = record(GST3D, name_of(shape), CALLS, options=NAMED)
    reported, device = found.reported, found.device
    used, reserved = reported["allocated_peak_bytes"], reported["reserved_peak_bytes"]
    assert device["peak_framework_bytes"] == device["peak_used_bytes"] == used
    assert device["peak_driver_bytes"] == reserved == found.driver["driver"]["peak"]
    assert device["peak_framework_reserved_bytes"] == reserved
    spans = found.spans(OPERATOR)
    assert [span["device_peak_bytes"] for span in spans] == reported["calls"]["gst3d"]
    for span in spans:
        [volume], [attributes] = span["inputs"], span["outputs"]
        assert (volume["name"], volume["shape"]) == ("volume", list(shape))
        assert attributes["shape"] == [2, *shape]
        for array in (volume, attributes):
            assert (array["dtype"], array["layout"], array["device"]) == ("<f4", "C", "cuda")


def test_blocks_have_the_role_of_their_array(record):
    """The one of the attributes is the span's output, that of the volume its input; nearly all others have ended in it."""
    run = record(GST3D, "40x50x61", 1, options=NAMED).run
    rows = run.sql(
        "SELECT role, bytes FROM {allocations} WHERE kind = 'pool_block' AND role IN ('output', 'input')"
    )
    assert sorted(rows) == [("input", 488448), ("output", 976384)]
    [(temporary, inside)] = run.sql(
        "SELECT count(*) FILTER (role = 'temporary'), count(*) FROM {allocations} "
        "WHERE kind = 'pool_block' AND span IS NOT NULL"
    )
    assert inside > 150 and temporary / inside > 0.9


STACKS = """
WITH RECURSIVE stacks AS (
    SELECT site, frame FROM {sites} WHERE site IN (SELECT site FROM {allocations} WHERE kind = 'pool_block')
    UNION ALL
    SELECT site, parent FROM stacks JOIN {frames} USING (frame) WHERE parent IS NOT NULL
)
SELECT site, bool_or(f.function = 'main' AND f.file LIKE '%/gst3d_cupy.py'), bool_or(f.file LIKE '%recorder%')
FROM stacks JOIN {frames} AS f USING (frame) GROUP BY site
"""


def test_stacks_are_those_of_the_program(record):
    """All lead through its `main`, and none has a function of the recorder."""
    rows = record(GST3D, "40x50x61", 1, options=NAMED).run.sql(STACKS)
    assert len(rows) > 20
    assert all(through_main and not recorder for _, through_main, recorder in rows)


def test_the_driver_s_own_pool(record):
    """`MemoryAsyncPool`: its blocks are calls of the driver, and no pool of CuPy's has a part in them. `@memtrace.operator` names the span."""
    found = record("async_pool.py")
    reported, device = found.reported, found.device
    assert device["peak_used_bytes"] == reported["used"]
    assert device["peak_driver_bytes"] == device["peak_pool_bytes"] == reported["reserved"]
    assert device["peak_framework_bytes"] is None
    [span] = found.spans("gst3d_cupy:gst3d")
    assert span["device_peak_bytes"] == reported["rise"]
    assert span["outputs"][0]["device"] == "cuda"


def test_functions_of_cupy_are_spans_by_themselves(record):
    """A plain `memtrace -- python gst3d_cupy.py` names what smooths the volume and what that takes."""
    found = record(GST3D, "60x60x60", 1)
    smoothed = found.spans("cupyx.scipy.ndimage:gaussian_filter")
    assert len(smoothed) == 6, "the six products"
    # A line filter reads one volume and writes another; beside them its weights, for two axes, in 512 bytes each.
    volumes = 2 * (4 * 60**3 // 512 + 1) * 512
    assert [span["device_peak_bytes"] for span in smoothed] == [volumes + 2 * 512] * 6
    assert all(span["inputs"][0]["device"] == "cuda" for span in smoothed)
