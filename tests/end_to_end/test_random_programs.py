"""Random programs: whatever they call, the trace says what they did, block by block and byte by byte.

Of many more: scripts/random-programs.
"""

import json
from collections import Counter

import duckdb
import pytest
from random_programs import KINDS, check, check_all, compare_trace, plan_of

PROGRAMS = 60


@pytest.fixture(scope="module")
def program(target):
    return target("random_program.c")


def test_traces_agree_with_what_the_programs_know(program):
    outcomes = list(check_all(program, range(PROGRAMS), jobs=2))
    wrong = [str(outcome) for outcome in outcomes if outcome.mismatches]
    assert not wrong, "\n".join(wrong)

    images = [image for outcome in outcomes for image in outcome.images]
    calls = sum((Counter(image["calls"]) for image in images), Counter())
    assert all(calls[kind] > PROGRAMS for kind in KINDS), "each kind was there"
    assert {image["origin"] for image in images} == {"exec", "fork"}
    assert sum(image["inherited_releases"] for image in images) > PROGRAMS
    in_order = sum("peak_heap" in image for image in images)
    assert 0 < in_order < len(images), "both modes were there"


@pytest.mark.parametrize("empty", [False, True])
def test_placement_changes_nothing_that_is_recorded(program, tmp_path, empty):
    placed = 0
    for seed in range(12):
        folder = tmp_path / str(seed)
        folder.mkdir()
        assert not check(program, folder, seed).mismatches
        plan = plan_of(folder / "trace", program)
        if empty:
            plan |= {"objects": [], "blocks": []}
        path = folder / "plan.json"
        path.write_text(json.dumps(plan))
        again = folder / "again"
        again.mkdir()
        assert not check(program, again, seed, path).mismatches
        query = f"select count(*) from '{again}/trace/placements/*.parquet' where action = 'place'"
        [(count,)] = duckdb.sql(query).fetchall()
        placed += count
    assert (placed == 0) == empty


def one_more(image, key):
    image[key] += 1


def no_last_block(image):
    del image["blocks"][-2]  # null ends the list


def another_kind_of_page(image):
    page = image["pages"][0]
    page[2] = "map_shared" if page[2] == "map_file" else "map_file"


@pytest.mark.parametrize(
    "change",
    [
        lambda image: one_more(image, "peak_heap"),
        lambda image: one_more(image, "peak_mapped"),
        lambda image: one_more(image, "inherited_releases"),
        lambda image: one_more(image["calls"], "realloc"),
        lambda image: one_more(image["requested"], "map_reserved"),
        no_last_block,
        another_kind_of_page,
    ],
)
def test_the_comparison_sees_the_smallest_difference(program, tmp_path, change):
    seed = 0
    outcome = check(program, tmp_path, seed)
    assert not outcome.mismatches
    image = next(image for image in outcome.images if "peak_heap" in image)
    change(image)
    _, mismatches = compare_trace(tmp_path / "trace", outcome.images)
    assert len(mismatches) == 1, mismatches
