"""GST3D on a SLURMCluster whose jobs have one worker each: how it ended, as JSON.

python -m experiments.schedulers.cluster auto           Dask's own choice of chunks
python -m experiments.schedulers.cluster recommended    memtrace.dask.recommend's
"""

import json
import sys
import tempfile
from contextlib import contextmanager
from functools import partial

import dask
from dask_chunks import chunk_sizes, stored_volume
from dask_cluster import TaskCount, measure
from dask_jobqueue import SLURMCluster
from dask_operators import mean_of, warm
from distributed import Client

from experiments.chunks import once, ways
from experiments.recording import KEPT

OPERATOR, SHAPE, MEMORY, JOBS = "gst3d", (200, 200, 200), "1.5GB", 2
#: Until Slurm has started the jobs.
LONGEST_SECONDS = 120


def main():
    [way] = sys.argv[1:]
    print(json.dumps(outcome(way)))


def outcome(way):
    volume = stored_volume(KEPT / "volumes", SHAPE)
    with workers() as client:
        client.run(partial(warm, OPERATOR))
        if way == "auto":
            plan = {"chunk_shape": ways.auto(SHAPE, None, JOBS)}
        else:
            plan = once.recommended({"operator": OPERATOR, "how": "shared"}, volume, client)
        computed = mean_of(OPERATOR, volume, chunk_sizes(SHAPE, plan["chunk_shape"]))
        run = measure(client, partial(warm, OPERATOR), computed)
    return {
        **plan,
        "error": run.error,
        "killed": run.killed,
        "seconds": run.seconds,
        "peak_bytes": run.peak_bytes,
    }


@contextmanager
def workers():
    """A client of as many workers, each in a job of its own, that counts a kill as enough."""
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        tempfile.TemporaryDirectory() as folder,
        SLURMCluster(
            cores=1,
            memory=MEMORY,
            local_directory=folder,
            log_directory=folder,
            scheduler_options={"dashboard_address": None},
        ) as cluster,
        Client(cluster) as client,
    ):
        cluster.scale(jobs=JOBS)
        client.wait_for_workers(JOBS, timeout=LONGEST_SECONDS)
        client.register_plugin(TaskCount())
        yield client


if __name__ == "__main__":
    main()
