"""Placement: two base runs, a plan, and the same program with its blocks where the plan has them."""

import json
import random
import shutil
import subprocess
from pathlib import Path

import jsonschema
import pytest
from conftest import ROOT, Recording, environment, memtrace

MIB = 1 << 20
COMPARISON = ROOT / "docs" / "schemas" / "compare.schema.json"
SETTING = Path("/sys/kernel/mm/transparent_hugepage/enabled")


@pytest.fixture(scope="module", autouse=True)
def huge_pages():
    if not SETTING.exists() or "[never]" in SETTING.read_text():
        pytest.skip("transparent huge pages are switched off")


@pytest.fixture(scope="module")
def placed(target):
    """The program, and what it prints by itself."""
    program = target("placed.c")
    done = subprocess.run([program], capture_output=True, check=True)
    return program, done.stdout


@pytest.fixture(scope="module")
def learned(placed, tmp_path_factory):
    """Its two base runs, and what they printed on standard error: the program's output is there."""
    program, _ = placed
    folder = tmp_path_factory.mktemp("learned")
    done = memtrace("place", "learn", "-o", folder / "runs", "--", program)
    if b"cannot be sampled" in done.stderr:
        pytest.skip(done.stderr.decode())
    assert done.returncode == 0, done.stderr
    return folder / "runs", done.stderr


@pytest.fixture(scope="module")
def plan(learned, tmp_path_factory):
    """Its plan with all objects in the slow tier but the first block."""
    path = tmp_path_factory.mktemp("plan") / "plan.json"
    made = memtrace("place", "plan", learned[0], "--fast", "16MiB", "-o", path, "--json")
    objects = json.loads(made.stdout)["objects"]
    [first] = [n for n, each in enumerate(objects, 1) if each["bytes"] == 8 * MIB]
    moves = ("--move", "all=slow", "--move", f"{first}=fast")
    done = memtrace("place", "estimate", path, *moves, "-o", path)
    assert done.returncode == 0, done.stderr
    return path


def run(plan, path, *command, **options):
    """A run with a plan."""
    done = memtrace("place", "run", "-o", path, plan, "--", *command, **options)
    return Recording(path, done.returncode, done.stdout, done.stderr)


def tiers(recording):
    """Tier and bytes of the blocks that were placed, with how many of each."""
    query = "select tier, bytes, count(*) from {placements} where action = 'place' group by all"
    return {(tier, size): count for tier, size, count in recording.sql(query)}


def placements(recording):
    return recording.sql("select count(*) from {placements}")[0][0]


def test_learning_puts_all_blocks_into_each_tier(placed, learned):
    folder, said = learned
    expected, told = placed[1].decode().splitlines(), said.decode().splitlines()
    assert [line for line in told if line in expected] == expected * 2
    # How much of the first block is in huge pages, kB.
    assert [line for line in told if line.startswith("huge")] == ["huge 0", "huge 8192"]
    of = {name: tiers(Recording(folder / name, 0, b"", b"")) for name in ("slow", "fast")}
    assert {tier for tier, _ in of["slow"]} == {"small-pages"}
    assert {tier for tier, _ in of["fast"]} == {"huge-pages"}
    sizes = {size for _, size in of["slow"]}
    assert {8 * MIB, 4 * MIB, 3 * MIB, 2 * MIB, 5 * MIB, MIB} <= sizes
    # A block below a huge page has no place in one.
    assert {size for _, size in of["fast"]} == {size for size in sizes if size >= 2 * MIB}


@pytest.mark.parametrize("search", ["exact", "evolve", "policy", "random"])
def test_every_search_makes_a_plan_that_fits(learned, tmp_path, search):
    def planned(search, path):
        arguments = ("--fast", "9MiB", "--search", search, "-o", path, "--json")
        done = memtrace("place", "plan", learned[0], *arguments)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    plan, exact = planned(search, tmp_path / "plan.json"), planned("exact", tmp_path / "exact.json")
    assert plan["used_bytes"] <= plan["fast_bytes"] == 9 * MIB
    assert plan["seconds"]["planned"] >= exact["seconds"]["planned"] - 1e-9
    # The same plan each time, and the same alternatives whatever the search.
    assert plan == planned(search, tmp_path / "again.json")
    assert plan["alternatives"] == exact["alternatives"]
    assert all(each["used_bytes"] <= 9 * MIB for each in plan["alternatives"])


