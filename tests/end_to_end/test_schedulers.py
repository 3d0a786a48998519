"""Real schedulers: what recommend prints, jobs that request what laws say, what becomes of them."""

import json
import os
import shutil
import signal
import subprocess
import sys

import memtrace as package
import pytest
from conftest import MEMTRACE, ROOT, environment, memtrace, succeeded
from memtrace.sizing import ENOUGH, Sizes

from experiments.schedulers import commands, one_node

#: An environment with Snakemake and kubernetes-validate.
INSTALLED = ROOT / "target" / "schedulers" / "bin"

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
RECORDED = """
for shape in [(53, 61, 47), (59, 40, 64), (42, 71, 50), (97, 89, 101)]:
    for _ in range(2):
        {operator}(np.ones(shape, np.float32))
"""
#: A program that hangs ends then, and Slurm is free for others.
LONGEST_SECONDS = 600
#: Stays at its peak for five of Slurm's samples: on a machine under load some are late.
JOB = f"""{OPERATOR}
blur(np.ones([int(length) for length in sys.argv[1:]], np.float32), 5)
"""
SHAPES = [(300, 300, 300), (200, 400, 500), (350, 400, 450), (420, 430, 440), (150, 350, 700)]

#: Prints the number of chunks, and what each recorded task needed.
ON_CLUSTER = """
import json, sys
import chunked
import dask.array as da
import memtrace.dask
from dask_jobqueue import SLURMCluster
from distributed import Client
from operators.gst3d import HALO, gst3d

model, folder = sys.argv[1:]
options = {"local_directory": folder, "log_directory": folder}
with SLURMCluster(cores=1, memory="800MB", **options) as cluster, Client(cluster) as client:
    cluster.scale(jobs=2)
    client.wait_for_workers(2, timeout=120)
    volume = da.ones((200, 150, 120), dtype="f4", chunks=(200, 150, 120))
    plan = memtrace.dask.recommend(volume, gst3d, model, client, halo=HALO)
    with memtrace.dask.record(client, folder + "/traces", model=model) as recording:
        chunked.apply("gst3d", volume.rechunk(plan.chunks)).mean(dtype="f8").compute()
    print(json.dumps({"chunks": plan.tasks, "tasks": recording.tasks()}))
"""
#: A task of an array records the ranks of a step one by one, and those of mpirun together.
RANKS = f"""#!/bin/bash
record="{MEMTRACE} -q --operator operators.gst3d:gst3d"
program="{sys.executable} {ROOT / "examples" / "ranks.py"}"
srun --mpi=pmix $record -o 'each/%j.%r' -- $program || exit
$record -o one -- mpirun -np 2 $program
"""


@pytest.fixture(scope="module")
def slurm():
    if reason := one_node.why_not():
        pytest.skip(reason)
    with one_node.slurm() as started:
        yield started


