"""Programs people run: the same output and status with and without memtrace, no child missed.

Every script is deterministic. A process that is no program of its own (a subshell, a forked worker) writes
its pid into the file `pids`; each of these must be a row of `processes` too.
"""

import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest
from conftest import environment


class Program(NamedTuple):
    """A script, what runs it, and the programs that it executes: their names, how often
    (empty where `pids` says it all)."""

    runner: str
    script: str
    executes: dict


# stdout is compared byte by byte: whatever depends on time, pids or hash seeds stays out of it.
PROGRAMS = {
    "bash": Program(
        "bash",
        r"""
        printf 'b\na\nc\n' | sort | while read -r x; do echo "got $x"; done
        (echo $BASHPID >> pids; x=$(echo $BASHPID >> pids; seq 1 200 | tail -3); echo "$x"; exit 4)
        echo "subshell: $?"
        cat <<END
here $((6 * 7))
END
        diff <(echo one) <(echo two) || echo "differs: $?"
        echo $BASHPID >> pids &
        wait; echo warning >&2; exit 3
        """,
        {"bash": 1, "sort": 1, "seq": 1, "tail": 1, "cat": 1, "diff": 1},
    ),
    "git": Program(
        "sh",
        """
        export HOME=$PWD GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b.c
        export GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b.c
        export GIT_AUTHOR_DATE='2020-01-01T00:00:00Z' GIT_COMMITTER_DATE='2020-01-01T00:00:00Z'
        mkdir traces && export GIT_TRACE2_EVENT=$PWD/traces # git's own record: a file per process, its pid in the name
        git init -q -b main repository && cd repository
        seq 1 5000 > numbers && git add numbers && git -c gc.auto=0 commit -q -m first
        seq 1 5001 > numbers && git -c gc.auto=0 commit -q -a -m second
        git --no-pager log --stat && git diff HEAD~1 | cat && git clone -q . ../copy && git -C ../copy status
        cd .. && for trace in traces/*; do printf '%d\\n' 0x${trace##*-P}; done >> pids
        test $(sort -u pids | wc -l) -ge 10 || echo 'git ran fewer processes than the test thinks'
        """,
        {},  # How many it runs differs between versions; it says itself which.
    ),
    "sqlite3": Program(
        "sh",
        """
        sqlite3 file.db "create table t(a integer primary key, b text);
            with recursive n(i) as (select 1 union all select i + 1 from n where i < 20000)
            insert into t select i, hex(i * 7919) from n; create index x on t(b);"
        sqlite3 file.db "select count(*), max(b) from t where b like '%3%'; vacuum; select * from nowhere"
        """,
        {"sh": 1, "sqlite3": 2},
    ),
    "gcc": Program(
        "sh",
        r"""
        printf '#include <stdio.h>\nint main(void) { int unused; puts("hello"); return 6; }\n' > hello.c
        gcc -O2 -Wall -o hello hello.c && ./hello
        """,
        {"sh": 1, "gcc": 1, "cc1": 1, "as": 1, "collect2": 1, "ld": 1, "hello": 1},
    ),
    "perl": Program(
        "perl",
        r"""
        my %h; $h{$_ % 97} .= chr(65 + $_ % 26) for 1 .. 20000;
        print length(join '', map { $h{$_} } sort keys %h), "\n", scalar(`seq 1 3`);
        $| = 1; my $pid = fork;
        if (!$pid) { open my $f, '>>', 'pids'; print $f "$$\n"; exit 0 }
        waitpid $pid, 0; system 'sh', '-c', 'exit 5'; die "status $?\n";
        """,
        {"perl": 1, "seq": 1, "sh": 1},
    ),
    "node": Program(
        "node",
        """
        const zlib = require('zlib'), crypto = require('crypto'), children = require('child_process');
        const text = JSON.stringify([...Array(20000).keys()].map(n => ({n, square: n * n})));
        console.log(crypto.createHash('sha256').update(text).digest('hex'));
        console.log(zlib.gunzipSync(zlib.gzipSync(text)).length);
        console.log(children.execFileSync('seq', ['1', '3']).toString());
        setTimeout(() => { console.error('bye'); process.exit(7) }, 1);
        """,
        {"node": 1, "seq": 1},
    ),
    "java": Program(
        "sh",
        """
        cat > Main.java <<'END'
        import java.util.*;
        public class Main {
            public static void main(String[] arguments) throws Exception {
                List<byte[]> held = new ArrayList<>();
                for (int i = 0; i < 2000; i++) held.add(new byte[10000]);
                Thread thread = new Thread(() -> System.out.println(held.size()));
                thread.start(); thread.join();
                Process child = new ProcessBuilder("seq", "1", "2").start();
                System.out.print(new String(child.getInputStream().readAllBytes()));
                System.exit(child.waitFor() + 9);
            }
        }
END
        java -XX:+UseSerialGC -Xmx128m Main.java
        """,
        {"sh": 1, "cat": 1, "java": 1, "jspawnhelper": 1, "seq": 1},
    ),
    "tar": Program(
        "sh",
        """
        mkdir d && seq 1 20000 > d/a && cp d/a d/b
        tar --sort=name --owner=0 --group=0 --mtime=@0 --mode=0644 -cf a.tar d
        gzip -n a.tar && sha256sum a.tar.gz && tar -tzf a.tar.gz && tar -xzf a.tar.gz nowhere
        """,
        {"sh": 1, "mkdir": 1, "seq": 1, "cp": 1, "tar": 3, "gzip": 3, "sha256sum": 1},
    ),
    "sort": Program(
        "sh",
        "seq 1 200000 | sort --parallel=4 -S 16M -k1.2n -k1 | sha256sum",
        {"sh": 1, "seq": 1, "sort": 1, "sha256sum": 1},
    ),
    "awk": Program(
        "awk",
        'BEGIN { for (i = 0; i < 50000; i++) a[i % 997] = a[i % 997] i; print length(a[5]); "seq 1 1" | getline x;'
        " print x; exit 3 }",
        {"awk": 1, "sh": 1, "seq": 1},
    ),
    "xargs": Program(
        "sh",
        """
        for i in $(seq 10 49); do echo $i > $i.txt; done
        find . -name '*.txt' -print0 | sort -z | xargs -0 -n 10 wc -c
        find . -name '1*.txt' -exec rm {} +
        """,
        {"sh": 1, "seq": 1, "find": 2, "sort": 1, "xargs": 1, "wc": 4, "rm": 1},
    ),
    "make": Program(
        "sh",
        r"""
        printf 'all: a b; @cat a b\na: ; @seq 1 5 > a\nb: ; @seq 6 9 | tac > b\nbad: ; @exit 7\n' > Makefile
        make -j2; make bad
        """,
        {"sh": 4, "make": 2, "cat": 1, "seq": 2, "tac": 1},
    ),
}

