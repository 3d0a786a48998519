"""An array without NumPy, which counts the bytes of the arrays that are alive."""


class Dtype:
    str, itemsize = "<f8", 8


class Array:
    __slots__ = ("shape", "nbytes", "strides")
    dtype = Dtype()
    live = peak = 0

    def __init__(self, *shape, strides=None):
        self.shape, self.strides, self.nbytes = shape, strides, 8
        for length in shape:
            self.nbytes *= length
        Array.live += self.nbytes
        Array.peak = max(Array.peak, Array.live)

    def __del__(self):
        Array.live -= self.nbytes

    def __mul__(self, number):
        return Array(*self.shape)

    @property
    def __array_interface__(self):
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "strides": self.strides,
            "data": (4096, False),
            "version": 3,
        }
