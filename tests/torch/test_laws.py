"""Laws of dry runs and of recorded ones, and batches that fit."""

import json

import pytest

START = """
import json, transformer
from memtrace.torch import dry_run, fit, recommend_batch
def train(batch, length):
    transformer.main(batch, length, 512, 2, 8000)
"""


def test_four_small_runs_predict_a_large_one(python):
    """A transformer's batch and sequence, each of them more than eight times the largest."""
    pytest.importorskip("memtrace._native")
    found = python(
        START
        + """
model = fit(train, [(2, 96), (3, 161), (5, 224), (7, 288)])
shapes = [(32, 1024), (64, 2304), (7, 4608)]
print(json.dumps([
    (model.predict("train", shape)["device"]["peak_bytes"], dry_run(train, *shape).allocated_peak)
    for shape in shapes
]))
""",
        gpu=False,
    )
    for predicted, expected in found:
        assert abs(predicted / expected - 1) < 0.005


def test_the_law_knows_the_largest_batch(python, memtrace, tmp_path):
    """It leaves room for as much as the allocator kept beyond its blocks in the small runs."""
    pytest.importorskip("memtrace._native")
    found = python(
        START
        + """
import sys
model = fit(train, [(2, 96), (3, 161), (5, 224), (7, 288)])
model.save(sys.argv[1])
limits = {"memory_limit": 10**9, "device_memory_limit": 4 * 10**9}
print(json.dumps([
    model.longest("train", (1, 512), 0, **limits),
    recommend_batch(train, "4 GB", 512)["batch"],
]))
""",
        tmp_path / "model.json",
        gpu=False,
    )
    ours, theirs = found
    assert ours["bound_by"] == "device_memory"
    assert 0.9 * theirs <= ours["length"] <= theirs
    asked = ["--operator", "train", "--shape", "1,512", "--axis", "batch"]
    asked += ["--device-memory-limit", "4GB"]
    reported = memtrace("recommend", tmp_path / "model.json", *asked)
    assert reported.startswith(f"axis 0: {ours['length']}, bound by the device's memory")


def test_four_recorded_runs_predict_a_large_one(record, memtrace, tmp_path):
    """Of training steps on PyTorch's own allocator: one with eight times the tokens of the largest.

    Its blocks are up to 1 MB larger than what was asked for, by what the cache happened to have.
    """
    runs = [(3, 160), (4, 225), (5, 320), (7, 288)]
    large = (16, 1008)
    for batch, sequence in [*runs, large]:
        step = ("--operator", "training:step")
        record(tmp_path / f"{batch}x{sequence}", batch, sequence, *step)
    traces = [tmp_path / f"{batch}x{sequence}" for batch, sequence in runs]
    memtrace("fit", *traces, "-o", tmp_path / "model.json")
    shape = ["--shape", "{},{}".format(*large)]
    asked = [tmp_path / "model.json", "--operator", "training:step", *shape, "--json"]
    device = json.loads(memtrace("predict", *asked))["device"]
    report = json.loads(memtrace("report", "--json", "--all-spans", tmp_path / "16x1008"))
    [steps] = [each["spans"] for each in report["operators"] if each["name"] == "training:step"]
    peaks = [span["device_peak_bytes"] for span in steps if span["call"] > 0]
    assert max(peaks) > 3_000_000_000
    assert device["peak_bytes"] == pytest.approx(max(peaks), rel=0.02)
    assert device["upper_bytes"] >= max(peaks)
    # Weights, their gradients and Adam's state were there before.
    assert device["before_bytes"] > 300_000_000
    limit = ["--axis", "batch", "--device-memory-limit", "3GB"]
    asked = [*asked[:3], "--shape", "1,512", *limit, "--format", "json"]
    longest = json.loads(memtrace("recommend", *asked))
    assert longest["bound_by"] == "device_memory" and longest["length"] > 2
    room = str(3_000_000_000 - 500_000_000)  # as the context leaves it
    reported = record(tmp_path / "longest", longest["length"], 512, STANDIN_MEMORY=room)
    assert reported["allocated_peak_bytes"] > 0.6 * int(room)


