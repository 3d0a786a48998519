"""Do predictions keep their promises on operators that a rule chose?

Library functions are drawn by the rule of `promises_candidates`; `kernels` are small programs of our
own. Each operator is swept with default options over `RANGE` of its number of axes, and its law is
asked for three larger shapes (`larger`). The truth is the working peak of the second call in a fresh
recorded process, and VmHWM of a fresh process that runs the operator once without memtrace. Bounds
from source are asked for the same shapes.

target/experiments/promises-first.json keeps what was found, so that an interrupted study goes on.
"""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from math import prod

from experiments.laws import promises_report
from experiments.laws.kernels import first, third
from experiments.laws.promises_candidates import DATA
from experiments.recording import KEPT, MEMTRACE, ROOT, written

FOLDER = KEPT / "promises"
#: Axes -> smallest and largest shape of a sweep: it trains on about 65,000, 131,000 and 262,000
#: elements (`TRAINED`, two megabytes of float64), and verifies at up to 2.1 million.
RANGE = {1: "20000..2400000", 2: "120,100..1600,1400", 3: "24,20,18..140,130,120"}
TRAINED = 262_144
#: How many times `TRAINED`, and proportions of the lengths: within twice those of the sweep's shapes.
LARGER = {1.5: (1, 1.5, 1.8), 3: (2, 1, 1.2), 7: (1, 1, 1)}
#: What a process may take, and a whole sweep, in seconds and bytes.
SECONDS, SWEEP_SECONDS, BYTES = 60, 300, "6GB"
QUICK = 6
NATIVE = {
    "first": "box_variance rising_runs median smooth_in_threads relaxation"
    " count_by_bin label_components flood windowed binned_mean",
    "second": "",
    "fourth": "",
    "fifth": "",
    "third": "compressed_rows table_of_text pipeline tiles power_method"
    " by_level running_maximum distances quadtree decayed",
}
PYTHON = {"first": first.KERNELS, "second": [], "third": third.KERNELS, "fourth": [], "fifth": []}


def main(arguments):
    return study("first", arguments.quick)


def study(which, quick):
    """Runs what is missing of a set and writes its page; True if every figure reaches its target."""
    kept = KEPT / f"promises-{which}.json"
    results = json.loads(kept.read_text()) if kept.exists() else {}
    cases = operators(which)
    names = list(cases)[:: QUICK if quick else 1]
    for name in names:
        if name not in results:
            results[name] = studied(name, **cases[name])
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps(results, indent=1))
            print(promises_report.line(name, results[name]), flush=True)
    rule = json.loads(DATA.read_text())
    of_names = {name: results[name] for name in names}
    return promises_report.write(which, of_names, rule, save=not quick)


def operators(which):
    """name -> the name memtrace knows it by, its command before shape and calls, number of axes."""
    found = {}
    for name, candidate in json.loads(DATA.read_text())[which].items():
        found[name] = in_python(module_of(name, candidate), candidate["axes"])
    for kernel in PYTHON[which]:
        name = f"{kernel.__module__}:{kernel.__name__}"
        found[f"Python kernel:{kernel.__name__}"] = in_python(name, 2)
    native = NATIVE[which].split()
    program = built(which) if native else None
    for kernel in native:
        found[f"native kernel:{kernel}"] = {
            "operator": f"kernels:{kernel}",
            "command": [str(program), kernel],
            "axes": 2,
        }
    return found


def in_python(operator, axes):
    command = [sys.executable, "-m", "experiments.laws.promises_run", operator]
    return {"operator": operator, "command": command, "axes": axes}


def module_of(name, candidate):
    """Writes a module with one function that calls the candidate; the function's name."""
    module, _, called = name.partition(":")
    stem, function = f"of_{module.replace('.', '_')}", called.replace(".", "_")
    (FOLDER / "calls").mkdir(parents=True, exist_ok=True)
    file = FOLDER / "calls" / f"{stem}_{function}.py"
    text = f"import {module}\n\n\ndef {function}(array):\n"
    if candidate["made"] == "array":
        text += f"    return {candidate['call'].replace('(made)', '(array)')}\n"
    else:
        text += f"    made = {candidate['made']}\n    return {candidate['call']}\n"
    file.write_text(text)
    return f"{file.stem}:{function}"


def built(which):
    """The program of a set's native kernels."""
    source, program = ROOT / "experiments/laws/kernels", FOLDER / f"kernels-{which}"
    FOLDER.mkdir(parents=True, exist_ok=True)
    objects = []
    compilers = {"c": "gcc", "cpp": "g++", "f90": "gfortran"}
    for file in (source / "main.c", *(source / f"{which}.{end}" for end in compilers)):
        objects.append(f"{program}-{file.name}.o")
        options = ["-O2", "-g", f"-I{ROOT}/include", "-c", str(file), "-o", objects[-1]]
        subprocess.run([compilers[file.suffix[1:]], *options], check=True)
    subprocess.run(["g++", *objects, "-lgfortran", "-lpthread", "-o", str(program)], check=True)
    return program


