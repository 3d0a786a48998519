"""Spectra of traces and their covariance, compiled: traces, samples, calls, and whether the traces stay on the "host".

Prints what JAX's allocator counts.
"""

import json
import sys

import jax
import jax.numpy as jnp
import numpy


@jax.jit
def spectra(traces, taper=0.5):
    spectrum = jnp.fft.rfft(traces * taper)
    filtered = jnp.fft.irfft(spectrum * jnp.conj(spectrum), n=traces.shape[1])
    return filtered @ filtered.T, jnp.cumsum(filtered, axis=1)


if __name__ == "__main__":
    count, samples, calls = map(int, sys.argv[1:4])
    traces = numpy.ones((count, samples), numpy.float32)
    if "host" not in sys.argv:
        traces = jax.device_put(traces)
    for _ in range(calls):
        spectra(traces)[0].block_until_ready()
    stats = jax.local_devices()[0].memory_stats() or {}
    print(json.dumps({"peak": stats.get("peak_bytes_in_use"), "arena": stats.get("pool_bytes")}))
