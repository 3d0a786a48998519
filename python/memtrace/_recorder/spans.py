"""Records calls of chosen functions as spans, from inside the recorded process.

One of the texts that make up the recorder (see `__init__.py` for their constraints).
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # for linters: names that the other texts define
    from .arrays import ITEM_LIMIT, arrays_in, has_empty
    from .context import entered, forsaken, innermost, left, mark_same, objects_in
    from .errors import pass_on, say_unrecorded
    from .jax import is_tracing
    from .libraries import outputs_of
    from .recursion import _no_room, learn_no_room
    from .scalars import scalar
    from .texts import Json, json_of, members_of, quoted, with_arrays

KNOWN_VERSIONS = 1024  # that are kept at a time
VARARGS, VARKEYWORDS = 0x4, 0x8  # co_flags
OWN_PARAMETERS = ("versions", "task", "error")

_open = {}  # id of a running operator's frame -> its span
# A span is a list: empty while it has not begun, or if it is not recorded; [id]; and [id, None]
# once it has ended. `+= map(...)` calls the probe and notes it in one step of the interpreter,
# between which no signal handler of the program can raise.
_versions = {}  # packages with their versions -> their JSON


class _Probe:
    """The preloaded probe's C functions, through `PyDLL`: they are short and keep the GIL."""

    def __init__(self):
        import ctypes

        learn_no_room(ctypes)
        library = ctypes.PyDLL(None)
        self.begin = library.memtrace_span_begin_json
        self.begin.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
        self.begin.restype = ctypes.c_uint64
        self.end = library.memtrace_span_end_json
        self.end.argtypes = [ctypes.c_uint64, ctypes.c_char_p, ctypes.c_size_t]
        self.end.restype = None
        self.export = library.memtrace_span_export
        self.export.argtypes, self.export.restype = [], ctypes.c_uint64
        self.adopt, self.activate = library.memtrace_span_adopt, library.memtrace_span_activate
        for function in (self.adopt, self.activate):
            function.argtypes, function.restype = [ctypes.c_uint64], None


class _NoProbe:
    """Takes its place where it cannot be reached: nothing begins."""

    export = staticmethod(lambda: 0)


def _reached():
    """The probe; says so, one time, where it cannot be reached."""
    try:
        probe = _Probe()
        innermost()  # needs a module that the interpreter may lack, too
        return probe
    except BaseException as error:
        pass_on(error)
        say_unrecorded(error)
        return _NoProbe


_probe = None


def begin(name, inputs, params, span=None):
    """Begins a span and returns it.

    span: the empty list that becomes it; so who passes one can end it whatever is raised here.
    """
    global _probe
    if _probe is None:
        _probe = _reached()
    if span is None:
        span = []
    if _probe is _NoProbe:
        return span
    within = innermost()
    while within and forsaken(within):
        end(forsaken(within), [])
        within = innermost()
    before = f'{{"name": {quoted(name[:1000])}, "within": {within}, "inputs": '
    after = f', "params": {members_of(params)}}}'
    text = with_arrays(before, inputs, after, ', "params": {}}')
    objects = objects_in(inputs)
    try:
        span += map(_probe.begin, (text,), (len(text),))
        if span[0]:
            entered(span, within, objects)
    except BaseException as error:
        end(span, [], type(error).__name__)
        raise
    return span


def end(span, outputs, error=None):
    """Ends a span that has begun; `error` is the name of the exception that ended it."""
    if len(span) == 1:
        mark_same(outputs, left(span[0]))
        after = "}" if error is None else f', "error": {json_of(error)}}}'
        text = with_arrays('{"outputs": ', outputs, after, after)
        span += map(_probe.end, span, (text,), (len(text),))


def give_up(span, error):
    """Ends a span after an exception inside the recorder, which is raised again if it has to be."""
    end(span, [], type(error).__name__)
    pass_on(error)


def _arguments(frame):
    """(name, value) of every argument of a function's frame that has just been entered."""
    code = frame.f_code
    count = code.co_argcount + code.co_kwonlyargcount
    values = frame.f_locals
    try:
        pairs = []
        for name in code.co_varnames[:count]:
            pairs.append((name, values.get(name)))
        if code.co_flags & VARARGS:
            name = code.co_varnames[count]
            rest = values.get(name, ())[:ITEM_LIMIT]
            pairs += [(f"{name}[{i}]", value) for i, value in enumerate(rest)]
            count += 1
        if code.co_flags & VARKEYWORDS:
            pairs += list(values.get(code.co_varnames[count], {}).items())[:ITEM_LIMIT]
        return pairs
    finally:
        if type(values) is dict:
            values.clear()  # up to 3.12 the frame keeps this copy, and with it every argument


def _begin_call(operator, pairs, code=None, namespace=None, span=None):
    inputs, params = [], {"versions": operator.versions(code, namespace)}
    for name, value in pairs:
        value_as_scalar = scalar(value)
        if value_as_scalar is None:
            inputs += arrays_in(name, value)
        elif operator.params is None or name in operator.params:
            params[parameter(str(name)[:200])] = value_as_scalar
    if is_tracing() or has_empty(inputs):
        return span  # a ghost: Dask's compute_meta calls functions on empty arrays
    if operator.shape_of is not None:
        inputs = [a for a in inputs if a.name.partition("[")[0] in operator.shape_of]
    return begin(operator.name, inputs, params, span)


def parameter(name):
    """The name of an argument among the parameters, of which some are the recorder's own."""
    return f"{name}_" if name in OWN_PARAMETERS else name


def _enter(operator, frame):
    if "dask.array" in sys.modules:
        caller = frame.f_back
        if caller is not None and caller.f_code.co_name == "apply_infer_dtype":
            return  # a ghost too: Dask calls functions on one element to learn their dtype
    span = _open[id(frame)] = []  # a running frame's id is its own until it ends
    try:
        _begin_call(operator, _arguments(frame), frame.f_code, frame.f_globals, span)
    except _no_room:
        pass
    except BaseException as error:
        give_up(span, error)


def _leave(span, result, error=None):
    try:
        end(span, outputs_of(result) if error is None else [], error)
    except _no_room:
        end(span, [], error)
    except BaseException as failure:
        give_up(span, failure)


def versions_of(modules):
    """JSON: versions of Python and of the packages, as far as they are imported, of modules."""
    known = ()
    for module in modules:
        package = module.partition(".")[0] if isinstance(module, str) else ""
        found = getattr(sys.modules.get(package), "__dict__", {}).get("__version__")
        if isinstance(found, str):
            known += ((package, found),)
    text = _versions.get(known)
    if text is None:
        python = ".".join(map(str, sys.version_info[:3]))
        versions = {package: str(version)[:100] for package, version in known}
        text = Json(members_of({"python": python, **versions}))
        if len(_versions) >= KNOWN_VERSIONS:
            _versions.clear()
        _versions[known] = text
    return text
