"""Bounds of functions that were never run."""

import json
from typing import Any, Callable, Dict, Sequence, Union

from . import _source


def bound(
    function: "Union[Callable[..., Any], str]",
    shape: "Union[Sequence[int], Sequence[Sequence[int]]]",
    dtype: "Union[str, Sequence[str]]" = "f4",
    *,
    layout: str = "C",
    library: "Union[str, None]" = None,
    **params: Any,
) -> Dict[str, Any]:
    """What a call of a function needs, from its source alone, as a dict.

    Nothing is run: the laws of the library functions that it calls are composed along its text,
    with what it holds meanwhile. The keys are those of `memtrace bound --json`; `upper_bytes` is
<<<<<<< HEAD
    the bound of the working peak (its inputs not among it), `model["unknown"]` what could not be known.
=======
    the bound of the working peak (its inputs not among it), `model["unknown"]` what could not be
    known.
>>>>>>> generic

    function: a Python function, or `"MODULE:FUNCTION"`. shape: of its array, or a list of shapes,
        one for each. dtype: element type, as NumPy writes it, or one for each array.
    layout: how inputs lie in memory: "C", "F" or "strided".
    library: a file with laws of library functions (default: what memtrace was built with).
    params: values of its other parameters.

    TypeError: the function has no Python source. ValueError: a shape or element type is none.

    >>> memtrace.bound(gst3d, (651, 951, 462))["upper_bytes"]
    """
    from ._native import bound_source

    if isinstance(function, str):
        function = _source.load(function)
    shapes = list(shape)
    if not shapes or not isinstance(shapes[0], (tuple, list)):
        shapes = [shapes]
    dtypes = [dtype] if isinstance(dtype, str) else list(dtype)
    text = None
    if library is not None:
        with open(library, encoding="utf-8") as file:
            text = file.read()
    source = json.dumps(_source.describe(function))
    return bound_source(source, shapes, dtypes, layout, params, text)
