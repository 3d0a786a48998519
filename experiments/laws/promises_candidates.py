"""Which library functions the study of promises takes, by a rule that was written before any result.

Candidates are the public functions of `MODULES`, of scipy.special every `SPECIAL`-th, the methods of
`METHODS` and `fit_transform` of the estimators in `ESTIMATORS`, in one alphabetical list. One function
under several names counts under the first. A candidate is callable if it runs on ONE array of random
float64 numbers in [0, 1), all other parameters at their defaults, without an error within `SECONDS` in
a process of its own that may map `BYTES` more than it has: at `SMALL` with two axes, else three, else
one, and then at `MIDDLE`, where its working peak is at least `LEAST` bytes. Methods are those of an
object made of the array, which is not part of that peak. The first set is every k-th callable
candidate from the first one on, the second every k-th from k // 2 on, the third every k-th from
k // 4 on, the fourth every k-th from 3 * k // 4 on, the fifth every k-th from the second one on, with
the largest k that gives `AT_LEAST` in the first. A few candidates are callable in one listing and not
in the next: the third and later sets are of later listings, without what the others have. The fourth
and the fifth are of bounds from source only.

    python -m experiments.laws.promises_candidates     writes experiments/data/promises.json
"""

import contextlib
import importlib
import inspect
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
from memtrace import span

from experiments.recording import KEPT, memtrace

DATA = Path(__file__).resolve().parents[1] / "data" / "promises.json"

PARTS = {
    "numpy": "linalg fft",
    "pywt": "",
    "scipy": "ndimage signal fft linalg stats interpolate integrate",
    "skimage": "filters morphology transform restoration feature measure exposure segmentation"
    " util color",
    "sklearn": "preprocessing decomposition cluster",
}
#: numpy and pywt have functions of their own, too
MODULES = ["numpy", "pywt", *(f"{name}.{part}" for name in PARTS for part in PARTS[name].split())]
SPECIAL = 8
ESTIMATORS = ("sklearn.preprocessing", "sklearn.decomposition", "sklearn.cluster")
#: module, class, what makes an object of an array, and the call of a method of it
METHODS = (
    ("pandas", "DataFrame", "pandas.DataFrame(array)", "made.{}()"),
    ("pandas", "Series", "pandas.Series(array)", "made.{}()"),
    ("polars", "DataFrame", "polars.DataFrame(array)", "made.{}()"),
    ("polars", "Expr", "polars.DataFrame(array)", "made.select(polars.all().{}())"),
    ("polars", "Series", "polars.Series(array)", "made.{}()"),
    ("xarray", "DataArray", "xarray.DataArray(array)", "made.{}()"),
)
SMALL = {2: (96, 80), 3: (24, 20, 18), 1: (7680,)}
MIDDLE = {2: (448, 400), 3: (60, 55, 50), 1: (180_000,)}
SECONDS = 5
BYTES = 2 << 30
LEAST = 1_000_000
AT_LEAST = 60
SETS = ("first", "second", "third", "fourth", "fifth")


def package(name):
    return name.partition(":")[0].partition(".")[0]


def candidates(of_package):
    """A package's candidates, sorted by name -> what is made of an array, and the call on that."""
    found = {}
    for module in MODULES:
        if package(module) == of_package:
            found.update(functions(module))
            found.update(estimators(module) if module in ESTIMATORS else {})
    if of_package == "scipy":
        special = functions("scipy.special")
        found.update({name: special[name] for name in sorted(special)[::SPECIAL]})
    for module, kind, made, call in METHODS:
        if module == of_package:
            found.update(methods(module, kind, made, call))
    return dict(sorted(found.items()))


def public(module):
    """Names of a module that its users see -> what they are, each thing under its first name."""
    loaded = importlib.import_module(module)
    names = sorted(getattr(loaded, "__all__", None) or dir(loaded))
    seen, things = set(), {}
    for name in names:
        thing = None if name.startswith("_") else getattr(loaded, name, None)
        if thing is not None and id(thing) not in seen:
            seen.add(id(thing))
            things[name] = thing
    return things


def functions(module):
    """Functions, in Python or not, that belong to the module's package; no classes or instances."""

    def belongs(thing):
        if inspect.isclass(thing) or not callable(thing) or not hasattr(thing, "__name__"):
            return False
        owner = package(getattr(thing, "__module__", None) or module)
        return isinstance(thing, np.ufunc) or owner == package(module)

    return {
        f"{module}:{name}": ("array", f"{module}.{name}(made)")
        for name, thing in public(module).items()
        if belongs(thing)
    }


