"""What is measured: groups of tools that take turns on one program."""

import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

from . import measure
from .tools import (
    MEMTRACE,
    PYTHON,
    ROOT,
    bare,
    fil,
    floor,
    heaptrack,
    memray,
    memtrace,
    scalene,
)

PROGRAMS = ROOT / "benches" / "programs"
BUILD = ROOT / "build" / "bench"
FRAME_POINTERS = {"fp": "-fno-omit-frame-pointer", "nofp": "-fomit-frame-pointer"}
THREADS = (1, 2, 8)
STACKS = ("--stacks", "all")
FEW_STACKS = (20_000, 16, 256, 1)  # blocks, sizes, and one path: 24 stacks


class Scale(NamedTuple):
    """How much is measured."""

    rounds: int
    starts: int  # rounds of the start-up group
    pairs: int  # of calls, all threads together
    read: int  # the same of the recording that is reported
    documents: int  # rounds of objects.py; 36 make 12.8 million events under PYTHONMALLOC=malloc
    cells: int  # of a GST3D volume's edge


FULL = Scale(rounds=5, starts=40, pairs=10_000_000, read=20_000_000, documents=36, cells=100)
QUICK = Scale(rounds=2, starts=5, pairs=200_000, read=200_000, documents=2, cells=30)


def build():
    """Compiles churn.c in both ways, as a program and as a library, and the floor."""
    subprocess.run(
        ["cargo", "build", "--quiet", "--release", "--example", "floor"], cwd=ROOT, check=True
    )
    BUILD.mkdir(parents=True, exist_ok=True)
    common = ["gcc", "-O2", "-g", "-fno-builtin-malloc", "-pthread", PROGRAMS / "churn.c"]
    for name, flag in FRAME_POINTERS.items():
        subprocess.run([*common, flag, "-o", BUILD / f"churn-{name}"], check=True)
        library = BUILD / f"churn-{name}.so"
        subprocess.run([*common, flag, "-shared", "-fPIC", "-o", library], check=True)


def churn(pattern, threads, frames, scale, no_stacks=True, shape=()):
    """The tools that can run churn.c. memray starts nothing but Python: it gets the same code as a library, and is
    compared with the bare library in Python. heaptrack 1.4's interpreter wants 17 GB and more for several threads, so
    there it only records."""
    words = [pattern, threads, scale.pairs // threads, *shape]
    program = [BUILD / f"churn-{frames}", *words]
    library = [PROGRAMS / "host.py", BUILD / f"churn-{frames}.so", *words]
    tools = {"bare": bare(program)}
    if no_stacks:
        tools["floor"] = floor(program)
        tools["memtrace, no stacks"] = memtrace(program, "--stacks", "none")
    tools["memtrace"] = memtrace(program, *STACKS)
    if threads == 1:
        tools["heaptrack"] = heaptrack(program)
    tools["heaptrack --raw"] = heaptrack(program, "--raw")
    tools["bare in Python"] = bare([PYTHON, *library])
    tools["memray --native"] = memray(library, "--native")
    return tools


def python(script, **variables):
    """All tools on a Python program."""
    program = [PYTHON, *script]
    return {
        "bare": bare(program, **variables),
        "memtrace": memtrace(program, *STACKS, **variables),
        "memtrace, sampled stacks": memtrace(program, **variables),
        "memray": memray(script, **variables),
        "memray --native": memray(script, "--native", **variables),
        "heaptrack": heaptrack(program, **variables),
        "Fil": fil(script, **variables),
        "Scalene": scalene(script, **variables),
    }


def groups(scale):
    """{name: a function that measures it}, each giving {tool: costs}."""

    def turn(name, tools, rounds=scale.rounds):
        return lambda: measure.in_turn(tools, rounds, name)

    found = {}
    for frames in FRAME_POINTERS:
        for threads in THREADS:
            name = f"churn-{frames}-{threads}"
            found[name] = turn(name, churn("random", threads, frames, scale))
    found["fifo"] = turn("fifo", churn("fifo", 1, "nofp", scale))
    for frames in FRAME_POINTERS:
        name = f"few-{frames}"
        found[name] = turn(name, churn("random", 1, frames, scale, False, FEW_STACKS))
    objects = [PROGRAMS / "objects.py", scale.documents]
    found["objects"] = turn("objects", python(objects))
    found["objects-malloc"] = turn("objects-malloc", python(objects, PYTHONMALLOC="malloc"))
    found["gst3d"] = turn("gst3d", python([PROGRAMS / "gst3d.py", scale.cells, 3]))
    starting = python([PROGRAMS / "nothing.py"])
    proc = ("--kernel", "proc")
    starting["memtrace --kernel proc"] = memtrace([PYTHON, PROGRAMS / "nothing.py"], *proc)
    found["start"] = turn("start", starting, scale.starts)
    found["reader"] = lambda: reader(scale)
    return found


def reader(scale):
    """Each tool's report on its own recording of the same run."""
    longer = scale._replace(pairs=scale.read)
    tools = churn("random", 1, "nofp", longer, no_stacks=False)
    del tools["heaptrack --raw"]  # nothing reads that
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        recorded, failed = {}, {}
        for name, (command, variables) in tools.items():
            output = Path(folder) / name.replace(" ", "-")
            output.mkdir()
            measure.progress(f"reader: recording with {name}")
            try:
                measure.run(command(output), output, variables)
                recorded[name.split()[0].strip(",")] = output
            except (measure.Failed, OSError) as error:
                failed[name] = str(error)
        return measure.in_turn(reports(recorded), scale.rounds, "reader") | failed


def reports(recorded):
    """Commands that read what was recorded, {tool: folder}."""
    commands = {}
    if "memtrace" in recorded:
        commands["memtrace"] = [MEMTRACE, "report", recorded["memtrace"] / "trace"]
        commands["memtrace --recompute"] = [*commands["memtrace"], "--recompute"]
    if "heaptrack" in recorded:
        [data] = recorded["heaptrack"].glob("heaptrack.*")
        commands["heaptrack"] = ["heaptrack_print", "-f", data]
    if "memray" in recorded:
        read = [PYTHON, "-m", "memray"]
        for report in ("stats", "summary"):
            commands[f"memray {report}"] = [*read, report, recorded["memray"] / "memray.bin"]
    return {name: (lambda _, command=command: command, {}) for name, command in commands.items()}
