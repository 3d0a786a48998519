"""`memtrace sweep`: which shapes it runs, what it does with failures, and how it goes on after an end."""

import json
import os
import signal
import subprocess
import time
from unittest.mock import ANY

import pytest
from conftest import MEMTRACE, memtrace

# An operator of 12 bytes per element: a product and a sum, the former dropped. Slow ones can be interrupted.
PROGRAM = """
import os, sys, time
import numpy as np

def work(x):
    product = x * np.float64(2)
    total = (product + 1).astype("f4")
    del product
    return total

shape = tuple(int(n) for n in sys.argv[1].split(","))
values, layout, order = sys.argv[2:] + ["random", "C", "little"][len(sys.argv) - 2 :]
if "TOO_LARGE" in os.environ and np.prod(shape) > int(os.environ["TOO_LARGE"]):
    os.kill(os.getpid(), 9)
ballast = np.ones(60_000_000) if values == "heavy" else None
print("made by", sys.argv[0])
x = np.asarray(np.random.default_rng(0).standard_normal(shape), {"little": "<f4", "big": ">f4"}[order], order=layout)
for _ in range(2):
    work(x)
time.sleep(float(os.environ.get("SLOW", "0")))
"""


@pytest.fixture
def sweep(tmp_path, python):
    """Runs a sweep of PROGRAM in `tmp_path`; traces are in `t`, the model is `m.json`."""
    (tmp_path / "program.py").write_text(PROGRAM)

    def command(*options, arguments=("{shape}",), shapes="20,20,20..130,130,130"):
        operator = ("--operator", "__main__:work", "--shapes", shapes, "--model", "m.json")
        return ("sweep", *operator, "-o", "t", *options, "--", python, "program.py", *arguments)

    return command


def traces(tmp_path):
    return sorted(path.name for path in (tmp_path / "t").iterdir())


def volume(name):
    first, second, third = name.split("-")[0].split("x")
    return int(first) * int(second) * int(third)


def test_three_small_runs_and_one_large_prove_a_law(tmp_path, sweep):
    done = memtrace(*sweep(), cwd=tmp_path)
    assert done.returncode == 0, done.stderr.decode()
    [law] = json.loads((tmp_path / "m.json").read_text())["laws"]
    assert "exact" in law["proof"], done.stdout.decode()
    volumes = sorted(map(volume, traces(tmp_path)))
    assert len(volumes) <= 5
    assert volumes[-1] >= 8 * volumes[-2]
    # Where it comes from is in the file.
    sources = json.loads((tmp_path / "m.json").read_text())["sources"]
    assert {source["command"][-1].replace(",", "x") for source in sources} == set(traces(tmp_path))
    # A second sweep finds all it needs and runs nothing.
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "t").rglob("*")}
    assert memtrace(*sweep(), cwd=tmp_path).returncode == 0
    assert before == {path: path.stat().st_mtime_ns for path in (tmp_path / "t").rglob("*")}


def test_what_the_command_prints_is_not_in_the_answer(tmp_path, sweep):
    done = memtrace(*sweep("--runs", "3"), cwd=tmp_path)
    assert done.returncode == 0, done.stderr.decode()
    assert b"made by" not in done.stdout
    assert done.stderr.count(b"made by program.py") == 3
    assert done.stdout.startswith(b"__main__:work(<f4)")


FILTERS = """
import numpy as np
from scipy import ndimage

def smooth(x):
    return ndimage.gaussian_filter(x, 2.0)

def sharpen(x):
    return x - ndimage.gaussian_filter(smooth(x), 1.0)

for n in SHAPES:
    for _ in range(2):
        sharpen(np.ones((n, n + 5, n + 9), dtype="f4"))
"""


