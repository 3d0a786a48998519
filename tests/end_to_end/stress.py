"""Loads a recording with tests/targets/stress.c and checks what it lost, what it held and what it left behind."""

import json
import os
import subprocess
import time
from collections import namedtuple
from pathlib import Path
from statistics import median
from typing import NamedTuple

import duckdb

ROOT = Path(__file__).resolve().parents[2]
MEMTRACE = ROOT / "target" / "release" / "memtrace"
COMPILER = ("gcc", "-O1", "-fno-builtin", "-pthread")
SOURCE = ROOT / "tests" / "targets" / "stress.c"
CHILD_BYTES = 12345  # of the one block that every child asks for
SAMPLE_SECONDS = 0.02
# A recording of a few processes at a time has about 25 open: pipes, parts of tables, the kernel side. How many that is
# soon after the start is a matter of chance, so the bound is not on the growth; one more for each process or thread of
# any of these loads is beyond it.
DESCRIPTORS_AT_MOST = 48
Held = namedtuple("Held", "descriptors inodes")


class Outcome(NamedTuple):
    """A recording under load, and everything that was found wrong with it."""

    name: str
    seconds: float
    events: int
    lost: dict
    children: tuple  # seen, expected
    blocks: tuple  # seen, expected
    peak_resident: int  # of the tracer
    cpu_seconds: float  # of the tracer
    trace_bytes: int
    descriptors: float  # median of the last tenth of the samples
    notes: list  # what the trace says that it lacks
    left: list

    def complaints(self):
        """What is wrong, one sentence each."""
        said = [f"{kind}: {count}" for kind, count in self.lost.items() if count]
        for what, (seen, expected) in (("children", self.children), ("blocks", self.blocks)):
            if seen != expected:
                said.append(f"{seen} of {expected} {what} seen")
        if self.descriptors > DESCRIPTORS_AT_MOST:
            said.append(f"the tracer has {self.descriptors:g} descriptors at the end")
        return said + self.notes + self.left

    def __str__(self):
        lost, late, unseen = (
            self.lost[kind] for kind in ("events", "late_events", "unseen_releases")
        )
        return (
            f"{self.name}: {self.seconds:.1f} s, {self.events} events, {lost} lost, {late} late, "
            f"{unseen} unseen releases, {self.blocks[0]}/{self.blocks[1]} blocks, "
            f"{self.children[0]}/{self.children[1]} children, "
            f"tracer {self.peak_resident / 1e6:.1f} MB peak RSS, {self.cpu_seconds:.1f} s CPU, "
            f"{self.descriptors:g} descriptors, "
            f"trace {self.trace_bytes} bytes, left behind: {'; '.join(self.left) or 'nothing'}"
        )


def build(folder):
    """Compiles the target program into the folder."""
    program = Path(folder) / "stress"
    subprocess.run([*COMPILER, "-o", program, SOURCE], check=True)
    return program


def run(program, folder, *arguments):
    """Records the program with these arguments; the trace is in the folder, which must be empty."""
    trace, temporary = Path(folder) / "trace", Path(folder) / "temporary"
    temporary.mkdir()
    words = list(map(str, arguments))
    command = [str(MEMTRACE), "--quiet", "-o", str(trace), "--", str(program), *words]
    environment = {**os.environ, "TMPDIR": str(temporary)}
    start = time.monotonic()
    tracer = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment)
    samples, peak, inodes = watch(tracer.pid)
    seconds = time.monotonic() - start
    cpu = cpu_seconds(tracer.pid)
    said = json.loads(tracer.communicate()[0] or "{}")
    if tracer.returncode:
        raise RuntimeError(f"{' '.join(command)}: exit status {tracer.returncode}")
    tenth = len(samples) // 10 + 1
    events, blocks, children = counted(trace)
    meta = json.loads((trace / "meta.json").read_text())
    return Outcome(
        name=" ".join(words),
        seconds=seconds,
        events=events,
        lost=meta["lost"],
        children=(children, said["children"]),
        blocks=(blocks, said["blocks"]),
        peak_resident=peak,
        cpu_seconds=cpu,
        trace_bytes=sum(file.stat().st_size for file in trace.rglob("*") if file.is_file()),
        descriptors=median(samples[-tenth:]),
        notes=meta["notes"],
        left=left_behind(trace, temporary, inodes),
    )


