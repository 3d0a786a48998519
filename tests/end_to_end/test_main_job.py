"""Record, derive, sweep, fit, predict, recommend: on the example operators, end to end."""

import json

import pytest
from check_derivations import derived_arrays, derived_buffers
from conftest import memtrace

OPERATORS = ("gst3d", "envelope", "gaussian", "semblance")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A model per operator, swept once."""
    known = {}

    def sweep(name, python, examples):
        if name not in known:
            folder = tmp_path_factory.mktemp(name)
            command = (
                python,
                "run_operator.py",
                "--operator",
                name,
                "--shape",
                "{shape}",
                "--repeat",
                "3",
            )
            done = memtrace(
                *(
                    "sweep",
                    "--operator",
                    f"operators.{name}:{name}",
                    "--shapes",
                    "30,30,30..60,60,60",
                ),
                *("--model", folder / "model.json", "-o", folder / "traces", "--", *command),
                cwd=examples,
            )
            assert done.returncode == 0, done.stderr.decode()
            known[name] = folder / "model.json"
        return known[name]

    return sweep


def run_operator(record, python, examples, name, shape, repeat):
    options = ("--operator", f"operators.{name}:{name}")
    command = (python, "run_operator.py", "--operator", name, "--shape", ",".join(map(str, shape)))
    run = record(*command, "--repeat", str(repeat), options=options, cwd=examples)
    assert run.code == 0, run.stderr.decode()
    [operator] = run.report["operators"]
    return operator["spans"]


@pytest.mark.parametrize("name", OPERATORS)
def test_the_working_peak_is_what_was_counted_by_hand(record, python, examples, name):
    shape = (100, 100, 100)
    first, *steady = run_operator(record, python, examples, name, shape, 3)
    peaks = [span["working_peak_bytes"] for span in steady]
    by_hand = derived_arrays(name, shape) + derived_buffers(name, shape)
    assert max(peaks) - min(peaks) <= 0.001 * by_hand
    for peak in peaks:
        assert peak == pytest.approx(by_hand, rel=0.005)
    assert first["one_time_bytes"] == ((32 << 20) if name == "gst3d" else 0)


@pytest.mark.parametrize("name", OPERATORS)
def test_a_law_from_four_small_runs_holds_far_outside(record, python, examples, models, name):
    # Large enough to tell a wrong law, small enough for every test run; scripts/measure goes to 200³.
    shape = (131, 122, 117)
    model = models(name, python, examples)
    done = memtrace(
        "predict", model, "--operator", name, "--shape", ",".join(map(str, shape)), "--json"
    )
    said = json.loads(done.stdout)
    _, steady = run_operator(record, python, examples, name, shape, 2)
    assert said["peak_bytes"] == pytest.approx(steady["working_peak_bytes"], rel=0.005)
    assert said["upper_bytes"] >= said["peak_bytes"]
    assert said["output_shape"] == steady["outputs"][0]["shape"]
    assert said["output_bytes"] == steady["output_bytes"]
    assert said["extrapolated"] is True
    assert said["model"]["kind"] == "symbolic"
    assert said["model"]["proof"] == "unverified", "no run was held out to prove it"
    # A law leaves out what was never touched, which the kernel side says.
    assert said["one_time_bytes"] <= ((32 << 20) if name == "gst3d" else 0)


def recommend(model, *more, shape="200,200,200", limit="1.5GB"):
    command = ("recommend", model, "--operator", "gst3d", "--shape", shape, "--halo", "2")
    return memtrace(*command, "--memory-limit", limit, "--workers", "2", *more)


def test_recommended_chunks_fit_and_every_format_says_the_same(python, examples, models):
    model = models("gst3d", python, examples)
    plan = json.loads(recommend(model, "--format", "json").stdout)
    assert [sum(sizes) for sizes in plan["chunks"]] == [200, 200, 200]
    assert plan["predicted_worker_bytes"] <= plan["budget_bytes"] == 1_049_999_999
    assert plan["tasks"] >= 2, "both workers have something to do"
    assert plan["why"]
    as_tuples = tuple(tuple(sizes) for sizes in plan["chunks"])
    assert eval(recommend(model, "--format", "dask").stdout, {}) == as_tuples
    assert b"#SBATCH --mem-per-cpu" in recommend(model, "--format", "slurm").stdout
    assert b"DASK_ARRAY__CHUNK_SIZE" in recommend(model, "--format", "env").stdout
    assert recommend(model).stdout.startswith(b"chunks of ")


def test_a_budget_too_small_is_refused_with_the_smallest_that_works(python, examples, models):
    model = models("gst3d", python, examples)
    refused = recommend(model, "--format", "json", limit="150MB")
    assert refused.returncode == 3
    smallest = json.loads(refused.stdout)["smallest_memory_limit_bytes"]
    assert recommend(model, limit=str(smallest)).returncode == 0


def test_models_from_anywhere_are_sentences_not_crashes(tmp_path, python, examples, models):
    model = models("gst3d", python, examples)
    text = model.read_text()
    bad = {
        "empty": "",
        "other": "[1, 2]",
        "newer": text.replace('"schema_version": 3', '"schema_version": 99', 1),
        "older": text.replace('"schema_version": 3', '"schema_version": 2', 1),
        "cut": text[: len(text) // 2],
    }
    for name, content in bad.items():
        path = tmp_path / name
        path.write_text(content)
        done = memtrace("predict", path, "--operator", "gst3d", "--shape", "2,2,2")
        assert done.returncode == 1, name
        assert done.stderr.count(b"\n") == 1, done.stderr
    unknown = memtrace("predict", model, "--operator", "nothing", "--shape", "2,2,2")
    assert unknown.returncode == 1
    assert b"operators.gst3d:gst3d" in unknown.stderr, "it says what there is"
    for shape in ("1,2", "18446744073709551615,18446744073709551615,18446744073709551615"):
        assert memtrace("predict", model, "--operator", "gst3d", "--shape", shape).returncode == 2


def test_a_model_cannot_drive_the_terminal(tmp_path, python, examples, models):
    text = models("gst3d", python, examples).read_text()
    path = tmp_path / "hostile.json"
    path.write_text(text.replace('"n1"', '"\\u001b[31mX"'))
    done = memtrace("predict", path, "--operator", "gst3d", "--shape", "70,70,70")
    assert b"\x1b" not in done.stdout + done.stderr
    assert b"[31mX" in done.stdout + done.stderr


def test_a_model_in_python(python, examples, models):
    memtrace_package = pytest.importorskip("memtrace")
    model = memtrace_package.Model.load(str(models("gst3d", python, examples)))
    said = model.predict("gst3d", (200, 200, 200))
    assert said["peak_bytes"] == pytest.approx(204 * 198**3, rel=0.005)
    plan = model.recommend(
        "gst3d", (200, 200, 200), memory_limit=1_500_000_000, workers=2, halo=(2, 2, 2)
    )
    assert [sum(sizes) for sizes in plan["chunks"]] == [200, 200, 200]


def test_a_sweep_that_cannot_work_says_so(tmp_path):
    sweep = (
        "sweep",
        "--operator",
        "__main__:f",
        "--model",
        tmp_path / "m.json",
        "-o",
        tmp_path / "t",
    )
    shapes = ("--shapes", "10,10..20,20")
    assert memtrace(*sweep, *shapes, "--", "true").returncode == 2, "no place for the shape"
    failing = memtrace(*sweep, *shapes, "--", "sh", "-c", "exit 5", "{shape}")
    assert failing.returncode == 1
    assert b"failed with 5" in failing.stderr
    for bad in ("20..10", "10..10,10", "7..7"):
        assert memtrace(*sweep, "--shapes", bad, "--", "true", "{0}").returncode == 2
    assert memtrace(*sweep, "--shapes", "x", "--", "true", "{0}").returncode == 2
