"""Memory that comes neither from malloc nor from mmap, and memory that is given back for a while."""

from conftest import environment

MIB = 1 << 20
PAGE = 4096


def test_the_break_shared_segments_and_advice(record, target):
    run = record(target("segments.c"))
    assert run.code == 0
    rows = "select kind, bytes, free_ns is not null from {allocations} where kind like 'map_%' order by all"
    segment = 7 * MIB + 100
    # What is moved down is cut off at its end: a part of a mapping that is released is a row of its own.
    assert run.sql(rows) == [
        ("map_anonymous", 11 * MIB, False),
        ("map_break", MIB, True),
        ("map_break", MIB, True),
        ("map_break", MIB, True),
        ("map_break", 2 * MIB, False),
        # The segment was attached twice, and counts once.
        ("map_file", segment, True),
        ("map_shared", segment, False),
    ]
    peak = run.report["peak"]
    # What madvise took away stays live: the program may touch it again at any time.
    live = 2 * MIB + 7 * MIB + 11 * MIB
    assert live <= peak["live_bytes"] - peak["heap_bytes"] <= live + 2 * PAGE
    [process] = run.report["processes"]
    assert process["peak_mapped_bytes"] == 2 * MIB + segment + 11 * MIB


OBJECTS = """
import sys
held = [object() for _ in range(10_000)]
print(len(set(map(id, held))), sys.getsizeof(held[0]))
"""


def objects(record, python, *options, **kwargs):
    run = record(python, "-c", OBJECTS, options=options, **kwargs)
    assert run.stdout == b"10000 16\n"
    [(blocks,)] = run.sql(
        "select count(*) from {allocations} where bytes = 16 and kind not like 'map_%'"
    )
    return blocks


def test_python_objects_have_rows_if_requested(record, python):
    assert objects(record, python) < 5_000
    assert objects(record, python, "--python-allocators") >= 10_000


def test_the_users_own_choice_of_pythons_allocator_is_respected(record, python):
    for allocator, enough in (("malloc", True), ("pymalloc", False)):
        run = objects(record, python, env=environment(PYTHONMALLOC=allocator))
        assert (run >= 10_000) == enough
