"""What a recorded span says of parameters: scalars, by their value.

One of the texts that make up the recorder (see `__init__.py` for their constraints). A value is
asked for its type alone, never for its `__class__`, which proxies define to stand for a value that
may not even be there yet; what its own class defines does not run either, except NumPy's.
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # for linters: names that the other texts define
    from .arrays import ITEM_LIMIT, first_members
    from .errors import pass_on
    from .ndarrays import _ndarray

TEXT_LENGTH = 200  # of a text, beyond which it is no parameter
DIGITS_BITS = 2000  # of an integer that is written out
_name_of_class = type.__dict__["__name__"].__get__  # whatever its metaclass says


def scalar(value):
    """`value` as a JSON scalar, None if it is no scalar parameter."""
    kind = type(value)
    if kind is int:
        return value if -(2**63) <= value < 2**63 else _large(value)
    if kind is str:
        return value if len(value) <= TEXT_LENGTH else None
    if kind is float:
        return value if value - value == 0 else repr(value)  # JSON has no infinity
    if kind is bool:
        return value
    if value is None:
        return "None"
    if kind is _ndarray and value.shape:
        return None
    try:
        return _other_scalar(kind, value)
    except BaseException as error:
        pass_on(error)
        return None


def _other_scalar(kind, value):
    if hasattr(kind, "__array_interface__") and hasattr(kind, "item"):
        return _numpy_scalar(kind, value)
    if issubclass(kind, int):
        return scalar(int.__index__(value))
    if issubclass(kind, float):
        return scalar(float.__float__(value))
    if issubclass(kind, complex):
        return complex.__repr__(value)
    if issubclass(kind, str):
        return scalar(str.__str__(value))
    if issubclass(kind, (tuple, list)):
        return _numbers(value)
    if issubclass(kind, type):
        return _name_of_class(value)
    dtype = getattr(sys.modules.get("numpy"), "dtype", None)
    return value.str if type(dtype) is type(kind) and issubclass(kind, dtype) else None


def _numpy_scalar(kind, value):
    """Of one of NumPy's scalars, or of an array without axes."""
    if value.shape != ():
        return None
    if hasattr(kind, "mask") and value.mask:
        return "masked"
    plain = value.item()
    return scalar(plain) if type(plain) is not kind else None


def _large(number):
    bits = number.bit_length()
    return str(number)[:TEXT_LENGTH] if bits <= DIGITS_BITS else f"an integer of {bits} bits"


def _numbers(value):
    """The text of a short list or tuple of numbers."""
    kind = list if issubclass(type(value), list) else tuple
    if kind.__len__(value) > ITEM_LIMIT:
        return None
    for member in first_members(value):
        member_kind = type(member)
        if member_kind is int:
            if member.bit_length() > DIGITS_BITS:
                return None
        elif member_kind is not float and member_kind is not bool:
            return None
    return kind.__repr__(value)
