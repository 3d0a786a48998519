"""Dask-CUDA's cluster, a worker for each GPU: GST3D of NumPy blocks, and what CuPy's pool says."""

import json
import os

import gpu_blocks
import numpy as np
from dask_cuda import LocalCUDACluster
from distributed import Client

if __name__ == "__main__":
    with (
        LocalCUDACluster(dashboard_address=":0", silence_logs="ERROR") as cluster,
        Client(cluster) as client,
    ):
        blocks = client.scatter([np.ones((20, 30, side), np.float32) for side in (40, 50, 61)])
        client.gather(client.map(gpu_blocks.dip, blocks))
        pids = client.run(os.getpid)
        reported = client.run(gpu_blocks.reported)
        print(json.dumps({pids[worker]: rises for worker, rises in reported.items()}))
