"""A guest with two NUMA nodes: learns a program there, and runs it with plans."""

import json
import re
from typing import NamedTuple

from experiments.guest import guest, initramfs
from experiments.placement.catalogue import PROGRAMS, built

PROGRAM, ROUNDS = "nodes.c", 6
SLOW, FAST = 1, 0
#: Each node has a processor and half of the memory.
DEVICES = [
    *("-object", "memory-backend-ram,id=m0,size=512M", "-numa", "node,nodeid=0,memdev=m0,cpus=0"),
    *("-object", "memory-backend-ram,id=m1,size=512M", "-numa", "node,nodeid=1,memdev=m1,cpus=1"),
]
#: A further one has a processor and no memory.
THIRD = ["-numa", "node,nodeid=2,cpus=2"]

#: Prints files, each under its name.
SHOW = 'show() { for file; do echo "==> $file"; cat "$file"; echo; done; }\n'
LEARN = f"""
/usr/bin/nodes {ROUNDS} >alone 2>/dev/null
memtrace place learn --base node:{SLOW},node:{FAST} -o runs -- /usr/bin/nodes {ROUNDS} 2>said
memtrace place plan runs --fast 100MB -o plan.json >sentences
show alone said plan.json sentences
"""
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
    #: Of the run with all blocks in the slow tier, and in the fast one.
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
    """Learns the program in a guest."""
    files = boot(folder, image, LEARN, {})
    slow, fast = re.split("running with all large blocks in node:", files["said"])[1:]
    told = (pages(slow), pages(fast))
    return Learned(files["alone"], json.loads(files["plan.json"]), told)


def ran(folder, image, cases, third=False):
    """Runs the program with plans in a guest: name → run. `cases`: name → plan, and whether the
    fast node is filled before."""
    files, script = {}, ""
    for name, (plan, is_full) in cases.items():
        path = folder / f"{name}.json"
        path.write_text(json.dumps(plan))
        files[f"/plans/{name}.json"] = path
        before, after = (FILL, EMPTY) if is_full else ("", "")
        script += RUN.format(name=name, before=before, after=after, rounds=ROUNDS)
    told = boot(folder, image, script, files, third)
    return {
        name: Ran(int(told[f"{name}.status"]), told[f"{name}.out"], told[f"{name}.err"])
        for name in cases
    }


def boot(folder, image, script, files, third=False):
    """Runs a script in the guest; what it shows, by file."""
    files |= {"/usr/bin/nodes": built(PROGRAMS / PROGRAM, folder), **initramfs.recorder(folder)}
    archive = initramfs.packed(folder, SHOW + script, files)
    devices, processors = (DEVICES + THIRD, 3) if third else (DEVICES, 2)
    done = guest.booted(folder, image, archive, processors=processors, devices=devices)
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