def sizes_of(plan, by):
    """Sizes of the blocks that an alternative has in huge pages."""
    [fast] = [each["fast"] for each in plan["alternatives"] if each["by"] == by]
    sizes = {plan["objects"][number]["bytes"] for number in fast}
    return {size for size in sizes if size >= 2 * MIB}


def test_a_plan_is_compared_with_others(placed, plan, tmp_path):
    program, expected = placed
    path = tmp_path / "plan.json"
    shutil.copy(plan, path)
    arguments = ("place", "compare", path, "--against", "random,first-touch")
    done = memtrace(*arguments, "--repeat", "2", "--json", "--", program)
    assert done.returncode == 0, done.stderr
    comparison = json.loads(done.stdout)
    jsonschema.validate(comparison, json.loads(COMPARISON.read_text()))
    planned, first_touch, chance = comparison["placements"]
    names = [each["name"] for each in comparison["placements"]]
    assert names == ["planned", "first-touch", "random"]
    for each in comparison["placements"]:
        assert len(each["runs"]) == 2 and not each["failed"]
        assert each["seconds"] == min(each["runs"])
        assert each["ratio"] == each["seconds"] / planned["seconds"]
        assert each["fast_bytes"] <= comparison["fast_bytes"] == 16 * MIB
    assert planned["fast_bytes"] == 8 * MIB
    # What the program prints is on standard error, of each run.
    printed = done.stderr.decode().splitlines()
    assert [line for line in printed if line in expected.decode().splitlines()] == (
        expected.decode().splitlines() * 6
    )
    made = json.loads(path.read_text())
    for by, told in (("first-touch", first_touch), ("random", chance)):
        recording = Recording(tmp_path / "plan.compared" / by, 0, b"", b"")
        assert {size for _, size in tiers(recording)} == sizes_of(made, by)
        assert told["fast_bytes"] >= max(sizes_of(made, by))


def test_a_comparison_is_a_table(placed, plan, tmp_path):
    path = tmp_path / "plan.json"
    shutil.copy(plan, path)
    done = memtrace("place", "compare", "-q", path, "--against", "density", "--", placed[0])
    assert done.returncode == 0, done.stderr
    head, _, planned, density = done.stdout.decode().splitlines()
    assert head == "16.8 MB of huge-pages"
    assert planned.split()[0] == "planned" and "8.39 MB" in planned and " 1.00 " in planned
    assert density.split()[0] == "density"


def test_a_comparison_that_cannot_be_made_is_refused(placed, plan, tmp_path):
    path = tmp_path / "plan.json"
    shutil.copy(plan, path)

    def refused(*arguments):
        done = memtrace("place", "compare", *arguments)
        assert done.returncode != 0 and not done.stdout
        return done.stderr.decode()

    said = refused(path, "--against", "lru", "--", placed[0])
    assert "lru is for plans with swap" in said
    assert "is no placement" in refused(path, "--against", "hope", "--", placed[0])
    assert "however it was placed" in refused(path, "--", "false")
    old = json.loads(path.read_text()) | {"alternatives": []}
    path.write_text(json.dumps(old))
    assert "make it again" in refused(path, "--", placed[0])
    assert "No such file" in refused(tmp_path / "none.json", "--", placed[0])


def test_blocks_go_where_the_plan_has_them(placed, plan, tmp_path):
    program, expected = placed
    recording = run(plan, tmp_path / "trace", program)
    assert (recording.code, recording.stdout) == (0, expected)
    assert b"huge 8192" in recording.stderr.splitlines()
    of = tiers(recording)
    # What is slow stays in the C library's heap.
    assert of == {("huge-pages", 8 * MIB): 1}
    assert recording.report["notes"] == ["Blocks placed as planned: 1; moves of their pages: 0."]
    # Recorded as any other block.
    peak = recording.sql("select max(bytes) from {allocations} where bytes = 8388608")
    assert peak == [(8 * MIB,)]


