"""A seismic section, smoothed, its envelope, and what repeats from trace to trace.

python section.py [TRACES SAMPLES]
"""

import sys

import numpy as np
from scipy import ndimage, signal


def section(traces, samples):
    """Noise, and a wavelet that comes later from trace to trace."""
    rng = np.random.default_rng(7)
    time = np.arange(samples, dtype=np.float32)
    delay = samples // 3 + np.arange(traces, dtype=np.float32)[:, None] / 4
    wavelet = np.exp(-(((time - delay) / 12) ** 2)) * np.cos((time - delay) / 4)
    return wavelet.astype(np.float32) + 0.1 * rng.standard_normal((traces, samples), np.float32)


def envelope(data):
    return np.abs(signal.hilbert(data, axis=-1))


def common(data, parts=8):
    """What the strongest singular values hold."""
    u, s, v = np.linalg.svd(data, full_matrices=False)
    return (u[:, :parts] * s[:parts]) @ v[:parts]


def main():
    traces, samples = map(int, sys.argv[1:]) if sys.argv[1:] else (600, 2000)
    data = section(traces, samples)
    smooth = ndimage.gaussian_filter(data, 2)
    strength = envelope(smooth)
    rest = strength - common(strength)
    print(f"{traces} traces: strength {strength.mean():.4f}, left {np.abs(rest).mean():.4f}")


if __name__ == "__main__":
    main()