def test_laws_of_what_a_library_calls_inside_are_behind_all(tmp_path, python):
    """`smooth` is inside `sharpen` and the user's; ndimage's functions are inside both."""
    own = ("--operator", "__main__:smooth", "--operator", "__main__:sharpen")
    both = (*own, "--auto-operators", "scipy.ndimage")
    for shapes in ("(70, 60, 80, 65)", "(50,)"):
        (tmp_path / "program.py").write_text(FILTERS.replace("SHAPES", shapes))
        trace = f"trace{len(shapes)}"
        done = memtrace("-o", trace, "-q", *both, "--", python, "program.py", cwd=tmp_path)
        assert done.returncode == 0, done.stderr.decode()
    fitted = memtrace("fit", "trace16", "-o", "m.json", cwd=tmp_path).stdout.decode()
    named = [line.split("(")[0] for line in fitted.splitlines() if "(<f4" in line]
    assert named == ["__main__:sharpen", "__main__:smooth"], fitted
    assert "of what libraries call inside of these: --all" in fitted
    everything = memtrace("fit", "--all", "trace16", "-o", "m.json", cwd=tmp_path).stdout.decode()
    assert "scipy.ndimage:" in everything and "--all" not in everything
    # All at too few shapes: one sentence.
    few = memtrace("fit", "trace5", "-o", "few.json", cwd=tmp_path)
    assert few.returncode != 0
    error = few.stderr.decode()
    assert error.count("a law needs 3") == 1 and len(error) < 300, error


PRODUCT = """
import sys
import numpy as np

def covariance(x):
    centred = x - x.mean(axis=0)
    return centred.T @ centred / len(x)

x = np.random.default_rng(0).normal(size=tuple(map(int, sys.argv[1:])))
for _ in range(2):
    covariance(x)
"""


def test_a_matrix_product_is_proved_from_the_shapes_that_the_note_names(tmp_path, python):
    """NumPy divides a product of 256 KiB in place, a smaller one not."""
    (tmp_path / "program.py").write_text(PRODUCT)

    def note(shapes, directory):
        named = ("--operator", "__main__:covariance", "--shapes", shapes, "--model", "m.json")
        command = ("--", python, "program.py", "{0}", "{1}")
        done = memtrace("sweep", *named, "-o", directory, *command, cwd=tmp_path)
        assert done.returncode == 0, done.stderr.decode()
        [law] = json.loads((tmp_path / "m.json").read_text())["laws"]
        notes = [note for note in law["notes"] if "sweep --shapes" in note]
        return law["proof"], notes

    proof, [advice] = note("1500,50..12000,400", "small")
    assert proof == "unverified"
    assert "covariance program.py:7" in advice
    shapes = advice.rsplit(" ", 1)[1]
    assert shapes.split("..")[0].endswith(",182")
    assert note(shapes, "large") == ({"exact": ANY}, [])


def test_a_sweep_that_was_interrupted_goes_on(tmp_path, sweep):
    # Long enough to be stopped; a program may also catch the interrupt and end in order.
    slow = {**os.environ, "SLOW": "5"}
    first = memtrace(*sweep("--runs", "3", shapes="20,20,20..60,60,60"), cwd=tmp_path)
    assert first.returncode == 0, first.stderr.decode()
    done = traces(tmp_path)
    # One trace is broken: its recorder was killed. The next sweep records it again, and is stopped meanwhile.
    broken = tmp_path / "t" / done[-1]
    meta = json.loads((broken / "meta.json").read_text())
    (broken / "meta.json").write_text(json.dumps({**meta, "complete": False}))
    (broken / "spans.parquet").unlink()  # there again once it is being recorded
    (tmp_path / "m.json").unlink()
    again = [str(MEMTRACE), *map(str, sweep("--runs", "3", shapes="20,20,20..60,60,60"))]
    running = subprocess.Popen(
        again, cwd=tmp_path, env=slow, start_new_session=True, stderr=subprocess.PIPE
    )
    deadline = time.monotonic() + 60
    while not (broken / "spans.parquet").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(running.pid, signal.SIGINT)  # as a terminal does
    said = running.communicate(timeout=60)[1]
    assert running.returncode == 130, said
    assert b"goes on from here" in said
    assert not (tmp_path / "m.json").exists()
    last = memtrace(*sweep("--runs", "3", shapes="20,20,20..60,60,60"), cwd=tmp_path)
    assert last.returncode == 0, last.stderr.decode()
    assert traces(tmp_path) == done
    assert (tmp_path / "m.json").exists()


