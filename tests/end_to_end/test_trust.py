"""Attacks by another user on a recording by root, and on what it writes: each is done for real."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb
import pytest
from conftest import MEMTRACE, PROBE, is_root, memtrace

OTHER = 65534
AS_OTHER = ("setpriv", f"--reuid={OTHER}", f"--regid={OTHER}", "--clear-groups")

pytestmark = pytest.mark.skipif(
    not is_root() or shutil.which("setpriv") is None,
    reason="becoming another user needs root and setpriv(1)",
)

#: Writes a text over that of the recorder wherever the process may, as C code in a program with
#: other rights could. Prints how many writable mappings it shares, and in how many it found the text.
OVERWRITE = """
import re, sys
shared = found = 0
for line in open("/proc/self/maps"):
    place, rights, _, _, _, *name = line.split(maxsplit=5)
    if not name or "memfd:memtrace" not in name[0] or rights != "rw-s":
        continue
    shared += 1
    start, end = (int(part, 16) for part in place.split("-"))
    with open("/proc/self/mem", "r+b", buffering=0) as memory:
        memory.seek(start)
        head = memory.read(min(end - start, 1 << 18))
        at = head.find(b"import ")
        if at >= 0:
            found += 1
            memory.seek(start + at)
            memory.write(b"open(%r, 'w')\\n#" % sys.argv[1])
print(shared, found)
"""


@pytest.fixture
def open_folder():
    """A folder that other users reach, and may write in."""
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        folder.chmod(0o777)
        yield folder


def test_no_process_changes_what_anothers_python_runs(open_folder):
    marker, program = open_folder / "marker", open_folder / "overwrite.py"
    program.write_text(OVERWRITE)
    python = Path("/usr/bin/python3")
    if not python.exists():
        pytest.skip("no Python that other users may run")
    attack = f"{' '.join(AS_OTHER)} {python} {program} {marker} && {python} -c pass"
    done = memtrace("-q", "-o", open_folder / "trace", "sh", "-c", attack)
    shared, found = map(int, done.stdout.split())
    assert shared > 0, "the other user's process is recorded"
    assert found == 0 and not marker.exists()


#: Overwrites whatever memory it shares with the recorder, again and again: as all slots of a segment
#: that are taken, and as garbage. Prints the inodes of that memory.
TRAMPLE = """
import mmap, os, re, struct, time
shared = []
for line in open("/proc/self/maps"):
    place, rights, _, _, inode, *name = line.split(maxsplit=5)
    if name and "memfd:memtrace" in name[0] and "w" in rights and "s" in rights:
        shared.append([int(part, 16) for part in place.split("-")])
        print(inode, flush=True)
memory = os.open("/proc/self/mem", os.O_RDWR)
noise = os.urandom(1 << 16)
slots = struct.pack("<II", 1, 0xFFFFFFFF) + bytes(4088) + (struct.pack("<I", 2) + os.urandom(252)) * 240
until = time.monotonic() + 2
while time.monotonic() < until:
    for start, end in shared:
        os.pwrite(memory, slots, start)
        for at in range(start, min(end, start + (4 << 20)), len(noise)):
            os.pwrite(memory, noise, at)
"""


def test_no_process_reaches_the_events_of_another(open_folder, target):
    program = open_folder / "trample.py"
    program.write_text(TRAMPLE)
    attack = f"{' '.join(AS_OTHER)} /usr/bin/python3 {program}"
    threads, blocks = 4, 100_000
    script = f"{attack} & sleep 0.5; {target('crowd.c')} {threads} {blocks}; wait"
    done = memtrace("-q", "-o", open_folder / "trace", "sh", "-c", script)
    lines = [line.split() for line in done.stdout.decode().splitlines()]
    theirs = {line[0] for line in lines if len(line) == 1}
    own = {line[4] for line in lines if len(line) > 1}
    assert theirs and own and not theirs & own, done
    ours = duckdb.sql(
        f"SELECT process, lost_events, unseen_releases FROM '{open_folder}/trace/processes.parquet'"
        " WHERE command LIKE '/%/crowd %'"
    ).fetchall()
    [(process, lost, unseen)] = ours
    assert (lost, unseen) == (0, 0)
    rows = duckdb.sql(
        "SELECT count(*), count(DISTINCT thread), sum(bytes)::bigint, count(free_ns)"
        f" FROM '{open_folder}/trace/allocations/*.parquet' WHERE bytes = 12345 AND process = {process}"
    ).fetchall()
    count = threads * (blocks + 1)
    assert rows == [(count, threads, count * 12345, count)]
    assert json.loads((open_folder / "trace" / "meta.json").read_text())["complete"]


def names_of_listeners():
    """Abstract names that any user sees (proc_net_unix(5))."""
    return set(re.findall(r" @(memtrace-[0-9a-f]+)$", Path("/proc/net/unix").read_text(), re.M))


KNOCK = """
import socket, sys, time
peers = []
for name in sys.argv[2:]:
    for _ in range(int(sys.argv[1])):
        peer = socket.socket(socket.AF_UNIX)
        peer.connect("\\0" + name)
        peers.append(peer)
