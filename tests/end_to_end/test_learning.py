"""Laws that learn, chunks chosen without one, and operators that are followed while they run."""

import json
import subprocess
import sys

import memtrace
import pytest
from conftest import MEMTRACE

PROGRAM = """
import sys
import time
import numpy as np

def triple(x, wait=0):
    first = x * 2
    time.sleep(wait)
    second = first + x
    third = np.sqrt(second)
    return third

def kept(x):
    return np.unique(np.floor(x * 50))

if sys.argv[1] == "fit":
    for n in (100_003, 150_011, 300_007, 2_500_003):
        for _ in range(2):
            triple(np.ones(n))
        for seed in range(2):
            kept(np.random.default_rng(seed).random(n))
else:
    triple(np.ones(1000))
    triple(np.ones(int(sys.argv[1])), 1.0)
"""
OPERATORS = ("--operator", "__main__:triple", "--operator", "__main__:kept")


def recorded(folder, argument, *options):
    script = folder / "program.py"
    script.write_text(PROGRAM)
    trace = folder / f"trace-{argument}-{options[-1]}"
    command = [MEMTRACE, "-o", trace, *OPERATORS, *options, "--", sys.executable, script, argument]
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, check=True
    )
    return trace, done.stderr


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    return memtrace.load(recorded(tmp_path_factory.mktemp("learning"), "fit", "-q")[0])


@pytest.fixture
def model(trace):
    return memtrace.fit(trace)


def spans(trace, name):
    operators = {each["name"]: each for each in trace.report()["operators"]}
    return operators[f"__main__:{name}"]["spans"]


def test_a_law_learns_and_the_file_keeps_it(trace, model, tmp_path):
    shape = (200_003,)
    fitted = model.predict("kept", shape)
    assert fitted["learned"] is None
    needed = int(1.5 * fitted["peak_bytes"])
    for _ in range(30):
        observed = model.observe("kept", shape, bytes=needed, seconds=0.25)
    assert observed["expected_bytes"] == pytest.approx(needed, rel=0.02)
    learned = model.predict("kept", shape)
    assert learned["peak_bytes"] == observed["expected_bytes"]
    assert learned["upper_bytes"] >= learned["peak_bytes"]
    assert learned["seconds"] == pytest.approx(0.25, rel=0.1)
    assert learned["learned"]["observations"] == 30
    assert learned["learned"]["fitted_bytes"] == fitted["peak_bytes"]
    quantiles = [bytes_ for _, bytes_ in learned["learned"]["quantiles"]]
    assert quantiles == sorted(quantiles)
    model.save(tmp_path / "model.json")
    loaded = memtrace.Model.load(tmp_path / "model.json").predict("kept", shape)
    assert loaded.pop("seconds") == pytest.approx(learned.pop("seconds"))
    assert loaded == learned


def test_spans_are_observed_as_reported(trace, model):
    for span in spans(trace, "triple"):
        observed = model.observe("triple", span)
        assert observed["working_peak_bytes"] == span["working_peak_bytes"]
        assert ("left out" in (observed["note"] or "")) == (span["call"] == 0)
    with pytest.raises(ValueError, match="no law"):
        model.observe("other", spans(trace, "triple")[0])
    with pytest.raises(ValueError, match="no law"):
        array = spans(trace, "triple")[1]["inputs"][0] | {"dtype": "<f4"}
        model.observe("triple", spans(trace, "triple")[1] | {"inputs": [array]})
    with pytest.raises(TypeError):
        model.observe("triple", (5,))


def test_an_exact_law_is_exact_until_it_is_contradicted(model):
    shape = (1_000_003,)
    before = model.predict("triple", shape)
    assert before["confidence"] == "exact"
    observed = model.observe("triple", shape, bytes=before["peak_bytes"] + 3000)
    assert (observed["proof"], observed["note"]) == ("exact", None)
    after = model.predict("triple", shape)
    assert (after["peak_bytes"], after["learned"]) == (before["peak_bytes"], None)
    observed = model.observe("triple", shape, bytes=int(before["peak_bytes"] * 1.01))
    assert observed["proof"] == "unverified"
    assert "no longer exact" in observed["note"]
    after = model.predict("triple", shape)
    assert after["confidence"] == "unverified"
    assert after["peak_bytes"] > before["peak_bytes"]