@pytest.fixture(scope="module")
def installed():
    """Runs a program of target/schedulers in a folder; what it prints."""
    if not INSTALLED.is_dir():
        pytest.skip("no Snakemake in target/schedulers: scripts/schedulers installs it (240 MB)")

    def run(folder, *command, **variables):
        paths = f"{ROOT / 'python'}:{ROOT / 'examples'}"
        path = f"{INSTALLED}:{os.environ['PATH']}"
        done = subprocess.run(
            list(map(str, command)),
            cwd=folder,
            env=environment(**{"PYTHONPATH": paths, "PATH": path, **variables}),
            capture_output=True,
            text=True,
            check=False,
            timeout=LONGEST_SECONDS,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """The model of an operator, from one recording, and its file."""

    def model(operator, program):
        folder = tmp_path_factory.mktemp("model")
        program += RECORDED.format(operator=operator.split(":")[1])
        command = ("--operator", operator, "--", sys.executable, "-c", program)
        done = memtrace("-q", "-o", folder / "trace", *command, cwd=ROOT / "examples")
        assert done.returncode == 0, done.stderr.decode()
        found = package.fit(folder / "trace")
        found.save(folder / "model.json")
        return found, folder / "model.json"

    return model


@pytest.fixture(scope="module")
def blur(fitted):
    return fitted("__main__:blur", OPERATOR)


@pytest.fixture(scope="module")
def gst3d(fitted):
    return fitted("operators.gst3d:gst3d", "import numpy as np\nfrom operators.gst3d import gst3d")


def recommended(model, target):
    """Two workers' lines for a scheduler."""
    chosen = ("--operator", "blur", "--shape", "900,900,900", "--halo", "1")
    workers = ("--memory-limit", "1.5GB", "--workers", "2")
    done = memtrace("recommend", model, *chosen, *workers, "--format", target)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def test_what_a_killed_study_left_of_its_jobs_is_ended(monkeypatch):
    if reason := one_node.why_not():
        pytest.skip(reason)
    monkeypatch.setattr(one_node, "NODE", f"memtrace-{os.getpid()}")
    job = one_node.GROUPS / "memory" / f"slurm_{one_node.NODE}" / "uid_0" / "job_1"
    job.mkdir(parents=True)
    with subprocess.Popen(["sleep", "100"]) as left:
        (job / "cgroup.procs").write_text(str(left.pid))
        one_node.end_groups()
        assert left.wait() == -signal.SIGKILL
    assert not job.parents[1].exists()


def test_slurm_takes_the_lines_of_a_recommendation(slurm, blur, tmp_path):
    lines = recommended(blur[1], "slurm")
    job = slurm.submit(f"#!/bin/bash\n{lines}\nsrun true\n", f"--chdir={tmp_path}")
    slurm.wait(job, 60)
    [ended] = slurm.accounts(job)
    assert ended.state == commands.FINISHED
    each = int(lines.split("--mem-per-cpu=")[1].split("M")[0])
    assert ended.requested == f"{2 * each}M", "two tasks of one processor each"


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


def test_jobs_that_request_their_bound_finish_and_at_half_of_it_are_killed(run, blur):
    model, _ = blur
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


def test_chunks_for_a_slurm_cluster_fit_its_jobs(slurm, gst3d, tmp_path):
    """Each of two jobs of 800 MB computes a part of what takes 750 MB; the recorder is in them."""
    paths = {
        "PYTHONPATH": f"{ROOT / 'python'}:{ROOT / 'examples'}",
        "PATH": f"{MEMTRACE.parent}:{os.environ['PATH']}",
    }
    command = (sys.executable, "-c", ON_CLUSTER, str(gst3d[1]), str(tmp_path))
    environment = slurm.environment | paths
    said = json.loads(succeeded(*command, env=environment, timeout=LONGEST_SECONDS))
    tasks = [task for task in said["tasks"] if task["law"]]
    assert len(tasks) == said["chunks"] >= 2
    assert len({task["worker"] for task in tasks}) == 2
    for task in tasks:
        assert task["measured_bytes"] == pytest.approx(task["predicted_bytes"], rel=0.01)
        assert not task["over"] and not task["error"]


def test_ranks_of_a_step_have_a_trace_each(slurm, tmp_path):
    if shutil.which("mpirun") is None or not (ROOT / "target" / "mpi").is_dir():
        pytest.skip("no OpenMPI or mpi4py: scripts/mpi installs them (70 MB)")
    paths = f"{ROOT / 'python'}:{ROOT / 'examples'}:{ROOT / 'target' / 'mpi'}"
    variables = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    slurm = commands.Slurm(slurm.environment["SLURM_CONF"])
    slurm.environment |= variables | {"PYTHONPATH": paths, "OPENBLAS_NUM_THREADS": "1"}
    job = slurm.submit(RANKS, "--array=3", "--ntasks=2", f"--chdir={tmp_path}")
    slurm.wait(job, 120)
    each = sorted(trace.name for trace in (tmp_path / "each").iterdir())
    assert each == [f"{job}_3.0", f"{job}_3.1"]
    figures = []
    for directory in ("each", "one"):
        found = json.loads(memtrace("report", "--json", tmp_path / directory).stdout)
        assert found["lost"] == {"events": 0, "late_events": 0, "unseen_releases": 0}
        ranks = {(rank["job"], rank["rank"]) for rank in found["ranks"]["largest"]}
        assert ranks == {(f"{job}_3", 0), (f"{job}_3", 1)}
        [operator] = found["ranks"]["operators"]
        figures.append([operator["working_peak"][key] for key in ("min_bytes", "max_bytes")])
    assert figures[0] == pytest.approx(figures[1], rel=1e-3)
    launcher = json.loads(memtrace("report", "--json", tmp_path / "one").stdout)["processes"][0]
    assert launcher["job"] == f"{job}_3" and launcher["rank"] is None, "a batch script is no rank"


def test_snakemake_requests_what_laws_say(slurm, gst3d, installed, tmp_path):
    model, file = gst3d
    shapes = [(100, 100, 100), (120, 110, 100)]
    shutil.copytree(ROOT / "examples", tmp_path, dirs_exist_ok=True)
    # Snakemake's plugin keeps SLURM_CONF from srun, which finds this Slurm by nothing else.
    configuration = slurm.environment["SLURM_CONF"]
    srun = tmp_path / "srun"
    srun.write_text(f'#!/bin/sh\nSLURM_CONF={configuration} exec {shutil.which("srun")} "$@"\n')
    srun.chmod(0o755)
    installed(
        tmp_path,
        *("snakemake", "--snakefile=schedulers/Snakefile", "--executor=slurm", "--jobs=2"),
        *("--slurm-init-seconds-before-status-checks=1", "--seconds-between-status-checks=1"),
        *("--slurm-keep-successful-logs", "--config", f"model={file}"),
        "shapes=" + ",".join("x".join(map(str, shape)) for shape in shapes),
        SLURM_CONF=configuration,
        PATH=f"{tmp_path}:{INSTALLED}:{os.environ['PATH']}",
    )
    jobs = [log.stem for log in (tmp_path / ".snakemake" / "slurm_logs").glob("**/*.log")]
    ended = [account for job in jobs for account in slurm.accounts(job)]
    assert [each.state for each in ended] == [commands.FINISHED] * len(shapes)
    own = 250  # of Snakemake, as the Snakefile has it
    requests = {f"{own + Sizes(model).mem_mb('gst3d', shape)}M" for shape in shapes}
    assert {each.requested for each in ended} == requests


def test_kubernetes_takes_the_resources_of_a_recommendation(blur, installed, tmp_path):
    resources = recommended(blur[1], "k8s").replace("\n", "\n      ")
    pod = tmp_path / "pod.yaml"
    pod.write_text(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: worker\nspec:\n  containers:\n"
        f"    - name: worker\n      image: worker\n      {resources}\n"
    )
    installed(tmp_path, "kubernetes-validate", "--strict", pod)
    pod.write_text(pod.read_text().replace("limits:", "limit:"))
    with pytest.raises(AssertionError, match="limit"):
        installed(tmp_path, "kubernetes-validate", "--strict", pod)
