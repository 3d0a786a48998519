"""PyTorch on the CPU: modules, backward passes, optimizer steps and aten operators are spans.

One of the texts that make up the recorder (see `__init__.py` for their constraints). PyTorch is
never imported here: a few of its functions are replaced once it has been executed. All of them
take their arguments in tuples that PyTorch itself keeps during the call, so the replacements make
no tensor live longer. Operators are seen by a `TorchDispatchMode`, which is only entered around
large work.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:  # for linters: names that the other texts define
    from .arrays import ITEM_LIMIT, arrays_in, has_empty
    from .dask import _ident, _replace
    from .errors import _hide_frame, pass_on
    from .imports import when_executed
    from .libraries import LARGE
    from .scalars import scalar
    from .spans import _leave, begin, versions_of

_dispatching = set()  # threads whose operators are watched
_compiles = []  # not empty once the program has called `torch.compile`


def watch_torch():
    """Waits for PyTorch."""
    when_executed("torch", _torch_arrived)


def _torch_arrived(torch):
    mode = _new_mode(torch)
    parameters = _sizes_of_parameters()

    def of_module(module, args, kwargs):
        size = parameters(module) + _bytes_among([*args, *kwargs.values()])
        kind = type(module)
        place = kind.__module__.partition(".modules.")[0]
        return f"{place}:{kind.__qualname__}", size, (args, kwargs)

    def of_backward(tensors, *args, **kwargs):
        return "torch.autograd:backward", LARGE, (tensors,)

    def of_step(optimizer, *args, **kwargs):
        groups = [group.get("params", ()) for group in optimizer.param_groups]
        weights = [weight for group in groups for weight in group]
        kind = type(optimizer)
        return f"torch.optim:{kind.__qualname__}.step", _bytes_among(weights), ()

    _wrap(torch.nn.Module, "__call__", lambda self, *a, **k: of_module(self, a, k), mode, torch)
    _wrap(torch.autograd, "backward", of_backward, mode, torch)
    _wrap_steps(torch.optim.Optimizer, of_step, mode, torch)
    compiled = torch.compile

    def compile(*args, **kwargs):
        _compiles.append(True)
        return compiled(*args, **kwargs)

    _replace(torch, "compile", compile)


# Calls that others are inside of ---------------------------------------------


def _wrap(owner, name, describes, mode, torch):
    """Records calls of a function; `describes` gives (operator, bytes, arguments)."""
    call = getattr(owner, name)

    def replacement(*args, **kwargs):
        running = _call_begins(describes, args, kwargs, mode, torch)
        try:
            result = call(*args, **kwargs)
        except BaseException as error:
            _call_ends(running, None, type(error).__name__)
            _hide_frame(error)
            raise
        _call_ends(running, result)
        return result

    _replace(owner, name, replacement)


def _wrap_steps(optimizer, describes, mode, torch):
    """Each class of optimizers has a `step` of its own, which PyTorch wraps when one is made."""
    before = optimizer.profile_hook_step

    def profile_hook_step(function):
        class Step:
            step = before(function)

        _wrap(Step, "step", describes, mode, torch)
        return Step.step

    optimizer.profile_hook_step = staticmethod(profile_hook_step)


def _call_begins(describes, args, kwargs, mode, torch):
    span, entered = 0, None
    try:
        if torch.jit.is_tracing() or torch.jit.is_scripting():
            return span, entered
        name, size, inputs = describes(*args, **kwargs)
        if size >= LARGE or _ident() in _dispatching:
            arrays = [array for value in inputs for array in _tensors_in(value)]
            if has_empty(arrays):
                return span, entered
            span = begin(name, arrays, {"versions": versions_of(["torch"])})
            entered = mode()
    except Exception as error:
        pass_on(error)
    return span, entered


def _call_ends(running, result, error=None):
    span, entered = running
    if entered is not None:
        entered()
    if span:
        _leave(span, result, error)


def _tensors_in(value):
    if isinstance(value, tuple):
        named = [(f"args[{i}]", member) for i, member in enumerate(value[:ITEM_LIMIT])]
        return [array for name, member in named for array in arrays_in(name, member)]
    if isinstance(value, dict):
        return [array for k, v in value.items() for array in arrays_in(k, v)]
    return arrays_in("args[0]", value)


def _bytes_among(values):
    return sum(value.nbytes for value in values if hasattr(type(value), "data_ptr"))


def _sizes_of_parameters():
    """A function that returns the bytes of a module's parameters; it counts them one time."""
    known = {}  # id of a module -> (a weak reference to it, bytes)

    def size_of(module):
        import weakref

        reference, size = known.get(id(module), (None, 0))
        if reference is None or reference() is not module:
            size = _bytes_among(module.parameters())
            known[id(module)] = weakref.ref(module), size
        return size

    return size_of


# Operators -------------------------------------------------------------------


def _new_mode(torch):
    """A function that watches this thread's operators; it returns what ends that, or None."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Aten(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            span = _begin_aten(function, args, kwargs or {})
            try:
                result = function(*args, **(kwargs or {}))
            except BaseException as error:
                if span:
                    _leave(span, None, type(error).__name__)
                _hide_frame(error)
                raise
            if span:
                _leave(span, result)
            return result

    def enter():
        thread = _ident()
        if thread in _dispatching or _compiles:
            return None  # a compiled graph must not meet a mode it was not compiled for
        mode = Aten()
        mode.__enter__()
        _dispatching.add(thread)

        def leave():
            _dispatching.discard(thread)
            mode.__exit__(None, None, None)

        return leave

    return enter


def _begin_aten(function, args, kwargs):
    try:
        values = [*args, *kwargs.values()]
        flat = [m for v in values for m in (v if isinstance(v, (list, tuple)) else (v,))]
        if _bytes_among(flat) < LARGE:
            return 0
        names = [argument.name for argument in function._schema.arguments]
        inputs, params = [], {"versions": versions_of(["torch"])}
        for name, value in [*zip(names, args), *kwargs.items()]:
            arrays = arrays_in(name, value)
            inputs += arrays
            plain = None if arrays or hasattr(type(value), "data_ptr") else scalar(value)
            if plain is not None:
                params[name] = plain
        if has_empty(inputs):
            return 0
        return begin(function._schema.name, inputs, params)
    except Exception as error:
        pass_on(error)
        return 0
