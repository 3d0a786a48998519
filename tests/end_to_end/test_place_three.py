"""Placement in three tiers. On a machine with one node, its memory as it comes lies between small
pages and huge ones; of several nodes, test_place_nodes.py has guests."""

import json
import shutil
from pathlib import Path

import jsonschema
import pytest
from conftest import ROOT, Recording, memtrace

MIB = 1 << 20
TIERS = {"slow": "small-pages", "middle": "node:0", "fast": "huge-pages"}
SCHEMAS = ROOT / "docs" / "schemas"
SETTING = Path("/sys/kernel/mm/transparent_hugepage/enabled")


@pytest.fixture(scope="module", autouse=True)
def huge_pages():
    if not SETTING.exists() or "[never]" in SETTING.read_text():
        pytest.skip("transparent huge pages are switched off")


def learn(folder, program, *options):
    return memtrace("place", "learn", "-o", folder, *options, "--", program)


@pytest.fixture(scope="module")
def program(target):
    return target("placed.c")


@pytest.fixture(scope="module")
def learned(program, tmp_path_factory):
    folder = tmp_path_factory.mktemp("learned") / "runs"
    done = learn(folder, program, "--base", ",".join(TIERS.values()))
    if b"cannot be sampled" in done.stderr:
        pytest.skip(done.stderr.decode())
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def plan(learned, tmp_path):
    """Its plan, with no object moved."""
    path = tmp_path / "plan.json"
    done = memtrace("place", "plan", learned, *["--fast", "9MiB", "--middle", "5MiB", "-o"], path)
    assert done.returncode == 0, done.stderr
    return path