def larger(axes):
    """Three shapes: prime, odd and no prime, prime lengths."""
    for times, parts in LARGER.items():
        parts = parts[:axes]
        unit = (times * TRAINED / prod(parts)) ** (1 / axes)
        prime, shape = times != 3, []
        for part in parts:
            length = int(unit * part) | 1
            while is_prime(length) != prime or length in shape:
                length += 2
            shape.append(length)
        yield times, shape


def is_prime(number):
    return all(number % divisor for divisor in range(2, int(number**0.5) + 1))


def studied(name, operator, command, axes):
    """Everything about one operator."""
    folder = FOLDER / name.replace(" ", "-").replace(":", "-")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    model = folder / "model.json"
    result = {"operator": operator, "axes": axes, "sweep": swept(operator, command, axes, folder)}
    source = described(operator, folder) if command[0] == sys.executable else None
    result["tests"] = [
        {
            "shape": shape,
            "times": times,
            "predicted": asked("predict", model, operator, shape),
            "truth": recorded(operator, command, shape, folder),
            "resident": resident(command, shape),
            "bound": bounded(source, shape) if source else None,
        }
        for times, shape in larger(axes)
    ]
    return result


def swept(operator, command, axes, folder):
    """The sweep's processor seconds, what laws it made, and why it failed if it did."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    own = ["--operator", operator, "--shapes", RANGE[axes], "--memory-limit", BYTES]
    own += ["--model", folder / "model.json", "-o", folder / "sweep", "--json", "--"]
    output, error = run("sweep", *own, *command, "{shape}", "2", seconds=SWEEP_SECONDS)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    said = {} if error else json.loads(output)
    return {
        "cpu_seconds": round(seconds, 2),
        "failed": error,
        "laws": [{key: law[key] for key in ("proof", "trained_on")} for law in said.get("laws", [])],
        "notes": said.get("notes", []) + [note for law in said.get("laws", []) for note in law["notes"]],
    }  # fmt: skip


def asked(command, model, operator, shape):
    """What the law says of a shape."""
    output, error = run(command, model, "--operator", operator, "--shape", lengths(shape), "--json")
    if error:
        return {"failed": error}
    said = json.loads(output)
    kept = (
        "peak_bytes upper_bytes confidence unverified_because resident_upper_bytes resident_bytes"
    )
    kept += " one_time_bytes data_dependent input_bytes"
    of_model = "kind proof set_at residual_bytes undetermined notes"
    model = {key: said["model"].get(key) for key in of_model.split()}
    return {key: said[key] for key in kept.split()} | model | {"failed": None}


def recorded(operator, command, shape, folder):
    """Working peaks of two calls in a recorded process."""
    trace = folder / written(shape)
    recording = ["--quiet", "-o", trace, "--operator", operator, "--"]
    _, error = run(*recording, *command, lengths(shape), "2")
    if error:
        return {"failed": error}
    report = json.loads(run("report", "--json", "--all-spans", trace)[0])
    spans = [
        span
        for each in report["operators"]
        if each["name"] == operator
        for span in each["spans"]
        if span["parent"] is None and span["inputs"] and span["inputs"][0]["shape"] == shape
    ]
    if len(spans) != 2:
        return {"failed": f"the recording has {len(spans)} calls at this shape"}
    spans.sort(key=lambda span: span["start_seconds"])
    peaks = [span["working_peak_bytes"] for span in spans]
    return {"failed": None, "first": peaks[0], "second": peaks[1], "place": spans[1]["peak_place"]}


def resident(command, shape):
    """VmHWM of a process that calls the operator once and is not recorded."""
    output, error = finished([*command, lengths(shape), "1"], SECONDS)
    if error:
        return {"failed": error}
    return {"failed": None, "bytes": int(output.split()[-1]) << 10}


def described(operator, folder):
    """The description of an operator's source, and why there is none."""
    file = folder / "source.json"
    return file, run("bound", operator, "--python", sys.executable, "--describe", file)[1]


def bounded(source, shape):
    """The bound from source: the operator is not run."""
    file, error = source
    own = ["--source", file, "--shape", lengths(shape), "--dtype", "f8", "--json"]
    output, error = (None, error) if error else run("bound", *own)
    if error:
        return {"failed": error}
    said = json.loads(output)
    unknown = said["model"]["unknown"]
    return {"failed": None, "upper_bytes": said["upper_bytes"], "unknown": unknown}


def lengths(shape):
    return ",".join(map(str, shape))


def run(*arguments, seconds=SECONDS):
    """memtrace's output and None, or None and why it failed."""
    return finished([str(MEMTRACE), *map(str, arguments)], seconds)


def finished(command, seconds):
    paths = [ROOT, ROOT / "python", FOLDER / "calls"]
    environment = {**os.environ, "PYTHONPATH": ":".join(map(str, paths))}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
        env=environment, cwd=FOLDER, start_new_session=True,
    )  # fmt: skip
    try:
        output, error = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return None, f"took more than {seconds} s"
    if process.returncode:
        last = [line for line in error.splitlines() if line.strip()]
        return None, f"status {process.returncode}: {last[-1] if last else ''}"
    return output, None
