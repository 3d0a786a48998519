"""Guests with NUMA nodes: learn a program there, and run it with plans."""

import json
import re
from typing import NamedTuple

from experiments.guest import guest, initramfs
from experiments.placement.catalogue import PROGRAMS, built

PROGRAM, ROUNDS = "nodes.c", 6
SLOW, FAST = 1, 0
#: Of three tiers.
SLOWEST, MIDDLE = 2, 1

#: Prints files, each under its name.
SHOW = 'show() { for file; do echo "==> $file"; cat "$file"; echo; done; }\n'
LEARN = """
/usr/bin/nodes {rounds} >alone 2>/dev/null
memtrace place learn --base {base} -o runs -- /usr/bin/nodes {rounds} 2>said
memtrace place plan runs --fast 100MB {room} -o plan.json >sentences
show alone said plan.json sentences
"""
LEARN_TWO = LEARN.format(rounds=ROUNDS, base=f"node:{SLOW},node:{FAST}", room="")
LEARN_THREE = LEARN.format(
    rounds=ROUNDS, base=f"node:{SLOWEST},node:{MIDDLE},node:{FAST}", room="--middle 90MB"
)
RUN = """{before}
memtrace place run -q /plans/{name}.json -o {name}.trace -- /usr/bin/nodes {rounds} \
>{name}.out 2>{name}.err
echo $? >{name}.status
{after}
show {name}.out {name}.err {name}.status
"""
#: Leaves a few megabytes of the fast node. What the programs before had may come free only later:
#: it is filled until it stays full.
FILL = f"""mkdir fill
mount -t tmpfs -o size=1g,mpol=bind:{FAST} tmpfs fill
for part in 1 2 3 4 5 6 7 8; do
    free=$(sed -n 's/.*MemFree: *\\([0-9]*\\) kB/\\1/p' /sys/devices/system/node/node{FAST}/meminfo)
    [ $free -gt 9216 ] && dd if=/dev/zero of=fill/$part bs=1M count=$((free / 1024 - 8)) 2>/dev/null
    sleep 0.2
done
"""
EMPTY = "umount fill"


class Learned(NamedTuple):
    """What the guest has learned."""

    #: What the program prints by itself.
    output: str
    plan: dict
    #: Of the runs with all blocks in one tier, the slow one first.
    pages: tuple


class Ran(NamedTuple):
    """A run with a plan."""

    status: int
    output: str
    said: str

    @property
    def pages(self):
        return pages(self.said)


def learned(folder, image):
    """Learns the program in a guest with two nodes."""
    return told(boot(folder, image, LEARN_TWO, {}, sizes=(512, 512)))


def told(files):
    """What a guest that learned has shown."""
    runs = re.split("running with all large blocks in node:", files["said"])[1:]
    return Learned(
        files["alone"], json.loads(files["plan.json"]), tuple(pages(run) for run in runs)
    )


def ran(folder, image, cases, sizes=(512, 512), before_all=""):
    """Runs the program with plans in a guest with nodes of so many MB: name → run, and what the
    guest shows. `cases`: name → plan, and whether the fast node is filled before."""
    files, script = {}, before_all
    for name, (plan, is_full) in cases.items():
        path = folder / f"{name}.json"
        path.write_text(json.dumps(plan))
        files[f"/plans/{name}.json"] = path
        before, after = (FILL, EMPTY) if is_full else ("", "")
        script += RUN.format(name=name, before=before, after=after, rounds=ROUNDS)
    shown = boot(folder, image, script, files, sizes)
    runs = {
        name: Ran(int(shown[f"{name}.status"]), shown[f"{name}.out"], shown[f"{name}.err"])
        for name in cases
    }
    return runs, shown


def devices(sizes):
    """Nodes with a processor each and so many MB of memory, some without."""
    for node, size in enumerate(sizes):
        memory = f",memdev=m{node}" if size else ""
        if size:
            yield from ("-object", f"memory-backend-ram,id=m{node},size={size}M")
        yield from ("-numa", f"node,nodeid={node}{memory},cpus={node}")


def boot(folder, image, script, files, sizes):
    """Runs a script in a guest with such nodes; what it shows, by file."""
    files |= {"/usr/bin/nodes": built(PROGRAMS / PROGRAM, folder), **initramfs.recorder(folder)}
    archive = initramfs.packed(folder, SHOW + script, files)
    options = {"processors": len(sizes), "devices": list(devices(sizes))}
    done = guest.booted(folder, image, archive, **options)
    names_and_texts = re.split(r"^==> (\S+)\n", done.output, flags=re.MULTILINE)[1:]
    return {
        name: text.removesuffix("\n")
        for name, text in zip(names_and_texts[::2], names_and_texts[1::2], strict=True)
    }


def pages(said):
    """(round, bytes) → node of each page, as the program says."""
    lines = re.findall(r"^pages (-?\d+) (\d+) (.*)$", said, re.MULTILINE)
    return {(int(turn), int(size)): nodes(runs) for turn, size, runs in lines}


def nodes(runs):
    """`0x2 1x1` → [0, 0, 1]"""
    pairs = (run.split("x") for run in runs.split())
    return [int(node) for node, count in pairs for _ in range(int(count))]
