"""Compiled functions in their forms. `__main__:small` and `marked` are named as operators; prints the bytes of its arrays."""

import json
from contextlib import suppress
from functools import partial

import jax
import jax.numpy as jnp
import memtrace
import numpy
from jax import jit

N = 200
BYTES = 4 * N * N


@jit
def alone(x):
    return inner(x) + 1


@jax.jit
def inner(x):
    """Called by `alone` while JAX traces that, and by the program."""
    return x @ x


@partial(jax.jit, static_argnames=("power", "shape"), donate_argnums=0)
def updated(state, power, shape=(1, 2)):
    return {"weights": {"w": state["weights"]["w"] ** power}, "steps": state["steps"] + shape[0]}


class Layer:
    @partial(jax.jit, static_argnums=0)
    def forward(self, x):
        return jnp.stack([x, x])


@memtrace.operator(name="marked", params="scale")
@jax.jit
def outside(x, scale, shift):
    return x * scale + shift


@jax.jit
@memtrace.operator
def inside(x):
    return x + 1


@jax.jit
def small(x):
    return x + 1


@jax.jit
def unnamed_small(x):
    return x + 1


@jax.jit
def half(x):
    return x + 1


@jax.jit
def failing(x):
    raise ValueError("while it is traced")


def loss(x):
    return inner(x).sum()


class Model:
    def applied(self, params, x):
        return x + params["w"]


def step(rate, params, x):
    return x * rate + params["w"]


if __name__ == "__main__":
    x = jax.device_put(numpy.ones((N, N), numpy.float32))
    for _ in range(2):
        alone(x)
    inner(x)
    state = {"weights": {"w": x + 0}, "steps": jnp.zeros(3)}
    updated(state, power=2)
    Layer().forward(x)
    outside(x, 2.0, 3.0)
    inside(x[0])
    small(x[0])
    unnamed_small(x[0])
    half(x.astype(jnp.bfloat16))
    compiled_here = jax.jit(lambda x: x + 2)
    compiled_here(x)
    jax.jit(Model().applied)({"w": x, "none": x[:0]}, x)
    jax.jit(partial(step, 0.1))({"w": x}, x)
    with jax.disable_jit():
        inside(x[0])
    with suppress(ValueError):
        failing(x)
    jax.grad(loss)(x)
    jax.jit(jax.grad(loss))(x)
    print(json.dumps({"bytes": BYTES}))
