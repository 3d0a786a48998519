"""A GPU that is not there: tensors on it have shapes, types and storages, and no elements.

PyTorch's FakeTensorMode does that. A mode of our own stands above it, because three things differ.
Small tensors of the CPU stay real (an optimizer's count of steps needs a value). A listener is
notified of each new storage on the GPU, and of its end. The engine of the backward pass, which
queries a GPU for its streams, sees none.
"""

import math
import weakref
from contextlib import ExitStack, contextmanager
from unittest import mock

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
)
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

#: Larger tensors of the CPU have no elements either: models are often made there and moved.
LARGEST_REAL = 1 << 20

_GPU, _META = torch.device("cuda", 0), torch.device("meta")
_aten = torch.ops.aten


#: References to a gradient while the engine adds it up: its buffer, the dispatcher (two), Python.
_ENGINE = 4
#: References to a storage: the tensor's, and the one that FakeTensorMode keeps behind it.
_OWN = 2
#: What is done in place, in zeros made for it, unless tensors are of a subclass.
_IN_PLACE = {
    _aten.index_put.default: _aten.index_put_.default,
    _aten.scatter.src: _aten.scatter_.src,
    _aten.scatter.value: _aten.scatter_.value,
    _aten.scatter_add.default: _aten.scatter_add_.default,
}

#: Operators that make their last result first.
_LAST_FIRST = {_aten.native_dropout.default}


def _as_numpy(elements, tensor, *, force=False):
    if not force and tensor.requires_grad:
        raise RuntimeError("this tensor requires grad: call .detach().numpy()")
    if not force and _is_on_gpu(tensor):
        raise TypeError("a tensor on cuda:0 has no NumPy array: copy it to the CPU with .cpu()")
    return elements(tensor)


def _as_array(elements, tensor, dtype=None):
    array = _as_numpy(elements, tensor)
    return array if dtype is None else array.astype(dtype)


#: How a program takes all elements at once.
_ELEMENTS = {
    torch.Tensor.numpy: _as_numpy,
    torch.Tensor.__array__: _as_array,
}


class NoValue(RuntimeError):
    """The program needs elements that a dry run does not have."""


@contextmanager
def pretended(listener):
    """Replaces tensors of a GPU by ones without elements, and notifies a listener of storages.

    listener: has `begin(function, args, kwargs)`, `allocated(key, bytes, function)`,
    `end(function)` and `released(key)`. Yields the mode, whose `reads` counts elements that the
    program read: it got zeros.
    """
    mode = _Storages(listener)
    calls = _Calls(mode)
    engine = torch.autograd._engine_run_backward

    def run_backward(*args, **kwargs):
        # What is computed anew in the backward pass (checkpoints) are functions that are called.
        with mode.answering(_META), calls:
            return engine(*args, **kwargs)

    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(torch.autograd, "_engine_run_backward", run_backward))
        stack.enter_context(mock.patch.object(torch.utils, "swap_tensors", _swapped))
        stack.enter_context(mode)
        stack.enter_context(calls)
        yield mode


def _swapped(parameter, moved):
    """What `module.to(...)` does with a parameter without elements: PyTorch's own function
    would refuse, since FakeTensorMode has weak references to it."""
    parameter.data = moved.data
    parameter.fake_device = moved.fake_device


class _Calls(TorchFunctionMode):
    """Functions that the program calls, which choose their way by the device of their arguments.

    What the autograd nodes note is the device of their results, and of the leaves that they
    lead to, which are therefore made before.
    """

    def __init__(self, mode):
        super().__init__()
        self._mode = mode

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if function is torch.device:
            return _numbered(torch.device(*args, **kwargs))
        if function is torch.Tensor.cuda:
            function, args = torch.Tensor.to, (args[0], _GPU)
            kwargs.pop("device", None)
        if function in _ELEMENTS and isinstance(args[0], FakeTensor):
            return _ELEMENTS[function](self._mode.elements, *args, **kwargs)
        kwargs.pop("pin_memory", None)  # which is memory of the host
        args, kwargs = tuple(map(_numbered, args)), {k: _numbered(v) for k, v in kwargs.items()}
        leaves = [
            torch.autograd.graph.get_gradient_edge(leaf)
            for leaf in (tree_leaves((args, kwargs)) if torch.is_grad_enabled() else ())
            if isinstance(leaf, FakeTensor) and leaf.requires_grad and leaf.is_leaf
        ]
        self._mode.nothing_fresh()
        with self._mode.answering(_GPU):
            result = function(*args, **kwargs)
        del leaves
        return result


