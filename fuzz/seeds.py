"""Makes fuzz/corpus, from which the fuzzer begins: small inputs that every target accepts.

    .venv/bin/python fuzz/seeds.py

Run scripts/setup first. Traces, a model and executables are of fuzz/program.c; the words of rings
are packed here as wire/src/event.rs lays them out.
"""

import json
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow.parquet as parquet

ROOT = Path(__file__).resolve().parents[1]
CORPUS = ROOT / "fuzz" / "corpus"
TABLES = "processes threads modules allocations spans timeline sites frames folded kernel_events accesses devices placements"


def put(target, name, content):
    folder = CORPUS / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)


def recordings(place):
    """Traces and a model, recorded with copies: what they name lies in `place`."""
    for library in ("preload/libmemtrace_probe.so", "release/memtrace"):
        (place / library).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / "target" / library, place / library)
    memtrace, program = place / "release" / "memtrace", place / "program"
    shutil.copy(ROOT / "fuzz" / "program.c", place)
    compiler = ["gcc", "-g", "-O1", "-I", ROOT / "include", f"-ffile-prefix-map={ROOT}=."]
    subprocess.run([*compiler, "-o", program, "program.c"], cwd=place, check=True)
    for run in "123":
        command = [memtrace, "record", "-q", "-o", place / run, "--stacks", "all", "--", program]
        subprocess.run(command, cwd=place, check=True)
    fitted = [memtrace, "fit", *(place / run for run in "123"), "-o", place / "model.json"]
    subprocess.run(fitted, check=True, stdout=subprocess.DEVNULL)
    return place / "1", place / "model.json", program


def tables(trace, place):
    """Each as it was written, and with its pages bare, so that damage reaches the decoders."""
    for number, name in enumerate(TABLES.split()):
        path = trace / f"{name}.parquet"
        path = path if path.exists() else sorted((trace / name).iterdir())[0]
        plain = place / "plain.parquet"
        parquet.write_table(
            parquet.read_table(path), plain, compression="none", write_statistics=False
        )
        put("tables", f"{name}-plain", bytes([number]) + plain.read_bytes())
        put("tables", name, bytes([number]) + path.read_bytes())
    meta = json.loads((trace / "meta.json").read_text())
    put("meta", "meta.json", json.dumps(meta | {"host": "host"}))


def executables(program, place):
    source = "static inline __attribute__((always_inline)) int f(int x) { return x * x; }\nint _start(int n) { return f(n); }\n"
    (place / "a.c").write_text(source)
    for name, flags in (
        ("debug", ["-g"]),
        ("plain", []),
        ("compressed", ["-g", "-gz"]),
        ("dwarf4", ["-gdwarf-4"]),
    ):
        command = [
            "gcc",
            "-O1",
            "-nostdlib",
            "-static-pie",
            *flags,
            "-o",
            place / name,
            place / "a.c",
        ]
        subprocess.run(command, cwd=place, check=True)
        put("elf", name, (place / name).read_bytes())
    put("elf", "program", program.read_bytes())


def event(kind, address=0, stamp=0, count=None, extra=None, stack=0, text=None):
    """The words of an event."""
    if text is not None:
        count = len(text)
    words = [kind << 56 | address, stamp]
    if count is not None:
        words.append(stack << 50 | count)
    if extra is not None:
        words.append(extra)
    packed = struct.pack(f"<{len(words)}Q", *words) + (text or b"")
    return packed + bytes(-len(packed) % 16)


