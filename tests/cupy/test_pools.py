"""Random use of CuPy's pools: several pools and threads, blocks that another thread gives back, requests that are refused."""

from collections import Counter

import pytest

MEMORY = str(4 << 30)
ROWS = "SELECT address, bytes FROM {allocations} WHERE kind = 'pool_block'"
LIVE = "SELECT kind, address, bytes FROM {allocations} WHERE kind LIKE 'cuda%' AND device = 0 AND free_ns IS NULL"
KINDS = {"linear": "cuda", "managed": "cuda_managed", "pool": "cuda_pool"}


def record_pools(record, seed, steps, order):
    """Automatic spans of nothing: blocks are reported all the same."""
    options = ["--auto-operators", "none"]
    found = record("pools.py", seed, steps, order, options=options, STANDIN_MEMORY=MEMORY)
    assert found.reported["refused"] > 10
    blocks = Counter(map(tuple, found.reported["blocks"]))
    assert Counter(found.run.sql(ROWS)) == blocks
    held = [(KINDS[kind], *block) for kind, device, *block in found.driver["blocks"] if device == 0]
    assert sorted(found.run.sql(LIVE)) == sorted(held)  # what was trimmed is there no more
    return found


@pytest.mark.parametrize("seed", range(1, 5))
def test_one_thread_at_a_time(record, seed):
    """Every block has its row, and every peak is exact."""
    found = record_pools(record, seed, 150, "ordered")
    device = found.device
    assert device["peak_framework_bytes"] == found.reported["used"]
    assert device["peak_framework_reserved_bytes"] == found.reported["total"]
    assert device["peak_driver_bytes"] == found.driver["driver"]["peak"]
    kinds = found.driver["devices"][0]["kinds"]
    assert device["peak_managed_bytes"] == kinds["managed"]["peak"]
    assert kinds["pool"]["acquired"] == len(
        found.run.sql("SELECT 1 FROM {allocations} WHERE kind = 'cuda_pool'")
    )


@pytest.mark.parametrize("seed", range(1, 3))
def test_threads_at_once(record, seed):
    """Every block has its row; between a release that is reported and the pool's own, another thread may read the pool."""
    found = record_pools(record, seed, 150, "free")
    device = found.device
    assert device["peak_driver_bytes"] <= found.driver["driver"]["peak"]
    assert 0.8 * found.reported["used"] <= device["peak_framework_bytes"]


def test_two_devices(record):
    """Each has its figures; the rest of a block that was cut stays reserved."""
    found = record("devices.py", STANDIN_MEMORY=f"{MEMORY},{MEMORY}")
    rows = {row["device"]: row for row in found.report["devices"]}
    for device in (0, 1):
        used, reserved = found.reported[str(device)]
        assert rows[device]["peak_framework_bytes"] == used
        assert rows[device]["peak_framework_reserved_bytes"] == reserved
        assert rows[device]["peak_driver_bytes"] == reserved
    blocks = "SELECT device, bytes >> 20, free_ns IS NULL FROM {allocations} WHERE kind = '%s' ORDER BY alloc_ns"
    assert [row[:2] for row in found.run.sql(blocks % "pool_block")] == [(0, 10), (1, 30), (0, 4)]
    assert [row[:2] for row in found.run.sql(blocks % "cuda")] == [(0, 10), (1, 30)]