PYTHON = {
    "json": "import json; d = [{'n': n, 's': str(n)} for n in range(20000)]; assert json.loads(json.dumps(d)) == d",
    "threads": """
        from concurrent.futures import ThreadPoolExecutor
        with ThreadPoolExecutor(8) as pool: print(sum(pool.map(lambda n: len(bytearray(n)), range(5000))))
        """,
    "asyncio": """
        import asyncio
        async def one(n): await asyncio.sleep(0); return len(str(n) * 100)
        async def all(): return sum(await asyncio.gather(*(one(n) for n in range(2000))))
        async def child():
            process = await asyncio.create_subprocess_exec('seq', '1', '3', stdout=-1)
            return (await process.communicate())[0]
        print(asyncio.run(all()), asyncio.run(child()))
        """,
    "ctypes": """
        import ctypes
        libc = ctypes.CDLL(None, use_errno=True)
        libc.malloc.restype = ctypes.c_void_p
        blocks = [libc.malloc(ctypes.c_size_t(n)) for n in range(1, 2000)]
        print(all(blocks)); [libc.free(ctypes.c_void_p(block)) for block in blocks]
        Sort = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))
        numbers = (ctypes.c_int * 1000)(*range(1000, 0, -1))
        libc.qsort(numbers, 1000, 4, Sort(lambda a, b: a[0] - b[0])); print(list(numbers[:3]))
        """,
    "sqlite3": """
        import sqlite3
        db = sqlite3.connect(':memory:'); db.execute('create table t(a, b)')
        db.executemany('insert into t values (?, ?)', ((n, str(n) * 5) for n in range(20000)))
        print(db.execute('select sum(a), max(b) from t').fetchall())
        """,
    "decimal": """
        import decimal
        decimal.getcontext().prec = 500
        print(sum(decimal.Decimal(1) / n for n in range(1, 500)))
        raise SystemExit(5)
        """,
    "mmap": """
        import mmap
        with mmap.mmap(-1, 8 << 20) as m: m[:] = b'x' * len(m); m.resize(4 << 20); print(len(m), m.find(b'y'))
        1 / 0
        """,
    "fork": """
        import os
        if (pid := os.fork()) == 0: open('pids', 'a').write(f'{os.getpid()}\\n'); os._exit(3)
        print(os.waitpid(pid, 0)[1])
        """,
}
POOL = """
import multiprocessing, os, sys
def work(n):
    open('pids', 'a').write(f'{os.getpid()}\\n')
    return len(bytearray(n))
if __name__ == '__main__':
    with multiprocessing.get_context(sys.argv[1]).Pool(3) as pool: print(sum(pool.map(work, [300_000] * 30)))
"""


