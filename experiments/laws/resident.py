"""Resident memory: predicted from small runs, measured by the kernel side.

An operator runs at the shapes of the study of operators (four of up to 100³ cells, and one for the
verification), each in a process of its own, under two settings of the allocator, and its law is
asked for the resident peak of a process that runs it at a large one. The measured figure is the
exact resident peak of the spans; VmHWM, which has the probe's rings in it, stands beside it.
"""

import json

import memtrace

from experiments import recording
from experiments.laws import operators

FOLDER = recording.KEPT / "resident"
PAGE = recording.RESULTS / "laws-resident.md"
TRAINING = (*operators.TRAINING, operators.VERIFICATION)
#: name -> bytes per voxel at the peak: how large a shape is tested.
OPERATORS = {
    "envelope": 20,
    "gaussian": 8,
    "semblance": 12,
    "instantaneous_phase": 24,
    "gradient_magnitude": 16,
    "median": 8,
    "cumsum_where": 16,
    "argsort_rank": 20,
    "boolean_expression": 8,
    "rfft_bandpass": 16,
    "gst3d": 244,
}
SIZES = (300e6, 800e6)
LARGEST = {"envelope": 2.5e9, "cumsum_where": 2.5e9}
SETTINGS = {"default": {}, "nanny": {"MALLOC_TRIM_THRESHOLD_": "65536"}}
TARGETS = {"default": 0.10, "nanny": 0.02}
LEAST_PEAK = 256e6


def shape_of(per_voxel, bytes):
    """A non-cubic shape that needs about so many bytes."""
    side = round((bytes / per_voxel) ** (1 / 3))
    return (max(side - 7, 3), side, side + 8)


def record(name, kind, shapes):
    """One process that calls the operator twice at each shape."""
    folder = FOLDER / kind / f"{name}-{recording.written(shapes[0])}"
    runs = [shape for shape in shapes for _ in range(2)]
    return recording.recorded(folder, name, "float32", runs, environment=SETTINGS[kind])


def measured(folder, name, shape):
    """Exact resident peak of the calls at a shape, the process's VmHWM, and what recorded them."""
    report = json.loads(recording.memtrace("report", "--json", "--all-spans", folder))
    [operator] = [each for each in report["operators"] if each["name"] == recording.qualified(name)]
    at = [span for span in operator["spans"] if tuple(span["inputs"][0]["shape"]) == tuple(shape)]
    process = max(report["processes"], key=lambda each: each["peak_resident_bytes"])
    exact = all(span["resident_at_peak"] for span in at)
    peak = max(span["resident_peak_bytes"] for span in at)
    live = max(span["working_peak_bytes"] + span["input_bytes"] for span in at)
    return peak, process["peak_resident_bytes"] + process["probe_bytes"], live, exact


def main(arguments):
    names = list(OPERATORS)[1:4] if arguments.quick else list(OPERATORS)
    rows, worst, counts, under = [], dict.fromkeys(SETTINGS, 0.0), dict.fromkeys(SETTINGS, 0), 0
    missed = []
    for name in names:
        for kind in SETTINGS:
            traces = [record(name, kind, [shape]) for shape in TRAINING]
            model = memtrace.fit([str(trace) for trace in traces])
            sizes = [*SIZES[: 1 if arguments.quick else 2]]
            if name in LARGEST and not arguments.quick:
                sizes.append(LARGEST[name])
            for size in sizes:
                shape = shape_of(OPERATORS[name], size)
                predicted = model.predict(name, shape)
                folder = record(name, kind, [shape])
                peak, high, live, exact = measured(folder, name, shape)
                error = predicted["resident_bytes"] / peak - 1
                counted = peak >= LEAST_PEAK and exact
                if counted:
                    counts[kind] += 1
                    worst[kind] = max(worst[kind], abs(error))
                    under += predicted["resident_upper_bytes"] < peak
                    if abs(error) > TARGETS[kind]:
                        missed.append(f"{name} at {recording.written(shape)} ({kind})")
                rows.append(
                    f"| {name} | {recording.written(shape)} | {kind} | {live / 1e6:.0f} "
                    f"| {predicted['resident_bytes'] / 1e6:.1f} | {peak / 1e6:.1f} | {100 * error:+.2f} "
                    f"| {predicted['resident_upper_bytes'] / 1e6:.0f} | {high / 1e6:.1f} |"
                )
                print(rows[-1], flush=True)
    holds = {kind: counts[kind] > 0 and worst[kind] <= TARGETS[kind] for kind in SETTINGS}
    lines = [
        "# Resident memory, predicted",
        "",
        "`scripts/experiments laws resident` writes this page.",
        "",
        "| what | target | measured | holds |",
        "|---|---|---|---|",
    ]
    labels = {"nanny": "`MALLOC_TRIM_THRESHOLD_=65536`", "default": "glibc's defaults"}
    for kind in ("nanny", "default"):
        text = "yes" if holds[kind] else "no"
        lines.append(
            f"| peaks ≥ 256 MB, {labels[kind]}: largest error of {counts[kind]} "
            f"| ≤ {100 * TARGETS[kind]:.0f} % | {100 * worst[kind]:.2f} % | {text} |"
        )
    lines += [
        "",
        f"Beyond the target: {', '.join(missed) or 'none'}. Upper bounds too low: {under}.",
        "",
        "Fitted on processes of their own at "
        + ", ".join(recording.written(shape) for shape in TRAINING)
        + ". All MB; *resident* is the exact peak of the spans, *live* working peak and input,"
        " *VmHWM* has the probe's rings in it.",
        "",
        "| operator | shape | malloc | live | predicted | resident | error, % | at most | VmHWM |",
        "|---|---|---|---|---|---|---|---|---|",
        *rows,
        "",
    ]
    if not arguments.quick:
        PAGE.parent.mkdir(parents=True, exist_ok=True)
        PAGE.write_text("\n".join(lines), encoding="utf-8")
    return all(holds.values())
