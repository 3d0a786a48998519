"""Ray, Prefect and Airflow themselves: tasks that request what laws say, run together where they fit.

Their environments are in target/workflows, by scripts/workflows.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import memtrace as package
import pytest
from conftest import ROOT, environment, memtrace
from memtrace.sizing import GROWTH, Sizes
from test_documents import blocks

INSTALLED = ROOT / "target" / "workflows"
EXAMPLES = ROOT / "examples" / "schedulers"
RECORDED = """
import numpy as np
from operators.envelope import envelope
for shape in [(53, 61, 47), (59, 40, 64), (42, 71, 50), (97, 89, 101)]:
    for _ in range(2):
        envelope(np.ones(shape, np.float32))
"""
OPERATOR = "envelope"
SHAPES = [
    (120, 130, 140),
    (200, 250, 300),
    (200, 200, 150),
    (150, 150, 150),
    (180, 220, 250),
    (300, 250, 200),
]
TEXTS = ["x".join(map(str, shape)) for shape in SHAPES]
#: What tasks may have together: two or three of them at a time, never all.
NODE_MB = 1000
#: A program that hangs ends then.
LONGEST_SECONDS = 300

KILLED_BY_RAY = """
import json, os, sys
# The least that the node uses is too much: Ray kills whatever runs.
os.environ["RAY_memory_usage_threshold"] = "0.0"
os.environ["RAY_memory_monitor_refresh_ms"] = "50"
import memtrace.sizing, ray
from schedulers import on_ray
sizes, shape = memtrace.sizing.Sizes(sys.argv[1]), (100, 100, 100)
ray.init(num_cpus=1, _memory=2 * 10**9, object_store_memory=10**8, include_dashboard=False)
first = on_ray.requests(sizes, shape)
try:
    list(on_ray.apply_all(sizes, [shape]))
except ray.exceptions.OutOfMemoryError:
    print(json.dumps([first - on_ray.RAY_BYTES, on_ray.requests(sizes, shape) - on_ray.RAY_BYTES]))
"""
RETRIED_BY_PREFECT = """
import json, sys
from prefect.client.orchestration import get_client
from schedulers import job, on_prefect
attempts = []
def killed_twice(operator, shape):
    attempts.append(shape)
    if len(attempts) < 3:
        raise RuntimeError("killed")
    return {"shape": shape}
job.run_apart = killed_twice
with get_client(sync_client=True) as client:
    client.upsert_global_concurrency_limit_by_name("memory", 2000)
print(json.dumps(on_prefect.volumes([(100, 100, 100)], sys.argv[1])))
"""
FOR_KUBERNETES_BY_PREFECT = """
import asyncio, json, sys
from prefect_kubernetes.worker import KubernetesWorker, KubernetesWorkerJobConfiguration
template = KubernetesWorker.get_default_base_job_template()
made = KubernetesWorkerJobConfiguration.from_template_and_values(template, json.loads(sys.argv[1]))
print(json.dumps(asyncio.run(made).job_manifest))
"""
FOR_KUBERNETES_BY_AIRFLOW = """
import json
from airflow.providers.cncf.kubernetes.pod_generator import PodGenerator
from kubernetes.client import ApiClient, models as k8s
import on_airflow
found = {}
for task in on_airflow.volumes().tasks:
    own = task.executor_config["pod_override"]
    base = k8s.V1Pod(spec=k8s.V1PodSpec(containers=[k8s.V1Container(name="base", image="airflow")]))
    pod = PodGenerator.construct_pod(
        dag_id="volumes", task_id=task.task_id, pod_id="volumes", try_number=1, kube_image="airflow",
        date=None, args=["run"], pod_override_object=own, base_worker_pod=base, namespace="default",
        scheduler_job_id="1",
    )
    found[task.task_id] = {"slots": task.pool_slots, "pod": ApiClient().sanitize_for_serialization(pod)}
print("\\n" + json.dumps(found))
"""
#: What the scheduler of Airflow has run.
RAN_BY_AIRFLOW = """
import json
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from airflow.utils.session import create_session
with create_session() as session:
    tasks = {each.task_id: each for each in session.query(TaskInstance).all()}
    took = {each.task_id: each.value for each in session.query(XComModel).all()}
    found = [
        {"requested_bytes": task.pool_slots * 10**6, "state": task.state, **took.get(name, {})}
        for name, task in tasks.items()
    ]
