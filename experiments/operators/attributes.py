"""Attributes of seismic traces: what the analytic signal and moving windows say about them."""

import numpy as np
from operators.envelope import envelope
from operators.gst3d import gst3d
from operators.semblance import semblance
from scipy.ndimage import uniform_filter, uniform_filter1d
from scipy.signal import hilbert

__all__ = [
    "agc",
    "cosine_of_phase",
    "envelope",
    "gst3d",
    "instantaneous_frequency",
    "instantaneous_phase",
    "rms",
    "semblance",
    "sweetness",
    "time_gain",
]

INTERVAL_S = 0.004  # between samples


def instantaneous_phase(volume):
    """Angle of the analytic signal along axis 2, radians."""
    return np.angle(hilbert(volume, axis=-1))


def instantaneous_frequency(volume):
    """Change of the unwrapped phase along axis 2, hertz; one sample shorter."""
    phase = np.unwrap(np.angle(hilbert(volume, axis=-1)), axis=-1)
    return np.diff(phase, axis=-1) / (2 * np.pi * INTERVAL_S)


def cosine_of_phase(volume):
    """Cosine of the instantaneous phase."""
    return np.cos(np.angle(hilbert(volume, axis=-1)))


def sweetness(volume):
    """Envelope over the square root of the instantaneous frequency."""
    analytic = hilbert(volume, axis=-1)
    amplitude = np.abs(analytic)
    phase = np.unwrap(np.angle(analytic), axis=-1)
    frequency = np.gradient(phase, axis=-1) if volume.shape[-1] > 1 else np.zeros_like(phase)
    return amplitude / np.sqrt(np.maximum(np.abs(frequency), 1e-3))


def rms(volume):
    """Root of the mean square over nine samples."""
    return np.sqrt(uniform_filter(np.square(volume, dtype=np.float32), (1, 1, 9)))


def agc(volume, window=31):
    """Automatic gain control: each sample over the mean magnitude of its surroundings."""
    magnitude = uniform_filter1d(np.abs(volume), window, axis=-1)
    return volume / (magnitude + 1e-6)


def time_gain(volume, power=1.5):
    """Samples times their time to a power."""
    times = (np.arange(volume.shape[-1]) * INTERVAL_S) ** power
    return volume * times.astype(volume.dtype)
