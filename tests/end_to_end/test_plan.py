"""Pipelines, planned from laws of small runs and recorded themselves."""

import json
import sys
import types

import memtrace as package
import pytest
from conftest import memtrace

dask_array = pytest.importorskip("dask.array")
np = pytest.importorskip("numpy")

PROGRAM = """
import sys
import numpy as np

def scale(x):
    return x * np.float32(2)

def spread(x):
    return (x[:, None, :] + x[None, :1, :] * np.float32(3)).sum(axis=1)

def mix(a, b):
    return np.sqrt(a * a + b * b)

def pipeline(x):
    a = scale(x)
    b = spread(a)
    c = scale(b)
    d = mix(a, c)
    del a, c
    e = scale(d)
    del d
    return mix(b, e)

for shape in {shapes}:
    data = np.ones(shape, np.float32)
    for _ in range(2):
        pipeline(data)
"""
OPERATORS = ("scale", "spread", "mix", "pipeline")
STEPS = (
    ("a", "scale", "x"),
    ("b", "spread", "a"),
    ("c", "scale", "b"),
    ("d", "mix", "a", "c"),
    ("e", "scale", "d"),
    ("f", "mix", "b", "e"),
)


def graph(shape, **members):
    steps = [
        {"name": name, "operator": operator, "inputs": inputs} for name, operator, *inputs in STEPS
    ]
    source = {"shape": list(shape), "dtype": "<f4", "retained": "not_counted"}
    return {"version": 1, "sources": {"x": source}, "steps": steps, **members}


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    """Small runs, and a larger one that the laws are not checked with."""
    path = tmp_path_factory.mktemp("plan") / "trace"
    script = PROGRAM.format(shapes=[(401, 307), (523, 449), (811, 331), (1501, 1201)])
    named = [f"--operator=__main__:{operator}" for operator in OPERATORS]
    done = memtrace("-q", "-o", path, *named, "--", sys.executable, "-c", script)
    assert done.returncode == 0, done.stderr.decode()
    return path


@pytest.fixture(scope="module")
def model(trace):
    return package.fit(trace)


def measured(trace, shape):
    operators = json.loads(memtrace("report", "--json", trace).stdout)["operators"]
    [pipeline] = [each for each in operators if each["name"] == "__main__:pipeline"]
    spans = [span for span in pipeline["spans"] if span["inputs"][0]["shape"] == list(shape)]
    return min(span["working_peak_bytes"] for span in spans)


@pytest.mark.parametrize("shape", [(523, 449), (1501, 1201)])
def test_the_planned_peak_of_a_pipeline_is_the_recorded_one(trace, model, shape):
    plan = package.plan(model, graph(shape))
    assert plan["peak_bytes"] == pytest.approx(measured(trace, shape), rel=0.03)
    assert plan["set_by"]["operator"] in OPERATORS
    assert [each["operator"] for each in plan["operators"]] == ["scale", "spread", "mix"]


def test_the_command_line_says_what_python_says(model, tmp_path):
    model.save(tmp_path / "model.json")
    (tmp_path / "graph.json").write_text(json.dumps(graph((1000, 800))))
    files = (tmp_path / "model.json", tmp_path / "graph.json")
    plan = json.loads(memtrace("plan", *files, "--json").stdout)
    loaded = package.Model.load(tmp_path / "model.json")
    assert plan == package.plan(loaded, tmp_path / "graph.json") == package.plan(*files)
    text = memtrace("plan", *files).stdout.decode()
    assert f"set by {plan['set_by']['operator']}" in text

    refused = memtrace(
        "plan", *files, "--executor", "sequential", "--memory-limit", "10MB", "--json"
    )
    assert refused.returncode == 3
    smallest = json.loads(refused.stdout)["refusal"]["smallest_memory_limit_bytes"]
    options = ("--executor", "sequential", "--memory-limit")
    assert memtrace("plan", *files, *options, smallest).returncode == 0
    assert memtrace("plan", *files, *options, smallest - 1000).returncode == 3

    cut = memtrace("plan", *files, "--memory-limit", "1GB", "--workers", "auto", "--json")
    assert cut.returncode == 0, cut.stderr.decode()
    plan = json.loads(cut.stdout)
    assert plan["predicted_worker_bytes"] <= plan["budget_bytes"]
    assert sum(plan["chunks"][0]) == 1000 and "worker" in plan["why"]
    assert memtrace("plan", *files, "--workers", "2").returncode == 2


