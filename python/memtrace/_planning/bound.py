"""Bounds of functions that were never run."""

import json
from typing import Any, Callable, Dict, Sequence, Union

from .source import description


def bound(
    function: "Union[Callable[..., Any], str]",
    shape: "Union[Sequence[int], Sequence[Sequence[int]]]",
    dtype: "Union[str, Sequence[str]]" = "f4",
    *,
    layout: str = "C",
    library: "Union[str, None]" = None,
    **params: Any,
) -> Dict[str, Any]:
    """What a call of a function needs, from its source only, as a dict.

    Nothing is run: the laws of the library functions that it calls are composed along its text,
    with what stays live meanwhile.

    Args:
        function: A Python function, or `"MODULE:FUNCTION"`.
        shape: The shape of its array, or a list of shapes, one for each array.
        dtype: The element type, as NumPy writes it, or one for each array.
        layout: How inputs lie in memory: "C", "F" or "strided".
        library: A file with laws of library functions (default: what memtrace was built with).
        **params: Values of its other parameters.

    Returns:
        The keys of `memtrace bound --json`: `upper_bytes` is the bound of the working peak (inputs
            not included). Where `model["unknown"]` names anything it is None, and `peak_bytes` is
            an estimate.

    Raises:
        TypeError: The function has no Python source.
        ValueError: A shape or an element type is invalid.

    Examples:
        >>> memtrace.bound(gst3d, (651, 951, 462))["upper_bytes"]
    """
    from .._native import bound_source

    if isinstance(function, str):
        function = description.load(function)
    shapes = list(shape)
    if not shapes or not isinstance(shapes[0], (tuple, list)):
        shapes = [shapes]
    dtypes = [dtype] if isinstance(dtype, str) else list(dtype)
    text = None
    if library is not None:
        with open(library, encoding="utf-8") as file:
            text = file.read()
    source = json.dumps(description.describe(function))
    return bound_source(source, shapes, dtypes, layout, params, text)
