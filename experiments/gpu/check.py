"""What memtrace says of real programs on a GPU, beside what they, NVML and CUPTI count."""

import argparse
import ctypes
import json
import os
import statistics
import subprocess
import sys
import tempfile
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(__file__).resolve().parent / "programs"
PAIRS = 7
OVERHEAD_TARGET = 1.03
#: Relative to the counters of a framework's pool; the driver's own figures are to be met exactly.
POOL_TARGET = 0.001


class Case(NamedTuple):
    """A program that is checked."""

    package: str | None  # that it needs
    command: list
    environment: dict = {}
    operators: tuple = ()  # functions whose calls it counts itself


CASES = {
    "calls of the driver": Case(None, ["driver.py"]),
    "NVML": Case(None, ["driver_nvml.py"]),
    "CUPTI": Case(None, ["driver_cupti.py"]),
    "ResNet-50, training": Case("torch", ["resnet.py", "32", "6"]),
    "transformer, training": Case("torch", ["transformer.py", "8", "256", "6"]),
    "ResNet-50, every tensor from the driver": Case(
        "torch", ["resnet.py", "8", "3"], {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    ),
    "GST3D on CuPy": Case("cupy", ["gst3d_cupy.py", "160x180x200", "3"], {}, ("__main__:gst3d",)),
    "JAX, arena": Case("jax", ["products_jax.py", "4096"]),
    "JAX, arena as needed": Case(
        "jax", ["products_jax.py", "4096"], {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    ),
    "JAX, every buffer from the driver": Case(
        "jax",
        ["products_jax.py", "4096"],
        {"XLA_PYTHON_CLIENT_ALLOCATOR": "cuda_async", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"},
    ),
}
TIMED = "ResNet-50, training", ["resnet.py", "32", "30"]
#: What a program may tell: what that is, memtrace's name for it and the program's, how far they may be apart.
FIGURES = (
    ("taken from the driver", "peak_driver_bytes", "driver_peak_bytes", 0),
    ("reserved", "peak_driver_bytes", "reserved_peak_bytes", POOL_TARGET),
    ("used", "peak_used_bytes", "allocated_peak_bytes", POOL_TARGET),
    ("bytes of the process", "peak_driver_bytes", "nvml_process_bytes", 0),
    ("bytes of the whole device", "peak_driver_bytes", "nvml_device_bytes", 0),
    ("allocations", "allocations", "cupti_allocations", 0),
    ("their bytes", "requested_bytes", "cupti_requested_bytes", 0),
    ("used at most", "peak_used_bytes", "cupti_used_peak_bytes", 0),
    ("managed at most", "peak_managed_bytes", "cupti_managed_peak_bytes", 0),
    ("host memory at most", "peak_host_bytes", "cupti_host_peak_bytes", 0),
)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--memtrace", type=Path, default=ROOT / "target/release/memtrace")
    parser.add_argument(
        "--python", default=sys.executable, help="its PyTorch, CuPy and JAX are what is checked"
    )
    parser.add_argument(
        "--pairs", type=int, default=PAIRS, help="timed runs with and without memtrace"
    )
    parser.add_argument(
        "--output", type=Path, default=ROOT / "docs/results", help="where the page is written"
    )
    arguments = parser.parse_args()
    try:
        device, rows, skipped = checked(
            Runner(arguments.memtrace, arguments.python), arguments.pairs
        )
    except (OSError, RuntimeError) as error:
        print(f"gpu-check: {error}", file=sys.stderr)
        return 1
    page = arguments.output / f"gpu-{device['name'].lower().replace(' ', '-')}.md"
    page.write_text(text(device, rows, skipped), encoding="utf-8")
    print(page.read_text(encoding="utf-8"))
    return 0 if all(held for *_, held in rows) else 1


def checked(run, pairs):
    """The device, a row for each figure, and what was left out and why."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise RuntimeError(f"there is no NVIDIA driver here ({error})") from error
    device, rows, skipped = None, [], []

    def missed(name, what, reason):
        """The other programs are checked all the same."""
        print(f"gpu-check: {name}: {reason}", file=sys.stderr)
        rows.append((f"{name}: {what}", "no", "", False))

    for name, case in CASES.items():
        if case.package and not run.has(case.package):
            skipped.append(f"{name}: {run.python} has no {case.package}")
            continue
        try:
            reported, report = run.recorded(case)
        except RuntimeError as error:
            missed(name, "runs", error)
            continue
        if "not_checked" in reported:
            skipped.append(f"{name}: {reported['not_checked']}")
            continue
        used = first_device(report)
        if used is None:
            missed(name, "uses a device", "none that memtrace saw; see `memtrace doctor`")
            continue
        device = device or used
        rows += compared(name, reported, used, peaks_of_calls(report))
    if device is None:
        raise RuntimeError("no program used a device")
    if run.has("torch"):
        try:
            rows.append(overhead(run, pairs))
        except RuntimeError as error:
            missed(TIMED[0], "is timed", error)
    return device, rows, skipped


class Runner:
    """Starts programs, with memtrace and without."""

    def __init__(self, memtrace, python):
        self.memtrace, self.python = memtrace, python

    def has(self, package):
        look = f"import importlib.util as u, sys; sys.exit(not u.find_spec('{package}'))"
        return subprocess.run([self.python, "-c", look], check=False).returncode == 0

    def plain(self, command):
        """What a program tells of itself, without memtrace."""
        return self._reported([], command, {})

    def recorded(self, case):
        """What a program tells, and the report of its recording."""
        with tempfile.TemporaryDirectory() as folder:
            trace = str(Path(folder, "trace"))
            named = [f"--operator={operator}" for operator in case.operators]
            record = [str(self.memtrace), "--quiet", "-o", trace, *named, "--"]
            reported = self._reported(record, case.command, case.environment)
            return reported, json.loads(
                _run([str(self.memtrace), "report", "--json", "--all-spans", trace])
            )

    def _reported(self, before, command, environment):
        program = [*before, self.python, str(PROGRAMS / command[0]), *command[1:]]
        return json.loads(_run(program, environment).splitlines()[-1])


def _run(command, environment=()):
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **dict(environment)},
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr[-3000:]}")
    return done.stdout


def first_device(report):
    """The device that the programs use, and what they have beside it: host memory of the driver's is on no device."""
    found = {each["device"]: each for each in report["devices"]}
    if 0 not in found or None not in found:
        return found.get(0)
    both = {key: found[0][key] + found[None][key] for key in ("allocations", "requested_bytes")}
    return {**found[0], **both, "peak_host_bytes": found[None]["peak_host_bytes"]}


def compared(name, reported, device, found):
    """Rows of a program: what, ours, its own, whether it holds."""
    rows = [
        (
            f"{name}: {what}",
            device[ours],
            reported[own],
            abs(device[ours] - reported[own]) <= allowed * reported[own],
        )
        for what, ours, own, allowed in FIGURES
        if own in reported
    ]
    for called, own in reported.get("calls", {}).items():
        ours = found.get(called, [])[-len(own) :]
        same = sum(each == other for each, other in zip_longest(ours, own))
        rows.append(
            (f"{name}: calls of {called} whose peaks agree", same, len(own), same == len(own))
        )
    return rows


def peaks_of_calls(report):
    """Device peaks of functions, and of PyTorch's modules by class, in the order of their calls."""
    found = {}
    for operator in report["operators"]:
        spans = sorted(operator["spans"], key=lambda span: span["call"])
        called = operator["name"].rpartition(":")[2]
        found.setdefault(called, []).extend(span["device_peak_bytes"] or 0 for span in spans)
    return found


def overhead(run, pairs):
    """Seconds of a training step with memtrace ÷ without, pairs in changing order."""
    name, command = TIMED
    ways = {"plain": run.plain, "traced": lambda command: run.recorded(Case("torch", command))[0]}
    ratios = []
    for pair in range(pairs):
        order = sorted(ways, reverse=pair % 2 == 1)
        seconds = {way: ways[way](command)["step_seconds"] for way in order}
        ratios.append(seconds["traced"] / seconds["plain"])
    ratio = statistics.median(ratios)
    what = f"{name}: seconds of a step with memtrace ÷ without, median of {pairs} pairs"
    return (what, f"{ratio:.3f}", f"≤ {OVERHEAD_TARGET}", ratio <= OVERHEAD_TARGET)


def text(device, rows, skipped):
    lines = [
        f"# Checked on {device['name']}",
        "",
        "`scripts/gpu-check` writes this page: programs on the GPU, what memtrace recorded of them, and what they say",
        "themselves, or NVML and CUPTI of them. In bytes unless said otherwise; *used* is what tensors had, *reserved* what was",
        "taken from the driver.",
        "",
        "| what | memtrace | compared with | holds |",
        "| --- | --- | --- | --- |",
        *(
            f"| {what} | {ours} | {own} | {'yes' if held else 'no'} |"
            for what, ours, own, held in rows
        ),
        *([""] if skipped else []),
        *(f"Not checked: {each}." for each in skipped),
    ]
    return "\n".join(lines) + "\n"
