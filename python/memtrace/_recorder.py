"""Records calls of chosen functions as spans, from inside the recorded process.

The tracer joins this file and the others called `_recorder_*.py` to one text; the
probe runs it before `site`, or when the program imports what has automatic spans, in a
module of its own, `_memtrace_recorder`, and calls `install`. Hence their constraints:
they need nothing but the standard library, import nothing but `sys` until there is
work, print nothing, raise nothing into the program, never import NumPy, and keep no
reference to an argument or a result (it would raise the peak of an operator that
rebinds its input).
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # tells linters which names the other texts define
    from ._recorder_arrays import ITEM_LIMIT, arrays_in, scalar
    from ._recorder_context import entered, innermost, left, mark_same, objects_in
    from ._recorder_cupy import watch_cupy
    from ._recorder_dask import watch_dask
    from ._recorder_gc import watch_collector
    from ._recorder_jax import is_tracing, watch_jax
    from ._recorder_libraries import outputs_of, watch_libraries
    from ._recorder_natives import await_modules
    from ._recorder_torch import watch_torch

TEXT_LIMIT = 60 * 1024  # bytes of one span's JSON that the probe accepts
CALL, RETURN = 0, 3  # CPython's PyTrace_CALL and PyTrace_RETURN
OPTIMIZED, VARARGS, VARKEYWORDS = 0x1, 0x4, 0x8  # co_flags
GENERATORS = 0x20 | 0x80 | 0x200  # generator, coroutine, async generator

_by_name = {}  # name of a code object -> operators it may be; also the names watched
_by_code = {}  # code of a decorated function -> its operator
_open = {}  # id of a running operator's frame -> its span
_CodeType = type((lambda: None).__code__)


# Spans ----------------------------------------------------------------------


class _Probe:
    """The preloaded probe's C functions, through `PyDLL`: they are short and keep the GIL."""

    def __init__(self):
        import ctypes
        import json

        library = ctypes.PyDLL(None)
        self.begin = library.memtrace_span_begin_json
        self.begin.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
        self.begin.restype = ctypes.c_uint64
        self.end = library.memtrace_span_end_json
        self.end.argtypes = [ctypes.c_uint64, ctypes.c_char_p, ctypes.c_size_t]
        self.end.restype = None
        self.hand = library.memtrace_span_hand
        self.hand.argtypes, self.hand.restype = [], ctypes.c_uint64
        self.take, self.switch = library.memtrace_span_take, library.memtrace_span_switch
        for function in (self.take, self.switch):
            function.argtypes, function.restype = [ctypes.c_uint64], None
        self.dumps = json.dumps

    def encode(self, record, arrays):
        """`record` as JSON; the list called `arrays`, then the parameters go if it is too long."""
        text = self.text_of(record)
        while len(text) > TEXT_LIMIT and record[arrays]:
            del record[arrays][len(record[arrays]) // 2 :]
            text = self.text_of(record)
        if len(text) > TEXT_LIMIT:
            text = self.text_of(dict(record, **{arrays: [], "params": {}}))
        return text

    def text_of(self, record):
        # "replace": file names may hold lone surrogates, JSON readers refuse them.
        return self.dumps(record, ensure_ascii=False).encode("utf-8", "replace")


_probe = None


def begin(name, inputs, params):
    """Begins a span and returns its id, 0 if it is not recorded."""
    global _probe
    if _probe is None:
        _probe = _Probe()
    objects, within = objects_in(inputs), innermost()
    record = {"name": name[:1000], "inputs": inputs, "params": params, "within": within}
    text = _probe.encode(record, "inputs")
    span = _probe.begin(text, len(text))
    if span:
        entered(span, within, objects)
    return span


def end(span, outputs, error=None):
    """Ends a span; `error` is the name of the exception that ended it."""
    mark_same(outputs, left(span))
    record = {"outputs": outputs}
    if error is not None:
        record["error"] = error
    text = _probe.encode(record, "outputs")
    _probe.end(span, text, len(text))


def _arguments(frame):
    """(name, value) of every argument of a function's frame that has just been entered."""
    code = frame.f_code
    count = code.co_argcount + code.co_kwonlyargcount
    values = frame.f_locals
    try:
        pairs = [(name, values.get(name)) for name in code.co_varnames[:count]]
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


def _begin_call(operator, pairs, code=None, namespace=None):
    inputs, params = [], {"versions": operator.versions(code, namespace)}
    for name, value in pairs:
        value_as_scalar = scalar(value)
        if value_as_scalar is None:
            inputs += arrays_in(name, value)
        elif operator.params is None or name in operator.params:
            params[str(name)[:200]] = value_as_scalar
    if is_tracing() or any(0 in array["shape"] for array in inputs):
        return 0  # a ghost: Dask's compute_meta calls functions on empty arrays
    if operator.shape_of is not None:
        inputs = [a for a in inputs if a["name"].partition("[")[0] in operator.shape_of]
    return begin(operator.name, inputs, params)


def _enter(operator, frame):
    caller = frame.f_back
    if caller is not None and caller.f_code.co_name == "apply_infer_dtype":
        return  # a ghost too: Dask calls functions on one element to learn their dtype
    try:
        span = _begin_call(operator, _arguments(frame), frame.f_code, frame.f_globals)
        if span:
            _open[id(frame)] = span  # a running frame's id is its own until it ends
    except Exception as error:
        pass_on(error)


def _leave(span, result, error=None):
    try:
        end(span, outputs_of(result) if error is None else [], error)
    except Exception as failure:
        pass_on(failure)


def pass_on(error):
    """Raises again what a signal handler of the program raised while the recorder was at work."""
    if id(error) == _raised_later:
        raise error
    signals = sys.modules.get("_signal")
    if signals is None:
        return
    handlers = [signals.getsignal(number) for number in range(1, signals.NSIG)]
    codes = {_code_of(handler) for handler in handlers if callable(handler)}
    at = error.__traceback__
    while at is not None:
        if at.tb_frame.f_code in codes:
            raise error
        at = at.tb_next


def _hide_frame(error):
    """Leaves out of a traceback the function of the recorder that caught it (from Python 3.11)."""
    caught = error.__traceback__
    if caught is not None and caught.tb_frame.f_code.co_filename == _leave.__code__.co_filename:
        error.__traceback__ = caught.tb_next


def versions_of(modules):
    """Versions of Python and of the packages, as far as they are imported, of these modules."""
    versions = {"python": ".".join(map(str, sys.version_info[:3]))}
    for module in modules:
        package = module.partition(".")[0] if isinstance(module, str) else ""
        found = getattr(sys.modules.get(package), "__dict__", {}).get("__version__")
        if isinstance(found, str):
            versions[package] = str(found)[:100]
    return versions


# Which code is an operator --------------------------------------------------


class _Operator:
    """What is recorded, under which name, and which of its arguments count (None: all)."""

    def __init__(self, module, path, name=None, params=None, shape_of=None):
        self.module, self.path = module, path
        self.name = name or f"{module}:{path}"
        self.params, self.shape_of = params, shape_of
        self._versions = None

    def at(self, path):
        """The object at an attribute path of the module now, found without running any code."""
        value = sys.modules.get(self.module)
        for part in path.split("."):
            owners = value.__mro__ if isinstance(value, type) else (value,)
            spaces = [getattr(owner, "__dict__", {}) for owner in owners]
            value = next((space[part] for space in spaces if part in space), None)
        return value

    def owns(self, code, module):
        """Whether `code`, run with the globals of `module`, is this operator's."""
        own = _code_of(self.at(self.path))
        if own == code:
            return True  # equal, not the same: cloudpickle copies code
        if own is not None and own.co_name == code.co_name:
            return False  # another function of that name, a method perhaps
        if module != self.module and (self.module, module) != ("__main__", "__mp_main__"):
            return False
        qualname = getattr(code, "co_qualname", None)  # from 3.11
        if qualname is None:
            return "." not in self.path
        return qualname == self.path or qualname.endswith("<locals>." + self.path)

    def versions(self, code, namespace):
        """Versions of Python, NumPy, the operator's package and the packages its code names."""
        if self._versions is None:
            names = [self.module, "numpy"]
            for name in code.co_names if code else ():
                value = namespace.get(name)
                kind = type(value)
                module = value.__name__ if kind is type(sys) else None
                names.append(module or getattr(value, "__module__", None))
            self._versions = versions_of(names)
        return self._versions


def _code_of(value):
    """The code of the innermost Python function that `value` is or wraps, None if there is none."""
    code = None
    for _ in range(32):
        found = getattr(value, "__code__", None)
        code = found if isinstance(found, _CodeType) else code
        kind = type(value)
        if kind.__module__ == "functools" and kind.__name__ == "partial":
            value = value.func
            continue
        links = ("__func__", "_implementation", "__wrapped__")
        inner = [getattr(value, link, None) for link in links]
        value = next((link for link in inner if link is not None), None)
        if value is None:
            break
    return code


def _operator_of(frame):
    """The operator that a function's frame runs, None if it runs none."""
    code, module = frame.f_code, frame.f_globals.get("__name__")
    if code.co_flags & GENERATORS or not code.co_flags & OPTIMIZED:
        return None  # no call that begins and ends; a class body
    if code in _by_code:
        return _by_code[code]
    try:
        candidates = _by_name.get(code.co_name, ())
        return next((operator for operator in candidates if operator.owns(code, module)), None)
    except Exception:
        return None


# Being told of calls --------------------------------------------------------

_refresh = None  # tells the running engine that `_by_name` has grown


def _watch(name, operator=None):
    global _refresh
    known = name in _by_name
    operators = _by_name.setdefault(name, [])
    if operator is not None and operator not in operators:
        operators.append(operator)
    if _refresh is None:
        _refresh = _monitor() if sys.version_info >= (3, 12) else _profile()
    elif not known:
        _refresh()


def _monitor():
    """Python 3.12 and later: code that cannot match is seen once, then costs nothing."""
    tool, events, monitoring = _monitoring_tool(), sys.monitoring.events, sys.monitoring
    if tool is None:
        return lambda: None
    monitoring.set_events(tool, events.PY_START | events.PY_UNWIND)
    return monitoring.restart_events


_tool = None  # of `sys.monitoring`; -1 if there is none


def _monitoring_tool():
    """The recorder's tool, told of returns where somebody asks for them; None if none is free."""
    global _tool
    if _tool is None:
        _tool = _new_tool()
    return None if _tool == -1 else _tool


def _new_tool():
    import atexit

    monitoring = sys.monitoring
    start, returned, unwound = (
        getattr(monitoring.events, name) for name in ("PY_START", "PY_RETURN", "PY_UNWIND")
    )
    tool = next((tool for tool in (4, 3) if monitoring.get_tool(tool) is None), None)
    if tool is None:
        return -1  # all ids are taken by other tools
    monitoring.use_tool_id(tool, "memtrace")

    def on_start(code, _offset, names=_by_name, frame_at=sys._getframe, never=monitoring.DISABLE):
        if code.co_name not in names:
            return never
        operator = _operator_of(frame_at(1))
        if operator is not None:
            monitoring.set_local_events(tool, code, returned)
            _enter(operator, frame_at(1))
        return None

    def on_return(code, _offset, result):
        span = _open.pop(id(sys._getframe(1)), None)
        if span is not None:
            _leave(span, result)
            _returned(code)

    def on_unwind(code, _offset, error):
        span = _open.pop(id(sys._getframe(1)), None) if _open else None
        if span is not None:
            _leave(span, None, type(error).__name__)
            _returned(code)

    monitoring.register_callback(tool, start, on_start)
    monitoring.register_callback(tool, returned, on_return)
    monitoring.register_callback(tool, unwound, on_unwind)
    monitoring.set_events(tool, unwound)
    atexit.register(monitoring.set_events, tool, 0)
    return tool


def _profile():
    """Up to Python 3.11: a C-level profile function, in this thread and those to come.

    `sys.setprofile` will not do: it copies every frame's locals into a dict that
    pins them, in every function of the program, and clearing it unbinds them. The
    probe's filter keeps the cost of functions with other names to a few ns.
    """
    import threading

    profiler = _profiler()
    profiler.everywhere = True
    profiler.adopt()
    threading.setprofile(profiler.adopt)
    return profiler.watch


class _Profiler:
    """The profile function, and the threads that have it for a while only."""

    def __init__(self, watch, put):
        self.watch, self._put = watch, put
        self.everywhere = False
        self._function = watch()
        self._waiting = {}  # thread -> how many of its frames are to tell of their return

    def adopt(self, *_event):
        self._put(self._function)

    def wait(self, name, thread):
        """Has this thread tell of the return of a function of this name that is running now."""
        if name not in _by_name:
            _by_name[name] = []
            self._function = self.watch()
        self._waiting[thread] = self._waiting.get(thread, 0) + 1
        self.adopt()

    def returned(self, thread):
        """A frame has told; after the last one the thread goes on without profile function."""
        left = self._waiting.pop(thread, 0) - 1
        if left > 0:
            self._waiting[thread] = left
        elif left == 0 and not self.everywhere:
            self._put(None)


_the_profiler = None


def _profiler():
    global _the_profiler
    if _the_profiler is None:
        _the_profiler = _new_profiler()
    return _the_profiler


def _new_profiler():
    import _thread
    import atexit
    import ctypes

    prototype = ctypes.PYFUNCTYPE(
        ctypes.c_int, ctypes.c_void_p, ctypes.py_object, ctypes.c_int, ctypes.c_void_p
    )

    def on_event(_self, frame, what, result, names=_by_name):
        try:
            if what == CALL:
                if frame.f_code.co_name in names:
                    operator = _operator_of(frame)
                    if operator is not None:
                        _enter(operator, frame)
            elif what == RETURN and id(frame) in _open:
                span = _open.pop(id(frame))
                if result is None:  # no object: an exception, whose name nobody tells
                    _leave(span, None, "exception")
                else:
                    _leave(span, ctypes.cast(result, ctypes.py_object).value)
                _the_profiler.returned(_thread.get_ident())
        except BaseException as error:
            try:
                _raise_later(ctypes, error)
            except BaseException:
                pass  # of a second signal; what leaves a C callback leads to a SystemError
        return 0

    api = ctypes.pythonapi
    api.PyEval_SetProfile.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    api.PyEval_SetProfile.restype = None

    def for_ever(thing):  # threads may outlive this module
        api.Py_IncRef(ctypes.py_object(thing))
        return thing

    own = ctypes.cast(for_ever(prototype(on_event)), ctypes.c_void_p).value
    filtered = getattr(ctypes.PyDLL(None), "memtrace_python_filter", lambda *_: None)
    filtered.restype = ctypes.c_void_p
    filtered.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p]

    def watch():
        """The profile function that sees the names watched now; it replaces no other."""
        names = for_ever("".join(name + "\0" for name in _by_name).encode("utf-8", "replace"))
        return filtered(sys.version_info[1], names, len(names), own) or own

    atexit.register(api.PyEval_SetProfile, None, None)
    return _Profiler(watch, lambda function: api.PyEval_SetProfile(function, None))


