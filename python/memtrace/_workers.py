"""What the workers of a Dask client may use."""


def limits(client):
    """Memory limit and budget of the smallest worker, their number and most threads.

    As `memtrace.plan` takes them. What is unlimited or unknown is left out.
    """
    workers = list(_described(client).values())
    if not workers:
        return {}
    found = {
        "workers": len(workers),
        "threads": max(int(each.get("nthreads") or 1) for each in workers),
    }
    limit = min((each.get("memory_limit") or float("inf") for each in workers), default=0)
    if 0 < limit < float("inf"):
        found["memory_limit"] = int(limit)
    budgets = list(client.run(_budget()).values())
    if budgets:
        found["budget_fraction"] = min(budgets)
    return found


def _described(client):
    try:
        return client.scheduler_info(n_workers=-1)["workers"]
    except TypeError:  # releases before 2025 always tell of all
        return client.scheduler_info()["workers"]


def _budget():
    """A function that is sent by value: workers need not have memtrace."""

    def fraction():
        import dask

        enabled = [
            part
            for part in (
                dask.config.get(f"distributed.worker.memory.{what}", None)
                for what in ("spill", "pause")
            )
            if part
        ]
        return float(min(enabled, default=1.0))

    return fraction


def rechunking_bytes():
    """What a worker keeps in memory of an array on its way from blocks to others."""
    import dask

    names = ("distributed.p2p.storage.buffer", "distributed.p2p.comm.buffer")
    sizes = (dask.config.get(name, None) for name in names)
    return sum(dask.utils.parse_bytes(size) for size in sizes if size)


def of_current_client():
    """`limits` of the client that this program uses now; nothing where there is none."""
    import sys

    if "distributed" not in sys.modules:  # who has a client has imported it
        return {}
    try:
        client = sys.modules["distributed"].default_client()
    except ValueError:
        return {}
    return limits(client)
