"""Products of matrices on JAX: edge; prints what its allocator says of itself."""

import json
import sys

import jax
import jax.numpy as jnp

if __name__ == "__main__":
    edge = int(sys.argv[1])
    x = jax.random.normal(jax.random.key(0), (edge, edge))
    for _ in range(4):
        x = jnp.tanh(x @ x) / edge
    x.block_until_ready()
    stats = jax.local_devices()[0].memory_stats()
    reserved = stats.get("peak_pool_bytes") or stats.get("pool_bytes") or stats["peak_bytes_in_use"]
    print(
        json.dumps(
            {"allocated_peak_bytes": stats["peak_bytes_in_use"], "reserved_peak_bytes": reserved}
        )
    )
