"""A Slurm of one node, which is this machine: daemons and files of its own, stopped at the end.

Control groups limit what jobs take, and slurmdbd accounts for it, as on most clusters.
"""

import contextlib
import fcntl
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from functools import partial
from pathlib import Path

from experiments.schedulers.commands import Slurm, wait_until

#: scripts/schedulers installs them.
PROGRAMS = ("munged", "mariadbd", "slurmdbd", "slurmctld", "slurmd", "sbatch", "sacct", "setpriv")
GROUPS = Path("/sys/fs/cgroup")
#: Of the node, and so of its control groups: another Slurm of this machine has others.
NODE = "memtrace"
#: One Slurm at a time. Only root can put a file or a link there.
LOCK = Path("/run/memtrace-slurm.lock")
#: What has not answered by then does not answer.
LONGEST_SECONDS = 60
#: Of the machine's memory: what is left to the system and the daemons.
SPARED_BYTES = 2 << 30

SLURM = """\
ClusterName=memtrace
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthInfo=socket={folder}/munge.socket
SlurmctldPort={controller}
SlurmdPort={node}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
MpiDefault=none
MailProg=/bin/true
KillWait=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0
ProctrackType=proctrack/cgroup
TaskPlugin=task/cgroup
JobAcctGatherType=jobacct_gather/cgroup
JobAcctGatherFrequency=task=1
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={accounts}
AccountingStoragePass={folder}/munge.socket
NodeName={node_name} NodeHostname={host} NodeAddr=127.0.0.1 CPUs={processors} RealMemory={memory}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
#: Nothing is swapped out, so that a job that takes more than it requested is killed.
LIMITS = """\
CgroupPlugin=cgroup/v1
CgroupMountpoint={groups}
ConstrainRAMSpace=yes
ConstrainSwapSpace=yes
MemorySwappiness=0
"""
ACCOUNTS = """\
SlurmUser=root
AuthType=auth/munge
AuthInfo={folder}/munge.socket
DbdHost={host}
DbdAddr=127.0.0.1
DbdPort={accounts}
PidFile={folder}/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
"""


def why_not():
    """Why no Slurm can be started here, or None."""
    if names := [name for name in PROGRAMS if found(name) is None]:
        return f"a Slurm needs {' '.join(names)}: scripts/schedulers installs them"
    if os.geteuid() != 0:
        return "a Slurm that limits the memory of jobs needs root"
    if not (GROUPS / "memory" / "memory.limit_in_bytes").exists():
        return "a Slurm of Debian 12 without systemd needs control groups of version 1"
    return None


def found(program):
    """Path of a program; daemons are in no ordinary user's PATH."""
    return shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")


@contextlib.contextmanager
def slurm():
    """A Slurm whose node is idle. Afterwards its jobs and daemons have ended."""
    with contextlib.ExitStack() as stack:
        fcntl.flock(stack.enter_context(LOCK.open("w")), fcntl.LOCK_EX)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="memtrace-slurm-")))
        ports = configured(folder)
        daemons = Daemons(folder)
        end_groups()  # of a process that was killed before it could
        stack.callback(end_groups)
        stack.callback(daemons.stop)
        daemons.start("munged", "--foreground", "--force", *munge_files(folder))
        daemons.start("mariadbd", *database_files(folder))
        daemons.wait_for("munge.socket", "database.socket")
        daemons.start("slurmdbd", "-D", MYSQL_UNIX_PORT=folder / "database.socket")
        daemons.wait_for_port(ports["accounts"])
        daemons.start("slurmctld", "-D", "-c")
        daemons.wait_for_port(ports["controller"])
        daemons.start("slurmd", "-D", "-N", NODE)
        started = Slurm(folder / "slurm.conf")
        stack.callback(started.cancel_all)
        started.wait_for_node()
        yield started


def configured(folder):
    """Writes the daemons' configuration; the ports that they listen to."""
    ports = free_ports("controller", "node", "accounts")
    pages, page = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    facts = {
        "folder": folder,
        "groups": GROUPS,
        "host": socket.gethostname().split(".")[0],
        "node_name": NODE,
        "processors": os.cpu_count(),
        "memory": (pages * page - SPARED_BYTES) >> 20,
        **ports,
    }
    for name, text in (("slurm", SLURM), ("cgroup", LIMITS), ("slurmdbd", ACCOUNTS)):
        file = folder / f"{name}.conf"
        file.touch(mode=0o600)  # slurmdbd takes no other
        file.write_text(text.format(**facts))
    for name in ("state", "spool", "database"):
        (folder / name).mkdir()
    return ports


def free_ports(*names):
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in names]
        return {name: each.getsockname()[1] for name, each in zip(names, held, strict=True)}


def munge_files(folder):
    key = folder / "munge.key"
    key.touch(mode=0o600)
    key.write_bytes(os.urandom(128))
    names = {"key-file": key.name, "socket": "munge.socket", "pid-file": "munge.pid"}
    names |= {"seed-file": "munge.seed", "log-file": "munge.log"}
    return [f"--{option}={folder / name}" for option, name in names.items()]


def database_files(folder):
    """Of a database that listens to its socket only and knows no users."""
    own = (f"--datadir={folder / 'database'}", f"--socket={folder / 'database.socket'}")
    return ("--no-defaults", "--user=root", "--skip-networking", "--skip-grant-tables", *own)


class Daemons:
    """Daemons that end with this process, however it ends."""

    def __init__(self, folder):
        self._folder, self._started = folder, []

    def start(self, name, *arguments, **variables):
        """Starts one; what it says is in its log."""
        command = [found("setpriv"), "--pdeathsig=KILL", found(name), *arguments]
        variables = {"SLURM_CONF": self._folder / "slurm.conf", **variables}
        with self._log(name).open("wb") as log:
            process = subprocess.Popen(
                list(map(str, command)),
                env=os.environ | {key: str(value) for key, value in variables.items()},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._started.append((name, process))

    def wait_for(self, *names):
        """Waits for files."""
        self._wait(lambda: all((self._folder / name).exists() for name in names))

    def wait_for_port(self, port):
        def answers():
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                return True
            return False

        self._wait(answers)

    def stop(self):
        """Ends all, the last one first."""
        while self._started:
            _, process = self._started.pop()
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _wait(self, ready):
        deadline = time.monotonic() + LONGEST_SECONDS
        name, process = self._started[-1]
        while not ready():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{name} did not start:\n{self._log(name).read_text()[-3000:]}")
            time.sleep(0.05)

    def _log(self, name):
        return self._folder / f"{name}.log"


def end_groups():
    """Kills what is left of jobs, slurmstepd included, and removes the node's control groups."""
    for group in GROUPS.glob(f"*/slurm_{NODE}"):
        wait_until(partial(has_ended, group), LONGEST_SECONDS, f"{group} still has processes")


def has_ended(group):
    """Kills a control group's processes; whether the group is gone."""
    for folder, *_ in os.walk(group, topdown=False):
        with contextlib.suppress(OSError):  # they, or Slurm's own removal, were faster
            for process in Path(folder, "cgroup.procs").read_text().split():
                if process != "0":  # which is one of another PID namespace
                    os.kill(int(process), signal.SIGKILL)
            os.rmdir(folder)
    return not group.exists()
