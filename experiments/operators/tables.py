"""Operators of pandas and xarray."""

import numpy as np
import pandas as pd
import xarray as xr


def group_by(volume):
    """Mean of every trace by a pandas group-by over (inline, crossline)."""
    traces = np.repeat(np.arange(volume.shape[0] * volume.shape[1]), volume.shape[2])
    table = pd.DataFrame({"trace": traces, "sample": volume.ravel()})
    return table.groupby("trace")["sample"].mean().to_numpy()


def rolling_mean(volume):
    """Mean of five samples, centred, by xarray."""
    array = xr.DataArray(volume, dims=("inline", "crossline", "sample"))
    return array.rolling(sample=5, center=True).mean().to_numpy()
