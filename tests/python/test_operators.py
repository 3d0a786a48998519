"""Operators against known answers and against their formulas written out plainly."""

import importlib

import numpy as np
import operators
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from operators.envelope import envelope
from operators.gaussian import gaussian
from operators.gst3d import gst3d
from operators.semblance import semblance
from volume import Layers, synthetic

SHAPE = (24, 26, 28)


def operator(name):
    return getattr(importlib.import_module(f"operators.{name}"), name)


def noise(shape):
    return np.random.default_rng(5).standard_normal(shape, dtype=np.float32)


def windows(volume, window):
    """The window around each cell, edge cells repeated outwards: shape (n0, n1, n2, *window)."""
    padded = np.pad(volume.astype(float), [(w // 2, w // 2) for w in window], mode="symmetric")
    return sliding_window_view(padded, window)


def angle_between(a, b):
    return np.abs((a - b + 180) % 360 - 180)


@pytest.mark.parametrize(
    ("dip", "azimuth"), [(5, 10), (25, 40), (25, 200), (45, 90), (60, 300), (85, 120)]
)
def test_gst3d_finds_the_dip_of_clean_layers(dip, azimuth):
    # What is left is the derivative's own error at 12 cells per wavelength: below 0.1° and 0.1°.
    angles = gst3d(synthetic(SHAPE, Layers(dip, azimuth, noise=0)))
    assert angles.shape == (2, 22, 24, 26)
    assert angles.dtype == np.float32
    assert np.abs(angles[0] - dip).max() < 0.1
    assert angle_between(angles[1], azimuth).max() < 0.1


def test_gst3d_finds_the_dip_of_noisy_layers():
    # 2 % of noise moves the mean by 0.3° and single cells at the crests by up to 3°.
    angles = gst3d(synthetic(SHAPE, Layers(dip=25, azimuth=40, noise=0.02)))
    assert np.abs(angles[0] - 25).mean() < 0.5
    assert np.abs(angles[0] - 25).max() < 5
    assert angle_between(angles[1], 40).mean() < 1


def test_gst3d_of_flat_and_of_upright_layers():
    flat, upright = (synthetic(SHAPE, Layers(dip, noise=0)) for dip in (0, 90))
    assert gst3d(flat)[0].max() < 0.1
    assert gst3d(upright)[0].min() > 89.9


def test_gst3d_is_its_formula():
    volume = synthetic(SHAPE, Layers(noise=0.2))
    across, along = np.array([0.178947, 0.642105, 0.178947]), np.array([-0.5, 0, 0.5])
    gradient = []
    for axis in range(3):
        weights = [along if axis == other else across for other in range(3)]
        kernel = np.einsum("i,j,k->ijk", *weights)
        full = np.einsum("abcijk,ijk->abc", windows(volume, (3, 3, 3)), kernel)
        gradient.append(full[1:-1, 1:-1, 1:-1])
    tensor = np.empty((*gradient[0].shape, 3, 3))
    for i in range(3):
        for j in range(3):
            product = gradient[i] * gradient[j]
            tensor[..., i, j] = windows(product, (3, 3, 3)).mean((3, 4, 5))
    normal = np.linalg.eigh(tensor).eigenvectors[..., 2]
    # float32 against float64: compare |v₂|, the sign being arbitrary.
    np.testing.assert_allclose(
        np.cos(np.radians(gst3d(volume)[0])), np.abs(normal[..., 2]), atol=1e-4
    )


def test_gst3d_refuses_a_volume_without_interior():
    with pytest.raises(ValueError, match="3 cells or more"):
        gst3d(np.zeros((2, 5, 5), np.float32))


@pytest.mark.parametrize("samples", [15, 16])
def test_envelope_is_its_formula(samples):
    volume = noise((3, 4, samples))
    frequency = np.arange(samples)
    transform = np.exp(-2j * np.pi * np.outer(frequency, frequency) / samples)
    # 1 for the constant and the Nyquist frequency, 2 for positive, 0 for negative ones.
    weights = np.where(2 * frequency < samples, 2, 0)
    weights[[k for k in frequency if 2 * k in (0, samples)]] = 1
    spectrum = volume.astype(float) @ transform * weights
    expected = np.abs(spectrum @ transform.conj()) / samples
    result = envelope(volume)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


def test_gaussian_is_its_formula():
    volume = noise((9, 14, 30))
    offset = np.arange(-12, 13)
    weights = np.exp(-(offset**2) / 18)
    weights /= weights.sum()
    expected = volume.astype(float)
    for axis in range(3):
        window = [25 if other == axis else 1 for other in range(3)]
        expected = windows(expected, window).reshape(*volume.shape, 25) @ weights
    np.testing.assert_allclose(gaussian(volume), expected, atol=1e-6)


def test_semblance_is_its_formula():
    volume = noise((6, 7, 20))
    window = windows(volume, (3, 3, 9)).reshape(*volume.shape, 9, 9)  # traces, samples
    expected = (window.sum(-2) ** 2).sum(-1) / (9 * (window**2).sum((-2, -1)))
    np.testing.assert_allclose(semblance(volume), expected, rtol=1e-4)


def test_semblance_of_equal_traces_is_one_and_of_silence_zero():
    trace = noise((1, 1, 20))
    np.testing.assert_allclose(semblance(np.tile(trace, (5, 5, 1))), 1, rtol=1e-5)
    assert not semblance(np.zeros((5, 5, 20), np.float32)).any()


@pytest.mark.parametrize("name", operators.NAMES)
def test_the_volume_is_left_unchanged(name):
    volume = noise(SHAPE)
    before = volume.copy()
    operator(name)(volume)
    np.testing.assert_array_equal(volume, before)
