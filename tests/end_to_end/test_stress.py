"""Many threads and many short-lived processes: nothing is lost, and nothing stays behind."""

import json

import pytest
import stress

pytestmark = pytest.mark.serial

# docs/architecture.md says 100 for small ones; vectors grow by doubling.
BYTES_PER_LIVE_BLOCK = 150


@pytest.fixture
def load(target, tmp_path):
    program = target("stress.c")

    def run(*arguments):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        outcome = stress.run(program, folder, *arguments)
        assert not outcome.complaints(), outcome
        return folder / "trace", outcome

    return run


def test_sixty_four_threads(load):
    _, outcome = load("threads", 64, 20_000)
    assert outcome.blocks[1] == 640_000
    assert outcome.events >= 64 * 20_000


def test_blocks_that_threads_hand_to_each_other_are_paired(load):
    """A release may be stamped before what the block's thread did before it passed it on."""
    _, outcome = load("handed", 4, 1_200_000)
    assert outcome.blocks == (2_400_000, 2_400_000)


def test_two_hundred_processes(load):
    _, outcome = load("processes", 200)
    assert outcome.children == (200, 200)


def test_processes_that_have_left_memory_are_in_the_trace(load):
    """How much the recorder grows in hours: scripts/soak."""
    trace, _ = load("processes", 1500)
    table = f"'{trace}/processes.parquet'"
    figures = f"""select count(*), count(distinct process), max(process), count(end_ns),
        count(*) filter (exit = 0 or exit is null), sum(allocations)::bigint from {table}"""
    [(rows, processes, last, ended, good, allocations)] = stress.duckdb.sql(figures).fetchall()
    assert rows == processes == last + 1 == ended == good == 1501
    # Those that have left are written first.
    numbered = f"read_parquet({table}, file_row_number = true)"
    first = stress.duckdb.sql(f"select file_row_number from {numbered} where process = 0")
    assert first.fetchall()[0][0] >= 1501 - 512 - 64
    totals = json.loads((trace / "meta.json").read_text())["totals"]
    assert allocations == totals["allocations"] >= 1500
    for others in (f"'{trace}/threads.parquet'", f"'{trace}/timeline/*.parquet'"):
        of_processes = f"select count(distinct process) from {others}"
        assert stress.duckdb.sql(of_processes).fetchall() == [(1501,)]
    strange = f"select count(*) from '{trace}/modules.parquet' anti join {table} using (process)"
    assert stress.duckdb.sql(strange).fetchall() == [(0,)]


def test_threads_and_processes_that_come_and_go(load):
    trace, outcome = load("soak", 2)
    assert outcome.children[1] > 20, "there were some"
    # Eight at a time at most; a few more if the tracer is slow to notice an end.
    still_there = stress.duckdb.sql(
        f"select count(*) from (select end_ns, max(end_ns) over () last from '{trace}/processes.parquet')"
        " where end_ns = last"
    ).fetchall()
    assert still_there[0][0] < outcome.children[1] / 2, "short lives are known to have ended"


def test_the_tracer_grows_with_live_blocks_as_the_documentation_says(load):
    blocks = 300_000
    (_, without), (_, with_blocks) = load("hold", 1), load("hold", blocks)
    growth = with_blocks.peak_resident - without.peak_resident
    assert growth < blocks * BYTES_PER_LIVE_BLOCK