def test_a_sweep_that_goes_on_deletes_no_good_trace(tmp_path, sweep):
    shapes = "20,20,20..60,60,60"
    assert memtrace(*sweep("--runs", "3", shapes=shapes), cwd=tmp_path).returncode == 0
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "t").rglob("*")}

    def unchanged():
        return before == {path: path.stat().st_mtime_ns for path in (tmp_path / "t").rglob("*")}

    # One operator more, which was not recorded.
    done = memtrace(
        *sweep("--runs", "3", "--operator", "__main__:more", shapes=shapes), cwd=tmp_path
    )
    assert done.returncode == 1
    assert b"finished no call of __main__:more" in done.stderr
    assert b"another directory with -o" in done.stderr
    assert unchanged()
    # Another command, even where its trace was never closed; and a trace that cannot be read.
    [first, *_] = (tmp_path / "t").iterdir()
    meta = json.loads((first / "meta.json").read_text())
    other = {"complete": False, "command": ["other", *meta["command"]]}
    for text, said in (
        (json.dumps({**meta, **other}), b"the trace of another command"),
        (json.dumps({**meta, "schema_version": 1000}), b"newer memtrace"),
        ("not JSON", b"cannot be understood"),
    ):
        (first / "meta.json").write_text(text)
        before[first / "meta.json"] = (first / "meta.json").stat().st_mtime_ns
        done = memtrace(*sweep("--runs", "3", shapes=shapes), cwd=tmp_path)
        assert done.returncode == 1
        assert said in done.stderr, done.stderr
        assert unchanged(), text


def test_what_cannot_be_recorded_ends_as_a_recording_does(tmp_path, sweep):
    command = sweep()[:-4]  # without the program
    for program, status in (("no-such-program", 127), (tmp_path, 126)):
        done = memtrace(*command, "--", program, "{shape}", cwd=tmp_path)
        plain = memtrace("-o", "plain", "--", program, cwd=tmp_path)
        assert done.returncode == plain.returncode == status, done.stderr
        assert done.stderr == plain.stderr


def test_other_data_values_are_not_run_where_they_may_need_too_much(tmp_path, sweep):
    arguments = ("{shape}", "{data_values}")
    options = ("--runs", "3", "--data-values", "random,heavy,nan", "--memory-limit", "400MB")
    swept = sweep(*options, arguments=arguments, shapes="20,20,20..60,60,60")
    done = memtrace(*swept, cwd=tmp_path)
    assert done.returncode == 0, done.stderr.decode()
    assert [name for name in traces(tmp_path) if "nan" in name] == []
    [note] = [
        note
        for note in json.loads((tmp_path / "m.json").read_text())["notes"]
        if "data values nan" in note
    ]
    assert "--memory-limit" in note


