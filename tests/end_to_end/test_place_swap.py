"""Memory and swap: a watched program, a plan, and the program in less memory than it needs."""

# ruff: noqa: F811 (arguments named as the fixtures)

import json
import os
import signal
import subprocess
from pathlib import Path

import memtrace as package
import pytest
from conftest import Recording, memtrace
from viewing import lines, watched  # noqa: F401 (fixtures)

from experiments.control_group import FIRST, group
from experiments.placement.swap_device import swap

MIB = 1 << 20
ROUNDS = "40"
ALL_BLOCKS = 16 * 2 * MIB


@pytest.fixture(scope="module", autouse=True)
def swap_space():
    try:
        with swap():
            yield
    except (OSError, subprocess.CalledProcessError) as why:
        pytest.skip(f"there is no swap, and none can be made: {why}")


@pytest.fixture(scope="module")
def turns(target):
    """The program, and what it prints by itself."""
    program = target("turns.c")
    return program, subprocess.run([program, ROUNDS], capture_output=True, check=True).stdout


@pytest.fixture(scope="module")
def learned(turns, tmp_path_factory):
    return learn(tmp_path_factory.mktemp("learned") / "runs", turns[0], ROUNDS)


def learn(folder, *command):
    done = memtrace("place", "learn", "--base", "swap,dram", "-o", folder, "--", *command)
    if b"cannot be sampled" in done.stderr:
        pytest.skip(done.stderr.decode())
    assert done.returncode == 0, done.stderr
    return folder


