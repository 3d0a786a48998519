"""Compiled functions are spans: by themselves where an argument is large, and where they are named."""

from pathlib import Path

import device_recording
import jax_standin
import pytest

PROGRAM = Path(__file__).with_name("programs") / "compiled.py"
NAMED = ("--operator", "__main__:small")
SIZE = 4 * 200 * 200


@pytest.fixture(scope="module")
def found(standin, tmp_path_factory):
    folder = tmp_path_factory.mktemp("spans") / "named"
    variables = jax_standin.FROM_THE_DRIVER
    return device_recording.record(standin, folder, PROGRAM, options=NAMED, **variables)


def test_calls_of_compiled_functions_are_spans(found):
    """And what they call while JAX traces them, differentiated or not, are none."""
    assert {each["name"]: each["calls"] for each in found.report["operators"]} == {
        "__main__:alone": 2,
        "__main__:inner": 1,
        "__main__:updated": 1,
        "__main__:Layer.forward": 1,
        "marked": 1,
        "__main__:inside": 2,
        "__main__:small": 1,
        "__main__:Model.applied": 1,
        "__main__:step": 1,
        "__main__:half": 1,
        "__main__:<lambda>": 1,
        "__main__:failing": 1,
        "__main__:loss": 1,  # its gradient, which is compiled under its name
    }


def test_a_span_has_the_bytes_that_its_call_requested(found):
    """Their result, and two scalars of `marked`, of 4 bytes each."""
    peaks = {
        "__main__:alone": SIZE,
        "__main__:inner": SIZE,
        "__main__:Layer.forward": 2 * SIZE,
        "marked": SIZE + 2 * 4,
        "__main__:half": SIZE / 2,
        "__main__:inside": 4 * 200,
        "__main__:small": 4 * 200,
    }
    for name, peak in peaks.items():
        assert found.spans(name)[0]["device_peak_bytes"] == peak, name


def test_arrays_and_parameters(found):
    [span] = found.spans("marked")
    assert {key: value for key, value in span["params"].items() if key != "versions"} == {
        "scale": 2.0
    }
    assert span["params"]["versions"]["jax"]
    [x], [result] = span["inputs"], span["outputs"]
    assert (x["name"], x["shape"], x["dtype"], x["device"]) == ("x", [200, 200], "<f4", "cuda")
    assert (result["shape"], result["device"], result["relation"]) == ([200, 200], "cuda", "new")


def test_arrays_of_types_that_numpy_has_not(found):
    [span] = found.spans("__main__:half")
    for array in (*span["inputs"], *span["outputs"]):
        assert (array["dtype"], array["bytes"], array["device"]) == ("bfloat16", SIZE // 2, "cuda")


def test_trees_of_arrays(found):
    """A donated state: what comes out lies where it lay."""
    [span] = found.spans("__main__:updated")
    assert [(each["name"], each["shape"]) for each in span["inputs"]] == [
        ("state[0]", [3]),
        ("state[1]", [200, 200]),
    ]
    assert [each["shape"] for each in span["outputs"]] == [[3], [200, 200]]
    assert span["outputs"][1]["address"] == span["inputs"][1]["address"]
    assert span["params"]["power"] == 2
    assert span["device_peak_bytes"] < SIZE


@pytest.mark.parametrize("name", ["__main__:Model.applied", "__main__:step"])
def test_arguments_that_a_method_or_a_partial_gives(found, name):
    """They are none of the call's. An array without elements is no input."""
    [span] = found.spans(name)
    assert [each["name"].partition("[")[0] for each in span["inputs"]] == ["params", "x"]


def test_a_method_and_a_function_that_fails(found):
    [span] = found.spans("__main__:Layer.forward")
    assert [each["name"] for each in span["inputs"]] == ["x"]
    [span] = found.spans("__main__:failing")
    assert span["params"]["error"] == "ValueError" and span["outputs"] == []


def test_without_automatic_spans_only_named_functions_are(record):
    options = (*NAMED, "--auto-operators", "none")
    found = record(PROGRAM, options=options, **jax_standin.FROM_THE_DRIVER)
    names = {each["name"] for each in found.report["operators"]}
    assert names == {"__main__:small", "marked", "__main__:inside"}
