"""Fails system calls of a recording one by one and says what came of each (tests/targets/faults.c does the failing)."""

import errno
import json
import re
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import duckdb

ROOT = Path(__file__).resolve().parents[2]
MEMTRACE = ROOT / "target" / "release" / "memtrace"
TARGETS = ROOT / "tests" / "targets"
COMPILER = ("gcc", "-O1", "-fno-builtin", "-pthread", f"-I{ROOT / 'include'}")
NUMBERS = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")
SECONDS_AT_MOST = 60

# What each call may fail with, as its manual page has it. What cannot fail, or whose failure is the end of any program
# (execve, exit_group, rt_sigreturn), is left out; so are brk(2), which says where the break is instead, and munmap(2) of
# whole mappings, at whose failure the C library aborts.
MEMORY, FILES = ("ENOMEM",), ("EMFILE", "ENOMEM", "EPERM", "EIO")
ERRORS = {
    "read": ("EIO", "EINTR", "ENOMEM"),
    "pread64": ("EIO", "EINTR", "ENOMEM"),
    "write": ("ENOSPC", "EIO", "EINTR", "EAGAIN"),
    "open": FILES,
    "openat": FILES,
    "close": ("EIO", "EINTR"),
    "lseek": ("EIO",),
    "stat": ("EPERM", "ENOMEM"),
    "fstat": ("ENOMEM", "EIO"),
    "newfstatat": ("EPERM", "ENOMEM"),
    "statx": ("EPERM", "ENOMEM"),
    "access": ("EPERM",),
    "faccessat": ("EPERM", "ENOMEM"),
    "faccessat2": ("EPERM", "ENOMEM"),
    "getdents64": ("EIO", "ENOMEM"),
    "getcwd": ("ENOMEM",),
    "readlink": ("EPERM", "ENOMEM", "EIO"),
    "readlinkat": ("EPERM", "ENOMEM", "EIO"),
    "rename": ("ENOSPC", "EIO", "EPERM"),
    "renameat": ("ENOSPC", "EIO", "EPERM"),
    "renameat2": ("ENOSPC", "EIO", "EPERM"),
    "mkdir": ("ENOSPC", "EIO", "EPERM"),
    "mkdirat": ("ENOSPC", "EIO", "EPERM"),
    "rmdir": ("EIO", "EPERM"),
    "unlink": ("EIO", "EPERM"),
    "unlinkat": ("EIO", "EPERM"),
    "fchmod": ("EPERM", "EIO"),
    "fsync": ("EIO", "ENOSPC"),
    "ftruncate": ("EIO", "EINTR", "EPERM"),
    "mmap": ("ENOMEM", "EAGAIN", "EPERM"),
    "mprotect": MEMORY,
    "mremap": MEMORY,
    "madvise": ("ENOMEM", "EAGAIN", "EIO"),
    "mincore": ("EAGAIN",),
    "socket": ("EMFILE", "ENOMEM", "EPERM"),
    "socketpair": ("EMFILE", "ENOMEM"),
    "bind": ("EPERM", "ENOMEM"),
    "listen": ("EPERM",),
    "accept4": ("EMFILE", "ENOMEM", "EINTR", "EAGAIN", "EPERM"),
    "connect": ("EAGAIN", "EINTR", "EPERM"),
    "sendto": ("EAGAIN", "ENOMEM", "EINTR"),
    "sendmsg": ("EAGAIN", "ENOMEM", "EINTR"),
    "recvfrom": ("EINTR",),
    "recvmsg": ("EAGAIN", "ENOMEM", "EINTR"),
    "getsockopt": ("ENOMEM", "EPERM"),
    "setsockopt": ("ENOMEM", "EPERM"),
    "ioctl": ("EPERM", "ENOMEM"),
    "fcntl": ("EMFILE", "EPERM"),
    "poll": ("EINTR", "ENOMEM"),
    "ppoll": ("EINTR", "ENOMEM"),
    "epoll_create1": ("EMFILE", "ENOMEM"),
    "epoll_ctl": ("ENOMEM", "ENOSPC"),
    "epoll_wait": ("EINTR",),
    "memfd_create": ("EMFILE", "ENOMEM", "EPERM"),
    "clone": ("EAGAIN", "ENOMEM", "EPERM"),
    "clone3": ("EAGAIN", "ENOMEM", "EPERM"),
    "futex": ("EINTR", "EAGAIN"),
    "nanosleep": ("EINTR",),
    "clock_nanosleep": ("EINTR",),
    "wait4": ("EINTR",),
    "bpf": ("EPERM", "ENOMEM", "EMFILE", "EAGAIN"),
    "perf_event_open": ("EPERM", "EMFILE", "ENOMEM"),
    "prlimit64": ("EPERM",),
    "prctl": ("EPERM",),
    "process_vm_readv": ("ENOMEM", "EPERM"),
    "get_robust_list": ("EPERM",),
    "set_robust_list": ("EPERM",),
    "close_range": ("EMFILE", "ENOMEM"),
    "tgkill": ("EAGAIN", "EPERM"),
    "rt_sigprocmask": ("EPERM",),
    "sigaltstack": ("ENOMEM", "EPERM"),
    "sched_getaffinity": ("EPERM",),
    "getrandom": ("EINTR",),
    "clock_gettime": ("EPERM",),
}