print("\\n" + json.dumps(found))
"""


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """The model of the operator, and its file."""
    folder = tmp_path_factory.mktemp("model")
    command = ("--operator", f"operators.{OPERATOR}:{OPERATOR}", "--", sys.executable, "-c")
    done = memtrace("-q", "-o", folder / "trace", *command, RECORDED, cwd=ROOT / "examples")
    assert done.returncode == 0, done.stderr.decode()
    model = package.fit(folder / "trace")
    model.save(folder / "model.json")
    return model, folder / "model.json"


class Installed:
    """One of the environments, with folders of its own for what is kept between runs."""

    def __init__(self, name, folder, **variables):
        self.bin, self.folder = INSTALLED / name / "bin", folder
        paths = f"{ROOT / 'python'}:{ROOT / 'examples'}"
        path = f"{self.bin}:{os.environ['PATH']}"
        self.environment = environment(**{"PYTHONPATH": paths, "PATH": path, **variables})

    def run(self, *command):
        done = subprocess.run(
            [str(self.bin / command[0]), *map(str, command[1:])],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=LONGEST_SECONDS,
        )
        assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
        return done.stdout

    def lines(self, *command):
        """The lines of JSON that a program prints."""
        printed = self.run(*command).splitlines()
        return [json.loads(line) for line in printed if line.startswith(("{", "["))]

    def run_documented(self, name, model):
        """The blocks of docs/frameworks.md that need it."""
        shutil.copy(model, self.folder / "model.json")
        page = list(blocks(ROOT / "docs" / "frameworks.md"))
        found = [block for block in page if block.why_not == f"needs {name}"]
        assert found
        for block in found:
            (self.folder / "block.py").write_text(block.text)
            self.run("python", "block.py")


def need(name, package, script):
    """Skips where an environment lacks a package."""
    found = list((INSTALLED / name).glob(f"lib/python*/site-packages/{package}"))
    if not found:
        pytest.skip(f"no {package} in target/workflows: {script} installs it")


@pytest.fixture
def ray(tmp_path):
    need("ray", "ray", "scripts/workflows")
    # Paths of sockets are short.
    with tempfile.TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as short:
        yield Installed(
            *("ray", tmp_path),
            RAY_TMPDIR=short,
            RAY_AUTH_MODE="disabled",
            RAY_USAGE_STATS_ENABLED="0",
            LONGER_BY_SECONDS="2",
        )


@pytest.fixture
def prefect(tmp_path):
    need("prefect", "prefect", "scripts/workflows")
    return Installed(
        *("prefect", tmp_path),
        PREFECT_HOME=str(tmp_path / "prefect"),
        PREFECT_LOGGING_LEVEL="ERROR",
        PREFECT_SERVER_ANALYTICS_ENABLED="false",
        PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS="120",
        LONGER_BY_SECONDS="2",
    )


@pytest.fixture
def airflow(tmp_path, fitted):
    need("airflow", "airflow", "scripts/workflows all")
    home = tmp_path / "airflow"
    (home / "dags").mkdir(parents=True)
    shutil.copy(EXAMPLES / "on_airflow.py", home / "dags")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    found = Installed(
        *("airflow", home / "dags"),
        AIRFLOW_HOME=str(home),
        AIRFLOW__CORE__LOAD_EXAMPLES="False",
        AIRFLOW__CORE__PARALLELISM="8",
        AIRFLOW__CORE__EXECUTION_API_SERVER_URL=f"http://127.0.0.1:{port}/execution/",
        AIRFLOW__API__PORT=port,
        AIRFLOW__API__HOST="127.0.0.1",
        AIRFLOW__API__WORKERS="1",
        MODEL=str(fitted[1]),
        SHAPES=",".join(TEXTS),
        LONGER_BY_SECONDS="5",
    )
    found.run("airflow", "db", "migrate")
    return found


def check(tasks, node_mb, own_bytes=0):
    """All ran, each took what it requested at most and more than half of it, and they fit together."""
    assert sorted(tuple(task["shape"]) for task in tasks) == sorted(SHAPES)
    together = []
    for task in tasks:
        requested = task["requested_bytes"] - own_bytes
        assert requested / 2 < task["peak_bytes"] <= requested, task
        at_once = [each for each in tasks if each["began"] <= task["began"] < each["ended"]]
        assert sum(each["requested_bytes"] for each in at_once) <= node_mb * 10**6
        together.append(len(at_once))
    assert max(together) > 1, "none ran beside another"
    assert sum(task["requested_bytes"] for task in tasks) > 1.5 * node_mb * 10**6


def test_tasks_of_ray_request_what_laws_say(ray, fitted):
    command = ("python", "-m", "schedulers.on_ray", fitted[1], 10**6 * NODE_MB, *TEXTS)
    tasks = ray.lines(*command)
    check(tasks, NODE_MB)
    assert {task["attempt"] for task in tasks} == {1}


def test_a_task_that_ray_kills_requests_more(ray, fitted):
    [[first, third]] = ray.lines("python", "-c", KILLED_BY_RAY, fitted[1])
    assert first == Sizes(fitted[0]).request(OPERATOR, (100, 100, 100))
    assert third == pytest.approx(GROWTH**2 * first, rel=1e-6)


def test_what_is_documented_for_ray_works(ray, fitted):
    ray.run_documented("Ray", fitted[1])


def test_tasks_of_prefect_hold_what_laws_say(prefect, fitted):
    check(
        prefect.lines("python", "-m", "schedulers.on_prefect", fitted[1], NODE_MB, *TEXTS), NODE_MB
    )


def test_a_retry_of_prefect_requests_more(prefect, fitted):
    [[task]] = prefect.lines("python", "-c", RETRIED_BY_PREFECT, fitted[1])
    third = Sizes(fitted[0]).mem_mb(OPERATOR, (100, 100, 100), attempt=3)
    assert task["requested_bytes"] == third * 10**6


def test_what_is_documented_for_prefect_works(prefect, fitted):
    prefect.run_documented("Prefect", fitted[1])


def test_a_job_of_prefect_on_kubernetes_has_the_memory_of_its_variables(prefect, fitted):
    need("prefect", "prefect_kubernetes", "scripts/workflows all")
    memory = f"{Sizes(fitted[0]).mem_mb(OPERATOR, SHAPES[0])}M"
    variables = json.dumps({"memory_request": memory, "memory_limit": memory})
    [job] = prefect.lines("python", "-c", FOR_KUBERNETES_BY_PREFECT, variables)
    [container] = job["spec"]["template"]["spec"]["containers"]
    for kind in ("requests", "limits"):
        assert container["resources"][kind]["memory"] == memory
    job["metadata"]["name"] = "volumes"  # Kubernetes makes one of generateName
    valid(job, prefect.folder)


def valid(found, folder):
    """Against Kubernetes's own schemas, where they are installed."""
    command = ROOT / "target" / "schedulers" / "bin" / "kubernetes-validate"
    if command.exists():
        file = Path(folder) / "kubernetes.json"
        file.write_text(json.dumps(found))
        done = subprocess.run([command, file], capture_output=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_pods_of_airflow_request_what_laws_say(airflow, fitted):
    found = airflow.lines("python", "-c", FOR_KUBERNETES_BY_AIRFLOW)[-1]
    assert len(found) == len(SHAPES)
    for shape, text in zip(SHAPES, TEXTS, strict=True):
        task = found[f"{OPERATOR}-{text}"]
        assert task["slots"] == 400 + Sizes(fitted[0]).mem_mb(OPERATOR, shape)
        [container] = task["pod"]["spec"]["containers"]
        memory = {"memory": f"{task['slots']}M"}
        assert container["resources"] == {"limits": memory, "requests": memory}
        assert (container["image"], container["args"]) == ("airflow", ["run"])
        valid({"apiVersion": "v1", "kind": "Pod", **task["pod"]}, airflow.folder)


def test_what_is_documented_for_airflow_works(airflow, fitted):
    airflow.run_documented("Airflow", fitted[1])


@contextmanager
def scheduler(airflow):
    """Airflow's own, with its server."""
    log = airflow.folder.parent / "log"
    with log.open("w") as output:
        command = [airflow.bin / "airflow", "standalone"]
        options = {"env": airflow.environment, "stdout": output, "stderr": output}
        started = subprocess.Popen(command, start_new_session=True, **options)
    try:
        yield
    finally:
        os.killpg(started.pid, signal.SIGTERM)
        try:
            started.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(started.pid, signal.SIGKILL)
            started.wait()


@pytest.mark.slow
def test_the_scheduler_of_airflow_runs_together_what_fits_into_a_pool(airflow):
    node_mb = 1800
    airflow.run("airflow", "pools", "set", "memory", node_mb, "MB")
    airflow.run("airflow", "dags", "reserialize")
    with scheduler(airflow):
        airflow.run("airflow", "dags", "unpause", "-y", "volumes")
        airflow.run("airflow", "dags", "trigger", "volumes")
        end = time.monotonic() + LONGEST_SECONDS
        tasks = []
        while not tasks or any(task["state"] not in ("success", "failed") for task in tasks):
            assert time.monotonic() < end, tasks
            time.sleep(3)
            tasks = airflow.lines("python", "-c", RAN_BY_AIRFLOW)[-1]
    assert {task["state"] for task in tasks} == {"success"}
    check(tasks, node_mb, own_bytes=400 * 10**6)
