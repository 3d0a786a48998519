"""A DAG of Airflow whose tasks take as many slots of a pool as the operator's law says megabytes.

The pool `memory` has a slot for each MB that the machine has for them:

    airflow pools set memory 1500 "MB"

Tasks that do not fit into it together wait for each other. On Kubernetes `executor_config` requests
the same for the pod. MODEL and SHAPES in the environment name the model's file and the volumes.
"""

import os

import memtrace.sizing
from airflow.sdk import dag, task
from kubernetes.client import models as k8s
from schedulers import job

OPERATOR = "envelope"
#: Of Airflow's own two processes for a task.
AIRFLOW_MB = 400

sizes = memtrace.sizing.Sizes(os.environ["MODEL"])


def pod(megabytes):
    """What the KubernetesExecutor lays over its own pod; the container must be named `base`."""
    memory = {"memory": f"{megabytes}M"}
    resources = k8s.V1ResourceRequirements(requests=memory, limits=memory)
    container = k8s.V1Container(name="base", resources=resources)
    return k8s.V1Pod(spec=k8s.V1PodSpec(containers=[container]))


@task(pool="memory")
def apply(shape):
    return job.run_apart(OPERATOR, shape)


@dag(schedule=None)
def volumes():
    for text in os.environ["SHAPES"].split(","):
        shape = job.shape_of(text)
        megabytes = AIRFLOW_MB + sizes.mem_mb(OPERATOR, shape)
        apply.override(
            task_id=f"envelope-{text}",
            pool_slots=megabytes,
            executor_config={"pod_override": pod(megabytes)},
        )(shape)


volumes()
