"""Laws in Cubed's plans: what it projects with and without them, beside what its tasks peak at.

Each task runs in a process of its own, whose peak Cubed reads itself (`peak_measured_mem`). The
memory that it reserves for each operator is what a task on next to no data peaks at.
"""

import json
import shutil
import subprocess
import sys

from experiments import recording
from experiments.chunks import small_laws
from experiments.operators.run import volume
from experiments.recording import KEPT, RESULTS, ROOT, written

FOLDER = KEPT / "chunks" / "cubed"
PAGE = RESULTS / "chunks-cubed.md"
#: operator -> array and chunk
OPERATORS = {
    "envelope": ((200, 200, 400), (100, 100, 400)),
    "instantaneous_phase": ((200, 200, 300), (100, 100, 300)),
    "gradient_magnitude": ((300, 200, 200), (150, 200, 100)),
    "argsort_rank": ((200, 200, 400), (100, 100, 400)),
    "gaussian": ((200, 200, 400), (100, 100, 400)),
    "semblance": ((300, 200, 200), (150, 200, 100)),
    "gst3d": ((120, 120, 80), (60, 60, 80)),
}
QUICK = ("gaussian",)
#: As Dask's nanny has it: what is released goes back, else the kernel counts it on.
SETTINGS = {"MALLOC_TRIM_THRESHOLD_": "65536"}
TINY = (20, 20, 20)
AGREES = 0.001


def main(arguments):
    names = QUICK if arguments.quick else tuple(OPERATORS)
    rows = [row(name) for name in names]
    for each in rows:
        print(line(each), flush=True)
    held, text = judged(rows)
    if not arguments.quick:
        PAGE.write_text(text, encoding="utf-8")
    return held


def row(name):
    """What is projected and measured of an operator; kept from an earlier call."""
    shape, chunk = OPERATORS[name]
    file = FOLDER / f"{name}-{written(shape)}-{written(chunk)}.json"
    if file.exists():
        return json.loads(file.read_text())
    FOLDER.mkdir(parents=True, exist_ok=True)
    model = FOLDER / f"{name}.json"
    small_laws.fitted(name).save(model)
    reserved = tasks(f"tiny:{name}", stored(TINY, TINY), 0)["measured_bytes"]
    source = stored(shape, chunk)
    with_law = tasks(name, source, reserved, model)
    found = {
        "name": name,
        "shape": shape,
        "chunk": chunk,
        "reserved_bytes": reserved,
        **with_law,
        "span_bytes": spans(name, source, reserved, model),
    }
    file.write_text(json.dumps(found))
    return found


def stored(shape, chunk):
    import zarr

    path = FOLDER / "data" / f"{written(shape)}-{written(chunk)}.zarr"
    if not path.exists():
        unfinished = path.with_suffix(".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        array = zarr.create_array(unfinished, shape=shape, chunks=chunk, dtype="f4")
        array[:] = volume(shape)
        unfinished.rename(path)
    return path


def command(name, path, reserved, *model):
    module = "experiments.chunks.cubed_tasks"
    return [sys.executable, "-m", module, name, str(path), str(reserved), *map(str, model)]


def tasks(name, path, reserved, *model):
    """A plan that is run, as Cubed tells of it."""
    import os

    places = f"{ROOT}:{ROOT / 'examples'}:{ROOT / 'python'}"
    done = subprocess.run(
        command(name, path, reserved, *model),
        cwd=ROOT,
        env={**os.environ, **SETTINGS, "PYTHONPATH": places},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{name} ended with {done.returncode}:\n{done.stderr[-1000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def spans(name, path, reserved, model):
    """The largest working peak of the operator's calls, as recorded, without what the first allocates once."""
    trace = FOLDER / f"{name}.trace"
    shutil.rmtree(trace, ignore_errors=True)
    recording.memtrace(
        *("--quiet", "-o", trace, "--operator", recording.qualified(name), "--"),
        *command(name, path, reserved, model),
        environment=SETTINGS,
    )
    report = json.loads(recording.memtrace("report", "--json", "--all-spans", trace))
    shutil.rmtree(trace)
    calls = [
        span
        for operator in report["operators"]
        if operator["name"] == recording.qualified(name)
        for span in operator["spans"]
    ]
    return max(call["working_peak_bytes"] - call["one_time_bytes"] for call in calls)


def judged(rows):
    over = sum(each["projected_bytes"] >= each["measured_bytes"] for each in rows)
    under = sum(without(each) < each["measured_bytes"] for each in rows)
    most = max(each["projected_bytes"] / each["measured_bytes"] for each in rows)
    agree = sum(abs(each["law_bytes"] / each["span_bytes"] - 1) <= AGREES for each in rows)
    targets = [
        ("projected with the law ≥ measured", over, len(rows)),
        ("projected without it < measured", under, len(rows)),
        (f"law and recorded working peak within {AGREES:.1%}", agree, len(rows)),
    ]
    lines = [
        "# Cubed's projections, with laws and without",
        "",
        "`scripts/experiments chunks cubed` writes this page.",
        "",
        "| what | target | measured | holds |",
        "|---|---|---|---|",
    ]
    for what, count, total in targets:
        lines.append(f"| {what} | all | {count} of {total} | {'yes' if count == total else 'no'} |")
    lines += ["", ABOUT.format(most=most), "", HEAD, "|---" * 10 + "|", *map(line, rows), ""]
    return over == under == agree == len(rows), "\n".join(lines)


def without(row):
    return row["projected_bytes"] - row["extra_bytes"]


ABOUT = """\
All MB. Each task is the only one of its process; Cubed measures its peak (`peak_measured_mem`).
*reserved*: what a task on next to no data peaks at, imports of the operator included. *law*: upper
bound of the working peak at the largest block, fitted on small shapes; *span*: the largest that was
recorded, less what a first call allocates once (which is projected too). Projected with the law is at most {most:.2f} times what was measured. malloc has the
setting of Dask's nanny (`MALLOC_TRIM_THRESHOLD_=65536`): with glibc's own it keeps what was read
and released (16 MB each time), which no projection counts: Gaussian then peaked at 310–321 MB."""
HEAD = (
    "| operator | array | chunk | reserved | law | span | projected without | projected with "
    "| measured | with ÷ measured |"
)


def line(row):
    parts = ("reserved_bytes", "law_bytes", "span_bytes")
    cells = [row["name"], written(row["shape"]), written(row["chunk"])]
    cells += [f"{row[part] / 1e6:.1f}" for part in parts]
    cells += [f"{without(row) / 1e6:.1f}", f"{row['projected_bytes'] / 1e6:.1f}"]
    cells += [f"{row['measured_bytes'] / 1e6:.1f}"]
    cells += [f"{row['projected_bytes'] / row['measured_bytes']:.2f}"]
    return "| " + " | ".join(cells) + " |"
