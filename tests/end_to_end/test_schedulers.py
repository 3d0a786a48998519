"""A real Slurm: what recommend prints, jobs that request what laws say, what sacct says of them."""

import sys

import memtrace as package
import pytest
from conftest import memtrace
from memtrace.sizing import ENOUGH, Sizes

from experiments.schedulers import commands, one_node

#: Slurm's control groups have one name.
pytestmark = pytest.mark.serial

OPERATOR = """
import sys
import time
import numpy as np

def blur(x, seconds=0):
    rolled = np.roll(x, 1, 0)
    both = x + rolled
    time.sleep(seconds)
    both /= 2
    return both
"""
RECORDED = f"""{OPERATOR}
for shape in [(53, 61, 47), (59, 40, 64), (42, 71, 50), (97, 89, 101)]:
    for _ in range(2):
        blur(np.ones(shape, np.float32))
"""
#: Stays at its peak until Slurm, which samples once a second, has seen it.
JOB = f"""{OPERATOR}
blur(np.ones([int(length) for length in sys.argv[1:]], np.float32), 2.5)
"""
SHAPES = [(300, 300, 300), (200, 400, 500), (350, 400, 450), (420, 430, 440), (150, 350, 700)]


@pytest.fixture(scope="module")
def slurm():
    if reason := one_node.why_not():
        pytest.skip(reason)
    with one_node.slurm() as started:
        yield started


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    trace = tmp_path_factory.mktemp("slurm") / "trace"
    command = ("-q", "-o", trace, "--operator=__main__:blur", "--", sys.executable, "-c", RECORDED)
    done = memtrace(*command)
    assert done.returncode == 0, done.stderr.decode()
    return package.fit(trace)


@pytest.fixture
def run(slurm, tmp_path):
    """Runs jobs of blur as an array; what sacct says of each."""

    def array(requests):
        (tmp_path / "job.py").write_text(JOB)
        (tmp_path / "shapes").write_text("".join("{} {} {}\n".format(*shape) for shape in SHAPES))
        script = (
            "#!/bin/bash\nmapfile -t shapes <shapes\n"
            f"{sys.executable} job.py ${{shapes[SLURM_ARRAY_TASK_ID]}}\n"
        )
        job = slurm.submit_array(script, requests, f"--chdir={tmp_path}")
        slurm.wait(job, 120)
        return slurm.accounts(job, len(SHAPES))

    return array


def test_slurm_takes_the_lines_of_a_recommendation(slurm, model, tmp_path):
    model.save(tmp_path / "model.json")
    chosen = ("--operator", "blur", "--shape", "900,900,900", "--halo", "1")
    workers = ("--memory-limit", "1.5GB", "--workers", "2")
    done = memtrace("recommend", tmp_path / "model.json", *chosen, *workers, "--format", "slurm")
    assert done.returncode == 0, done.stderr.decode()
    lines = done.stdout.decode()
    job = slurm.submit(f"#!/bin/bash\n{lines}\nsrun true\n", f"--chdir={tmp_path}")
    slurm.wait(job, 60)
    [ended] = slurm.accounts(job)
    assert ended.state == commands.FINISHED
    each = int(lines.split("--mem-per-cpu=")[1].split("M")[0])
    assert ended.requested == f"{2 * each}M", "two tasks of one processor each"


def test_jobs_that_request_their_bound_finish_and_at_half_of_it_are_killed(run, model):
    sizes = Sizes(model)
    requests = [sizes.request("blur", shape) for shape in SHAPES]
    ended = run(requests)
    assert [each.state for each in ended] == [commands.FINISHED] * len(SHAPES)
    for shape, each in zip(SHAPES, ended, strict=True):
        likely = model.predict("blur", shape)["resident_bytes"]
        assert commands.in_bytes(each.max_rss) == pytest.approx(likely, rel=0.15)
        sizes.finished("blur", shape, each.max_rss)
    assert len(ended) >= ENOUGH
    learned = [sizes.request("blur", shape) for shape in SHAPES]
    assert sum(learned) < sum(requests), "finished jobs say that they need less"
    halved = run([request // 2 for request in requests])
    assert [each.state for each in halved] == [commands.KILLED] * len(SHAPES)
