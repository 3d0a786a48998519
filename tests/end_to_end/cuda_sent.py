"""What the library in front of the CUDA driver sends (tests/targets/cuda_sent.c writes it down), taken together by the rules of
wire/src/device.rs, and what the stand-in driver counts itself, in the same form."""

import subprocess
from collections import Counter, defaultdict
from pathlib import Path

TARGETS = Path(__file__).resolve().parents[1] / "targets"

ACQUIRE, RELEASE, KEPT, UNMAP, POOL, END, FOUND, BLOCK = range(34, 42)
LINEAR, PITCH, MANAGED, HOST, REGISTERED, ARRAY, MIPMAP, IN_POOL = range(1, 9)
PHYSICAL, IMPORTED, IPC, IMPORTED_IN_POOL, GRAPH, MAPPED, TORCH = range(9, 16)
NAMES = [
    *(None, "linear", "pitch", "managed", "host", "registered", "array", "mipmap", "pool"),
    *("physical", "imported physical", "ipc", "imported pool", "graph", "mapped"),
]
# What has handles of its own, or is the host's; all else is one space of addresses.
APART = {HOST, REGISTERED, ARRAY, MIPMAP}


def compiled(folder, name, source, *flags):
    output = folder / name
    command = ["gcc", "-O1", "-g", "-Wall", "-o", output, TARGETS / source, *flags, "-ldl"]
    subprocess.run([str(part) for part in command], check=True)
    return output


def library(folder, name, source, *flags):
    soname = f"-Wl,-soname,{name}"
    return compiled(folder, name, source, "-shared", "-fPIC", soname, *flags)


def sent_by(events):
    """Events by process."""
    by_process = defaultdict(list)
    for event in events:
        by_process[event["pid"]].append(event)
    return by_process


class Blocks:
    """What is live after some events of one process, by the rules of wire/src/device.rs."""

    def __init__(self, events):
        self.live = defaultdict(list)
        self.references, self.physical = Counter(), {}
        self.released = {}
        self.acquired, self.unknown = Counter(), []
        self.pools = {}
        for event in events:
            self.take(event)

    def take(self, event):
        kind, memory, owner = event["kind"], event["memory"], event["owner"]
        key = (memory if memory in APART else None, event["address"])
        if kind == POOL:
            self.pools[memory, event["device"], owner] = (event["bytes"], event["extra"])
        elif kind == END:
            for blocks in self.live.values():
                blocks[:] = [block for block in blocks if block["context"] != event["context"]]
        elif kind == UNMAP:
            for blocks in self.live.values():
                inside = range(event["address"], event["address"] + event["bytes"])
                blocks[:] = [
                    b for b in blocks if b["memory"] != MAPPED or b["address"] not in inside
                ]
            self.let_go()
        elif memory in (PHYSICAL, IMPORTED):
            self.refer(kind, event)
        elif memory == IN_POOL and kind != ACQUIRE:
            pass  # a pool is destroyed: its blocks live on
        elif kind == ACQUIRE:
            if memory != IPC or not self.live[key]:  # else one more reference to it
                self.count(event)
            self.live[key].append(event)
        elif kind == RELEASE:
            self.released[event["thread"]] = self.live[key].pop() if self.live[key] else None
        elif kind == KEPT:
            kept = self.released.pop(event["thread"])
            if kept:
                self.live[key].append(kept)

    def refer(self, kind, event):
        owner = event["owner"]
        if kind == ACQUIRE:
            if owner not in self.physical:
                self.count(event)
                self.physical[owner] = event
            self.references[owner] += 1
        else:
            self.references[owner] += 1 if kind == KEPT else -1
        self.let_go()

    def let_go(self):
        mapped = {block["owner"] for block in self.blocks() if block["memory"] == MAPPED}
        for owner in [o for o in self.physical if self.references[o] <= 0 and o not in mapped]:
            del self.physical[owner]

    def count(self, event):
        name = NAMES[event["memory"]]
        self.acquired[name, event["device"], "acquired"] += 1
        self.acquired[name, event["device"], "acquired_bytes"] += event["bytes"]

    def blocks(self):
        return [block for blocks in self.live.values() for block in blocks]

    def held(self):
        """As the oracle lists them."""
        blocks = [(b, b["address"]) for b in self.blocks()]
        blocks += [(block, owner) for owner, block in self.physical.items()]
        return sorted((NAMES[b["memory"]], b["device"], key, b["bytes"]) for b, key in blocks)


def oracle_held(oracle):
    return sorted((kind, device, key, bytes) for kind, device, key, bytes in oracle["blocks"])


def oracle_acquired(oracle):
    counts = Counter()
    places = [(number, device) for number, device in enumerate(oracle["devices"])]
    for number, place in [*places, (-1, oracle["host"])]:
        for kind, figures in place["kinds"].items():
            # A node of a graph is acquired whenever the graph runs; imports are as large as the other process says.
            if kind not in ("graph", "imported physical"):
                for what in ("acquired", "acquired_bytes"):
                    if figures.get(what):
                        counts[kind, number, what] += figures[what]
    return counts
