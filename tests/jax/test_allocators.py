"""XLA's allocators: what they take from the driver, and what is used of it where each buffer comes from there."""

import jax_standin
import pytest
from conftest import ROOT

PRODUCTS = ROOT / "experiments" / "gpu" / "programs" / "products_jax.py"
SPECTRA = "spectra.py"
ARENAS = {
    "preallocated": {},
    "a part of the device": {"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.25"},
    "as needed": {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"},
}
ROWS = "SELECT bytes, free_ns IS NULL FROM {allocations} WHERE kind = '%s' AND device = 0"


@pytest.mark.parametrize("variables", ARENAS.values(), ids=ARENAS)
def test_an_arena_is_what_it_has_reserved(record, variables):
    """To the byte: XLA and the driver count the same."""
    found = record(PRODUCTS, 1024, **variables)
    reserved = found.reported["reserved_peak_bytes"]
    assert found.device["peak_driver_bytes"] == reserved == found.driver["driver"]["peak"]
    rows = found.run.sql(ROWS % "cuda")
    assert sum(size for size, _ in rows) == reserved
    if variables.get("XLA_PYTHON_CLIENT_PREALLOCATE") != "false":
        assert len(rows) == 1
        part = float(variables.get("XLA_PYTHON_CLIENT_MEM_FRACTION", 0.75))
        assert reserved == part * jax_standin.MEMORY


def test_buffers_from_the_driver_s_pool(record):
    """Each is a row of the size that was asked for, and the peak of those in use is the one that XLA counts."""
    found = record(PRODUCTS, 1024, **jax_standin.FROM_THE_DRIVER)
    pool = found.driver["devices"][0]["kinds"]["pool"]
    assert found.device["peak_used_bytes"] == found.reported["allocated_peak_bytes"] == pool["peak"]
    assert found.device["peak_driver_bytes"] == found.driver["driver"]["peak"]
    sizes = [size for size, _ in found.run.sql(ROWS % "cuda_pool")]
    assert (len(sizes), sum(sizes)) == (pool["acquired"], pool["acquired_bytes"])
    assert 4 * 1024 * 1024 in sizes


def test_buffers_that_are_allocations_of_the_driver(record):
    found = record(SPECTRA, 101, 1201, 2, XLA_PYTHON_CLIENT_ALLOCATOR="platform")
    linear = found.driver["devices"][0]["kinds"]["linear"]
    assert found.device["peak_used_bytes"] == linear["peak"] == found.device["peak_driver_bytes"]
    rows = found.run.sql(ROWS % "cuda")
    assert (len(rows), sum(size for size, _ in rows)) == (
        linear["acquired"],
        linear["acquired_bytes"],
    )


def test_the_peak_is_the_one_of_the_arena(record):
    """But for the 256 bytes to which the arena rounds: another allocator shows what the program needs with the default one."""
    arena = record(SPECTRA, 101, 1201, 2)
    assert arena.reported["arena"] == arena.device["peak_driver_bytes"]
    for variables in (jax_standin.FROM_THE_DRIVER, {"XLA_PYTHON_CLIENT_ALLOCATOR": "platform"}):
        found = record(SPECTRA, 101, 1201, 2, **variables)
        assert 0 <= arena.reported["peak"] - found.device["peak_used_bytes"] < 10 * 256


STACKS = """
WITH RECURSIVE stacks AS (
    SELECT site, frame FROM {sites} WHERE site IN (SELECT site FROM {allocations} WHERE kind = 'cuda_pool')
    UNION ALL
    SELECT site, parent FROM stacks JOIN {frames} USING (frame) WHERE parent IS NOT NULL
)
SELECT site, bool_or(f.file LIKE '%/spectra.py'), bool_or(f.file LIKE '%recorder%')
FROM stacks JOIN {frames} AS f USING (frame) GROUP BY site
"""


def test_buffers_have_the_program_s_call_stack_and_a_role(record):
    found = record(SPECTRA, 101, 1201, 1, **jax_standin.FROM_THE_DRIVER)
    rows = found.run.sql(STACKS)
    assert len(rows) >= 3
    assert all(program and not recorder for _, program, recorder in rows)
    roles = dict(
        found.run.sql(
            "SELECT role, sum(bytes) FROM {allocations} WHERE kind = 'cuda_pool' AND role IS NOT NULL GROUP BY role"
        )
    )
    assert roles["input"] == 4 * 101 * 1201
    assert roles["output"] == 4 * 101 * 101 + 4 * 101 * 1201
    assert roles["temporary"] >= 2 * 4 * 101 * 1201