def moved(plan, *moves):
    """The plan with objects moved, in the same file."""
    moves = [part for move in moves for part in ("--move", move)]
    done = memtrace("place", "estimate", plan, *moves, "-o", plan, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def tiers(folder):
    """Tier and bytes of the blocks that were placed."""
    query = "select distinct tier, bytes from {placements} where action = 'place'"
    return set(Recording(folder, 0, b"", b"").sql(query))


def test_each_tier_has_a_run_with_all_blocks(learned):
    of = {name: tiers(learned / name) for name in TIERS}
    assert {name: {tier for tier, _ in blocks} for name, blocks in of.items()} == {
        name: {tier} for name, tier in TIERS.items()
    }
    sizes = {size for _, size in of["slow"]}
    assert {size for _, size in of["middle"]} == sizes
    assert {size for _, size in of["fast"]} == {size for size in sizes if size >= 2 * MIB}


def test_a_plan_has_room_for_what_it_places_in_each(plan):
    made = json.loads(plan.read_text())
    jsonschema.validate(made, json.loads((SCHEMAS / "place.schema.json").read_text()))
    middle = made["middle"]
    assert (made["tiers"]["slow"], middle["tier"], made["tiers"]["fast"]) == tuple(TIERS.values())
    assert made["used_bytes"] <= made["fast_bytes"] == 9 * MIB
    assert middle["used_bytes"] <= middle["bytes"] == 5 * MIB
    gains = {"slow": 0.0, "middle": 0.0, "fast": 0.0}
    for each in made["objects"]:
        assert each["bytes"] >= 2 * MIB or each["gain_seconds"] == 0
        of = {"slow": 0.0, "middle": each["middle"]["gain_seconds"], "fast": each["gain_seconds"]}
        gains[each["tier"]] += of[each["tier"]]
    planned = made["seconds"]["slow"] - sum(gains.values())
    assert made["seconds"]["planned"] == pytest.approx(planned)
    for each in made["alternatives"]:
        assert not set(each["fast"]) & set(each["middle"])
        assert each["used_bytes"] <= 9 * MIB and each["middle_used_bytes"] <= 5 * MIB


def test_blocks_that_have_no_room_go_to_the_next_tier(plan, program, tmp_path):
    told = moved(plan, "all=fast")
    assert any("go to a slower one" in note for note in told["notes"])
    done = memtrace("place", "run", "-o", tmp_path / "trace", plan, "--", program)
    assert done.returncode == 0, done.stderr
    # The first block leaves a megabyte of the fast tier; what the middle one has no room for either
    # is left to the C library.
    placed = tiers(tmp_path / "trace")
    assert {size for tier, size in placed if tier == "huge-pages"} == {8 * MIB}
    assert {tier for tier, _ in placed} == {"huge-pages", "node:0"}
    assert ("node:0", 4 * MIB) in placed


def test_a_comparison_counts_both_tiers(plan, program):
    count = len(json.loads(plan.read_text())["objects"])
    moved(plan, "all=slow", *(f"{number}=middle" for number in range(1, count + 1)))
    against = ("--against", "first-touch,density", "--json")
    done = memtrace("place", "compare", plan, *against, "--", program)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    jsonschema.validate(told, json.loads((SCHEMAS / "compare.schema.json").read_text()))
    assert told["middle"] == {"tier": "node:0", "bytes": 5 * MIB}
    planned, first_touch, density = told["placements"]
    assert planned["fast_bytes"] == 0 < planned["middle_bytes"] <= 5 * MIB
    assert 8 * MIB <= first_touch["fast_bytes"] <= 9 * MIB
    assert 0 < first_touch["middle_bytes"] <= 5 * MIB
    assert density["middle_bytes"] <= 5 * MIB


def test_a_verified_plan_counts_its_runs(learned, tmp_path):
    room = ["--fast", "9MiB", "--middle", "5MiB", "--verify", "1", "--json", "-o"]
    done = memtrace("place", "plan", learned, *room, tmp_path / "plan.json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    # What the run took has a part in it.
    plain = memtrace("place", "plan", learned, *room[:4], "--json", "-o", tmp_path / "plain.json")
    assert told["seconds"]["planned"] != json.loads(plain.stdout)["seconds"]["planned"]
    run = Recording(learned / "verified-1", 0, b"", b"")
    assert run.report["recorded"]["placing"].endswith("huge-pages is fast")


def test_what_is_released_makes_room_again(program, tmp_path):
    """Through realloc, too: the middle tier has room for two blocks of each of five rounds."""
    command = (program, "5", "1")
    base = ("--base", ",".join(TIERS.values()))
    done = memtrace("place", "learn", "-o", tmp_path / "runs", *base, "--", *command)
    assert done.returncode == 0, done.stderr
    path = tmp_path / "plan.json"
    room = ("--fast", "9MiB", "--middle", "5MiB")
    assert memtrace("place", "plan", tmp_path / "runs", *room, "-o", path).returncode == 0
    moved(path, "all=fast")
    done = memtrace("place", "run", "-o", tmp_path / "trace", path, "--", *command)
    assert done.returncode == 0, done.stderr
    query = "select count(*) from {placements} where tier = 'node:0' and bytes = "
    placed = Recording(tmp_path / "trace", 0, b"", b"").sql(query + str(4 * MIB))
    assert placed == [(2 * 5,)]


def test_a_plan_with_a_tier_two_times_is_refused(plan, program, tmp_path):
    made = json.loads(plan.read_text())
    for tier in (TIERS["slow"], TIERS["fast"]):
        double = made | {"middle": made["middle"] | {"tier": tier}, "worth": True}
        path = tmp_path / "double.json"
        path.write_text(json.dumps(double))
        done = memtrace("place", "run", "-f", "-o", tmp_path / "trace", path, "--", program)
        assert done.returncode == 0 and b"the same tier two times" in done.stderr
    unmoved = [each | {"tier": "slow"} for each in made["objects"]]
    alone = made | {"objects": unmoved, "middle": None, "worth": True}
    with_swap = [
        made | {"tiers": {"slow": "swap", "fast": "dram"}, "worth": True},
        alone | {"tiers": {"slow": "swap", "fast": "huge-pages"}},
    ]
    for plan in with_swap:
        path.write_text(json.dumps(plan))
        done = memtrace("place", "run", "-f", "-o", tmp_path / "trace", path, "--", program)
        assert done.returncode == 0 and b"with swap a plan has two tiers" in done.stderr


def test_two_runs_in_one_tier_are_refused(learned, tmp_path):
    folder = tmp_path / "runs"
    shutil.copytree(learned, folder)
    shutil.rmtree(folder / "fast")
    shutil.copytree(folder / "slow", folder / "fast")
    room = ("--fast", "9MiB", "--middle", "5MiB", "-o", tmp_path / "plan.json")
    done = memtrace("place", "plan", folder, *room)
    assert done.returncode != 0 and b"are of the same tier" in done.stderr


def test_two_tiers_and_three_are_not_mixed(learned, plan, program, tmp_path):
    def refused(*arguments):
        done = memtrace("place", *arguments)
        assert done.returncode != 0
        [sentence] = done.stderr.decode().splitlines()
        return sentence

    out = ("-o", tmp_path / "x.json")
    assert "say with --middle" in refused("plan", learned, "--fast", "9MiB", *out)
    both = ("--fast", "9MiB", "--middle", "5MiB")
    assert "leave --search out" in refused("plan", learned, *both, "--search", "random", *out)
    base = ("learn", *out, "--base")
    assert "are the same" in refused(*base, "small-pages,node:0,node:0", "--", "true")
    assert "write swap,dram" in refused(*base, "swap,node:0,dram", "--", "true")
    assert "two tiers or three" in refused(*base, "node:0,node:1,node:2,node:3", "--", "true")
    two = tmp_path / "two"
    assert learn(two, program).returncode == 0
    assert "leave --middle out" in refused("plan", two, *both, *out)
    path = tmp_path / "two.json"
    assert memtrace("place", "plan", two, "--fast", "9MiB", "-o", path).returncode == 0
    assert "two tiers, fast and slow" in refused("estimate", path, "--move", "1=middle")


def test_what_was_learned_before_is_replaced_as_a_whole(program, tmp_path):
    """So that runs of two learnings never mix."""
    folder = tmp_path / "runs"
    assert learn(folder, program, "--base", ",".join(TIERS.values())).returncode == 0
    again = learn(folder, program)
    assert again.returncode != 0 and b"replace the trace with --force" in again.stderr
    # Nothing is lost before the command has run, or where anything is no trace.
    missing = memtrace("place", "learn", "--force", "-o", folder, "--", "/no/such/program")
    assert missing.returncode != 0
    (folder / "fast" / "notes.txt").write_text("mine")
    refused = learn(folder, program, "--force")
    assert refused.returncode != 0 and b"is not only a trace" in refused.stderr
    (folder / "fast" / "notes.txt").unlink()
    assert memtrace("report", folder / "slow").returncode == 0
    assert {path.name for path in folder.iterdir()} == {"slow", "middle", "fast"}
    assert learn(folder, program, "--force").returncode == 0
    assert {path.name for path in folder.iterdir()} == {"slow", "fast"}
    failed = memtrace("place", "learn", "--force", "-o", folder, "--", "false")
    assert failed.returncode != 0
    assert {path.name for path in folder.iterdir()} == {"slow"}