class Site(NamedTuple):
    """The `number`-th call of this name in a group of threads."""

    group: str
    call: str
    number: int


class Fault(NamedTuple):
    """A site, and what its call fails with."""

    site: Site
    error: str
    lasts: bool = False  # all later calls fail too

    def __str__(self):
        group, call, number = self.site
        return f"{group}: {call} {number}{' and on' * self.lasts} {self.error}"


class Run(NamedTuple):
    """What came of it."""

    fault: Fault | None
    notes: list  # lines of the injector
    code: int | None  # status of memtrace; None: it did not end in time
    stdout: bytes
    stderr: str
    trace: Path

    def noted(self, what):
        """What the injector has noted under this word; None if it has not."""
        lines = [
            line.removeprefix(what + " ") for line in self.notes if line.startswith(what + " ")
        ]
        return lines[0] if lines else None

    @property
    def program(self):
        """Status of the recorded program, None if it was not started."""
        status = self.noted("program")
        return None if status is None else int(status)

    def __str__(self):
        return f"{self.fault} {Path(self.noted('failed') or '').name}".rstrip()


def numbers():
    """System calls by name."""
    return {
        name: int(number) for name, number in re.findall(r"__NR_(\w+) (\d+)", NUMBERS.read_text())
    }


class Faults:
    """Runs commands with failing calls, each in a folder of its own."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.injector = build("faults.c", self.folder)
        self.numbers = numbers()

    def run(self, command, fault=None, trace=None):
        """Runs a command with {trace} in it, which is a new directory if none is given."""
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        trace, notes = trace or folder / "trace", folder / "notes"
        where = []
        if fault:
            (group, call, number), error, lasts = fault
            where = [group, self.numbers[call], -number if lasts else number, getattr(errno, error)]
        words = [self.injector, notes, *where, "--", *command]
        words = [str(word).replace("{trace}", str(trace)) for word in words]
        try:
            done = subprocess.run(words, capture_output=True, check=False, timeout=SECONDS_AT_MOST)
            code, out, err = done.returncode, done.stdout, done.stderr
        except subprocess.TimeoutExpired as late:
            code, out, err = None, late.stdout or b"", late.stderr or b""
        return Run(fault, notes.read_text().splitlines(), code, out, err.decode(), trace)

    def sites(self, command, trace=None):
        """How often each group makes each call."""
        names = {number: name for name, number in self.numbers.items()}
        counted = {}
        for line in self.run(command, None, trace).notes:
            if line.startswith("count "):
                group, call, count = line.removeprefix("count ").rsplit(" ", 2)
                counted[group, names[int(call)]] = int(count)
        return counted

    def all(self, command, faults, judge, trace=None):
        """Runs two at a time; yields each run whose call was reached, with what is wrong with it."""

        def one(fault):
            run = self.run(command, fault, trace)
            wrong = judge(run) if run.noted("failed") is not None else None
            if trace is None:
                shutil.rmtree(run.trace.parent, ignore_errors=True)
            return run, wrong

        with ThreadPoolExecutor(2) as pool:
            yield from (each for each in pool.map(one, faults) if each[1] is not None)


def build(source, folder):
    """Compiles a target into the folder."""
    binary = Path(folder) / Path(source).stem
    subprocess.run([*COMPILER, "-o", binary, TARGETS / source], check=True)
    return binary


# What lasts when it has begun: a full disk, a process without descriptors.
LASTING = {
    "write": "ENOSPC",
    "rename": "ENOSPC",
    "mkdir": "ENOSPC",
    "openat": "EMFILE",
    "socket": "EMFILE",
}


def choose(counted, how):
    """Faults for all calls that may fail: the `first` of each group, with `some` that in the middle too, with `every`
    also some between these and the last, each with all its errors; and those that last."""
    every = how == "every"
    for (group, call), count in sorted(counted.items()):
        errors = ERRORS.get(call, ())
        some = {1} if how == "first" else {1, (count + 1) // 2}
        more = {2, 3, 4, (count + 3) // 4, (3 * count + 3) // 4, count} if every else set()
        for index, number in enumerate(sorted(each for each in some | more if each <= count)):
            for error in errors if every else errors[index % len(errors) :][:1] if errors else ():
                yield Fault(Site(group, call, number), error)
        for number in sorted(some) if call in LASTING else ():
            yield Fault(Site(group, call, number), LASTING[call], lasts=True)


def sentences(run, at_most=1):
    """What is wrong with what a run said: everything but so many sentences of memtrace's own."""
    lines = run.stderr[:1000].splitlines()
    wrong = [
        f"said {line!r}" for line in lines if not line.startswith("memtrace: ") or "defect" in line
    ][:1]
    return wrong + ([f"{len(lines)} sentences: {lines[:3]}"] if len(lines) > at_most else [])


