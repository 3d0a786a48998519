"""Marking operators in a program's own text.

Constraint: outside of a recorded process nothing is wrapped, imported or kept.
A recorded process is known by the recorder's module, which the probe put there.
"""

import re
import sys

RECORDER = "_memtrace_recorder"


def operator(function=None, *, name=None, params=None, shape_of=None):
    """Marks a function as an operator: each call is a span.

    Calls of generator functions and coroutines are not spans.

    Args:
        function: The function to mark.
        name: What to call the operator (default: `module:qualified name`).
        params: The names of the scalar arguments to record (default: all).
        shape_of: The name, or names, of the arrays that count as its input (default: all).

    Returns:
        The very same function, recorded or not; a decorator where `function` is not given.
    """

    def mark(function):
        recorder = sys.modules.get(RECORDER)
        if recorder is not None:
            recorder.register(function, name, _names(params), _names(shape_of))
        return function

    return mark if function is None else mark(function)


def span(name, *inputs, **params):
    """A context in which the operator `name` runs.

    Args:
        name: The operator's name.
        inputs: Arrays; or shapes, each followed by its dtype if it is known.
        params: Scalar parameters.

    Returns:
        A context manager. Its `outputs(array, ...)`, called inside, records the results.

    Examples:
        >>> with span("stack", gathers, fold=24) as running:
        ...     section = stack(gathers)
        ...     running.outputs(section)
    """
    recorder = sys.modules.get(RECORDER)
    if recorder is None:
        return _NOTHING
    try:
        if recorder.needs_room:
            sys.setrecursionlimit(sys.getrecursionlimit())  # raises where it is near
        return _Span(recorder, name, inputs, params)
    except RecursionError:
        return _NOTHING  # a span needs more of the stack than the program


def _names(names):
    return (names,) if isinstance(names, str) else names


class _Nothing:
    """The span of a program, or of a call, that is not recorded."""

    __slots__ = ()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None

    def outputs(self, *arrays):
        """Does nothing."""


_NOTHING = _Nothing()


class _Span:
    """A span of a recorded program; keeps descriptions of its arrays, never the arrays."""

    def __init__(self, recorder, name, inputs, params):
        self._recorder, self._span = recorder, []
        self._name = name if type(name) is str else _text(recorder, name)
        self._inputs, self._outputs = _described(recorder, inputs), []
        self._params = _scalars(recorder, params) if params else {}

    def __enter__(self):
        recorder, params, span = self._recorder, self._params, []
        self._span = span
        try:
            params["versions"] = recorder.versions_of(["numpy"])
            recorder.begin(self._name, self._inputs, params, span)
        except recorder._no_room:
            pass
        except BaseException as error:
            recorder.give_up(span, error)
        return self

    def __exit__(self, kind, error, traceback):
        try:
            if self._span:
                self._recorder.end(self._span, self._outputs, kind and kind.__name__)
        except BaseException as failure:
            self._recorder.give_up(self._span, failure)

    def outputs(self, *arrays):
        """Records which arrays, or shapes and dtypes, come out of the span."""
        try:
            self._outputs = _described(self._recorder, arrays)
        except RecursionError:
            pass


def _text(recorder, name):
    """The text of a name that is none."""
    try:
        return repr(name) if type(name) is bytes else str(name)  # `python -bb`
    except BaseException as error:
        recorder.pass_on(error)
        return f"<{type(name).__name__}>"


def _scalars(recorder, params):
    """Those of the parameters that are scalars."""
    scalars, scalar = {}, recorder.scalar
    try:
        for key, value in params.items():
            value = scalar(value)
            if value is not None:
                scalars[recorder.parameter(key)] = value
    except BaseException as error:  # of a number's own class
        recorder.pass_on(error)
    return scalars


def _described(recorder, values):
    """Arrays as the recorder describes them; a shape, with the dtype after it, counts as one."""
    try:
        return _describe(recorder, values)
    except BaseException as error:
        recorder.pass_on(error)
        return []  # an argument's own class may raise, and only in recorded programs


def _shape(value):
    """The lengths that a tuple of whole numbers stands for; None if it is no shape."""
    if not issubclass(type(value), tuple):
        return None
    for length in tuple.__iter__(value):
        kind = type(length)
        is_number = hasattr(kind, "__index__") and not hasattr(kind, "__len__")
        if not is_number or kind is bool or not 0 <= int(length) < 2**63:
            return None
    return [int(length) for length in tuple.__iter__(value)]


def _describe(recorder, values):
    found = []
    bare = None  # the shape before, if no dtype is known yet
    for position, value in enumerate(values):
        name = f"args[{position}]"
        shape = _shape(value)
        if shape is not None:
            found.append(recorder.shaped(name, shape))
            bare = shape
            continue
        arrays = recorder.arrays_in(name, value)
        if arrays:
            found += arrays
            bare = None
        elif bare is not None:
            text, size = _dtype(value)
            for length in bare:
                size *= length
            size = size if size < 2**63 else None  # no array has as many bytes
            found[-1] = recorder.shaped(found[-1].name, bare, text, size)
            bare = None if text else bare
    return found


def _dtype(dtype):
    """NumPy's text for a dtype, and the bytes of an element (0 where it is not understood)."""
    numpy = sys.modules.get("numpy")
    try:
        dtype = numpy.dtype(dtype) if numpy else dtype
        return dtype.str, dtype.itemsize
    except (AttributeError, TypeError):
        text = str(dtype)
    known = re.fullmatch(r"([<>|=]?)([a-zA-Z])(\d+)", text)
    if known is None:
        return text, 0
    order, kind, item = known.groups()
    return (order or ("|" if item == "1" else "<")) + kind + item, int(item)
