"""What a recorded span says of arrays among arguments and results.

One of the texts that make up the recorder (see `__init__.py` for their constraints). Nothing here
keeps a reference to what it describes.
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # for linters: names that the other texts define
    from .errors import pass_on
    from .ndarrays import _ndarray, _numpy_array, learn_ndarray
    from .texts import quoted

ITEM_LIMIT = 64  # members described of one list, tuple, dict or *args


class _Array:
    """An array of a span.

    name: of the argument it is.
    form: what arrays like it have in common.
    address: of its first element; None if nothing is known but its form.
    object: the id of the Python object, 0 if there is none.
    of: the name of the input that it is.
    """

    __slots__ = ("name", "form", "address", "object", "of")

    def __init__(self, name, form, address, object):
        self.name, self.form, self.address, self.object = name, form, address, object
        self.of = None

    def text(self):
        """Its JSON."""
        form, address = self.form, self.address
        if address is None:
            return f'{{"name": {quoted(self.name)}, {form.text}}}'
        text = f'{{"name": {quoted(self.name)}, {form.text}, "address": {address}'
        if form.below is not None:
            text += f', "start": {address + form.below}'
        if self.of is not None:
            text += f', "relation": "in_place", "of": {quoted(self.of)}'
        return text + "}"


class _Form:
    """What arrays of the same shape, dtype and layout have in common.

    text: members of their JSON: shape, dtype, layout, bytes, device.
    below: from the address of a strided one to where its memory begins; None if it is dense.
    """

    __slots__ = ("shape", "text", "below")

    def __init__(self, shape, dtype, layout=None, size=0, below=None, extent=0, device="cpu"):
        self.shape, self.below = shape, below
        lengths = ", ".join([str(length) for length in shape])
        self.text = f'"shape": [{lengths}], "dtype": {quoted(dtype)}'
        if layout is not None:
            self.text += f', "layout": "{layout}", "bytes": {size}'
        if below is not None:
            self.text += f', "extent": {extent}'
        if device != "cpu":
            self.text += f', "device": {quoted(device)}'


def describe(name, value):
    """`value` as an array; None if it is none."""
    try:
        kind = type(value)
        if kind is _ndarray:
            return _numpy_array(name, value)
        numpy = getattr(sys.modules.get("numpy"), "__dict__", {})
        if kind is numpy.get("ndarray"):
            learn_ndarray(value)
        if kind.__module__.startswith("xarray."):
            value = getattr(value, "variable", value)._data  # `.data` could load a file
            kind = type(value)
        if hasattr(kind, "data_ptr") and hasattr(kind, "stride"):
            return _Array(str(name)[:200], *_tensor(value), id(value))
        if hasattr(kind, "unsafe_buffer_pointer"):
            return _Array(str(name)[:200], *_jax_array(value), id(value))
        if not (hasattr(kind, "shape") and hasattr(kind, "dtype") and hasattr(kind, "nbytes")):
            return None
        for protocol in ("__array_interface__", "__cuda_array_interface__"):
            # Dask, Zarr and HDF5 arrays have neither: their elements are not in memory.
            if hasattr(kind, protocol):
                interface = getattr(value, protocol)
                shape, strides = interface["shape"], interface.get("strides")
                item = getattr(value.dtype, "itemsize", 1)
                place = "cuda" if "cuda" in protocol else "cpu"
                form = _form(shape, interface["typestr"], strides, item, value.nbytes, place)
                address = int((interface.get("data") or (0,))[0]) & 2**64 - 1
                return _Array(str(name)[:200], form, address, id(value))
    except BaseException as error:
        pass_on(error)
    return None


def shaped(name, shape, dtype="", size=None):
    """An array of which nothing is known but its shape; and its dtype, if `size` is given."""
    form = _Form(shape, dtype) if size is None else _Form(shape, dtype, "C", size)
    return _Array(name, form, None, 0)


def has_empty(arrays):
    """Whether one of them has no elements."""
    for array in arrays:  # noqa: SIM110 (a generator takes longer)
        if 0 in array.form.shape:
            return True
    return False


def _tensor(tensor):
    """Form and address of one of PyTorch."""
    text = str(tensor.dtype).rsplit(".", 1)[-1]
    letters = text.rstrip("0123456789")
    kind = {"float": "f", "int": "i", "uint": "u", "complex": "c"}.get(letters)
    item = tensor.element_size()
    if kind is not None:
        text = f"{'|' if item == 1 else '<'}{kind}{item}"
    elif text == "bool":
        text = "|b1"
    size = tensor.numel() * item
    strides = [stride * item for stride in tensor.stride()]
    place = str(getattr(tensor, "device", "cpu")).partition(":")[0]
    form = _form(tensor.shape, text, strides, item, size, place)
    return form, int(tensor.data_ptr())


def _jax_array(array):
    """Form and address of one of JAX.

    Its interfaces leave out types that NumPy lacks, and arrays on the host.
    """
    dtype, place = array.dtype, next(iter(array.devices())).platform
    text = dtype.str if dtype.kind in "biufc" else dtype.name
    if len(array.devices()) == 1:
        address, size = array.unsafe_buffer_pointer(), array.nbytes
    else:  # it has a part, or a copy, on each
        address, size = 0, sum(part.data.nbytes for part in array.addressable_shards)
    place = "cuda" if place == "gpu" else place
    return _form(array.shape, text, None, dtype.itemsize, size, place), int(address)


def _form(shape, dtype, strides, item, size, device="cpu"):
    shape = [int(length) for length in shape]
    if not 0 <= min([size, *shape]) <= max([size, *shape]) < 2**63:
        raise ValueError("no array has such lengths")
    axes = None if strides is None else list(zip(shape, strides))
    if axes is None or _dense(reversed(axes), item):
        layout = "C"
    else:
        layout = "F" if _dense(axes, item) else "strided"
    below = extent = None
    if layout == "strided" and size:
        reaches = [int(stride) * (length - 1) for length, stride in axes]
        below = sum(reach for reach in reaches if reach < 0)
        extent = sum(reach for reach in reaches if reach > 0) - below + int(item)
    return _Form(shape, str(dtype)[:200], layout, int(size), below, extent, device)


def _dense(axes, step):
    """Whether (length, stride) pairs, fastest axis first, leave no gaps; `step`: one element."""
    for length, stride in axes:
        if length != 1 and stride != step:
            return False
        step *= length
    return True


def arrays_in(name, value):
    """The arrays that `value` is, or has one level down in a list, tuple or dict."""
    kind = type(value)
    if kind is _ndarray:
        return [_numpy_array(name, value)]
    if issubclass(kind, dict):
        return _arrays_of_dict(name, value)
    if not issubclass(kind, (list, tuple)):
        array = describe(name, value)
        return [] if array is None else [array]
    found = []
    for i, member in enumerate(first_members(value)):
        array = describe(f"{name}[{i}]", member)
        if array is not None:
            found.append(array)
    return found


def first_members(value):
    """The first members of a list or tuple; what its own class defines does not run."""
    kind = list if issubclass(type(value), list) else tuple
    return kind.__getitem__(value, slice(ITEM_LIMIT))


def _arrays_of_dict(name, value):
    found = []
    for key, member in list(dict.items(value))[:ITEM_LIMIT]:
        array = describe(name, member)
        if array is not None:
            array.name = f"{name}[{_label(key)}]"
            found.append(array)
    return found


def _label(key):
    try:
        return str(key)[:100]
    except BaseException as error:
        pass_on(error)
        return f"<{type(key).__name__}>"
