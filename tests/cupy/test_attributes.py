"""GST3D's arithmetic, with NumPy in CuPy's place: on the stand-ins no kernel computes anything."""

import importlib.util
import sys
from types import ModuleType, SimpleNamespace

import numpy
import pytest
import scipy.ndimage
from gst3d_traces import GST3D


@pytest.fixture
def program(monkeypatch):
    cupy = ModuleType("cupy")
    cupy.__dict__.update(vars(numpy), cuda=SimpleNamespace(MemoryHook=object))
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    for name in ("cupyx", "cupyx.scipy", "cupyx.scipy.ndimage"):
        monkeypatch.setitem(sys.modules, name, scipy.ndimage)
    spec = importlib.util.spec_from_file_location("gst3d_cupy", GST3D)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_dip_and_planarity_are_those_of_the_eigenvectors(program):
    volume = numpy.random.default_rng(1).standard_normal((16, 17, 18)).astype(numpy.float32)
    a, b, c, ab, ac, bc = (part.astype(float) for part in program.structure_tensor(volume))
    tensor = numpy.stack([a, ab, ac, ab, b, bc, ac, bc, c], axis=-1).reshape(*a.shape, 3, 3)
    values, vectors = numpy.linalg.eigh(tensor)
    dip, planarity = program.gst3d(volume)
    normal = vectors[..., 2]
    # Where two eigenvalues nearly agree, the vector is a matter of rounding.
    clear = values[..., 2] - values[..., 1] > 0.05 * values[..., 2]
    assert clear.mean() > 0.5
    expected = numpy.degrees(numpy.arccos(numpy.abs(normal[..., 2])))
    assert numpy.abs(dip - expected)[clear].max() < 0.5
    assert numpy.abs(planarity - 1 + values[..., 1] / values[..., 2]).max() < 1e-3


def test_a_dipping_layer_has_its_dip(program):
    """Planes with the normal (0, sin 30°, cos 30°), far from the volume's faces."""
    y, z = numpy.mgrid[:40, :40].astype(numpy.float32)
    angle = numpy.radians(30)
    volume = numpy.sin((y * numpy.sin(angle) + z * numpy.cos(angle)) / 3)
    volume = numpy.repeat(volume[None].astype(numpy.float32), 40, axis=0)
    dip, planarity = program.gst3d(volume)
    inner = (slice(12, -12),) * 3
    assert numpy.abs(dip[inner] - 30).max() < 1
    assert planarity[inner].min() > 0.95