def estimators(module):
    return {
        f"{module}:{name}.fit_transform": ("array", f"{module}.{name}().fit_transform(made)")
        for name, thing in public(module).items()
        if inspect.isclass(thing) and hasattr(thing, "fit_transform")
    }


def methods(module, kind, made, call):
    owner = getattr(importlib.import_module(module), kind)
    found, seen = {}, set()
    for name in sorted(dir(owner)):
        thing = None if name.startswith("_") else inspect.getattr_static(owner, name)
        if not callable(thing) or inspect.isclass(thing) or id(thing) in seen:
            continue
        seen.add(id(thing))
        found[f"{module}:{kind}.{name}"] = (made, call.format(name))
    return found


def random_numbers(shape):
    return np.random.default_rng(sum(shape)).random(shape)


def tried(name, making, call, axes):
    """In a forked process: is the candidate callable on so many axes? The call at `MIDDLE` is a span."""
    child = os.fork()
    if child == 0:
        status = 1
        with contextlib.suppress(BaseException):
            limited()
            space = {package(name): importlib.import_module(package(name))}
            make, function = eval(f"lambda array: {making}, lambda made: {call}", space)
            function(make(random_numbers(SMALL[axes])))
            array = random_numbers(MIDDLE[axes])
            made = make(array)
            with span(f"{name}@{axes}", array):
                function(made)
            status = 0
        os._exit(status)
    return os.waitpid(child, 0)[1] == 0


def limited():
    os.setpgid(0, 0)
    signal.alarm(SECONDS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    warnings.simplefilter("ignore")
    os.chdir(tempfile.mkdtemp())
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(nothing, descriptor)


def try_all(of_package):
    """Tries the candidates of a package; prints one JSON line for each."""
    for name, (making, call) in candidates(of_package).items():
        axes = next((axes for axes in SMALL if tried(name, making, call, axes)), None)
        print(json.dumps({"name": name, "made": making, "call": call, "axes": axes}), flush=True)


def callable_candidates():
    """name -> its call and number of axes, of those whose working peak is large enough."""
    found = {}
    for each in sorted({package(name) for name in (*MODULES, *(method[0] for method in METHODS))}):
        lines, peaks = probed(each)
        for line in lines:
            peak = peaks.get(f"{line['name']}@{line['axes']}", 0)
            if line["axes"] and peak >= LEAST:
                found[line["name"]] = {key: line[key] for key in ("made", "call", "axes")}
        print(f"{each}: {len(lines)} candidates, {len(found)} callable so far", flush=True)
    return dict(sorted(found.items()))


def probed(of_package):
    """What `try_all` prints for a package, and the working peaks of its spans."""
    trace = KEPT / "promises" / "probing" / of_package
    shutil.rmtree(trace, ignore_errors=True)
    trace.parent.mkdir(parents=True, exist_ok=True)
    own = [sys.executable, "-m", "experiments.laws.promises_candidates", of_package]
    recording = ["--quiet", "-o", trace, "--stacks", "none", "--aggregate"]
    recording += ["--auto-operators", "none", "--"]
    printed = memtrace(*recording, *own, environment={"OMP_NUM_THREADS": "2"})
    report = json.loads(memtrace("report", "--json", "--all-spans", trace))
    peaks = {
        each["name"]: max(span["working_peak_bytes"] for span in each["spans"])
        for each in report["operators"]
        if each["spans"]
    }
    shutil.rmtree(trace)
    return [json.loads(line) for line in printed.splitlines() if line.startswith("{")], peaks


def chosen(of_all):
    """The sets, and the k that makes them."""
    step = max(1, (len(of_all) - 1) // (AT_LEAST - 1))
    return [of_all[start::step] for start in (0, step // 2, step // 4, 3 * step // 4, 1)], step


def write():
    found = callable_candidates()
    sets, step = chosen(list(found))
    kept = {
        "rule": " ".join(__doc__.split("\n\n")[1].split()),
        "callable": len(found),
        "every": step,
    }
    # What was chosen stays chosen: a set that was seen by a person is never listed anew.
    older = json.loads(DATA.read_text()) if DATA.exists() else {}
    others = {name for which in older if which in SETS for name in older[which]}
    for which, names in zip(SETS, sets, strict=True):
        new = {name: found[name] for name in names if name not in others}
        kept[which] = older.get(which) or new
    DATA.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    try_all(sys.argv[1]) if len(sys.argv) > 1 else write()
