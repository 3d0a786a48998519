"""Requests of memory for jobs, and what a kill teaches."""

import sys

import memtrace as package
import pytest
from conftest import memtrace
from memtrace.sizing import ENOUGH, GROWTH, Sizes

PROGRAM = """
import numpy as np

def blur(x):
    return (x + np.roll(x, 1, 0)) / np.float32(2)

for shape in [(53, 61, 47), (59, 40, 64), (42, 71, 50), (97, 89, 101)]:
    data = np.ones(shape, np.float32)
    for _ in range(2):
        blur(data)
"""
SMALL, LARGE = (100, 100, 100), (300, 300, 300)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    pytest.importorskip("numpy")
    path = tmp_path_factory.mktemp("sizing") / "trace"
    done = memtrace(
        "-q", "-o", path, "--operator=__main__:blur", "--", sys.executable, "-c", PROGRAM
    )
    assert done.returncode == 0, done.stderr.decode()
    return package.fit(path)


def test_a_first_request_is_the_upper_bound_of_the_process(model):
    law = model.predict("blur", LARGE)
    assert Sizes(model).request("blur", LARGE) == law["resident_upper_bytes"] + 1
    assert Sizes(model).request("blur", LARGE) > law["baseline"]["resident_bytes"] + 2 * 4 * 300**3
    more = Sizes(model, margin=0.1)
    assert more.request("blur", LARGE) == pytest.approx(1.1 * law["resident_upper_bytes"], abs=2)
    assert more.mem_mb("blur", LARGE) * 10**6 >= more.request("blur", LARGE)


def test_later_attempts_request_more_by_themselves(model):
    sizes = Sizes(model)
    first, second, third = (sizes.request("blur", LARGE, attempt=n) for n in (1, 2, 3))
    assert second == pytest.approx(GROWTH * first, rel=1e-6)
    assert third == pytest.approx(GROWTH * second, rel=1e-6)
    assert sizes.request("blur", LARGE) == first
    with pytest.raises(ValueError, match="counted from 1"):
        sizes.request("blur", LARGE, attempt=0)


def test_a_kill_is_not_paid_for_twice(model):
    """A law that is twice too low: every job of the operator learns it from the first."""
    sizes = Sizes(model)

    def need(shape):
        return 2 * model.predict("blur", shape)["resident_upper_bytes"]

    granted, kills = sizes.request("blur", SMALL), 0
    while granted < need(SMALL):
        kills += 1
        again = sizes.killed("blur", SMALL, granted)
        assert again == pytest.approx(GROWTH * granted, rel=1e-6)
        granted = again
    assert kills == 2
    for shape in (LARGE, SMALL, (200, 50, 80)):
        assert sizes.request("blur", shape) >= need(shape), "no further kill"
    # What a job needed in the end is the request of the others.
    sizes.finished("blur", SMALL, need(SMALL))
    for shape in (LARGE, SMALL):
        assert sizes.request("blur", shape) == pytest.approx(need(shape), rel=1e-4)
    sizes.killed("blur", LARGE, int(1.01 * need(LARGE)))
    assert sizes.request("blur", SMALL) > 1.4 * need(SMALL)


def test_a_kill_below_the_bound_is_not_forgotten_by_other_jobs(model):
    sizes = Sizes(model)
    bound = model.predict("blur", SMALL)["resident_upper_bytes"]
    likely = model.predict("blur", SMALL)["resident_bytes"]
    for _ in range(ENOUGH):
        sizes.finished("blur", SMALL, likely)
    granted = sizes.request("blur", SMALL)
    assert granted < bound
    assert sizes.killed("blur", SMALL, granted) > bound - 2
    # One that was predicted to need more says nothing of why this one was killed.
    sizes.finished("blur", (120, 100, 100), granted + 10**6)
    assert sizes.request("blur", SMALL) > bound - 2


def test_finished_jobs_say_how_much_of_the_bound_is_needed(model):
    sizes = Sizes(model)
    law = model.predict("blur", LARGE)
    likely, upper = law["resident_bytes"], law["resident_upper_bytes"]
    above = (upper - likely) // 4
    for part in range(ENOUGH):
        assert sizes.request("blur", LARGE) == upper + 1
        sizes.finished("blur", LARGE, likely + above * part // ENOUGH)
    learned = sizes.request("blur", LARGE)
    assert likely + above * (ENOUGH - 1) // ENOUGH < learned < likely + 2 * above
    for _ in range(100):
        sizes.finished("blur", LARGE, likely)
    assert sizes.request("blur", LARGE) < learned
    # Far beyond them, and once one was killed, the bound counts.
    huge = (900, 900, 900)
    assert sizes.request("blur", huge) == model.predict("blur", huge)["resident_upper_bytes"] + 1
    # So it does for all after a kill, until a job says what it needed.
    assert sizes.killed("blur", LARGE, learned) == upper + 1
    small = model.predict("blur", SMALL)["resident_upper_bytes"]
    assert sizes.request("blur", SMALL) == small + 1
    sizes.finished("blur", LARGE, learned + 1000)
    assert learned + 1000 <= sizes.request("blur", LARGE) < upper


def test_sizes_are_taken_as_slurm_writes_them(model):
    """Letters alone are powers of 1024 there."""
    sizes = Sizes(model)
    bound = model.predict("blur", LARGE)["resident_upper_bytes"]
    kilobytes = -(-bound // 1024)
    assert sizes.killed("blur", LARGE, f"{kilobytes}K") == pytest.approx(GROWTH * bound, rel=1e-4)
    more = 2 * bound
    sizes.finished("blur", LARGE, f"{more / 2**20:.2f}M")
    assert sizes.request("blur", LARGE) == pytest.approx(more, rel=1e-4)
    with pytest.raises(ValueError, match="not a size"):
        sizes.finished("blur", LARGE, "123456X")


def test_what_is_wrong_is_said(model):
    with pytest.raises(ValueError, match="no law for sharpen"):
        Sizes(model).request("sharpen", LARGE)
    with pytest.raises(ValueError, match="margin"):
        Sizes(model, margin=-0.1)


def test_peaks_of_nothing_teach_nothing_and_no_job_asks_for_less_than_any_took(model):
    sizes = Sizes(model)
    first = sizes.request("blur", LARGE)
    for _ in range(2 * ENOUGH):
        sizes.finished("blur", LARGE, 0)
    assert sizes.request("blur", LARGE) == first
    least = model.predict("blur", SMALL)["resident_upper_bytes"] // 2
    for _ in range(ENOUGH):
        sizes.finished("blur", LARGE, least)
    assert sizes.request("blur", SMALL) >= least
    with pytest.raises(ValueError, match="granted no memory"):
        sizes.killed("blur", LARGE, 0)
