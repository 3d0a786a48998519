"""Prints what a program can see of compiled functions: the same with memtrace and without."""

import copy
import functools
import inspect
import json
import re
import traceback
import weakref

import cloudpickle
import jax
import numpy


def plain(x, power=2):
    """Doc."""
    return x**power


def failing(x):
    raise ValueError("while it is traced")


class Layer:
    @jax.jit
    def forward(self, x):
        return x


def plainly(value):
    """The first line of its text, without addresses."""
    return re.sub("0x[0-9a-f]+", "", str(value)).partition("\n")[0]


def frames(call, *args, **kwargs):
    """What an error says, and through which of the program's functions it came."""
    try:
        call(*args, **kwargs)
    except Exception as error:
        stack = traceback.extract_tb(error.__traceback__)
        names = [frame.name for frame in stack if "/jax/_src/" not in frame.filename]
        return [type(error).__name__, plainly(error), names]
    return None


def changed(function):
    """What can be said to a function about itself."""
    function.note = 1
    function.__doc__ = "Other."
    functools.update_wrapper(function, failing)
    found = [function.note, function.__doc__, function.__name__, function.__wrapped__ is failing]
    del function.note
    return [*found, hasattr(function, "note")]


compiled = jax.jit(plain)
x = jax.device_put(numpy.ones((300, 300), numpy.float32))
seen = {
    "jit": [jax.jit.__name__, jax.jit.__module__, str(inspect.signature(jax.jit))[:60]],
    "class": [compiled.__class__.__name__, isinstance(compiled, type(jax.numpy.matmul))],
    "names": [compiled.__name__, compiled.__qualname__, compiled.__module__, compiled.__doc__],
    "signature": str(inspect.signature(compiled)),
    "text": plainly(repr(compiled)),
    "wrapped": compiled.__wrapped__ is plain,
    "parts": sorted(name for name in dir(compiled) if name[:1] != "_"),
    "equal": [compiled == compiled, compiled == jax.jit(failing), len({compiled, compiled})],
    "weak": weakref.ref(compiled)() is compiled,
    "copied": copy.copy(compiled)(x).shape,
    "pickled": cloudpickle.loads(cloudpickle.dumps(compiled))(x).shape,
    "lowered": compiled.lower(x).compile().memory_analysis().output_size_in_bytes,
    "jaxpr": str(jax.make_jaxpr(compiled)(x)),
    "grad": jax.grad(lambda x: compiled(x).sum())(x).shape,
    "vmap": jax.vmap(compiled)(x).shape,
    "twice": jax.jit(compiled)(x).shape,
    "cached": [compiled._cache_size(), compiled.clear_cache(), compiled._cache_size()],
    "changed": changed(jax.jit(plain)),
    "self": jax.jit(lambda x, self: x * self)(x, self=2).shape,
    "method": [Layer().forward.__name__, frames(Layer().forward, x)],
    "fails": [
        frames(jax.jit(failing), x),
        frames(compiled, x, 1, 2, 3),
        frames(jax.jit, 3),
        frames(jax.jit),
    ],
}
print(json.dumps(seen))