def watch(tracer):
    """Numbers of descriptors at regular times, largest resident size, and all sockets and shared memory it had."""
    samples, peak, inodes = [0], 0, set()
    while os.waitid(os.P_PID, tracer, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        peak = max(peak, largest_resident(tracer))
        held = descriptors(tracer)
        inodes |= held.inodes
        samples.append(held.descriptors)
        time.sleep(SAMPLE_SECONDS)
    return samples, peak, inodes


def largest_resident(pid):
    """VmHWM in bytes; 0 once the process is a zombie (proc_pid_status(5))."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def cpu_seconds(pid):
    """User and system time of a process, but not of its children (utime and stime, proc_pid_stat(5))."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def descriptors(pid):
    """How many a process has, and the inodes of those that could outlive it: listening sockets and memfds."""
    links = links_of(pid)
    inodes = set()
    for number, link in links.items():
        if "memfd:memtrace" in link:
            inodes.add(("memory", inode(f"/proc/{pid}/fd/{number}")))
    for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
        fields = line.split()
        if f"socket:[{fields[6]}]" in links.values() and len(fields) == 8:
            inodes.add(("socket", int(fields[6])))
    return Held(len(links), inodes)


def links_of(pid):
    """What the descriptors of a process stand for."""
    links = {}
    try:
        for number in os.listdir(f"/proc/{pid}/fd"):
            links[number] = os.readlink(f"/proc/{pid}/fd/{number}")
    except OSError:  # it has ended, or closed one meanwhile
        pass
    return links


def inode(path):
    """Of what a path leads to; 0 if that is gone."""
    try:
        return os.stat(path).st_ino
    except OSError:
        return 0


def counted(trace):
    """Events, blocks of the program's own, and children that allocated a block."""
    blocks = f"'{trace}/allocations/*.parquet'"
    [row] = duckdb.sql(
        f"select (select sum(events)::bigint from '{trace}/threads.parquet'),"
        f" count(*) filter (bytes % 8 = 3 and kind not like 'map%'),"
        f" count(distinct process) filter (bytes = {CHILD_BYTES}) from {blocks}"
    ).fetchall()
    return row


def left_behind(trace, temporary, inodes):
    """Files beside the trace's tables, processes, shared memory and sockets that should be gone."""
    # A link to the probe stays where its own path cannot be preloaded.
    links = {f"memtrace-{os.getuid()}"} if set(str(ROOT)) & {" ", ":"} else set()
    left = [f"file {file}" for file in temporary.iterdir() if file.name not in links]
    for file in trace.rglob("*"):
        if not (file.is_dir() or file.suffix == ".parquet" or file.name == "meta.json"):
            left.append(f"file {file}")
        if file.name == "live.parquet":
            left.append(f"file {file}")
    left += [f"/dev/shm/{name}" for name in os.listdir("/dev/shm") if "memtrace" in name]
    sockets = {line.split()[6] for line in Path("/proc/net/unix").read_text().splitlines()[1:]}
    left += [f"socket {each}" for kind, each in inodes if kind == "socket" and str(each) in sockets]
    memory = {str(each) for kind, each in inodes if kind == "memory"}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        left += remains(pid, os.fsencode(trace), memory)
    return left


def remains(pid, trace, memory):
    """What this process still has of a recording that is over."""
    try:
        if trace in Path(f"/proc/{pid}/environ").read_bytes():
            yield f"process {pid}"
        maps = Path(f"/proc/{pid}/maps").read_text().splitlines()
    except OSError:  # it has ended
        return
    if any("memfd:memtrace" in line and line.split()[4] in memory for line in maps):
        yield f"shared memory in process {pid}"