def test_shapes_that_are_killed_are_too_large_and_no_more(tmp_path, sweep):
    environment = {**os.environ, "TOO_LARGE": "300000"}
    done = memtrace(*sweep("--runs", "6"), cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr.decode()
    assert b"was killed at" in done.stderr
    [law] = json.loads((tmp_path / "m.json").read_text())["laws"]
    assert all(volume("x".join(map(str, run["shape"]))) <= 300_000 for run in law["trained_on"])


def test_no_run_is_started_that_may_need_more_than_the_limit(tmp_path, sweep):
    limit = 60_000_000
    memtrace(*sweep("--memory-limit", str(limit)), cwd=tmp_path)
    # Nothing predicts the first run.
    places = sorted((tmp_path / "t").iterdir(), key=lambda place: place.stat().st_ctime_ns)
    for place in places[1:]:
        peak = json.loads((place / "meta.json").read_text())["peak"]
        assert max(peak["live_bytes"], peak["resident_bytes"]) <= limit, place


def test_layouts_and_byte_orders_get_laws_and_data_values_a_run_each(tmp_path, sweep):
    done = memtrace(
        *sweep(
            *("--runs", "3", "--layouts", "C,F", "--byte-orders", "little,big"),
            *("--data-values", "random,constant"),
            arguments=("{shape}", "{data_values}", "{layout}", "{order}"),
            shapes="20,20,20..60,60,60",
        ),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr.decode()
    laws = json.loads((tmp_path / "m.json").read_text())["laws"]
    keys = {(law["key"]["layout"], law["key"]["dtype"]) for law in laws}
    assert keys == {("C", "<f4"), ("C", ">f4"), ("F", "<f4"), ("F", ">f4")}
    assert len([name for name in traces(tmp_path) if "constant" in name]) == 4
    assert all(law["same_shape_spread"] < 0.001 for law in laws)
    refused = memtrace(*sweep("--layouts", "C,F"), cwd=tmp_path)
    assert refused.returncode == 2
    assert b"{layout}" in refused.stderr


def test_an_operator_that_is_never_called_is_said_after_the_first_run(tmp_path, sweep, python):
    wrong = [part if part != "__main__:work" else "__main__:werk" for part in sweep()]
    done = memtrace(*wrong, cwd=tmp_path)
    assert done.returncode == 1
    assert b"finished no call of __main__:werk" in done.stderr
    assert len(traces(tmp_path)) == 1


def test_models_are_merged_and_refuse_what_they_are_not_for(tmp_path, sweep):
    for name, shapes in (("a", "20,20,20..60,60,60"), ("b", "30,30,30..70,70,70")):
        more = ("--runs", "3", "--model", f"{name}.json", "-o", f"t-{name}")
        options = list(sweep(*more, shapes=shapes))
        place = options.index("m.json")
        del options[place - 1 : place + 3]  # its own --model and -o
        assert memtrace(*options, cwd=tmp_path).returncode == 0
    done = memtrace("merge", "a.json", "b.json", "-o", "c.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr.decode()
    merged = json.loads((tmp_path / "c.json").read_text())
    assert len(merged["laws"]) == 1
    assert len(merged["sources"]) == 6
    ask = ("predict", "c.json", "--operator", "work", "--shape", "100,90,80")
    assert memtrace(*ask, cwd=tmp_path).returncode == 0
    for more, reason in (
        (("--dtype", "f8"), b"dtype f8"),
        (("--param", "layout=F"), b"layout F"),
        (("--param", "device=cuda"), b"device cuda"),
        (("--param", "numpy=0.1"), b"not 0.1"),
    ):
        refused = memtrace(*ask, *more, cwd=tmp_path)
        assert refused.returncode == 1
        assert reason in refused.stderr, refused.stderr
    assert memtrace(*ask, "--param", "numpy=0.1", "--any-version", cwd=tmp_path).returncode == 0
    # A changed file is noticed.
    text = (tmp_path / "c.json").read_text()
    (tmp_path / "c.json").write_text(text.replace("__main__", "__mine__"))
    said = memtrace(*ask, "--json", cwd=tmp_path)
    assert b"was changed" in said.stderr
    assert json.loads(said.stdout)["confidence"] == "unverified"


def test_a_law_of_other_releases_is_refused_in_python(tmp_path, sweep):
    memtrace_package = pytest.importorskip("memtrace")
    assert (
        memtrace(*sweep("--runs", "3", shapes="20,20,20..60,60,60"), cwd=tmp_path).returncode == 0
    )
    path = tmp_path / "m.json"
    model = memtrace_package.Model.load(path)
    assert model.predict("work", (50, 60, 70))["peak_bytes"] > 0
    assert len(model.merge(model).sources) == len(model.sources) == 3
    assert model.merge(model).operators() == ["__main__:work"]
    import numpy

    other = path.read_text().replace(f'"numpy": "{numpy.__version__}"', '"numpy": "0.1.2"')
    path.write_text(other)
    model = memtrace_package.Model.load(path)
    with pytest.raises(ValueError, match=f"numpy 0.1.2, not {numpy.__version__}"):
        model.predict("work", (50, 60, 70))
    assert model.predict("work", (50, 60, 70), any_version=True)["peak_bytes"] > 0
    # Whatever else is asked in this process.
    source = {"shape": [50, 60, 70], "dtype": "<f4"}
    step = {"name": "a", "operator": "work", "inputs": ["x"]}
    graph = {"version": 1, "sources": {"x": source}, "steps": [step]}
    for ask in (
        lambda **more: memtrace_package.plan(model, graph, **more),
        lambda **more: memtrace_package.plan(model, graph, memory_limit="1GB", **more),
        lambda **more: model.follow("work", (50, 60, 70), **more),
        lambda **more: model.observe("work", (50, 60, 70), bytes=2_600_000, **more),
    ):
        with pytest.raises(ValueError, match=f"numpy 0.1.2, not {numpy.__version__}"):
            ask()
        assert ask(any_version=True)
