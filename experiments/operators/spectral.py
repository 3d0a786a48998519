"""Operators by way of the Fourier transform, and recursive filters."""

import numpy as np
from scipy import fft, signal

INTERVAL_S = 0.004  # between samples


def rfft_bandpass(volume, low=8.0, high=60.0):
    """Frequencies from low to high hertz, along axis 2."""
    n = volume.shape[-1]
    spectrum = fft.rfft(volume, axis=-1)
    frequencies = fft.rfftfreq(n, INTERVAL_S)
    spectrum *= (frequencies >= low) & (frequencies <= high)
    return fft.irfft(spectrum, n, axis=-1)


def _ricker(frequency, length=65):
    times = (np.arange(length) - length // 2) * INTERVAL_S
    exponent = (np.pi * frequency * times) ** 2
    return (1 - 2 * exponent) * np.exp(-exponent)


def fftconvolve(volume):
    """Convolution with a 7×7×7 blob by fast Fourier transforms of the whole volume."""
    line = np.hanning(9)[1:-1].astype(np.float32)
    return signal.fftconvolve(volume, line[:, None, None] * line[:, None] * line, mode="same")


def oaconvolve(volume):
    """Convolution of the traces with a Ricker wavelet by overlapping blocks."""
    wavelet = _ricker(25.0).astype(np.float32)[None, None, :]
    return signal.oaconvolve(volume, wavelet, mode="same", axes=-1)


def stft(volume):
    """Amplitudes of short-time Fourier transforms of the traces, 32 samples each, every 16."""
    _, _, spectrum = signal.stft(volume, nperseg=32, noverlap=16, axis=-1)
    return np.abs(spectrum)


def ricker(volume):
    """Ricker wavelet transform at five frequencies; shape (5, n0, n1, n2)."""
    result = np.empty((5, *volume.shape), np.float32)
    for scale, frequency in enumerate((10, 20, 30, 40, 50)):
        wavelet = _ricker(frequency).astype(np.float32)[None, None, :]
        result[scale] = signal.fftconvolve(volume, wavelet, mode="same", axes=-1)
    return result


def sosfiltfilt(volume):
    """Butterworth band-pass, forwards and backwards, so that no phase is shifted."""
    sections = signal.butter(4, (8.0, 60.0), "bandpass", fs=1 / INTERVAL_S, output="sos")
    return signal.sosfiltfilt(sections, volume, axis=-1)