def test_a_file_that_no_observations_leave_is_refused(model, tmp_path):
    path = tmp_path / "model.json"
    model.observe("kept", (200_003,), bytes=10_000_000)
    model.save(path)
    content = json.loads(path.read_text())
    [law] = [law for law in content["laws"] if law.get("learned")]
    law["learned"]["bytes"]["products"].pop()
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match="learned"):
        memtrace.Model.load(path)


def test_a_chooser_stays_within_the_budget_and_repeats_itself():
    def chosen(seed):
        chooser = memtrace.ChunkChooser(
            (128, 96, 80), 20_000_000, workers=2, halo=(1, 1, 1), seed=seed
        )
        chunks = []
        for _ in range(12):
            chunk = chooser.choose()
            cells = (chunk[0] + 2) * (chunk[1] + 2) * (chunk[2] + 2)
            assert 60 * cells < 20_000_000
            chooser.observe(chunk, 60 * cells, 1e-3 + 1e-7 * cells)
            chunks.append(chunk)
        assert chooser.belief(chooser.best())["upper_bytes"] <= 20_000_000
        return chunks

    assert chosen(3) == chosen(3)
    assert len(set(chosen(3))) > 2


def test_a_chooser_without_a_chunk_that_fits_says_so():
    chooser = memtrace.ChunkChooser((20,), 1000, chunks=[(10,), (20,)])
    assert chooser.belief((10,)) == {
        "chunk": [10],
        "bytes": None,
        "upper_bytes": None,
        "seconds": None,
    }
    chooser.failed(chooser.choose())
    with pytest.raises(MemoryError):
        chooser.choose()
    with pytest.raises(MemoryError):
        chooser.best()
    with pytest.raises(ValueError, match="not one of"):
        chooser.observe((7,), 1, 1.0)


def test_a_call_is_followed_and_what_it_holds_beside_its_law_counts(model):
    shape = (1_000_003,)
    follower = model.follow("triple", shape)
    law = follower.forecast()["law_bytes"]
    assert follower.forecast()["peak_bytes"] == pytest.approx(law, rel=0.01)
    assert follower.forecast()["progress"] == 0
    follower.allocated(8_000_040)
    assert follower.forecast()["peak_bytes"] == pytest.approx(law, rel=0.01)
    assert 0 < follower.forecast()["progress"] < 1
    # Twice as large as announced.
    larger = model.follow("triple", (500_000,))
    larger.allocated(8_000_040)
    assert larger.forecast()["peak_bytes"] == pytest.approx(law, rel=0.05)


def test_a_recording_warns_while_the_operator_runs(model, tmp_path):
    path = tmp_path / "model.json"
    model.save(path)
    _, stderr = recorded(tmp_path, "3000017", "--model", path, "--memory-limit", "60MB")
    [line] = [line for line in stderr.splitlines() if "will exceed" in line]
    assert line.startswith("memtrace: __main__:triple 3000017 of process ")
    assert "budget of 60.0 MB" in line and "% of its steps" in line
    _, stderr = recorded(tmp_path, "3000017", "--model", path, "--memory-limit", "3GB")
    assert "will exceed" not in stderr
    _, stderr = recorded(tmp_path, "3000017", "--model", path, "--memory-limit", "60MB", "-q")
    assert stderr == ""


def test_a_model_that_cannot_be_read_is_said_before_anything_runs(tmp_path):
    command = [MEMTRACE, "--model", tmp_path / "none.json", "--", "touch", tmp_path / "ran"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "none.json" in done.stderr
    assert not (tmp_path / "ran").exists()
    assert (
        subprocess.run([MEMTRACE, "--memory-limit", "1GB", "--", "true"], check=False).returncode
        == 2
    )
