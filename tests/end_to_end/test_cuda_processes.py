"""Processes that become others, or have children, with memory of devices, on the stand-in for NVIDIA's driver: nothing is lost, and
nothing counts twice. And a recording of many blocks there that must stay small."""

import pytest
from cuda_standin import read_oracle
from test_disk import size

MIB = 1 << 20
# The stand-in's pools take as much at once.
SEGMENT = 32 * MIB
# Of tests/cuda/programs/images.c: what its first image has at most, and when it ends.
FIRST, LEFT = 30 * MIB, 10 * MIB + SEGMENT
SECOND = 7 * MIB


@pytest.fixture
def images(cuda, record, tmp_path):
    def run(*arguments, options=(), **variables):
        command = cuda.program("images", "ask_v2", *arguments)
        return record(*command, options=options, env=cuda.environment(**variables))

    return run


def devices(run):
    """Peaks of driver and used bytes by process, of those that had any."""
    rows = run.report["devices"]
    return {
        row["process"]: (row["peak_driver_bytes"], row["peak_used_bytes"], row["allocations"])
        for row in rows
        if row["allocations"]
    }


def blocks(run):
    return run.sql(
        "SELECT process, kind, bytes / 1048576, device, free_ns IS NULL FROM {allocations} "
        "WHERE device IS NOT NULL ORDER BY process, alloc_ns"
    )


OF_FIRST = [
    (0, "cuda", 10, 0, True),
    (0, "cuda", 20, 0, False),
    (0, "cuda_pool", 3, 0, True),
    (0, "pool_block", 2, 0, True),
]


def test_an_image_that_is_replaced_ends_with_its_blocks(images):
    run = images("exec")
    assert devices(run) == {0: (LEFT, FIRST, 4), 1: (SECOND, SECOND, 1)}
    assert blocks(run) == [*OF_FIRST, (1, "cuda", 7, 1, True)]
    assert len({process["pid"] for process in run.report["processes"]}) == 1
    assert run.report["peak"]["device_driver_bytes"] == LEFT
    assert run.report["peak"]["device_used_bytes"] == FIRST


def test_a_failing_exec_ends_nothing(images):
    run = images("failing-exec")
    assert devices(run) == {0: (LEFT, FIRST, 4)}
    assert blocks(run) == [(0, "cuda", 10, 0, False), *OF_FIRST[1:]]


def test_a_forked_child_has_nothing_of_its_parents(images):
    run = images("fork")
    assert devices(run) == {0: (LEFT, FIRST, 4)}
    assert blocks(run) == [
        (0, "cuda", 10, 0, False),
        OF_FIRST[1],
        OF_FIRST[2],
        (0, "pool_block", 2, 0, False),
    ]
    assert run.report["peak"]["device_driver_bytes"] == LEFT
    child = run.report["processes"][1]
    assert child["inherited_releases"] == 1, (
        "of the framework's block: the driver refused the other"
    )


def test_a_child_with_memory_of_its_own_counts_beside_its_parent(images):
    run = images("spawn")
    found = devices(run)
    assert found.pop(0) == (LEFT, FIRST, 4)
    [(second, figures)] = found.items()
    assert figures == (SECOND, SECOND, 1)
    assert blocks(run) == [*OF_FIRST, (second, "cuda", 7, 1, True)]
    peak = run.report["peak"]
    assert (peak["device_driver_bytes"], peak["device_used_bytes"]) == (LEFT + SECOND, FIRST)


def test_a_recording_of_many_blocks_stays_small(images, tmp_path):
    times, limit = 300_000, 1_100_000
    report = str(tmp_path / "oracle")
    run = images(*("churn", times), options=("--max-trace-size", str(limit)), STANDIN_REPORT=report)
    [oracle] = read_oracle(report).values()
    assert size(run.path) <= limit
    [row] = [row for row in run.report["devices"] if row["allocations"]]
    linear = oracle["devices"][0]["kinds"]["linear"]
    assert (row["allocations"], row["requested_bytes"]) == (times, linear["acquired_bytes"])
    assert row["peak_driver_bytes"] == row["peak_used_bytes"] == linear["peak"]
    # Every block has a row that was written: the oldest are deleted.
    [(written,)] = run.sql("SELECT count(*) FROM {allocations}")
    rotated = run.report["rows"]["rotated"]
    assert rotated > 0
    assert written + rotated == times + run.report["totals"]["allocations"]
    live = run.sql(
        "SELECT address, bytes FROM {allocations} WHERE kind = 'cuda' AND free_ns IS NULL"
    )
    assert sorted(live) == sorted((key, bytes) for _, _, key, bytes in oracle["blocks"])