def test_the_largest_batch(python):
    """It fits on the device, and one more does not."""
    found = python(
        START
        + """
import torch
found = recommend_batch(train, "4 GB", 512)
room = 3_500_000_000
dry_run(train, found["batch"], 512, capacity=room)
try:
    dry_run(train, found["batch"] + 1, 512, capacity=room)
except torch.OutOfMemoryError:
    found["next"] = "too large"
try:
    recommend_batch(train, "600 MB", 512)
except MemoryError as error:
    found["error"] = str(error)
print(json.dumps(found))
""",
        gpu=False,
    )
    assert found["next"] == "too large" and found["batch"] > 8
    assert "the CUDA context's" in found["why"]
    assert "a batch of 1 does not fit into 600 MB" in found["error"]


def test_the_command(python, tmp_path):
    found = python(
        """
import json, subprocess, sys
command = [sys.executable, "-m", "memtrace.torch", "mlp.py:main"]
limit = ["--axis", "batch", "--device-memory-limit"]
runs = [["256"], [*limit, "2GB"], [*limit, "600MB"], ["--axis", "batch"], [*limit, "much"],
        ["--settings", "nonsense"]]
runs = [[*command, *run] for run in runs]
with open(sys.argv[1], "w") as file:
    file.write("def step(batch):\\n    raise ValueError('of the program')\\n")
runs.append([*command[:-1], sys.argv[1] + ":step", "1"])
done = [subprocess.run(run, capture_output=True, text=True) for run in runs]
print(json.dumps([(each.returncode, each.stdout, each.stderr) for each in done]))
""",
        tmp_path / "program.py",
        gpu=False,
    )
    assert found[0][0] == 0 and "allocated peak 170 MB, reserved peak 178 MB" in found[0][1]
    assert found[1][0] == 0 and found[1][1].startswith("batch ")
    assert found[2][0] == 3 and "does not fit into 600 MB" in found[2][2]
    assert found[3][0] == 2
    assert found[4][0] == 2 and "'much' is not a size" in found[4][2]
    assert found[5][0] == 2 and "'nonsense' of PYTORCH_CUDA_ALLOC_CONF" in found[5][2]
    assert found[6][0] == 1 and "Traceback" in found[6][2] and "usage:" not in found[6][2]


def test_programs_that_reset_their_peaks(python):
    """What counts is the most of the whole run, whatever the program has PyTorch count anew."""
    found = python(
        """
import json, torch
from memtrace.torch import dry_run, recommend_batch
def reset(batch):
    torch.empty(batch, 1 << 20, device="cuda")
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    torch.empty(1000, device="cuda")
found = recommend_batch(reset, "4 GB")
print(json.dumps([dry_run(reset, 100).reserved_peak, found]))
""",
        gpu=False,
    )
    counted, recommended = found
    assert counted == 2 << 20
    assert recommended["batch"] == 3_500_000_000 // (4 << 20)
    assert recommended["reserved_peak"] >= recommended["batch"] * (4 << 20)


def test_what_is_reserved_when_segments_are_given_back(python):
    """It is what PyTorch would reserve on that device, and never more than there is."""
    found = python(
        """
import json, torch
from memtrace.torch import dry_run, recommend_batch
def fragments(batch):
    pieces = [torch.empty(batch * 1000 * k, device="cuda") for k in range(1, 200)]
    del pieces
    torch.empty(batch * 1000 * 20000, device="cuda")
found = recommend_batch(fragments, "4 GB")
run = dry_run(fragments, found["batch"], capacity=3_500_000_000)
print(json.dumps([found["reserved_peak"], run.reserved_peak]))
""",
        gpu=False,
    )
    reported, there = found
    assert reported == there <= 3_500_000_000
