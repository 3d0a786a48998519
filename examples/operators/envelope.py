"""Envelope: the instantaneous amplitude of every trace."""

import numpy as np
from scipy.signal import hilbert

HALO = (0, 0, 0)
MARGIN = 0
COMPONENTS = None
WHOLE_AXES = (2,)  # the analytic signal comes from the Fourier transform of a whole trace


def envelope(volume):
    """Absolute value of the analytic signal along axis 2; shape and dtype of `volume`."""
    return np.abs(hilbert(volume, axis=-1))