def unindented(script):
    """The script without the indentation it has here."""
    lines = script.splitlines()
    margin = min(
        (len(line) - len(line.lstrip()) for line in lines if line.startswith(" ")), default=0
    )
    return "\n".join(line.removeprefix(" " * margin) for line in lines).strip()


def executed(run):
    """How often each program was executed, by name."""
    rows = run.sql("select command from {processes} where origin = 'exec'")
    programs = (
        command[1:].split("'")[0] if command[0] == "'" else command.split(" ")[0]
        for (command,) in rows
    )
    return Counter(Path(program).name for program in programs)


@pytest.fixture
def same(record, tmp_path):
    """Runs a command bare and recorded, each in a new directory of the same name; the recording."""
    work = tmp_path / "work"
    env = environment(LC_ALL="C", TZ="UTC")

    def run(*command):
        work.mkdir()
        bare = subprocess.run(command, cwd=work, env=env, capture_output=True, check=False)
        shutil.rmtree(work)
        work.mkdir()
        recorded = record(*command, options=("--quiet",), cwd=work, env=env)
        assert recorded.stdout == bare.stdout
        assert recorded.stderr == bare.stderr
        assert recorded.code == (bare.returncode if bare.returncode >= 0 else 128 - bare.returncode)
        if (work / "pids").exists():
            recorded_pids = {pid for (pid,) in recorded.sql("select pid from {processes}")}
            assert set(map(int, (work / "pids").read_text().split())) <= recorded_pids
        return recorded

    return run


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program(same, name):
    program = PROGRAMS[name]
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    flag = {"awk": [], "perl": ["-e"], "node": ["-e"]}.get(program.runner, ["-c"])
    run = same(program.runner, *flag, unindented(program.script))
    if program.executes:
        assert executed(run) == program.executes


@pytest.mark.parametrize("name", PYTHON)
def test_a_python_program(same, python, name):
    run = same(python, "-c", unindented(PYTHON[name]))
    children = {"asyncio": {"seq": 1}}.get(name, {})
    assert executed(run) == {Path(python).name: 1, **children}


@pytest.mark.parametrize(
    ("method", "images", "forks"),
    # The main program, and for spawn and forkserver the resource tracker; workers or the server.
    [("fork", 1, 3), ("spawn", 1 + 1 + 3, 0), ("forkserver", 1 + 1 + 1, 3)],
)
def test_python_multiprocessing(same, python, tmp_path, method, images, forks):
    script = tmp_path / "pool.py"
    script.write_text(POOL)
    run = same(python, script, method)
    assert sum(executed(run).values()) == images
    assert run.sql("select count(*) from {processes} where origin = 'fork'") == [(forks,)]


def test_python_subprocess(same, python):
    program = (
        "import subprocess, sys\n"
        "for close in (True, False):\n"
        "    done = subprocess.run(['seq', '1', '3'], close_fds=close, capture_output=True, text=True)\n"
        "    print(done.stdout, subprocess.call('echo shell; exit 4', shell=True), flush=True)\n"
        "    code = 'import sys; x = bytearray(7_000_000); sys.exit(2)'\n"
        "    print(subprocess.call([sys.executable, '-c', code]), flush=True)\n"
    )
    run = same(python, "-c", program)
    assert executed(run) == {Path(python).name: 3, "seq": 2, "sh": 2}
    assert run.sql("select count(*) from {allocations} where bytes = 7000001") == [(2,)]