def test_the_fast_tier_has_no_more_than_its_bytes(placed, plan, tmp_path):
    """All objects are moved there, and have a tenth of the room that they take."""
    program, expected = placed
    path = tmp_path / "plan.json"
    memtrace("place", "estimate", plan, "--move", "all=fast", "-o", path)
    moved = json.loads(path.read_text())
    path.write_text(json.dumps(moved | {"fast_bytes": 9 * MIB}))
    recording = run(path, tmp_path / "trace", program)
    assert (recording.code, recording.stdout) == (0, expected)
    # The first block leaves a megabyte.
    assert tiers(recording) == {("huge-pages", 8 * MIB): 1}


def test_a_program_that_allocates_otherwise_runs_on(placed, plan, tmp_path):
    program, _ = placed
    expected = subprocess.run([program, "40"], capture_output=True, check=True).stdout
    recording = run(plan, tmp_path / "trace", program, "40")
    assert (recording.code, recording.stdout) == (0, expected)
    [note] = recording.report["notes"]
    assert "other large blocks" in note
    assert recording.sql("select count(*) from {placements} where action = 'depart'") == [(1,)]


def test_another_program_is_left_alone(target, plan, tmp_path):
    recording = run(plan, tmp_path / "trace", target("threads.c"))
    assert recording.code == 0
    [note] = [note for note in recording.report["notes"] if "placed" in note]
    assert "No block was placed" in note
    assert placements(recording) == 0


def test_another_allocator_is_left_alone(placed, plan, tmp_path):
    program, expected = placed
    library = next(Path("/usr/lib").rglob("libjemalloc.so.2"), None)
    if library is None:
        pytest.skip("jemalloc is not installed")
    path = tmp_path / "trace"
    command = ("env", f"LD_PRELOAD={library}", program)
    recording = run(plan, path, *command)
    assert (recording.code, recording.stdout) == (0, expected)
    assert placements(recording) == 0


def test_a_plan_that_gains_nothing_does_nothing(learned, placed, tmp_path):
    program, expected = placed
    path = tmp_path / "plan.json"
    memtrace("place", "plan", learned[0], "--fast", "1MB", "-o", path)
    trace = tmp_path / "trace"
    done = memtrace("place", "run", path, "-o", trace, "--", program)
    assert (done.returncode, done.stdout) == (0, expected)
    assert b"gains nothing" in done.stderr and not trace.exists()
    for command, code in (("no-such-program", 127), (tmp_path, 126)):
        done = memtrace("place", "run", path, "--", command)
        assert (done.returncode, done.stderr.count(b"\n")) == (code, 2)


def test_a_broken_plan_is_one_sentence(placed, plan, tmp_path):
    command = (placed[0], "1", "2")  # ROUNDS, TURNS: a short run
    expected = subprocess.run(command, capture_output=True, check=True).stdout
    whole = plan.read_bytes()
    draw = random.Random(22)
    for number in range(100):
        broken = bytearray(whole)
        match number % 4:
            case 0:
                del broken[draw.randrange(len(broken)) :]
            case 1:
                broken[draw.randrange(len(broken))] ^= 1 << draw.randrange(8)
            case 2:
                start = draw.randrange(len(broken))
                del broken[start : start + draw.randrange(1, 60)]
            case 3:
                start = draw.randrange(len(broken))
                broken[start:start] = bytes(
                    draw.choices(b'0123456789{}[]",:-eE', k=draw.randrange(1, 9))
                )
        path = tmp_path / "broken.json"
        path.write_bytes(broken)
        done = memtrace("place", "run", "-q", "-f", "-o", tmp_path / "trace", path, "--", *command)
        assert (done.returncode, done.stdout) == (0, expected), number
        said = [line for line in done.stderr.decode().splitlines() if line.startswith("memtrace:")]
        assert len(said) <= 1, number
        # Where a digit has become another one, it is a plan all the same.
        recording = Recording(tmp_path / "trace", 0, b"", b"")
        assert not said or placements(recording) == 0, number


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "No such file"),
        (b"", "is not a usable plan"),
        (b"\xff", "cannot read the plan"),
        (b'{"plan_version": 99}', "is not a usable plan"),
    ],
)
def test_what_is_no_plan_is_named(placed, tmp_path, content, says):
    program, expected = placed
    path = tmp_path / "plan.json"
    if content is not None:
        path.write_bytes(content)
    recording = run(path, tmp_path / "trace", program)
    assert (recording.code, recording.stdout) == (0, expected)
    [sentence] = [
        line for line in recording.stderr.decode().splitlines() if "without a plan" in line
    ]
    assert says in sentence