print("connected", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("recorder", [(), ("setpriv", "--reuid=65533", "--clear-groups")])
def test_silent_connections_of_another_user_delay_no_hello(open_folder, recorder):
    for file in (MEMTRACE, PROBE.resolve()):
        shutil.copy(file, open_folder)
    before = names_of_listeners()
    script = "read line; seq 3 | sort"
    # Too long for a socket's address: probes come by the abstract name, as other users can.
    trace = open_folder / ("x" * 100) / "trace"
    options = ("-q", "-o", trace)
    command = [*recorder, open_folder / "memtrace", *options, "sh", "-c", script]
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(list(map(str, command)), cwd=open_folder, **streams) as running:
        new = set()
        while not new:
            time.sleep(0.01)
            new = names_of_listeners() - before
        knock = [*AS_OTHER, "/usr/bin/python3", "-c", KNOCK, "100", *new]
        with subprocess.Popen(knock, stdout=subprocess.PIPE) as guests:
            assert guests.stdout.readline() == b"connected\n"
            out, _ = running.communicate(b"go\n", timeout=120)
            guests.kill()
    assert out == b"1\n2\n3\n"
    commands = duckdb.sql(f"SELECT command FROM '{trace}/processes.parquet' WHERE allocations > 0")
    assert {"seq 3", "sort"} <= {command for (command,) in commands.fetchall()}
    assert json.loads((trace / "meta.json").read_text())["lost"]["events"] == 0


SERVE = """
import socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1].replace("@", "\\0"))
listener.listen()
print("listening", flush=True)
peer, _ = listener.accept()
print(len(peer.recv(100)), flush=True)
"""


@pytest.mark.parametrize("name", ["@{name}", "{folder}/socket"])
def test_a_probe_says_nothing_to_another_users_listener(open_folder, name):
    """Of a recorder that is gone, or whose directory another user has moved away: it would send
    text that Python runs."""
    name = name.format(name=f"memtrace-test-{os.getpid()}", folder=open_folder)
    serve = [*AS_OTHER, "/usr/bin/python3", "-c", SERVE, name]
    with subprocess.Popen(serve, stdout=subprocess.PIPE) as listener:
        assert listener.stdout.readline() == b"listening\n"
        sockets = f"{name[1:]};/nowhere" if name[0] == "@" else f"memtrace-nobody;{name}"
        known = {"MEMTRACE_SOCKET": sockets, "MEMTRACE_TOKEN": "0" * 32}
        environment = {**os.environ, **known, "LD_PRELOAD": str(PROBE)}
        subprocess.run([sys.executable, "-c", "pass"], env=environment, check=True)
        assert listener.stdout.readline() == b"0\n"


def test_a_directory_of_another_user_is_refused(open_folder):
    theirs = open_folder / "theirs"
    theirs.mkdir()
    os.chown(theirs, OTHER, OTHER)
    done = memtrace("-o", theirs, "true")
    assert done.returncode == 125 and b"belongs to another user" in done.stderr
    assert not any(theirs.iterdir())


def test_a_link_is_refused(open_folder):
    victim, link = open_folder / "victim", open_folder / "link"
    victim.mkdir()
    link.symlink_to(victim)
    done = memtrace("-o", link, "true")
    assert done.returncode == 125 and b"is a link" in done.stderr
    assert done.stderr.count(b"\n") == 1 and not any(victim.iterdir())


def test_a_trace_stays_in_its_directory_when_another_user_moves_its_name(open_folder):
    """The folder around it is theirs, so that they may; root's writes must not follow the link."""
    theirs, victim = open_folder / "theirs", open_folder / "victim"
    theirs.mkdir()
    victim.mkdir()
    os.chown(theirs, OTHER, OTHER)
    move = f"mv {theirs}/out {theirs}/moved && ln -s {victim} {theirs}/out"
    script = f"{' '.join(AS_OTHER)} sh -c '{move}' && seq 100000 > /dev/null"
    memtrace("-q", "-o", theirs / "out", "sh", "-c", script)
    assert not any(victim.iterdir())
    meta = json.loads((theirs / "moved" / "meta.json").read_text())
    assert meta["complete"]
    assert memtrace("report", theirs / "moved").returncode == 0