def compact(call, address, size, stamp, stack=0):
    return struct.pack("<2Q", 1 << 63 | call << 61 | size << 44 | address // 8, stamp << 10 | stack)


def words(*numbers):
    return struct.pack(f"<{len(numbers)}Q", *numbers)


def device(memory, number, context, owner, size, extra=0, most=0):
    return words(memory | number << 32, context, owner, size, extra, most)


def streams():
    """Events of each kind, by what they are about."""
    code = (
        words(7, 12 | 10 << 32, 4 | 1 << 32, 3 | 1 << 32, 4)
        + b"a.py\0\0\0\0f()\0\0\0\0\0\x80\x00\xf0\x08\0\0\0\0"
    )
    span = json.dumps(
        {"name": "f", "inputs": [{"shape": [4, 5], "dtype": "<f4"}], "params": {"a": 1}}
    )
    ended = json.dumps({"outputs": [{"shape": [4], "dtype": ">U3", "address": 64}]})
    pool = device(8, 0, 1, 5, 4096)
    return {
        "heap": compact(0, 4096, 64, 10, 1)
        + compact(1, 8192, 32, 20)
        + event(4, 4096, 30)
        + event(1, 1 << 20, 40, 1 << 20)
        + event(5, 8192, 50)
        + event(6, 12288, 60, 640)
        + event(7, 64, 70, 1 << 18),
        "maps": event(8, 4096, 10, 8192)
        + event(9, 4096, 20, 8192, 3 << 32 | 0x22, 1)
        + event(22, 4096, 25, 8192, 4096)
        + event(12, 4096, 30, 8192, 16384)
        + event(13, 1 << 20, 40, 16384, 1)
        + event(10, 1 << 20, 50, 4096)
        + event(11, 1 << 20, 60, 4096),
        "spans": event(14, 1, 10, text=span.encode())
        + compact(0, 64, 64, 20)
        + event(31, 99, 22, 0)
        + event(32, 99, 24, 0)
        + event(33, 1, 25)
        + event(15, 1, 30, text=ended.encode()),
        "stacks": event(30, 0, 1, text=words(0, 4096, 1 << 20) + b"/lib/x.so")
        + event(29, 0, 2, text=code)
        + event(28, 3, 3, text=words(2 | 1 << 16 | 1 << 32, 5000, 6000, 7, 1 << 32 | 2))
        + compact(0, 64, 64, 20, 3)
        + event(1, 1 << 20, 30, 1 << 20, stack=3),
        "garbage": event(26, 0, 1, 1)
        + compact(0, 64, 64, 5)
        + event(24, 0, 10, 2)
        + event(4, 64, 15)
        + event(25, 1, 20, 2),
        "devices": event(40, 0, 1, text=device(0, 0, 0, 0, 1 << 34) + b"Card")
        + event(34, 4096, 5, text=device(1, 0, 1, 0, 512))
        + event(34, 8192, 6, text=pool)
        + event(38, 0, 7, text=device(8, 0, 1, 5, 1 << 20, 4096, 1 << 20))
        + event(41, 512, 8, text=device(16, 0, 1, 0, 64, 4096, 64))
        + event(35, 4096, 9, text=device(1, 0, 1, 0, 0))
        + event(36, 4096, 10, text=device(1, 0, 1, 0, 0))
        + event(37, 0, 11, text=device(14, 0, 1, 0, 64))
        + event(39, 0, 12, text=device(0, 0, 1, 0, 0)),
        "ends": event(44, 0, 1, 3 << 8 | 12)
        + event(19, 1 << 30, 2, text=b"/bin/true")
        + event(20, 0, 3)
        + event(21, 1 << 30 | 1, 4, text=b"/bin/ls")
        + event(43, 0, 5, 1 << 40, 1 << 30)
        + event(42, 0, 6)
        + event(18, 0, 7, 1 << 20),
    }


def rings():
    for name, stream in streams().items():
        put("events", name, b"\0" + stream)
        put("ring", name, bytes([len(stream) // 8]) + stream + b"\0\0")
    put("ring", "runs-away", bytes([2]) + compact(0, 64, 8, 1) + b"\xff" + words(1 << 40) + b"\0")
    put("hello", "hello", b"memtrace" + struct.pack("<IIQ", 9 << 24, 1, 5) + bytes(range(24)))
    put("hello", "watch", b"mtwatch1" + struct.pack("<I", 250) + bytes(36))
    put("hello", "token", b"0123456789abcdef" * 2 + bytes(16))


def kernels():
    for kind in range(1, 13):
        put("kernel", f"bpf-{kind}", struct.pack("<QIIII8Q", 5, kind, 1, 2, 3, *range(8)))
    record = struct.pack("<IHHIIQQ", 9, 2, 32, 1, 2, 3, 4)
    comm = struct.pack("<IHHII8sIIQ", 3, 1 << 13, 40, 1, 1, b"python3", 1, 1, 9)
    put(
        "kernel",
        "perf",
        record + comm + struct.pack("<IHHIIIIQIIQ", 7, 0, 48, 1, 2, 3, 4, 5, 1, 1, 6),
    )


def texts(model):
    put("model", "model.json", model)
    graph = {
        "version": 1,
        "sources": {"volume": {"shape": [400, 10], "dtype": "<f4", "retained": "until_used"}},
        "steps": [
            {"name": "a", "operator": "small:work", "inputs": ["volume"], "halo": [2, 2]},
            {"name": "b", "inputs": ["a"], "slice": [[0, 10, 1], 3]},
            {
                "name": "c",
                "inputs": ["a", "b"],
                "bytes": {"fixed": 5, "per_element": 2.0},
                "output": {"dtype": "<f4"},
            },
            {"name": "d", "inputs": ["c", "c"], "join": [2, 1]},
        ],
        "results": ["d"],
    }
    put("graph", "graph.json", json.dumps(graph))
    for executor in ("sequential", {"threaded": {"threads": 2}}, {"distributed": {"threads": 2}}):
        name = executor if isinstance(executor, str) else next(iter(executor))
        put("graph", f"{name}.json", json.dumps(graph | {"executor": executor}))
    put(
        "recommend",
        "plain",
        bytes([0, 2, 40]) + bytes(range(8)) + bytes([20]) + bytes(8) + bytes(60),
    )
    put(
        "settings",
        "memtrace.toml",
        'quiet = true\n[record]\nmin-size = "1.5 KiB"\noutput = "t"\n[recommend]\nmemory-limit = "4GB"\nworkers = 2\n',
    )
    put("settings", "words", "1.5GB 2MiB 7 41,43,47 1e3 -1 0x10 auto")
    put(
        "names",
        "map",
        "1000 20 first\n0x2000 10 a name with blanks\n3000 ffff _ZN3fooILi5EE3barEv\n4000 5 _RNvCs1234_7mycrate3foo\n",
    )
    figures = {
        "trace": "t",
        "seconds": 1.5,
        "live_bytes": 7,
        "limits": [{"kind": "cgroup", "limit_bytes": 9}],
        "spans": [{"operator": "f", "input": {"shape": [2], "dtype": "<f4"}}],
        "sites": [{"site": 1}],
    }
    put(
        "live",
        "figures",
        json.dumps({"figures": figures})
        + "\n"
        + json.dumps({"stack": {"site": 1, "frames": [], "builds": []}}),
    )
    maps = "7f0000000000-7f0000021000 rw-p 00000000 00:00 0 [heap]\n7f0000100000-7f0000200000 r-xp 00001000 08:01 123 /usr/lib/a b.so (deleted)\n"
    put("procfs", "maps", maps)
    put(
        "procfs",
        "status",
        "VmHWM:\t  1234 kB\nVmRSS:\t 1000 kB\nMemTotal: 5 kB\nMemAvailable: 3 kB\n",
    )
    put(
        "procfs",
        "cgroup",
        "0::/user.slice/a\n4:memory:/b\n\x00"
        + "30 23 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n",
    )
    put("procfs", "auxv", words(23, 0, 3, 64, 0, 0))
    put(
        "python_lines", "locations", struct.pack("<QQ", 10, 4) + b"\x80\x00\xf0\x08\x01\xe8\x02\x05"
    )


def source(memtrace):
    module = 'import numpy as np\ndef f(x, n=2):\n    y = [np.zeros_like(x) for _ in range(n)]\n    if n > 3:\n        return x + y[0]\n    for each in y:\n        x = np.where(each > 0, each * 2, x)[1:, ::2]\n    return {"a": x.astype("f8"), "b": np.concatenate(y)}\n'
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "m.py").write_text(module)
        command = [memtrace, "bound", "m:f", "--python", sys.executable, "--describe", "d.json"]
        subprocess.run(command, cwd=folder, check=True)
        described = json.loads((Path(folder) / "d.json").read_text())
    put("bound", "f.json", json.dumps(described).replace(folder, "/tmp/program"))


def main():
    shutil.rmtree(CORPUS, ignore_errors=True)
    place = Path("/tmp/memtrace-seeds")
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    trace, model, program = recordings(place)
    tables(trace, place)
    executables(program, place)
    rings()
    kernels()
    texts(model.read_text())
    source(place / "release" / "memtrace")
    shutil.rmtree(place)


if __name__ == "__main__":
    main()