_returning = {}  # code -> how many of its calls are to tell of their return (from 3.12)


def await_return(frame, span):
    """Ends a span when this thread's running `frame`, whose code is known, returns or raises."""
    _open[id(frame)] = span
    if sys.version_info >= (3, 12):
        tool, returned = _monitoring_tool(), sys.monitoring.events.PY_RETURN
        if tool is not None:
            _returning[frame.f_code] = _returning.get(frame.f_code, 0) + 1
            sys.monitoring.set_local_events(tool, frame.f_code, returned)
    else:
        import _thread

        _profiler().wait(frame.f_code.co_name, _thread.get_ident())


def _returned(code):
    """After the last awaited return of a function the interpreter tells of none any more."""
    left = _returning.pop(code, 0) - 1
    if left > 0:
        _returning[code] = left
    elif left == 0:
        sys.monitoring.set_local_events(_tool, code, 0)


_raised_later = 0  # id of the exception: the recorder may be at work again when it arrives


def _raise_later(ctypes, error):
    """Raises in the program what its own signal handler raised while a C callback ran."""
    import _thread

    global _raised_later
    _raised_later = id(error)
    kind = type(error)
    again = type(kind.__name__, (kind,), {"__new__": lambda *_: error})  # the very same object
    thread = ctypes.c_ulong(_thread.get_ident())
    ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(again))


# The way in -----------------------------------------------------------------


def install(config):
    """Starts recording `config["operators"]`, a list of "module:function".

    `config["gc"]`, if it is not empty, is the mode of `watch_collector`;
    `config["automatic"]` lists modules with automatic spans, which Dask, PyTorch and JAX
    have beside them; nothing has if it is missing.
    """
    try:
        if config.get("gc"):
            watch_collector(config["gc"])
        operators = []
        for spec in config.get("operators", ()):
            module, _, path = spec.partition(":")
            if module and path:
                operators.append(_Operator(module, path))
        for operator in operators:
            _watch(operator.path.rpartition(".")[2], operator)
        await_modules(operators)
        watch_cupy()
        watch_jax("automatic" in config)
        if "automatic" in config:
            watch_dask()
            watch_torch()
            watch_libraries(config["automatic"], operators)
    except Exception:
        pass


def register(function, name=None, params=None, shape_of=None):
    """Records the calls of a Python function: what `@memtrace.operator` does when recorded."""
    code = _code_of(function)
    if code is not None:
        operator = _Operator(function.__module__, function.__qualname__, name, params, shape_of)
        _by_code[code] = operator
        _watch(code.co_name)
