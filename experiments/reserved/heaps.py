"""Heaps of Node.js and of a JVM: working peaks next to the kernel's pages, and laws."""

import json
import shutil
import subprocess

from experiments.recording import KEPT, RESULTS, memtrace

NODE = """
const fs = require('fs');
const held = [];
for (let i = 0; i < Number(process.argv[2]); i++) held.push({ a: i, b: 'x' + i, c: [i, i + 1] });
const text = fs.readFileSync('/proc/self/smaps_rollup', 'utf8');
console.log(held.length, Number(/Anonymous:\\s+(\\d+) kB/.exec(text)[1]) * 1024);
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
        for (String line : Files.readAllLines(Path.of("/proc/self/smaps_rollup")))
            if (line.startsWith("Anonymous:"))
                System.out.println(Long.parseLong(line.replaceAll("\\\\D", "")) * 1024);
    }
}
"""
SIZES = {"Node.js": (750_000, 1_500_000, 3_000_000), "a JVM": (25_000, 50_000, 100_000)}
#: What a law of the three says of a fourth, next to its recording.
BEYOND = {"Node.js": 4_000_000, "a JVM": 140_000}
TARGETS = {"peak": 0.02, "law": 0.05}


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
    runs = [recorded(folder / f"{name}-{size}", command, size) for size in sizes]
    model = folder / f"{name}.json"
    memtrace("fit", "-o", model, *(run["path"] for run in runs[:-1]))
    said = json.loads(
        memtrace("predict", model, "--operator", "command", f"--shape={sizes[-1]}", "--json")
    )
    rows = []
    for size, run in zip(sizes, runs, strict=True):
        error = run["peak"] / run["kernel"] - 1
        is_last = size == sizes[-1]
        law = said["peak_bytes"] / run["peak"] - 1 if is_last else None
        is_right = abs(error) <= TARGETS["peak"] and (not is_last or abs(law) <= TARGETS["law"])
        rows.append(
            {"name": name, "size": size, **run, "error": error, "law": law, "is_right": is_right}
        )
    return rows


def recorded(path, command, size):
    shutil.rmtree(path, ignore_errors=True)
    span = ("--span", "command", f"--shape={size}")
    out = memtrace("--quiet", "-o", path, *span, "--", *command, size)
    report = json.loads(memtrace("report", "--json", path))
    [operator] = [each for each in report["operators"] if each["name"] == "command"]
    return {
        "path": path,
        "peak": operator["spans"][0]["working_peak_bytes"],
        "live": report["peak"]["live_bytes"],
        "kernel": int(out.split()[-1]),
    }


def page(rows):
    lines = [
        "# Heaps in reserved address space",
        "",
        "Node.js and a JVM reserve address space and make parts of it memory as their heaps",
        "grow. Here each program fills its heap with objects and reads how many anonymous pages",
        "the kernel counts in it (`Anonymous` in /proc/self/smaps_rollup). A law of the first",
        "three sizes predicts the fourth. `scripts/experiments reserved heaps` measured this.",
        "",
        "Node.js commits what it is about to use. The JVM commits ahead, more than it touches: its",
        "working peak, where mappings count with their length, is no measure of what it needs, and",
        "its live bytes are.",
        "",
        "| program | objects | working peak | live | the kernel's pages | difference | law |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        law = "" if row["law"] is None else f"{row['law']:+.1%}"
        figures = [f"{row[key] / 1e6:,.1f} MB" for key in ("peak", "live", "kernel")]
        cells = [row["name"], f"{row['size']:,}", *figures, f"{row['error']:+.1%}", law]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