@pytest.mark.parametrize("recorded", [150_000_000, None])
@pytest.mark.parametrize("executor", ["sequential", "threaded", "distributed", None])
def test_the_smallest_limit_is_one_for_all_who_ask(model, tmp_path, executor, recorded):
    """Budget and baseline are the same on the command line and in Python, wherever the executor is named."""
    model.save(tmp_path / "model.json")
    document = json.loads((tmp_path / "model.json").read_text())
    for law in document["laws"]:
        law["baseline"] = {"heap_bytes": 1, **({"resident_bytes": recorded} if recorded else {})}
    (tmp_path / "model.json").write_text(json.dumps(document))
    loaded = package.Model.load(tmp_path / "model.json")
    kind = executor if executor in (None, "sequential") else {executor: {"threads": 1}}
    wanted = graph((1000, 800), **({"executor": kind} if kind else {}))
    (tmp_path / "graph.json").write_text(json.dumps(wanted))
    files = (tmp_path / "model.json", tmp_path / "graph.json")
    refused = memtrace("plan", *files, "--memory-limit", "10MB", "--json")
    assert refused.returncode == 3, refused.stderr
    refusal = json.loads(refused.stdout)
    refusal = refusal.get("refusal", refusal)
    smallest = refusal["smallest_memory_limit_bytes"]
    # A worker of Dask may use 70 % of its limit, and holds 50 MB of Dask's own.
    worker = executor in ("distributed", None)
    assert refusal["smallest_budget_bytes"] > (recorded or 100_000_000) + worker * 50_000_000
    part = refusal["smallest_budget_bytes"] / smallest
    assert part == pytest.approx(0.7 if worker else 1.0, rel=1e-3)
    package.plan(loaded, wanted, memory_limit=smallest + 1000)
    assert memtrace("plan", *files, "--memory-limit", smallest + 1000).returncode == 0
    with pytest.raises(MemoryError, match="raise the memory limit"):
        package.plan(loaded, wanted, memory_limit=smallest - 100_000)
    assert memtrace("plan", *files, "--memory-limit", smallest - 100_000).returncode == 3


def test_chunks_are_recommended_alike_on_the_command_line(model, tmp_path):
    model.save(tmp_path / "model.json")
    ask = ("--operator", "scale", "--shape", "4000,3000", "--memory-limit", "400MB")
    done = memtrace(
        "recommend", tmp_path / "model.json", *ask, "--workers", "2", "--format", "json"
    )
    assert done.returncode == 0, done.stderr
    loaded = package.Model.load(tmp_path / "model.json")
    assert json.loads(done.stdout) == loaded.recommend("scale", (4000, 3000), 400_000_000, 2)


def test_an_operator_without_a_law_is_named(model, tmp_path):
    unknown = {"name": "g", "operator": "unheard", "inputs": ["f"]}
    wanted = graph((100, 100))
    with pytest.raises(ValueError, match=r"step g.*unheard"):
        package.plan(model, {**wanted, "steps": [*wanted["steps"], unknown]})
    given = {**unknown, "bytes": {"per_element": 400}}
    plan = package.plan(model, {**wanted, "steps": [*wanted["steps"], given]})
    assert plan["set_by"]["operator"] == "unheard"


def scale(x):
    return x * np.float32(2)


def mix(a, b):
    return np.sqrt(a * a + b * b)


def chunked(shape=(1200, 1000), chunks=(300, 1000)):
    meta = np.empty((0, 0), "f4")
    data = dask_array.from_array(np.broadcast_to(np.float32(1), shape), chunks=chunks, name=False)
    scaled = data.map_blocks(scale, meta=meta)
    near = dask_array.map_overlap(scale, scaled, depth={0: 5}, boundary="none", meta=meta)
    return dask_array.map_blocks(mix, scaled, near, meta=meta)


