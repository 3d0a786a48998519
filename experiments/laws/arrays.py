"""Arrays that library functions are called on while they are measured."""

import importlib

import numpy as np


def made(shape, kind, layout, seed):
    rng = np.random.default_rng(seed)
    values = rng.uniform(0.01, 0.99, shape) * (1 if np.dtype(kind).kind in "fc" else 100)
    if kind == "|b1":
        values = values > 50
    array = values.astype(kind)
    if layout == "F":
        return np.asfortranarray(array)
    if layout == "strided":
        wide = np.zeros([n + 2 for n in shape], kind)
        wide[1:-1, 1:-1, 1:-1] = array
        return wide[1:-1, 1:-1, 1:-1]
    return array


class Arrays(dict):
    """Names that `functions.py` uses, made when they are asked for."""

    def __init__(self, x):
        super().__init__(x=x, np=np, shape=x.shape)

    def __missing__(self, name):
        make = getattr(self, "make_" + name, None)
        if make is None:
            raise KeyError(name)  # a global or built-in
        value = make(self["x"])
        self[name] = value
        return value

    def make_y(self, x):
        return x[::-1].copy()

    def make_line(self, x):
        return x[0].ravel()[:500].copy()

    def make_square(self, x):
        sides = np.zeros((x.shape[0] * x.shape[1], 3, 3), x.dtype)
        sides[...] = x.reshape(-1)[: 9 * len(sides)].reshape(-1, 3, 3)[: len(sides)]
        return sides + np.eye(3, dtype=x.dtype)

    def make_positive(self, x):
        square = self["square"]
        return square @ square.swapaxes(1, 2) + np.eye(3, dtype=x.dtype)

    def make_k(self, x):
        return np.ones((3, 3, 3), x.dtype.newbyteorder("="))

    def make_row(self, x):
        return np.ones((1, 1, 9), x.dtype.newbyteorder("="))

    def make_table(self, x):
        return x.reshape(-1, x.shape[-1])

    def make_triples(self, x):
        return x.reshape(-1)[: x.size // 3 * 3].reshape(-1, 3)

    def make_colours(self, x):
        return x.reshape(-1)[: x.size // 300 * 300].reshape(100, -1, 3)

    def make_matrix(self, x):
        return np.ones((3, 3), x.dtype.newbyteorder("="))

    def make_mask(self, x):
        return x.real > np.median(x.real)

    def make_order(self, x):
        return np.argsort(x, axis=-1)

    def make_spectrum(self, x):
        return np.fft.rfft(x).astype("c8" if x.dtype.itemsize <= 4 else "c16")

    def make_edges(self, x):
        return np.linspace(0, 1, 257).astype(x.real.dtype.newbyteorder("="))

    def make_grid(self, x):
        return np.indices(x.shape, "f8") * 0.9

    def make_codes(self, x):
        return (np.abs(x.real) * 100).astype("i8").ravel() % 200

    def make_codes3(self, x):
        return self["codes"].reshape(x.shape) % 50

    def make_ball(self, x):
        return np.ones((3, 3, 3), bool)

    def make_keys(self, x):
        return np.repeat(np.arange(x.shape[0] * x.shape[1]), x.shape[2])

    def make_frame(self, x):
        import pandas

        return pandas.DataFrame({"key": self["keys"], "value": x.ravel()})

    def make_wide(self, x):
        import pandas

        return pandas.DataFrame(self["table"])

    def make_narrow(self, x):
        import pandas

        return pandas.DataFrame(x.reshape(-1, 4))

    def make_cube(self, x):
        import xarray

        return xarray.DataArray(x, dims=("a", "b", "c")[-x.ndim :])

    def make_series(self, x):
        import pandas

        return pandas.Series(x.ravel())

    def make_sobel(self, x):
        return importlib.import_module("scipy.ndimage").sobel

    def make_sos(self, x):
        return importlib.import_module("scipy.signal").butter(4, 0.2, output="sos")

    def make_b(self, x):
        return importlib.import_module("scipy.signal").butter(3, 0.2)[0]

    def make_a(self, x):
        return importlib.import_module("scipy.signal").butter(3, 0.2)[1]