class Recorded:
    """Judges recordings of tests/targets/faulted.c, which knows what a trace of it must have."""

    STDOUT = b"children 10, errno changed 0 times\n"
    STATUS = 3
    TRUTH = {"blocks": 1200, "processes": 3, "spans": 1, "peak": True}

    def __call__(self, run):
        if run.code is None:
            return ["did not end in time"]
        wrong = sentences(run)
        if run.program is None:
            return wrong + self.not_started(run)
        if (run.program, run.stdout) != (self.STATUS, self.STDOUT):
            wrong.append(f"the program: status {run.program}, {run.stdout!r}")
        if run.code != run.program:
            wrong.append(f"memtrace: status {run.code}, {run.stderr[:300]!r}")
        return wrong + self.trace(run)

    def not_started(self, run):
        wrong = []
        if run.code not in (1, 125, 126) or not run.stderr:
            wrong.append(f"not started: status {run.code}, {run.stderr[:300]!r}")
        if run.stdout:
            wrong.append(f"not started: {run.stdout!r}")
        return wrong

    def trace(self, run):
        """Complete, or recovered after one sentence; what it lacks is said in it."""
        try:
            meta = json.loads((run.trace / "meta.json").read_text())
        except (OSError, ValueError) as error:
            return [] if run.stderr else [f"no trace, and not said: {error}"]
        wrong = []
        if not meta["complete"]:
            if not run.stderr:
                wrong.append("incomplete, and not said")
            done = subprocess.run(
                [MEMTRACE, "recover", run.trace], capture_output=True, check=False
            )
            if done.returncode:
                wrong.append(f"not recovered: {done.stderr.decode().strip()}")
            return wrong
        done = subprocess.run(
            [MEMTRACE, "report", "--json", run.trace], capture_output=True, check=False
        )
        if done.returncode:
            return [*wrong, f"not readable: {done.stderr.decode().strip()}"]
        seen = self.seen(run.trace)
        lacks = {
            what: seen[what] for what, least in self.TRUTH.items() if (seen[what] or 0) < least
        }
        said = meta["notes"] or meta["lost"]["events"] or run.stderr
        return [*wrong, f"silent: {lacks}"] if lacks and not said else wrong

    def seen(self, trace):
        """What the trace has of the truth."""
        query = f"""select
            (select count(*) from '{trace}/allocations/*.parquet' where bytes = 10007),
            (select count(*) from '{trace}/processes.parquet'),
            (select count(*) from '{trace}/spans.parquet'),
            (select max(peak_live_bytes) > 4194304 from '{trace}/processes.parquet')"""
        with duckdb.connect() as database:
            return dict(zip(self.TRUTH, database.sql(query).fetchall()[0], strict=True))


class RecordedPython(Recorded):
    """The same of tests/targets/faulted.py."""

    STDOUT = b"2001200 6291456\n"
    TRUTH = {"blocks": 200, "processes": 1, "spans": 2, "peak": True}


class Read:
    """Judges a reader of a trace: it says what it says without faults, or in one sentence why not."""

    def __init__(self, reference):
        self.reference = reference

    def __call__(self, run):
        if run.code is None:
            return ["did not end in time"]
        wrong = sentences(run)
        if run.code == self.reference.code:
            return (
                wrong
                if run.stdout == self.reference.stdout
                else [*wrong, "another answer, and not said"]
            )
        said = run.stderr.startswith("memtrace: ") and run.code in (1, 2)
        return wrong if said else [*wrong, f"status {run.code}, {run.stderr[:300]!r}"]


# The Rust runtime gives each thread a stack for signals before any code of memtrace runs, and aborts without one; and it
# takes a directory that cannot be closed for a bug.
RUNTIME = (
    "failed to allocate an alternative stack",
    "failed to set up alternative stack guard page",
    "unexpected error during closedir",
)


def is_of_the_runtime(run):
    """True if the failure is one that memtrace cannot see."""
    return any(words in run.stderr for words in RUNTIME)
