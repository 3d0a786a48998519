"""What a recorded span says of arguments and results: arrays by their shape, scalars by value.

One of the texts that make up the recorder (see `__init__.py` for their constraints). Nothing here
keeps a reference to what it describes.
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # for linters: names that the other texts define
    from .errors import pass_on

ITEM_LIMIT = 64  # members described of one list, tuple, dict or *args


def describe(name, value):
    """`value` as an array {name, shape, dtype, layout, bytes, address}; None if it is none.

    A strided one also says where its memory begins and how far it reaches (start, extent).
    `object` is for the recorder itself: the id of the Python object.
    """
    try:
        kind = type(value)
        if kind.__module__.startswith("xarray."):
            value = getattr(value, "variable", value)._data  # `.data` could load a file
            kind = type(value)
        if hasattr(kind, "data_ptr") and hasattr(kind, "stride"):
            return dict(_tensor(name, value), object=id(value))
        if hasattr(kind, "unsafe_buffer_pointer"):
            return dict(_jax_array(name, value), object=id(value))
        if not all(hasattr(kind, part) for part in ("shape", "dtype", "nbytes")):
            return None
        for protocol in ("__array_interface__", "__cuda_array_interface__"):
            # Dask, Zarr and HDF5 arrays have neither: their elements are not in memory.
            if hasattr(kind, protocol):
                interface = getattr(value, protocol)
                shape, strides = interface["shape"], interface.get("strides")
                item = getattr(value.dtype, "itemsize", 1)
                place = (interface.get("data") or (0,))[0]
                found = _array(
                    name, shape, interface["typestr"], strides, item, value.nbytes, place
                )
                if "cuda" in protocol:
                    found["device"] = "cuda"
                return dict(found, object=id(value))
    except Exception as error:
        pass_on(error)
    return None


def _tensor(name, tensor):
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
    found = _array(name, tensor.shape, text, strides, item, size, tensor.data_ptr())
    place = str(getattr(tensor, "device", "cpu")).partition(":")[0]
    return found if place == "cpu" else dict(found, device=place)


def _jax_array(name, array):
    """One of JAX, whose interfaces leave out types that NumPy lacks, and arrays on the host."""
    dtype, place = array.dtype, next(iter(array.devices())).platform
    text = dtype.str if dtype.kind in "biufc" else dtype.name
    if len(array.devices()) == 1:
        address, size = array.unsafe_buffer_pointer(), array.nbytes
    else:  # it has a part, or a copy, on each
        address, size = 0, sum(part.data.nbytes for part in array.addressable_shards)
    found = _array(name, array.shape, text, None, dtype.itemsize, size, address)
    return found if place == "cpu" else dict(found, device="cuda" if place == "gpu" else place)


def _array(name, shape, dtype, strides, item, size, address):
    shape = [int(length) for length in shape]
    axes = None if strides is None else list(zip(shape, strides))
    if axes is None or _dense(reversed(axes), item):
        layout = "C"
    else:
        layout = "F" if _dense(axes, item) else "strided"
    found = {
        "name": str(name)[:200],
        "shape": shape,
        "dtype": str(dtype)[:200],
        "layout": layout,
        "bytes": int(size),
        "address": int(address),
    }
    if layout == "strided" and size:
        reaches = [int(stride) * (int(length) - 1) for length, stride in axes]
        below = sum(reach for reach in reaches if reach < 0)
        found["start"] = int(address) + below
        found["extent"] = sum(reach for reach in reaches if reach > 0) - below + int(item)
    return found


def _dense(axes, step):
    """Whether (length, stride) pairs, fastest axis first, leave no gaps; `step`: one element."""
    for length, stride in axes:
        if length != 1 and stride != step:
            return False
        step *= length
    return True


def arrays_in(name, value):
    """The arrays that `value` is, or has one level down in a list, tuple or dict."""
    if isinstance(value, (list, tuple)):
        members = [(f"{name}[{i}]", v) for i, v in enumerate(value[:ITEM_LIMIT])]
    elif isinstance(value, dict):
        members = [(f"{name}[{str(k)[:100]}]", value[k]) for k in list(value)[:ITEM_LIMIT]]
    else:
        members = [(name, value)]
    found = [describe(name, member) for name, member in members]
    return [array for array in found if array is not None]


def scalar(value):
    """`value` as a JSON scalar, None if it is no scalar parameter."""
    kind = type(value)
    if hasattr(kind, "__array_interface__") and hasattr(kind, "item") and value.shape == ():
        value = value.item()  # NumPy's scalars and 0-d arrays
    if value is None or isinstance(value, complex):
        return str(value)
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value) if -(2**63) <= value < 2**63 else str(int(value))[:200]
    if isinstance(value, float):
        return float(value) if value - value == 0 else str(float(value))  # JSON has no infinity
    if isinstance(value, str):
        return str(value) if len(value) <= 200 else None
    if isinstance(value, (tuple, list)) and len(value) <= ITEM_LIMIT:
        plain = all(type(member) in (int, float, bool) for member in value)
        return str(value) if plain else None
    if isinstance(value, type):
        return value.__name__
    numpy = sys.modules.get("numpy")
    return value.str if isinstance(value, getattr(numpy, "dtype", ())) else None
