"""SEG-Y files hold what was meant, where it was meant, and cost little memory to write."""

import tracemalloc

import numpy as np
import pytest
import segyio
from volume import Layers, SegyVolume, synthetic, write_segy

SHAPE = (5, 7, 9)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "volume.sgy"
    write_segy(path, SHAPE, Layers(dip=12.5))
    return path


def test_axes_are_inline_crossline_samples(path):
    # Not through segyio: a 3,600-byte file header, then per trace 240 bytes and its samples.
    trace = np.dtype([("head", "V188"), ("line", ">i4", 2), ("rest", "V44"), ("data", ">f4", 9)])
    traces = np.fromfile(path, trace, offset=3600).reshape(5, 7)
    inline, crossline = np.indices((5, 7)) + 1
    np.testing.assert_array_equal(traces["line"][..., 0], inline)
    np.testing.assert_array_equal(traces["line"][..., 1], crossline)
    np.testing.assert_array_equal(traces["data"], synthetic(SHAPE, Layers(dip=12.5)))


def test_round_trip(path):
    volume = SegyVolume.open(path)
    assert (volume.shape, volume.dip) == (SHAPE, 12.5)
    samples = volume.read()
    assert samples.dtype == np.dtype("f4")
    np.testing.assert_array_equal(samples, synthetic(SHAPE, Layers(dip=12.5)))
    region = np.s_[1:4, 2:7, 3:5]
    np.testing.assert_array_equal(volume.read(region), samples[region])


def test_known_dip_is_read_only_where_it_is_written(path):
    with segyio.open(path, "r+") as file:
        file.text[0] = segyio.tools.create_text_header({1: "SURVEY"})
    assert SegyVolume.open(path).dip is None


def test_every_trace_has_its_own_noise():
    layers = synthetic(SHAPE, Layers(noise=0))
    noise = (synthetic(SHAPE) - layers).reshape(-1, SHAPE[2])
    assert len(np.unique(noise[:, 0])) == len(noise)
    np.testing.assert_array_equal(synthetic(SHAPE), synthetic(SHAPE))


def test_writing_holds_planes_not_the_volume(tmp_path):
    shape = (200, 20, 50)
    tracemalloc.start()
    write_segy(tmp_path / "volume.sgy", shape)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * np.prod(shape) / 2


def test_a_truncated_file_is_refused(path):
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match=f"cannot read {path}"):
        SegyVolume.open(path)


def test_another_sorting_is_refused(tmp_path):
    path = tmp_path / "crosslines.sgy"
    segyio.tools.from_array3D(path, synthetic(SHAPE), format=segyio.SegySampleFormat(5))
    with segyio.open(path, "r+", ignore_geometry=True) as file:
        for trace in range(file.tracecount):
            file.header[trace] = {189: trace % 7 + 1, 193: trace // 7 + 1}
    with pytest.raises(ValueError, match="inline-sorted"):
        SegyVolume.open(path)
