"""Heaps of Node.js and of a JVM: working peaks next to the kernel's pages, and laws."""

import json
import shutil
import subprocess
from statistics import median

from experiments.recording import KEPT, RESULTS, memtrace

#: Both end with what of the kernel's pages is the C library's heap, kB.
NODE = """
const fs = require('fs');
const held = [];
for (let i = 0; i < Number(process.argv[2]); i++) held.push({ a: i, b: 'x' + i, c: [i, i + 1] });
let heap = 0, name = '';
for (const line of fs.readFileSync('/proc/self/smaps', 'utf8').split('\\n')) {
  const words = line.split(/ +/);
  if (/^[0-9a-f]+-[0-9a-f]+ /.test(line)) name = words[5];
  else if (words[0] === 'Anonymous:' && name === '[heap]') heap += Number(words[1]);
}
console.log(held.length, heap);
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
        long heap = 0;
        boolean inHeap = false;
        for (String line : Files.readAllLines(Path.of("/proc/self/smaps"))) {
            String[] words = line.split(" +");
            if (words[0].matches("[0-9a-f]+-[0-9a-f]+")) inHeap = line.endsWith("[heap]");
            else if (inHeap && words[0].equals("Anonymous:")) heap += Long.parseLong(words[1]);
        }
        System.out.println(held.size() + " " + heap);
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
    return [figures(name, size, runs[size], said(model, size)) for size in sizes]


def said(model, size):
    """What the law says that a run of this size needs."""
    query = ("--operator", "command", f"--shape={size}", "--json")
    return json.loads(memtrace("predict", model, *query))


def figures(name, size, runs, predicted):
    row = {key: median(run[key] for run in runs) for key in ("peak", "touched", "kernel")}
    for key in ("peak", "touched"):
        row[f"{key}_error"] = median(run[key] / run["kernel"] - 1 for run in runs)
    for key, law in (("whole", "peak_bytes"), ("resident", "resident_bytes")):
        row[f"{key}_law"] = predicted[law] / median(run[key] for run in runs) - 1
    is_right = abs(row["peak_error"]) <= TARGETS["peak"]
    if name == "Node.js" and size != BEYOND[name]:
        is_right &= abs(row["whole_law"]) <= TARGETS["law"]
    return {"name": name, "size": size, **row, "is_right": is_right}


def recorded(path, command, size):
    """Bytes of mappings: the C library's heap is left out, but for laws."""
    shutil.rmtree(path, ignore_errors=True)
    span = ("--span", "command", f"--shape={size}")
    words = ("--quiet", "-o", path, *span, "--", *command, size)
    heap_pages = int(memtrace(*words, environment=ENVIRONMENT).split()[-1]) * 1024
    report = json.loads(memtrace("report", "--json", path))
    [operator] = [each for each in report["operators"] if each["name"] == "command"]
    [span] = operator["spans"]
    whole, then = span["working_peak_bytes"], span["resident_at_peak"]
    heap = report["peak"]["heap_bytes_at_peak"]
    return {
        "path": path,
        "whole": whole,
        "resident": span["resident_peak_bytes"],
        "peak": whole - heap,
        "touched": then["live_bytes"] - then["untouched_bytes"] - heap,
        "kernel": then["memory_bytes"] - heap_pages,
    }


COLUMNS = (
    *("program", "objects", "the kernel's pages", "working peak", "difference", "touched"),
    *("difference", "law of working peaks", "of resident peaks"),
)
HEAD = f"""# Heaps in reserved address space

Node.js and a JVM reserve address space and make parts of it memory as their heaps grow. Here each
program fills its heap with objects, in one span. `scripts/experiments reserved heaps` measured
this: medians of {TIMES} runs of each size, and of the differences in each run. *The kernel's
pages* are the most anonymous pages at one time, as the kernel counts them (`rss_stat`). *Touched*
are the live bytes of that moment that were written to. All three columns leave the C library's
heap out, in which pages stay that are free: as it is at the end of the run, and at the peak of
live bytes. Laws are from all runs of the first three sizes, of working peaks and of resident peaks
with all that the process has; beside each size is how far off the law is there.

Wanted are working peaks within {TARGETS["peak"]:.0%} of the kernel's pages, and of Node.js laws
within {TARGETS["law"]:.0%} at the three sizes.

Node.js commits what it is about to use. The JVM commits ahead, more than it touches: its working
peak, where mappings count with their length, is no measure of what it needs. Its resident peak is;
a law of it takes the largest share that was touched in any run, and is too high. A working peak is
a sum of requested lengths, so that the rows of a trace give it again to the byte (`report
--recompute`); no rows say when pages were touched. Both collect garbage by the time that passes:
of one size, no two runs need the same.

| {" | ".join(COLUMNS)} |
|{"---|" * len(COLUMNS)}
"""


def page(rows):
    text = HEAD
    for row in rows:
        sizes = (f"{row[key] / 1e6:,.1f} MB" for key in ("kernel", "peak", "touched"))
        kernel, peak, touched = sizes
        errors = ("peak_error", "touched_error", "whole_law", "resident_law")
        to_peak, to_touched, *laws = (f"{row[key]:+.1%}" for key in errors)
        cells = [row["name"], f"{row['size']:,}", kernel, peak, to_peak, touched, to_touched, *laws]
        text += f"| {' | '.join(cells)} |\n"
    return text