def planned(learned, path, size):
    done = memtrace("place", "plan", learned, "--fast", size, "-o", path, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def moved(recording):
    query = "select action, sum(bytes), count(errno) from {placements} group by all"
    return {action: (size, refused) for action, size, refused in recording.sql(query)}


def test_a_watched_run_says_what_is_used_when(learned):
    recording = Recording(learned / "watched", 0, b"", b"")
    looks = recording.sql("select count(*) from {placements} where action = 'look'")[0][0]
    query = """
        select count(*) from {placements} join (select distinct address from {allocations}
                                                where bytes = 2097152) using (address)
        where action = 'use'"""
    uses = recording.sql(query)[0][0]
    assert looks > 20
    # All 16 blocks in each round, some of them at two looks.
    assert 16 * int(ROUNDS) * 0.8 <= uses <= 16 * int(ROUNDS) * 2


def test_a_watched_run_says_what_is_written(turns, tmp_path):
    """Half of the blocks in each round; all in the first, in which they are filled."""
    folder = learn(tmp_path / "runs", turns[0], "12", "8")
    recording = Recording(folder / "watched", 0, b"", b"")
    query = """
        with blocks as (select address, row_number() over (order by alloc_ns) as number
                        from {allocations} where bytes = 2097152)
        select number, count(*) filter (action = 'write'), count(*) filter (action = 'use'),
               coalesce(sum(bytes) filter (action = 'write') / 2097152, 0)
        from {placements} join blocks using (address) group by number order by number"""
    rows = recording.sql(query)
    assert [number for number, *_ in rows] == list(range(1, 17))
    for number, written, used, whole in rows:
        if number <= 8:
            assert written >= 0.9 * used and whole >= 0.75 * used, rows
        else:
            assert whole <= 3, rows
    told = planned(folder, tmp_path / "plan.json", "28MiB")["traffic"]["planned"]
    # All blocks go to swap for the first time; of what comes back, half has to be written again.
    assert ALL_BLOCKS < told["written_bytes"] < told["back_bytes"], told


FRONTS = """
import numpy as np
blocks = [np.zeros(8 << 20, "u1") for _ in range(4)]  # from calloc, which does not touch them
for n in range(40):
    blocks[n % 4][: 2 << 20] = np.full(2 << 20, n, "u1")
"""


def test_what_was_never_touched_of_a_block_is_not_written(python, tmp_path):
    folder = learn(tmp_path / "runs", python, "-c", FRONTS)
    recording = Recording(folder / "watched", 0, b"", b"")
    query = """
        select count(*), max(bytes) from {placements}
        where action = 'write' and address in (select address from {allocations} where bytes >= 8388608)"""
    [(written, most)] = recording.sql(query)
    assert written >= 4 and 1 * MIB <= most <= 5 * MIB


def test_a_plan_tells_how_much_of_a_block_is_written(turns, tmp_path):
    """Each round writes half of each block."""
    folder = learn(tmp_path / "runs", turns[0], "12", "16", "50")
    told = planned(folder, tmp_path / "plan.json", "28MiB")["traffic"]["planned"]
    again = (told["written_bytes"] - ALL_BLOCKS) / (told["back_bytes"] - ALL_BLOCKS)
    assert 0.3 < again < 0.7, told


def test_a_plan_keeps_to_its_memory(turns, learned, tmp_path):
    program, expected = turns
    told = planned(learned, tmp_path / "plan.json", "28MiB")
    assert told["worth"] and told["seconds"]["planned"] < told["seconds"]["slow"] / 2, told
    traffic = told["traffic"]["planned"]
    assert traffic["written_bytes"] <= 1.1 * ALL_BLOCKS < traffic["back_bytes"], (
        "what is read stays as it is"
    )
    trace = tmp_path / "trace"
    done = memtrace("place", "run", tmp_path / "plan.json", "-o", trace, "--", program, ROUNDS)
    recording = Recording(trace, done.returncode, done.stdout, done.stderr)
    assert (recording.code, recording.stdout) == (0, expected)
    [note] = recording.report["notes"]
    assert note.startswith("Blocks placed as planned: ") and not note.endswith(": 0.")
    of = moved(recording)
    assert of["out"][0] >= of["in"][0] > 100 * MIB
    assert of["out"][1] == of["in"][1] == 0
    assert recording.report["peak"]["resident_bytes"] <= 28 * MIB


def test_top_shows_what_was_moved_out(turns, learned, tmp_path, watched, lines):
    planned(learned, tmp_path / "plan.json", "28MiB")
    run = watched(turns[0], "4000", path=tmp_path / "trace", plan=tmp_path / "plan.json")
    view = lines(run.path)

    def all_blocks(figures):
        rows = (row for row in figures["placed"] if row["blocks"] == 16)
        return [row for row in rows if row["out_bytes"] >= 4 * MIB]

    figures = view.until(all_blocks)
    [row] = all_blocks(figures)
    assert (row["tier"], row["blocks"]) == ("dram", 16)
    assert row["place"] == "main in turns"
    # 4 MiB do not fit. Where a page goes out as the next one comes back, both may be counted.
    assert row["out_bytes"] <= 12 * MIB
    os.kill(figures["processes"][0]["pid"], signal.SIGKILL)
    assert view.until(lambda figures: figures["ended"])["placed"] == []


def test_without_the_kernel_s_swap_only_a_plan_completes(turns, learned, tmp_path):
    program, expected = turns
    planned(learned, tmp_path / "plan.json", "28MiB")
    if not (FIRST / "memory.swappiness").exists():
        pytest.skip("control groups of version 2 forbid planned moves, too")
    try:
        with group() as each:
            each.limit(28 * MIB)
            alone = subprocess.run(each.entered_by([program, ROUNDS]), capture_output=True)
        with group() as each:
            each.limit(28 * MIB)
            command = each.entered_by([program, ROUNDS])
            options = ("-o", tmp_path / "trace")
            done = memtrace("place", "run", tmp_path / "plan.json", *options, "--", *command)
    except OSError as why:
        pytest.skip(f"no control group can be made: {why}")
    assert alone.returncode != 0
    assert (done.returncode, done.stdout) == (0, expected), done.stderr


def test_nothing_moves_where_all_fits(turns, learned, tmp_path):
    program, expected = turns
    told = planned(learned, tmp_path / "plan.json", "100MB")
    assert (told["worth"], told["moves"]) == (False, [])
    assert "fits into 100 MB" in told["notes"][0]
    done = memtrace(
        "place", "run", tmp_path / "plan.json", "-o", tmp_path / "trace", "--", program, ROUNDS
    )
    assert (done.returncode, done.stdout) == (0, expected)
    assert b"runs without it" in done.stderr


def test_too_little_memory_is_said(learned, tmp_path):
    done = memtrace("place", "plan", learned, "--fast", "1MB", "-o", tmp_path / "plan.json")
    assert done.returncode == 1
    assert b"beside its large blocks" in done.stderr and b"--fast" in done.stderr


def test_a_program_that_was_swapped_is_not_learned(turns, kernel_side, tmp_path):
    try:
        with group() as each:
            each.limit_with_swap(20 * MIB)
            learned = learn(tmp_path / "runs", *each.entered_by([turns[0], "10"]))
    except OSError as why:
        pytest.skip(f"no control group can be made: {why}")
    done = memtrace("place", "plan", learned, "--fast", "20MiB", "-o", tmp_path / "plan.json")
    assert done.returncode == 1
    assert b"was swapped" in done.stderr and b"more memory; record it again" in done.stderr


def test_another_program_departs_from_a_plan(turns, target, learned, tmp_path):
    """The plan is for one program; under its name, another one runs as it is."""
    planned(learned, tmp_path / "plan.json", "28MiB")
    text = json.loads((tmp_path / "plan.json").read_text())
    other = target("placed.c")
    text["program"]["path"] = str(Path(other).resolve())
    (tmp_path / "plan.json").write_text(json.dumps(text))
    expected = subprocess.run([other], capture_output=True, check=True).stdout
    trace = tmp_path / "trace"
    done = memtrace("place", "run", tmp_path / "plan.json", "-o", trace, "--", other)
    assert (done.returncode, done.stdout) == (0, expected)
    recording = Recording(trace, done.returncode, done.stdout, done.stderr)
    assert recording.sql("select count(*) from {placements} where action = 'depart'") == [(1,)]


def test_costs_of_pages_are_measured(tmp_path):
    done = memtrace("place", "calibrate", "-o", tmp_path / "machine.json")
    assert done.returncode == 0, done.stderr
    contents = json.loads((tmp_path / "machine.json").read_text())["contents"]
    assert [each["name"] for each in contents] == ["one value", "small integers", "random"]
    assert all(0 < each["clean"] < each["written"] for each in contents)


def test_a_plan_is_compared_with_the_kernel(turns, learned, tmp_path):
    program, _ = turns
    path = tmp_path / "plan.json"
    planned(learned, path, "28MiB")
    try:
        with group() as each:
            each.limit_with_swap(28 * MIB)
            command = each.entered_by([program, ROUNDS])
            options = ("--against", "lru", "--json")
            done = memtrace("place", "compare", path, *options, "--", *command)
    except OSError as why:
        pytest.skip(f"no control group can be made: {why}")
    assert done.returncode == 0, done.stderr
    of_plan, of_kernel = json.loads(done.stdout)["placements"]
    assert (of_plan["name"], of_kernel["name"]) == ("planned", "lru")
    # Pages of files that others have read already are in the group of these.
    assert all(0 < each["fast_bytes"] <= 32 * MIB for each in (of_plan, of_kernel))
    # Only the plan's run moves pages on request.
    compared = tmp_path / "plan.compared"
    of = moved(Recording(compared / "planned", 0, b"", b""))
    assert of["out"][0] > 100 * MIB
    assert "out" not in moved(Recording(compared / "lru", 0, b"", b""))
    done = memtrace("place", "compare", path, "--against", "density", "--", program)
    assert done.returncode == 2 and b"density is for plans without swap" in done.stderr
    done = memtrace("place", "plan", learned, "--fast", "28MiB", "--search", "evolve", "-o", path)
    assert done.returncode == 2 and b"leave --search out" in done.stderr


def test_what_calibrate_measures_is_a_machine_for_recommend(tmp_path):
    assert memtrace("place", "calibrate", "-o", tmp_path / "machine.json").returncode == 0
    model = package.fit_table([(50, 40), (40, 30), (70, 60)], [2000, 1200, 4200], operator="f")
    limits = {"slow_memory": "1 GB", "machine": tmp_path / "machine.json"}
    assert model.recommend("f", (400, 400), "1 GB", 1, **limits)["chunk_shape"]