class _Storages(TorchDispatchMode):
    def __init__(self, listener):
        super().__init__()
        self.reads = 0
        self._listener = listener
        self._fake = FakeTensorMode(allow_non_fake_inputs=True)
        self._storages = {}  # C++ address of each live storage -> weak reference to it
        self._answer = _META
        self._fresh = ()  # identities of the last operator's results

    @contextmanager
    def answering(self, device):
        """The device of the GPU's tensors, as C++ sees it."""
        before, self._answer = self._answer, device
        try:
            yield
        finally:
            self._answer = before

    def nothing_fresh(self):
        """The nodes of the last operator's results have been made."""
        self._fresh = ()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if function is torch.ops.prim.device.default:
            return self._device_of(args[0])
        self.nothing_fresh()
        if kwargs.get("device") == _META:
            kwargs = {**kwargs, "device": _GPU}
        leaves = tree_leaves((args, kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        pretended = any(isinstance(tensor, FakeTensor) for tensor in tensors)
        on_gpu = any(map(_is_on_gpu, leaves))
        if not on_gpu and not pretended and (tensors or not _is_large(args, kwargs)):
            return function(*args, **kwargs)
        if function is _aten._local_scalar_dense.default:
            self.reads += 1
            return torch.zeros((), dtype=tensors[0].dtype).item()
        function, args, kwargs = self._as_on_gpu(function, args, kwargs)
        del leaves, tensors
        if on_gpu:
            self._listener.begin(function, args, kwargs)
        result = self._run(function, args, kwargs)
        if on_gpu:
            self._note(function, result)
            self._listener.end(function)
            if function is _aten._to_copy.default:
                result = self._brought(result)
        self._fresh = [id(leaf) for leaf in tree_leaves(result)]
        return result

    def _device_of(self, tensor):
        if id(tensor) in self._fresh:
            return _META
        return self._answer if _is_on_gpu(tensor) else tensor.fake_device

    def _as_on_gpu(self, function, args, kwargs):
        """The operator that PyTorch would call, had it a GPU and tensors of its own class."""
        if function is _aten._to_copy.default and _is_brought_there(args[0], kwargs):
            like = torch.empty_like(args[0], device=_META, dtype=kwargs.get("dtype"))
            size = like.shape, like.stride()
            return _aten.empty_strided.default, size, {"dtype": like.dtype, "device": _GPU}
        if function is _aten._to_copy.default and _is_there(args[0], kwargs):
            return _aten.alias.default, args, {}
        if function is _aten.native_batch_norm.default:
            # What it notes in the running statistics has no size.
            return function, (*args[:3], None, None, True, *args[6:]), kwargs
        if self._answer == _META and _is_on_gpu(args[0]):  # the engine's or a formula's call
            if function in _IN_PLACE and _shares(args[0]) == 0:
                return _IN_PLACE[function], args, kwargs
            if function is _aten.add.Tensor and _is_sum_of_gradients(*args[:2]):
                return _aten.add_.Tensor, sorted(args[:2], key=_references), {}
        return function, args, kwargs

    def _run(self, function, args, kwargs):
        if function is _aten.index.Tensor and any(map(_is_mask, args[1])):
            raise _no_value(function)
        try:
            with self._fake:
                return function(*args, **kwargs)
        except (DynamicOutputShapeException, DataDependentOutputException) as error:
            raise _no_value(function) from error

    def _note(self, function, result):
        """Notifies the listener of storages that are new."""
        leaves = tree_leaves(result)
        for leaf in reversed(leaves) if function in _LAST_FIRST else leaves:
            if not isinstance(leaf, FakeTensor) or not _is_on_gpu(leaf):
                continue
            storage = leaf.untyped_storage()
            key = storage._cdata
            if key in self._storages or storage.nbytes() == 0:
                continue
            self._storages[key] = weakref.ref(storage, lambda _, key=key: self._ended(key))
            self._listener.allocated(key, storage.nbytes(), function)

    def _ended(self, key):
        del self._storages[key]
        self._listener.released(key)

    def _brought(self, tensor):
        """What was copied to the CPU is real there, so that a program can read it."""
        if _is_on_gpu(tensor) or tensor.nbytes > LARGEST_REAL:
            return tensor
        self.reads += tensor.numel()
        return torch.zeros(tensor.shape, dtype=tensor.dtype)

    def elements(self, tensor):
        """A tensor as a NumPy array: zeros, which take no memory until written."""
        import numpy  # a program that wants an array has it

        self.reads += tensor.numel()
        kind = torch.empty((), dtype=tensor.dtype).numpy().dtype
        return numpy.zeros(tuple(tensor.shape), kind)


def _no_value(function):
    return NoValue(
        f"{function} gives a result that depends on the values of its arguments, and a dry run has "
        "none: give the step another way to go on, or leave that part out"
    )


def _is_mask(index):
    return index is not None and index.dtype in (torch.bool, torch.uint8)


def _numbered(argument):
    """A GPU without a number is the first one: PyTorch would query which is the current one."""
    if isinstance(argument, torch.device):
        return _GPU if argument.type == "cuda" and argument.index is None else argument
    return _GPU if isinstance(argument, str) and argument == "cuda" else argument


def _is_on_gpu(leaf):
    if isinstance(leaf, FakeTensor):
        return leaf.fake_device.type == "cuda"
    return isinstance(leaf, torch.device) and leaf.type == "cuda"


def _is_sum_of_gradients(first, second):
    """True if only the engine refers to one of two gradients: the other is added to that one."""
    return (
        _is_on_gpu(second)
        and first.shape == second.shape
        and min(_references(first), _references(second)) == 0
    )


def _references(gradient):
    return max(gradient._use_count() - _ENGINE, 0) + _shares(gradient)


def _shares(tensor):
    """How many other tensors share the storage."""
    return max(torch._C._storage_Use_Count(tensor.untyped_storage()._cdata) - _OWN, 0)


def _is_there(tensor, kwargs):
    """True if `tensor.to(...)` would have returned the tensor itself, were it on a GPU."""
    device = kwargs.get("device")
    return (
        _is_on_gpu(tensor)
        and device is not None
        and device.type == "cuda"
        and kwargs.get("dtype") in (None, tensor.dtype)
        and kwargs.get("memory_format") is None
    )


def _is_brought_there(tensor, kwargs):
    """True if a tensor that has elements is copied to the GPU."""
    device = kwargs.get("device")
    return not isinstance(tensor, FakeTensor) and device is not None and device.type == "cuda"


def _is_large(args, kwargs):
    """True of the arguments of a function that makes a tensor from nothing but a large shape."""
    for arg in args:
        if isinstance(arg, (list, tuple)) and all(isinstance(each, int) for each in arg):
            item = (kwargs.get("dtype") or torch.get_default_dtype()).itemsize
            return math.prod(arg) * item > LARGEST_REAL
    return False