def test_mistakes_are_named(learned, plan, placed, tmp_path):
    def refused(*arguments):
        done = memtrace("place", *arguments)
        assert done.returncode != 0
        return done.stderr.decode()

    out = ("-o", tmp_path / "x")
    base = ("learn", *out, "--base")
    assert "is no tier" in refused(*base, "small-pages,gold", "--", "true")
    assert "no NUMA node 99" in refused(*base, "node:0,node:99", "--", "true")
    assert "are the same" in refused(*base, "node:0,node:0", "--", "true")
    assert "cannot be the slow tier" in refused(*base, "huge-pages,node:0", "--", "true")
    assert "failed with 1" in refused("learn", *out, "--", "false")
    assert "write NUMBER=fast" in refused("estimate", plan, "--move", "1=gold")
    assert "the plan has the objects" in refused("estimate", plan, "--move", "99=fast")
    assert "is no search" in refused("plan", learned[0], "--fast", "1MB", "--search", "luck")
    assert "cannot plan with" in refused("plan", learned[0] / "slow", "--fast", "1MB")
    memtrace("record", "-q", "-f", "-o", tmp_path / "d" / "slow", "--", "true")
    memtrace("record", "-q", "-f", "-o", tmp_path / "d" / "fast", "--", "true")
    assert "place learn" in refused("plan", tmp_path / "d", "--fast", "1MB")


PYTHON = """
import numpy
array = numpy.ones(8 << 20)
maps = open("/proc/self/smaps").read().split("VmFlags")
address = array.ctypes.data
for entry in maps:
    lines = entry.splitlines()
    bounds = next((line.split()[0] for line in lines if "-" in line.split(" ")[0]), "0-0")
    start, end = (int(bound, 16) for bound in bounds.split("-"))
    if start <= address < end:
        print(next(line for line in lines if line.startswith("AnonHugePages")).split()[1])
"""


def test_numpy_does_not_request_huge_pages_for_itself(python, tmp_path):
    done = memtrace(
        "place",
        "learn",
        "-q",
        "-o",
        tmp_path / "runs",
        "--",
        python,
        "-c",
        PYTHON,
        env=environment(),
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.decode().split() == ["0", "65536"]


def test_the_block_that_takes_the_time_is_told(target, tmp_path):
    program = target("random_reads.c")
    done = memtrace("place", "learn", "--repeat", "2", "-o", tmp_path / "runs", "--", program)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["fast", "slow"]
    path = tmp_path / "plan.json"
    arguments = ("--fast", "1GB", "--verify", "2", "-o", path, "--json")
    done = memtrace("place", "plan", tmp_path / "runs", *arguments)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "runs" / "verified-1").is_dir()
    plan = json.loads(done.stdout)
    assert plan == json.loads(path.read_text())
    assert plan["used_bytes"] <= plan["fast_bytes"]
    largest = max(plan["objects"], key=lambda each: each["time_share"])
    assert largest["time_share"] > 0.5
    assert "random_reads.c" in largest["place"] or "main" in largest["place"]
