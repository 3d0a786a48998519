"""Products of matrices on JAX: edge; prints what its allocator says of itself."""

import json
import sys

import jax
import jax.numpy as jnp


def counted(device):
    """What is known of an allocator: of an arena, what it has reserved; of the driver's pool, what was handed out of it."""
    stats = device.memory_stats() or {}
    if "pool_bytes" in stats:
        return {"reserved_peak_bytes": stats["peak_pool_bytes"]}
    return {"allocated_peak_bytes": stats["peak_bytes_in_use"]}


if __name__ == "__main__":
    edge = int(sys.argv[1])
    x = jax.random.normal(jax.random.key(0), (edge, edge))
    for _ in range(4):
        x = jnp.tanh(x @ x) / edge
    x.block_until_ready()
    print(json.dumps(counted(jax.local_devices()[0])))