def test_a_dask_collection_holds_its_chunks_and_the_joined_result(model):
    picture = chunked()
    plan = package.plan(model, picture)
    # The volume, all chunks of the result, and the array they are joined into.
    assert plan["peak_bytes"] >= 3 * picture.nbytes
    assert plan["executor"] == {"threaded": {"threads": 1}}
    two = package.plan(model, picture, threads=2)
    assert two["peak_bytes"] >= plan["peak_bytes"]
    with pytest.raises(MemoryError, match="raise the memory limit"):
        package.plan(model, picture, memory_limit="5 MB")
    with pytest.raises(ValueError, match="mean_chunk"):
        package.plan(model, picture.mean())
    assert package.plan(model, picture.mean(), given={"mean_chunk": 1})["peak_bytes"] > 0


def stored(tmp_path):
    zarr = pytest.importorskip("zarr")
    options = {"data": np.ones((1200, 1000), "f4"), "chunks": (300, 500)}
    return zarr.create_array(tmp_path / "x.zarr", **options)


GRAPHS = {
    "zarr": lambda x: dask_array.from_zarr(x),
    "as a whole": lambda x: dask_array.from_array(x, inline_array=True, chunks=-1),
    "in other chunks": lambda x: dask_array.from_zarr(x).rechunk((1200, 100)),
    "zeros": lambda x: dask_array.zeros((1200, 1000), dtype="f4", chunks=300),
    "full": lambda x: dask_array.full((1200, 1000), 2, dtype="f4", chunks=300),
    "random": lambda x: dask_array.random.default_rng(1).random((1200, 1000), "f4", chunks=300),
    "given its block": lambda x: dask_array.map_blocks(
        lambda block_info: np.ones(block_info[None]["chunk-shape"], "f4"),
        chunks=((300,) * 4, (500,) * 2),
        dtype="f4",
        meta=np.empty((0, 0), "f4"),
    ),
}


def test_a_new_axis_takes_a_copy_at_most(model, tmp_path):
    source = dask_array.from_zarr(stored(tmp_path))
    scaled = source.map_blocks(scale, meta=np.empty((0, 0), "f4"))
    assert package.plan(model, scaled[None])["peak_bytes"] >= 2 * scaled.nbytes


@pytest.mark.parametrize("kind", GRAPHS)
def test_sources_of_dask_are_known(model, tmp_path, kind):
    source = GRAPHS[kind](stored(tmp_path))
    scaled = source.map_blocks(scale, meta=np.empty((0, 0), "f4"))
    plan = package.plan(model, scaled)
    # All chunks of the result, and what they are joined into; what is in storage is not held.
    joined = 2 * scaled.nbytes if scaled.npartitions > 1 else scaled.nbytes
    assert joined <= plan["peak_bytes"] <= joined + 2 * scaled.nbytes


def test_xarray_objects_are_planned_by_their_chunks(model):
    xarray = pytest.importorskip("xarray")
    picture = xarray.DataArray(chunked(), dims=("x", "y"))
    assert package.plan(model, picture)["peak_bytes"] > 0
    with pytest.raises(ValueError, match="chunks"):
        package.plan(model, xarray.DataArray(np.ones((3, 3))))


class Dataset:
    """As far as a planner looks into DASF's."""

    def __init__(self, shape):
        self.shape, self.dtype = shape, np.dtype("f4")

    def load(self):
        raise AssertionError("a plan loads nothing")


class Scale:
    def transform(self, X):
        raise AssertionError("a plan runs nothing")


def test_a_pipeline_of_dasf_is_planned_without_dasf(model):
    data, scale, mixed = Dataset((1000, 800)), Scale(), types.SimpleNamespace()
    table = {
        "3": {"fn": mix, "name": "mix", "parameters": {"a": "2", "b": "2"}, "ret": None},
        "1": {"fn": data.load, "name": "Dataset", "parameters": None, "ret": None},
        "2": {"fn": scale.transform, "name": "scale", "parameters": {"X": data}, "ret": None},
    }
    mixed._dag_table = table
    plan = package.plan(model, mixed)
    assert [each["operator"] for each in plan["operators"]] == ["scale", "mix"]
    chunks = package.plan(model, mixed, memory_limit="1GB", workers=2, baseline_bytes=100_000_000)
    assert sum(chunks["chunks"][0]) == 1000
