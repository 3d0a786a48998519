"""Heaps of Node.js and of a JVM: working peaks next to the kernel's pages, and laws."""

import json
import shutil
import subprocess
from statistics import median

from experiments.recording import KEPT, RESULTS, memtrace

#: Both end with what the kernel counts, and what of it is the C library's heap, kB.
NODE = """
const fs = require('fs');
const held = [];
for (let i = 0; i < Number(process.argv[2]); i++) held.push({ a: i, b: 'x' + i, c: [i, i + 1] });
let all = 0, heap = 0, name = '';
for (const line of fs.readFileSync('/proc/self/smaps', 'utf8').split('\\n')) {
  const words = line.split(/ +/);
  if (/^[0-9a-f]+-[0-9a-f]+ /.test(line)) name = words[5];
  else if (words[0] === 'Anonymous:') {
    all += Number(words[1]);
    heap += name === '[heap]' ? Number(words[1]) : 0;
  }
}
console.log(held.length, all, heap);
"""
JAVA = """
import java.nio.file.*; import java.util.*;
public class Held {
    public static void main(String[] arguments) throws Exception {
        List<long[]> held = new ArrayList<>();
        for (int i = 0; i < Integer.parseInt(arguments[0]); i++) {
            long[] array = new long[1000];
            Arrays.fill(array, i);
            held.add(array);
        }
        long all = 0, heap = 0;
        boolean inHeap = false;
        for (String line : Files.readAllLines(Path.of("/proc/self/smaps"))) {
            String[] words = line.split(" +");
            if (words[0].matches("[0-9a-f]+-[0-9a-f]+")) inHeap = line.endsWith("[heap]");
            else if (words[0].equals("Anonymous:")) {
                all += Long.parseLong(words[1]);
                heap += inHeap ? Long.parseLong(words[1]) : 0;
            }
        }
        System.out.println(held.size() + " " + all + " " + heap);
    }
}
"""
#: The C library's heap is one mapping: what is free in it is in memory, too.
ENVIRONMENT = {"GLIBC_TUNABLES": "glibc.malloc.arena_max=1:glibc.malloc.mmap_max=0"}
SIZES = {"Node.js": (750_000, 1_500_000, 3_000_000), "a JVM": (25_000, 50_000, 100_000)}
#: What a law of the three says of a fourth, next to its recording.
BEYOND = {"Node.js": 4_000_000, "a JVM": 140_000}
TARGETS = {"peak": 0.02, "law": 0.05}
#: Collectors decide by the time that passes: no two runs are the same.
TIMES = 5


def main(arguments):
    folder = KEPT / "reserved"
    folder.mkdir(parents=True, exist_ok=True)
    rows = [
        row
        for name, command in commands(folder)
        for row in measured(folder, name, command, arguments)
    ]
    (RESULTS / "reserved.md").write_text(page(rows))
    return all(row["is_right"] for row in rows)


def commands(folder):
    """Programs that can be run here, by name."""
    (folder / "held.js").write_text(NODE)
    (folder / "Held.java").write_text(JAVA)
    if shutil.which("node"):
        yield "Node.js", ["node", "--max-old-space-size=8000", str(folder / "held.js")]
    else:
        print("reserved: no Node.js (node) here: skipped")
    if shutil.which("java") and shutil.which("javac"):
        subprocess.run(["javac", "Held.java"], cwd=folder, check=True)
        yield "a JVM", ["java", "-Xms64m", "-Xmx4g", "-cp", str(folder), "Held"]
    else:
        print("reserved: no JVM (java, javac) here: skipped")


def measured(folder, name, command, arguments):
    sizes = [size // 10 if arguments.quick else size for size in (*SIZES[name], BEYOND[name])]
    runs = {
        size: [recorded(folder / f"{name}-{size}-{turn}", command, size) for turn in range(TIMES)]
        for size in sizes
    }
    model = folder / f"{name}.json"
    memtrace("fit", "-o", model, *(run["path"] for size in sizes[:-1] for run in runs[size]))
    said = json.loads(
        memtrace("predict", model, "--operator", "command", f"--shape={sizes[-1]}", "--json")
    )
    return [
        figures(name, size, of_size, said["peak_bytes"] if size == sizes[-1] else None)
        for size, of_size in runs.items()
    ]


def figures(name, size, runs, predicted):
    row = {key: median(run[key] for run in runs) for key in ("peak", "live", "kernel", "whole")}
    for key in ("peak", "live"):
        row[f"{key}_error"] = median(run[key] / run["kernel"] - 1 for run in runs)
    row["law"] = None if predicted is None else predicted / row["whole"] - 1
    is_right = abs(row["peak_error"]) <= TARGETS["peak"]
    is_right &= row["law"] is None or abs(row["law"]) <= TARGETS["law"]
    return {"name": name, "size": size, **row, "is_right": is_right}


def recorded(path, command, size):
    """Bytes of mappings: the C library's heap is left out."""
    shutil.rmtree(path, ignore_errors=True)
    span = ("--span", "command", f"--shape={size}")
    words = ("--quiet", "-o", path, *span, "--", *command, size)
    said = memtrace(*words, environment=ENVIRONMENT).split()
    everything, heap = (int(word) * 1024 for word in said[-2:])
    report = json.loads(memtrace("report", "--json", path))
    [operator] = [each for each in report["operators"] if each["name"] == "command"]
    whole, peak = operator["spans"][0]["working_peak_bytes"], report["peak"]
    return {
        "path": path,
        "whole": whole,
        "peak": whole - peak["heap_bytes_at_peak"],
        "live": peak["live_bytes"] - peak["heap_bytes_at_peak"],
        "kernel": everything - heap,
    }


HEAD = f"""# Heaps in reserved address space

Node.js and a JVM reserve address space and make parts of it memory as their heaps grow. Here each
program fills its heap with objects and reads how many anonymous pages the kernel counts in it
(`Anonymous` in /proc/self/smaps). `scripts/experiments reserved heaps` measured this: medians of
{TIMES} runs of each size, and of the differences in each run. All columns leave the C library's
heap out, in which pages stay that are free; the law is that of whole working peaks, from all runs
of the first three sizes, and says what the runs of the fourth need.

Node.js commits what it is about to use. The JVM commits ahead, more than it touches: its working
peak, where mappings count with their length, is no measure of what it needs, and its live bytes
are. A working peak is a sum of requested lengths, so that the rows of a trace give it again to the
byte (`report --recompute`); no rows say when pages were touched. Both collect garbage by the time
that passes: of one size, no two runs need the same.

| program | objects | the kernel's pages | working peak | difference | live | difference | law |
|---|---|---|---|---|---|---|---|
"""


def page(rows):
    text = HEAD
    for row in rows:
        law = "" if row["law"] is None else f"{row['law']:+.1%}"
        kernel, peak, live = (f"{row[key] / 1e6:,.1f} MB" for key in ("kernel", "peak", "live"))
        to_peak, to_live = (f"{row[key]:+.1%}" for key in ("peak_error", "live_error"))
        cells = [row["name"], f"{row['size']:,}", kernel, peak, to_peak, live, to_live, law]
        text += f"| {' | '.join(cells)} |\n"
    return text
