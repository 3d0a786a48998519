"""Arrays of NumPy's own class, which most are: described in less than a microsecond.

One of the texts that make up the recorder (see `__init__.py` for their constraints).
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # for linters: names that the other texts define
    from .arrays import _Array, _form
    from .errors import pass_on

KNOWN_FORMS = 1024  # that are kept at a time
HEAP_TYPE = 1 << 9  # of a class's __flags__: it was made while the program ran
DATA = object.__basicsize__  # where in its object an array has the address of its first element
WORD = 8  # bytes of an address

_ndarray = None  # the class, once an array has been seen
_bytes_at = None  # copies memory: (address, how many)
_forms = {}  # (shape, dtype, strides, bytes) of an array -> its form


def learn_ndarray(array):
    """Keeps the class of NumPy's arrays, if addresses can be read from its objects."""
    global _ndarray, _bytes_at
    kind = type(array)
    if kind.__flags__ & HEAP_TYPE:
        return  # a class of the program
    try:
        import ctypes

        address = array.__array_interface__["data"][0]
        # `from_address` would be shorter, but reports to the program's audit hooks.
        copy = ctypes.PyDLL(None).PyBytes_FromStringAndSize
        copy.argtypes, copy.restype = [ctypes.c_void_p, ctypes.c_ssize_t], ctypes.py_object
        if int.from_bytes(copy(id(array) + DATA, WORD), sys.byteorder) == address:
            _ndarray, _bytes_at = kind, copy
    except BaseException as error:
        pass_on(error)


def _numpy_array(name, array):
    """As `describe` does it by `__array_interface__`, which takes longer than all of this."""
    strides = None if array.flags.c_contiguous else array.strides
    known = array.shape, array.dtype.str, strides, array.nbytes
    form = _forms.get(known)
    if form is None:
        form = _form(*known[:3], array.itemsize, array.nbytes)
        if len(_forms) >= KNOWN_FORMS:
            _forms.clear()
        _forms[known] = form
    address = int.from_bytes(_bytes_at(id(array) + DATA, WORD), sys.byteorder)
    return _Array(str(name)[:200], form, address, id(array))
